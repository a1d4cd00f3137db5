"""Training the language model: corpora, vocabularies, windows, the trainer, whole runs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checkpoints import newest_checkpoint
    from .corpus import Corpus, lines_of_dataset
    from .run import pretrain
    from .settings import Settings
    from .starting import SIZES, config_of_size
    from .trainer import ElmoPretrainer
    from .vocabulary import agreement_with_counts, build_vocabulary, unigram_perplexity
    from .windows import TrainingWindows

# Where each name is: the command line shows what `Settings` says, and must not load a trainer for it.
PLACES = {
    "SIZES": "starting",
    "Corpus": "corpus",
    "ElmoPretrainer": "trainer",
    "Settings": "settings",
    "TrainingWindows": "windows",
    "agreement_with_counts": "vocabulary",
    "build_vocabulary": "vocabulary",
    "config_of_size": "starting",
    "lines_of_dataset": "corpus",
    "newest_checkpoint": "checkpoints",
    "pretrain": "run",
    "unigram_perplexity": "vocabulary",
}
TRAINING = ("ElmoPretrainer", "pretrain")


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name in TRAINING:
            import_module("accelerate")
    except ImportError as error:
        raise ImportError("Pretraining needs accelerate, which comes with: pip install 'elmo-hf[train]'") from error
    return getattr(import_module(f"{__name__}.{PLACES[name]}"), name)


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
