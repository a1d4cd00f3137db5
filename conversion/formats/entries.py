"""How a name in an outside file becomes parameters of ours, and back: tables are lists of these."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Form:
    """How the values of one dataset lie in one or more parameters, and back."""

    to_parameters: Callable[[np.ndarray], Arrays]
    to_dataset: Callable[..., np.ndarray]


SAME = Form(lambda x: (x,), lambda x: x)
TRANSPOSED = Form(lambda x: (x.T,), lambda x: x.T)
# Row 0 of an embedding means "no token" and is not in the file.
WITH_ZERO_ROW = Form(lambda x: (np.concatenate([np.zeros_like(x[:1]), x]),), lambda x: x[1:])


@dataclass(frozen=True)
class Entry:
    """One dataset: its name and shape in the file, its parameters, and how the two correspond."""

    dataset: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    form: Form = SAME
