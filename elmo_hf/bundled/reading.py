"""Sentences in, the vectors of their words at every layer out."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

BATCH = 64


class Reader:
    """Reads sentences with a model: words between spaces, each sentence from a fresh state.

    Args:
        model: any ELMo.
        tokenizer: its ElmoTokenizer.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.bundled.reading import Reader
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=4, cell_size=8)).eval()
    >>> reader = Reader(model, ElmoTokenizer())
    >>> [layers.shape for layers in reader.read(["Two words", "Here are three"])]
    [(3, 2, 8), (3, 3, 8)]

    ```
    """

    def __init__(self, model: Any, tokenizer: Any):
        self.model, self.tokenizer = model.base_model.eval(), tokenizer

    def read(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Of each sentence the vectors (layers, words, size), without the boundaries."""
        found: list[Any] = [None] * len(sentences)
        for numbers, layers in self._batches([sentence.split() for sentence in sentences]):
            for row, number in enumerate(numbers):
                found[number] = layers[row, :, 1 : 1 + len(sentences[number].split())]
        return found

    @torch.inference_mode()
    def _batches(self, sentences: list[list[str]]) -> Iterator[tuple[list[int], np.ndarray]]:
        by_length = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
        for start in range(0, len(by_length), BATCH):
            numbers = by_length[start : start + BATCH]
            words = [sentences[number] for number in numbers]
            batch = self.tokenizer(
                words, is_split_into_words=True, padding=True, padding_side="right", return_tensors="pt"
            )
            output = self.model(**batch.to(self.model.device), output_hidden_states=True)
            yield numbers, torch.stack(output.hidden_states, 1).float().cpu().numpy()  # (B, L + 1, T, 2P)


def cosines(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Cosines along the last axis.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.bundled.reading import cosines
    >>> cosines(np.array([1.0, 0.0]), np.array([[2.0, 0.0], [3.0, 4.0]])).tolist()
    [1.0, 0.6]

    ```
    """
    product = (one * others).sum(-1)
    return product / (np.linalg.norm(one, axis=-1) * np.linalg.norm(others, axis=-1))
