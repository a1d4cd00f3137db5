"""Sentences in, every layer of each of their words out."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from elmo_hf.device import choose_device
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.language_modeling_elmo import ElmoForPreTraining
from elmo_hf.model.modeling_elmo import ElmoModel
from elmo_hf.model.tokenization_elmo import ElmoTokenizer

# Sentences are read ahead and put together by length.
SENTENCES_AHEAD = 1024
PADDED_TOKENS = 4096


class LayerReader:
    """Reads sentences with a model and gives all its layers. Each sentence is read from a fresh state.

    Args:
        model: an ElmoModel, or a model that has one as `.elmo`.
        tokenizer: its ElmoTokenizer.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.analysis import LayerReader
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> reader = LayerReader(ElmoModel(config).eval(), ElmoTokenizer())
    >>> [layers.shape for layers in reader.read(["The cat sat .", ["New York", "sleeps"]])]
    [(3, 4, 16), (3, 2, 16)]

    ```
    """

    def __init__(self, model: Any, tokenizer: Any):
        self.model, self.tokenizer = getattr(model, "elmo", model), tokenizer
        self.num_layers = self.model.config.num_hidden_layers + 1
        self.size = self.model.config.hidden_size

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike,
        splitting: str | None = None,
        device: str | torch.device | None = None,
        **kwargs: Any,
    ) -> "LayerReader":
        """Loads a folder or a repository of the Hub.

        Args:
            splitting: how text becomes words, `"moses-en"` or `"whitespace"`; not given, as saved with the model.
            device: as `"cuda"`; not given, a GPU if there is one.
            kwargs: what any `from_pretrained` takes, as `revision`.
        """
        device = choose_device(device)
        chosen = {} if splitting is None else {"splitting": splitting}
        tokenizer = ElmoTokenizer.from_pretrained(name, **chosen, **kwargs)
        # A language model as what it is: loaded as an ElmoModel its softmax would be reported as unexpected.
        architectures = ElmoConfig.from_pretrained(name, **kwargs).architectures or []
        model_class = ElmoForPreTraining if "ElmoForPreTraining" in architectures else ElmoModel
        model = model_class.from_pretrained(name, dtype=torch.float32, **kwargs)
        return cls(model.eval().to(device), tokenizer)

    def words(self, sentence: str | Sequence[str]) -> list[str]:
        """A sentence's words: split by the tokenizer if it is a string."""
        return self.tokenizer.tokenize(sentence) if isinstance(sentence, str) else list(sentence)

    def read(self, sentences: Iterable[str | Sequence[str]]) -> Iterator[np.ndarray]:
        """The layers (L + 1, words, hidden_size) of each sentence in its order; a few are read ahead."""
        following = iter(sentences)
        while some := [self.words(sentence) for sentence in islice(following, SENTENCES_AHEAD)]:
            found: list[Any] = [None] * len(some)
            for numbers in batches([len(words) for words in some]):
                for number, layers in zip(numbers, self._layers([some[n] for n in numbers]), strict=True):
                    found[number] = layers
            yield from found

    @torch.no_grad()
    def _layers(self, sentences: list[list[str]]) -> Iterator[np.ndarray]:
        batch = self.tokenizer(
            sentences, is_split_into_words=True, padding=True, padding_side="right", return_tensors="pt"
        )
        batch = {name: batch[name].to(self.model.device) for name in ("input_ids", "attention_mask")}
        layers = torch.stack(self.model(**batch, output_hidden_states=True).hidden_states, 1)  # (B, L + 1, T, hidden)
        for row, words in zip(layers, sentences, strict=True):
            yield row[:, 1 : 1 + len(words)].float().cpu().numpy()


def batches(lengths: list[int]) -> Iterator[list[int]]:
    """Numbers of sentences of about equal lengths."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * (lengths[number] + 2) > PADDED_TOKENS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosines of all pairs: (..., n, size) and (..., m, size) -> (..., n, m). A vector of zeros has 0 with all.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.analysis.vectors import cosines
    >>> cosines(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[2.0, 2.0], [3.0, -3.0]])).round(6).tolist()
    [[1.0, 0.0], [0.0, 0.0]]

    ```
    """
    return unit_vectors(first) @ unit_vectors(second).swapaxes(-1, -2)


def unit_vectors(x: np.ndarray) -> np.ndarray:
    """Vectors (..., size) at length 1; zeros stay."""
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
