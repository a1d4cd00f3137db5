"""Kernels: faster implementations of the functions that the model defines. Each may decline a call.

A kernel has the name of the plain function that it replaces and takes that function, followed by its arguments. It
returns what the function returns, or NotImplemented where it cannot serve the call (device, type, function
transforms, tracing); then the plain function runs. Nothing here imports the model: the same kernels serve the
installed package and the copy of its files that travels with a model.

A new kernel is one file and one line in `ALL_KERNELS`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .caches import cache_sentences, cache_words
from .characters import character_features
from .describe import describe_model
from .distinct_rows import distinct_rows
from .highway import highway
from .linear import linear
from .lstm import lstm_layer
from .native import set_check
from .native_check import difference_from_python
from .prepared import constant_weights
from .random_streams import dropout
from .sentence_cache import SentenceCache
from .softmax import softmax_nll
from .splitting import split_words
from .word_cache import WordCache

ALL_KERNELS: dict[str, Callable] = {
    "character_features": character_features,
    "distinct_rows": distinct_rows,
    "dropout": dropout,
    "highway": highway,
    "linear": linear,
    "lstm_layer": lstm_layer,
    "softmax_nll": softmax_nll,
    "split_words": split_words,
}

# What a model and its tokenizer look up. ELMO_HF_KERNELS=0 leaves it empty.
KERNELS: dict[str, Callable] = {} if os.environ.get("ELMO_HF_KERNELS") == "0" else dict(ALL_KERNELS)

set_check(difference_from_python)


def describe(model: Any) -> str:
    """One sentence on how a model computes at this moment: which kernels serve it, in which type, on which device.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel
    >>> from elmo_hf.kernels import describe
    >>> describe(ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)))[:7]
    'kernels'

    ```
    """
    return describe_model(model, bool(KERNELS))


@contextmanager
def kernels_disabled() -> Iterator[None]:
    """Runs the plain functions of the model in place of the kernels, in all threads of this process.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel
    >>> from elmo_hf.kernels import describe, kernels_disabled
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8))
    >>> with kernels_disabled():
    ...     describe(model)
    'plain torch: float32 on cpu, no kernels.'

    ```
    """
    saved = dict(KERNELS)
    KERNELS.clear()
    try:
        yield
    finally:
        KERNELS.update(saved)


__all__ = [
    "ALL_KERNELS",
    "KERNELS",
    "SentenceCache",
    "WordCache",
    "cache_sentences",
    "cache_words",
    "constant_weights",
    "describe",
    "kernels_disabled",
]
