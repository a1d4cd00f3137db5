"""What the layers know: similarity, surprise, neighbours, probes, senses, layer weights. Plots take matplotlib."""

from .findings import Finding
from .similarity import SentenceSimilarity, WordSimilarity, sentence_similarity, word_similarity
from .surprise import Surprise, surprise
from .vectors import LayerReader

__all__ = [
    "Finding",
    "LayerReader",
    "SentenceSimilarity",
    "Surprise",
    "WordSimilarity",
    "sentence_similarity",
    "surprise",
    "word_similarity",
]
