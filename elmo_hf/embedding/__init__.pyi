"""The public names of the package: the list that type checkers and `lazy_imports` read."""

from ..text.inputs import SentenceSource as SentenceSource
from .corpus_embedder import embed_corpus as embed_corpus
from .embedder import ElmoEmbedder as ElmoEmbedder
from .embedder import embed as embed
from .hdf5_layouts import open_store as open_store
from .run_summary import RunSummary as RunSummary
from .static_vectors import average_vectors as average_vectors
from .static_vectors import model_of_token_vectors as model_of_token_vectors
from .static_vectors import write_token_vectors as write_token_vectors
from .static_vectors import write_word2vec as write_word2vec
from .store import EmbeddingStore as EmbeddingStore
