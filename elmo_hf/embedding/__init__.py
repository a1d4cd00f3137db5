"""Vectors for sentences, and for corpora in stores on disk."""

from .corpus import Outcome, embed_corpus
from .embedder import ElmoEmbedder, embed
from .sources import SentenceSource
from .store import EmbeddingStore, open_store

__all__ = ["ElmoEmbedder", "EmbeddingStore", "Outcome", "SentenceSource", "embed", "embed_corpus", "open_store"]
