"""The loop of one LSTM layer in C: its source, how it is built, and how it is loaded.

No torch, no Python API: functions that ctypes calls. A wheel brings the library built for six platforms; a checkout
builds it with the system's compiler. Where neither is possible the loop in Python does the same.
"""

import threading
import warnings
from collections.abc import Callable

from .loader import Library, find

# The largest difference between the library and the loop in Python; outputs and states are at most 3.
LARGEST_DIFFERENCE = 1e-5

_lock = threading.RLock()
_find: Callable[[], Library | None] | None = find
_check: Callable[[Library], float] | None = None
_library: Library | None = None


def set_check(check: Callable[[Library], float]):
    """Sets the function that returns the largest difference between a library and the loop in Python."""
    global _check
    _check = check


def use_library(finder: Callable[[], Library | None] | None):
    """Replaces the function that finds the library; None for no library. For tests."""
    global _find, _library
    _find, _library = finder, None


def library() -> Library | None:
    """The library, if there is one and its results are those of the loop in Python; loaded when it is first needed."""
    global _find, _library
    if _find is not None:
        with _lock:
            finder, _find = _find, None
            candidate = None if finder is None else finder()
            if candidate is not None:
                difference = _check(candidate)
                if difference <= LARGEST_DIFFERENCE:
                    _library = candidate
                else:
                    warnings.warn(
                        f"The library {candidate.name} differs from the loop in Python by {difference:.1g}, so it is "
                        "not used. Vectors stay the same, computing takes longer.",
                        RuntimeWarning,
                        stacklevel=2,
                    )
    return _library


__all__ = ["Library", "library", "set_check", "use_library"]
