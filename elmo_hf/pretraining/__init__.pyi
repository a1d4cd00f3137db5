"""The public names of the package: the list that type checkers and `lazy_imports` read."""

from ..text.inputs import lines_of_dataset as lines_of_dataset
from .checkpoints import newest_checkpoint as newest_checkpoint
from .corpus import Corpus as Corpus
from .model_initialization import SIZES as SIZES
from .model_initialization import config_of_size as config_of_size
from .run import pretrain as pretrain
from .settings import Settings as Settings
from .trainer import ElmoPretrainer as ElmoPretrainer
from .training_windows import TrainingWindows as TrainingWindows
from .vocabulary import agreement_with_counts as agreement_with_counts
from .vocabulary import build_vocabulary as build_vocabulary
from .vocabulary import unigram_perplexity as unigram_perplexity
