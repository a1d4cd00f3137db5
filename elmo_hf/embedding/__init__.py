"""Vectors for sentences, and for corpora in stores on disk."""

from .corpus import embed_corpus
from .embedder import ElmoEmbedder, embed
from .opening import open_store
from .outcome import Outcome
from .sources import SentenceSource
from .store import EmbeddingStore
from .word_vectors import average_vectors, model_of_token_vectors, write_token_vectors, write_word2vec

__all__ = [
    "ElmoEmbedder",
    "EmbeddingStore",
    "Outcome",
    "SentenceSource",
    "average_vectors",
    "embed",
    "embed_corpus",
    "model_of_token_vectors",
    "open_store",
    "write_token_vectors",
    "write_word2vec",
]
