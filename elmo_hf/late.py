"""Importing late: names of a package that are found when they are first used, and modules loaded in one go."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def late_names(
    package: str, places: Mapping[str, str], rooms: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are imported when they are first used.

    Args:
        package: its `__name__`.
        places: the module of each name, from the package on.
        rooms: packages inside of it that are names too.

    Example:

    ```python
    >>> from elmo_hf.late import late_names
    >>> find, names = late_names("elmo_hf", {"read_lines": "text.lines"}, rooms=["text"])
    >>> find("read_lines").__module__, find("text").__name__
    ('elmo_hf.text.lines', 'elmo_hf.text')

    ```
    """

    def find(name: str) -> Any:
        if name in rooms:
            return import_module(f"{package}.{name}")
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, found)  # the next look finds it there
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places, *rooms})

    return find, names


@contextmanager
def nothing_to_collect() -> Iterator[None]:
    """Loads modules without looking for garbage, of which they leave none: a sixth of the time that torch and
    transformers take to load.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
