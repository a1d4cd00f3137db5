"""A table of word vectors beside the biLM, as `word_vectors` of a head's settings asks for."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init

from elmo_hf.model.configuration_elmo import check
from elmo_hf.model.modeling_elmo import can_inspect


class WordVectors(nn.Module):
    """A table of word vectors: row 0 for no word, row 1 for unknown words, then one row for each word.

    Args:
        words: number of words.
        size: size of a vector.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.word_vectors import WordVectors
    >>> table = WordVectors(2, 3)
    >>> table.fill([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> table(torch.tensor([3, 0])).tolist()
    [[4.0, 5.0, 6.0], [0.0, 0.0, 0.0]]

    ```
    """

    def __init__(self, words: int, size: int):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(words + 2, size))

    def initial_weights(self):
        """Fills the table with zeros, which stand for a table that is not filled yet."""
        init.zeros_(self.table)

    @torch.no_grad()
    def fill(self, vectors: Any):
        """Fills the table from an array (words, size)."""
        vectors, expected = torch.as_tensor(vectors), [len(self.table) - 2, self.table.shape[1]]
        shape = list(vectors.shape)
        check(shape == expected, "vectors", shape, f"the shape of the head's word_vectors, {expected}")
        self.table[2:] = vectors.to(self.table)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids (B, T) of rows -> vectors (B, T, size)."""
        if can_inspect(ids):
            highest = len(self.table) - 1
            wrong = ids[(ids < 0) | (ids > highest)].tolist()
            check(not wrong, "word_vector_ids", wrong[:1], f"ids from 0 to {highest}")
            if not self.table[2:].any():
                raise ValueError("The table of word vectors is empty. Fill it once: model.set_word_vectors(vectors).")
        return F.embedding(ids, self.table)


__all__ = ["WordVectors"]
