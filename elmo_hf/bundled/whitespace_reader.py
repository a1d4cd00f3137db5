"""Reads the vectors of words at every layer, and compares them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elmo_hf.embedding import ElmoEmbedder


class WhitespaceReader:
    """Reads sentences with a model: words between spaces, each sentence from a fresh state.

    Args:
        model: any ELMo.
        tokenizer: its ElmoTokenizer.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.bundled.whitespace_reader import WhitespaceReader
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=4, cell_size=8)).eval()
    >>> reader = WhitespaceReader(model, ElmoTokenizer())
    >>> [layers.shape for layers in reader.read(["Two words", "Here are three"])]
    [(3, 2, 8), (3, 3, 8)]

    ```
    """

    def __init__(self, model: Any, tokenizer: Any):
        self.embedder = ElmoEmbedder(model.base_model, tokenizer)

    def read(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Of each sentence the vectors (layers, words, size), without the boundaries."""
        return self.embedder.embed_batch([sentence.split() for sentence in sentences])


def cosines(vector: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Cosines along the last axis.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.bundled.whitespace_reader import cosines
    >>> cosines(np.array([1.0, 0.0]), np.array([[2.0, 0.0], [3.0, 4.0]])).tolist()
    [1.0, 0.6]

    ```
    """
    product = (vector * others).sum(-1)
    return product / (np.linalg.norm(vector, axis=-1) * np.linalg.norm(others, axis=-1))
