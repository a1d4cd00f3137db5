"""Training the language model: corpora, vocabularies, windows, the trainer, perplexity on held-out text."""

try:
    import accelerate  # noqa: F401
except ImportError as error:
    raise ImportError("Pretraining needs accelerate, which comes with: pip install 'elmo-hf[train]'") from error

from .checkpoints import newest_checkpoint
from .corpus import Corpus, lines_of_dataset
from .run import Settings, pretrain
from .starting import SIZES, config_of_size
from .trainer import ElmoPretrainer
from .vocabulary import agreement_with_counts, build_vocabulary, unigram_perplexity
from .windows import TrainingWindows

__all__ = [
    "SIZES",
    "Corpus",
    "ElmoPretrainer",
    "Settings",
    "TrainingWindows",
    "agreement_with_counts",
    "build_vocabulary",
    "config_of_size",
    "lines_of_dataset",
    "newest_checkpoint",
    "pretrain",
    "unigram_perplexity",
]
