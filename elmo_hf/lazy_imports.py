"""Lazy imports (PEP 562) of the names that a package's stub file lists, and imports without garbage collection."""

import ast
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any


def lazy_imports(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Makes `__getattr__`, `__dir__` and `__all__` of a package from its stub file, `__init__.pyi`.

    The stub is the only list of the package's public names: type checkers read it, and at run time each name is
    imported when it is first used. It consists of lines such as `from .module import name as name`, and
    `from . import subpackage as subpackage`. Subpackages are no part of `__all__`.

    Args:
        package: the package's `__name__`.
        file: the package's `__file__`.

    Returns:
        The three values, in this order.

    Example:

    ```python
    >>> import elmo_hf.embedding
    >>> from elmo_hf.lazy_imports import lazy_imports
    >>> get, names, public = lazy_imports("elmo_hf.embedding", elmo_hf.embedding.__file__)
    >>> get("open_store").__name__, "open_store" in public
    ('open_store', True)

    ```
    """
    modules: dict[str, str] = {}
    subpackages: list[str] = []
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            if node.module is None:
                subpackages += names
            else:
                modules |= dict.fromkeys(names, resolve_name("." * node.level + node.module, package))

    def get(name: str) -> Any:
        if name in subpackages:
            return import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # the next access does not come here
        return value

    def directory() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *subpackages})

    return get, directory, list(modules)


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pauses the garbage collector.

    Importing torch and transformers creates many objects and no garbage; without the collector it takes a sixth less
    time.

    Example:

    ```python
    >>> import gc
    >>> from elmo_hf.lazy_imports import pause_gc
    >>> with pause_gc():
    ...     gc.isenabled()
    False

    ```
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
