"""All layers of every word of sentences; stored on request."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from elmo_hf.embedding import embed_corpus, open_store
from elmo_hf.embedding.embedder import ElmoEmbedder
from elmo_hf.text.inputs import check_is_list


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
        self.embedder = ElmoEmbedder(getattr(model, "elmo", model), tokenizer)
        config = self.embedder.model.config
        self.num_layers, self.size = config.num_hidden_layers + 1, config.hidden_size

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike,
        splitting: str | None = None,
        device: str | torch.device | None = None,
        **kwargs: Any,
    ) -> "LayerReader":
        """Loads a folder or a repository of the Hub; the arguments are those of `ElmoEmbedder.from_pretrained`."""
        embedder = ElmoEmbedder.from_pretrained(name, splitting, device, **kwargs)
        return cls(embedder.model, embedder.tokenizer)

    def words(self, sentence: str | Sequence[str]) -> list[str]:
        """A sentence's words: split by the tokenizer if it is a string."""
        return self.embedder.words([sentence])[0]

    def read(self, sentences: Iterable[str | Sequence[str]]) -> Iterator[np.ndarray]:
        """The layers (L + 1, words, hidden_size) of each sentence in its order; a few are read ahead."""
        check_is_list(sentences, "sentences")
        return self.embedder.encode(iter(sentences), layers="all")

    def read_stored(
        self, sentences: Sequence[Sequence[str]], store: str | os.PathLike | None, name: str = ""
    ) -> Iterator[np.ndarray]:
        """The same with a bar, and by way of a store of `elmo-hf embed` (float16) if one is named.

        The store is made, gone on with after an interruption, or read if it is finished. One of another model or of
        other sentences is refused.
        """
        # disable=None: no bar where nobody is watching
        with tqdm(total=len(sentences), unit=" sentences", desc=name or None, disable=None) as bar:
            if store is None:
                for layers in self.read(sentences):
                    yield layers
                    bar.update()
                return
            embed_corpus(
                self.embedder,
                sentences,
                store,
                layers="all",
                dtype="float16",
                progress=lambda summary: bar.update(summary.sentences - bar.n),
            )
        yield from open_store(store)


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosines of all pairs: (..., n, size) and (..., m, size) -> (..., n, m). A vector of zeros has 0 with all.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.analysis.layer_reader import cosines
    >>> cosines(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[2.0, 2.0], [3.0, -3.0]])).round(6).tolist()
    [[1.0, 0.0], [0.0, 0.0]]

    ```
    """
    return unit_vectors(first) @ unit_vectors(second).swapaxes(-1, -2)


def unit_vectors(x: np.ndarray) -> np.ndarray:
    """Vectors (..., size) at length 1; zeros stay."""
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
