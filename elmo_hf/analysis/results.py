"""What every analysis returns: numbers that can be printed as a table, saved as JSON and drawn."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class AnalysisResult:
    """The result of an analysis: `print(finding)` is a table, `to_dict()` holds every number, `plot(path)` draws."""

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and the rows."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        raise NotImplementedError

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        raise NotImplementedError

    def save_json(self, path: str | os.PathLike):
        """Saves every number."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"
        # What UTF-8 cannot say becomes an escape of JSON.
        Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")

    def __str__(self) -> str:
        return text_table(*self.table())


def text_table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns side by side: words to the left, numbers to the right; None is an empty cell.

    Example:

    ```python
    >>> from elmo_hf.analysis.results import text_table
    >>> print(text_table(["word", "bits"], [["cats", 7.25], ["purr", 11]]))
    word   bits
    cats   7.25
    purr     11

    ```
    """
    cells = [[_cell(value) for value in row] for row in rows]
    columns = list(zip(heads, *cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(isinstance(row[place], (int, float, type(None))) for row in rows) for place in range(len(heads))]
    lines = []
    for row in (list(heads), *cells):
        fitted = zip(row, widths, right, strict=True)
        lines.append(
            "  ".join(f"{cell:>{width}}" if to_right else f"{cell:<{width}}" for cell, width, to_right in fitted)
        )
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def layer_names(number: int) -> list[str]:
    """What tables and plots call the layers.

    Example:

    ```python
    >>> from elmo_hf.analysis.results import layer_names
    >>> layer_names(3)
    ['layer 0', 'layer 1', 'layer 2']

    ```
    """
    return [f"layer {layer}" for layer in range(number)]
