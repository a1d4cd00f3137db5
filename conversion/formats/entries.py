"""Entries of the tables that map arrays in files to parameters of the model, and back."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Form:
    """Two functions between the values of a dataset and those of one or more parameters."""

    to_parameters: Callable[[np.ndarray], Arrays]
    to_dataset: Callable[..., np.ndarray]


SAME = Form(lambda x: (x,), lambda x: x)
TRANSPOSED = Form(lambda x: (x.T,), lambda x: x.T)
# Row 0 of an embedding means "no token"; the file does not have it.
WITH_ZERO_ROW = Form(lambda x: (np.concatenate([np.zeros_like(x[:1]), x]),), lambda x: x[1:])


@dataclass(frozen=True)
class Entry:
    """A dataset: its name and shape in the file, its parameters, and the functions between them."""

    dataset: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    form: Form = SAME
