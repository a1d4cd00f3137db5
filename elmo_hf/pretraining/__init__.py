"""Training the language model: corpora, vocabularies, windows, the trainer, perplexity on held-out text."""

from .corpus import Corpus, lines_of_dataset
from .evaluation import Perplexity, evaluate
from .vocabulary import agreement_with_counts, build_vocabulary, unigram_perplexity
from .windows import Packer, TrainingWindows

__all__ = [
    "Corpus",
    "Packer",
    "Perplexity",
    "TrainingWindows",
    "agreement_with_counts",
    "build_vocabulary",
    "evaluate",
    "lines_of_dataset",
    "unigram_perplexity",
]
