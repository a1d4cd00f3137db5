"""Sphinx extension: docstrings written in Markdown, and references to names that have no page.

Docstrings use Markdown as transformers does: fenced code blocks and single backticks. autodoc expects
reStructuredText, so both are converted before napoleon reads the sections (Args, Returns, Raises, Example).
"""

import builtins
import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring

unprocessed: dict[str, list[str]] = {}  # docstrings as napoleon gets them

FENCE = re.compile(r"^(\s*)```(\w*)\s*$")
# A single pair of backticks that is neither a role, a link nor already doubled.
CODE = re.compile(r"(?<![`:\w])`([^`\n]+)`(?![`_])")


def markdown_to_rst(lines: list[str]) -> list[str]:
    """Converts fenced code blocks and inline code of a docstring.

    Example:

    ```python
    >>> markdown_to_rst(["Uses `mix`.", "```python", ">>> 1", "1", "", "```"])
    ['Uses ``mix``.', '', '.. code-block:: python', '', '    >>> 1', '    1', '    ', '']

    ```
    """
    converted: list[str] = []
    indent: str | None = None
    for line in lines:
        if fence := FENCE.match(line):
            if indent is None:
                indent = fence[1]
                language = {"": "text", "console": "console", "bash": "bash"}.get(fence[2], fence[2])
                converted += ["", f"{indent}.. code-block:: {language}", ""]
            else:
                indent = None
                converted.append("")
        elif indent is not None:
            converted.append("    " + line)
        else:
            converted.append(CODE.sub(r"``\1``", line))
    return converted


def convert_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Handler of `autodoc-process-docstring`; it runs before napoleon's."""
    if what == "data" and " ".join(" ".join(lines).split()) == " ".join((type(obj).__doc__ or "").split()):
        lines.clear()  # a constant without a docstring shows that of its type
    lines[:] = markdown_to_rst(lines)
    unprocessed[name] = list(lines)


def convert_property(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Handler after napoleon's, which takes what stands before a colon in a property's first line for its type."""
    before = unprocessed.pop(name, [])
    if what in ("attribute", "property"):
        lines[:] = GoogleDocstring(before, app.config, app, "method", name, obj, options).lines()


@cache
def class_names() -> frozenset[str]:
    """Names of all classes in the sources, also of those that exist for type checkers only."""
    root = Path(__file__).resolve().parents[2]
    sources = [path for folder in ("elmo_hf", "conversion") for path in (root / folder).rglob("*.py")]
    return frozenset(name for path in sources for name in re.findall(r"^ *class (\w+)", path.read_text("utf-8"), re.M))


def exists(target: str) -> bool:
    """Whether a dotted name can be imported, from any package."""
    if hasattr(builtins, target):
        return True
    parts = target.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        try:
            for part in parts[length:]:
                value = getattr(value, part)
        except AttributeError:
            return False
        return True
    return False


def resolve_reference(app: Sphinx, env: Any, node: Any, contnode: nodes.Node) -> nodes.Node | None:
    """Handler of `missing-reference`: a name without a page becomes plain text if it exists, else a warning."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    candidates = [target, *(f"{package}.{target}" for package in ("elmo_hf", "typing", "torch", "collections.abc"))]
    return contnode if target in class_names() or any(exists(name) for name in candidates) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers both handlers."""
    app.connect("autodoc-process-docstring", convert_docstring, priority=400)
    app.connect("autodoc-process-docstring", convert_property, priority=600)
    app.connect("missing-reference", resolve_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
