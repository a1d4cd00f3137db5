"""Sphinx extension: the API reference, generated from the packages' own lists of public names.

A page of docs/reference/api holds a line `<!-- public names of PACKAGE -->`. It is replaced by an autodoc directive
for each public name of the package. No name can be forgotten: `public_names` reads what `__all__` lists, and the
build fails if a public name of `elmo_hf` appears on no page.
"""

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

PLACEHOLDER = re.compile(r"^<!-- public names of ([\w.]+) -->$", re.MULTILINE)
INDEX = "<!-- index of all public names -->"
TOP = "elmo_hf"


def home(name: str) -> str:
    """The package that defines a public name of `elmo_hf`, such as `elmo_hf.embedding`."""
    value = getattr(importlib.import_module(TOP), name)
    module = getattr(value, "__module__", None) or TOP
    parts = module.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 else TOP if len(parts) == 1 else module


def own_names(package: str) -> list[str]:
    """Public names of a package: `__all__`, or else the functions and classes that its `__init__.py` defines."""
    module = importlib.import_module(package)
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == package
    ]


def public_names(package: str) -> list[str]:
    """The dotted names that the page of a package documents, as `elmo_hf.NAME` wherever `elmo_hf` exports them."""
    top = importlib.import_module(TOP)
    shared = [name for name in top.__all__ if home(name) == package or (package == TOP and home(name) == TOP)]
    if package == TOP:
        return [f"{TOP}.{name}" for name in shared]
    names = [f"{TOP}.{name}" for name in shared]
    for name in own_names(package):
        if name not in top.__all__:
            names.append(f"{package}.{name}")
    return sorted(set(names), key=lambda name: name.rsplit(".", 1)[-1].lower())


def autodoc_directive(name: str) -> str:
    """The autodoc directive of one public name, as MyST Markdown."""
    package, _, short = name.rpartition(".")
    value: Any = getattr(importlib.import_module(package), short)
    if inspect.isclass(value):
        directive, options = "autoclass", ["   :members:"]
        if value.__bases__ != (object,):
            options.append("   :show-inheritance:")
    elif isinstance(value, Callable):  # type: ignore[arg-type]
        directive, options = "autofunction", []
    else:
        directive, options = "autodata", ["   :no-value:"]
    lines = ["```{eval-rst}", f".. {directive}:: {name}", *options, "```", ""]
    return "\n".join(lines)


def insert_names(app: Sphinx, document: str, content: list[str]) -> None:
    """Handler of `source-read`: replaces the placeholders of a page."""

    def sections(match: re.Match) -> str:
        return "\n".join(autodoc_directive(name) for name in public_names(match[1]))

    content[0] = PLACEHOLDER.sub(sections, content[0])
    if INDEX in content[0]:
        content[0] = content[0].replace(INDEX, index_of_names(Path(app.srcdir)))


def index_of_names(source: Path) -> str:
    """A table of all public names of `elmo_hf` with the first lines of their docstrings."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((source / "reference").rglob("*.md")))
    listed = {name for package in PLACEHOLDER.findall(pages) for name in public_names(package)}
    listed |= set(re.findall(r"^\.\. auto\w+:: ([\w.]+)$", pages, re.MULTILINE))
    top = importlib.import_module(TOP)
    rows = []
    for name in sorted((name for name in top.__all__ if name != "__version__"), key=str.lower):
        if f"{TOP}.{name}" not in listed:
            raise ExtensionError(f"{TOP}.{name} is public and appears on no page of docs/reference.")
        value = getattr(top, name)
        role = "class" if inspect.isclass(value) else "func" if callable(value) else "data"
        summary = "" if role == "data" else (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
        summary = summary.replace("|", "\\|")
        rows.append(f"| {{py:{role}}}`~{TOP}.{name}` | {summary} |")
    return "\n".join(["| name | |", "|---|---|", *rows])


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the handler."""
    app.connect("source-read", insert_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
