"""The library in C: its sources, how it is built, and how it is loaded.

No torch, no Python API: functions that ctypes calls. A wheel brings the library built for six platforms; a checkout
builds it with the system's compiler. Where neither is possible the loop in Python does the same.
"""

import threading
import warnings
from collections.abc import Callable

from .loader import Library, find

# The largest difference between the library and the loop in Python, whose outputs and states are at most 3; of the
# kinds of products that round their inputs, the mean difference.
LARGEST_DIFFERENCE = {"float32": 1e-5, "bfloat16": 1e-3, "int8": 1e-3}

_lock = threading.RLock()
_find: Callable[[], Library | None] | None = find
_check: Callable[[Library, str], float] | None = None
_library: Library | None = None
_checked: set[str] = set()


def set_check(check: Callable[[Library, str], float]):
    """Sets the function of a library and a kind of products that returns the difference from the loop in Python."""
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
            _checked.clear()
            if candidate is not None and _is_right(candidate, "float32", "it is not used"):
                _library = candidate
    return _library


def supports(kind: str) -> bool:
    """Whether the library computes products in `"float32"`, `"bfloat16"` or `"int8"` on this processor, correctly."""
    native = library()
    if native is None or kind not in native.kinds:
        return False
    if kind not in _checked:
        with _lock:
            if kind not in _checked and not _is_right(native, kind, f"it is not used for {kind}"):
                native.kinds.discard(kind)
    return kind in native.kinds


def _is_right(candidate: Library, kind: str, consequence: str) -> bool:
    assert _check is not None
    _checked.add(kind)
    difference = _check(candidate, kind)
    if difference <= LARGEST_DIFFERENCE[kind]:
        return True
    warnings.warn(
        f"The library {candidate.name} differs from the loop in Python by {difference:.1g}, so {consequence}. "
        "Vectors stay the same, computing takes longer.",
        RuntimeWarning,
        stacklevel=4,
    )
    return False


__all__ = ["Library", "library", "set_check", "supports", "use_library"]
