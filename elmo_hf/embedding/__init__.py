"""Vectors for sentences, and for corpora in stores on disk."""

from typing import TYPE_CHECKING

from elmo_hf.late import late_names

if TYPE_CHECKING:
    from .corpus import embed_corpus
    from .embedder import ElmoEmbedder, embed
    from .opening import open_store
    from .outcome import Outcome
    from .sources import SentenceSource
    from .store import EmbeddingStore
    from .word_vectors import average_vectors, model_of_token_vectors, write_token_vectors, write_word2vec

# Where each name is: to embed a sentence takes none of what reads and writes stores.
PLACES = {
    "ElmoEmbedder": "embedder",
    "EmbeddingStore": "store",
    "Outcome": "outcome",
    "SentenceSource": "sources",
    "average_vectors": "word_vectors",
    "embed": "embedder",
    "embed_corpus": "corpus",
    "model_of_token_vectors": "word_vectors",
    "open_store": "opening",
    "write_token_vectors": "word_vectors",
    "write_word2vec": "word_vectors",
}

__getattr__, __dir__ = late_names(__name__, PLACES)

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
