"""The public names of the package: the list that type checkers and `lazy_imports` read."""

from ..text.inputs import SentenceSource as SentenceSource
from .corpus import embed_corpus as embed_corpus
from .embedder import ElmoEmbedder as ElmoEmbedder
from .embedder import embed as embed
from .opening import open_store as open_store
from .outcome import Outcome as Outcome
from .store import EmbeddingStore as EmbeddingStore
from .word_vectors import average_vectors as average_vectors
from .word_vectors import model_of_token_vectors as model_of_token_vectors
from .word_vectors import write_token_vectors as write_token_vectors
from .word_vectors import write_word2vec as write_word2vec
