"""The public names of the package: the list that type checkers and `lazy_imports` read."""

from .annotation.annotate_corpus import annotate_corpus as annotate_corpus
from .annotation.annotator import Annotation as Annotation
from .annotation.annotator import ElmoAnnotator as ElmoAnnotator
from .evaluation.evaluate import Evaluation as Evaluation
from .evaluation.evaluate import evaluate as evaluate
from .finetuning.finetune import finetune as finetune
from .finetuning.seeds import SeedScores as SeedScores
from .finetuning.seeds import finetune_seeds as finetune_seeds
from .finetuning.task_names import find_task as find_task
from .finetuning.task_names import task_names as task_names
from .heads import HEADS as HEADS
from .heads import Head as Head
from .heads import find_head as find_head
from .heads import head_class as head_class
from .heads import head_names as head_names
from .heads import head_owner as head_owner
