"""Trees of the Stanford Sentiment Treebank."""

import os
from typing import Any

from elmo_hf.text.files import numbered_lines


def read_trees(path: str | os.PathLike, phrases: bool = False) -> Any:
    """Reads trees as `(3 (2 It) (4 works))`, one a line: words, and the class of the whole or of every phrase.

    Returns:
        a `datasets.Dataset`: `tokens`, `label` (0 to 4).

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.tasks.sentiment.trees import read_trees
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.txt")
    >>> _ = path.write_text("(3 (2 It) (4 works))")
    >>> read_trees(path)[:], len(read_trees(path, phrases=True))
    ({'tokens': [['It', 'works']], 'label': [3]}, 3)

    ```
    """
    rows: dict[str, list[Any]] = {"tokens": [], "label": []}
    for number, line in numbered_lines(path):
        if line.strip():
            nodes = _phrases(line, f"{path}, line {number}")
            for tokens, label in nodes if phrases else nodes[-1:]:
                rows["tokens"].append(tokens)
                rows["label"].append(label)
    from datasets import Dataset

    return Dataset.from_dict(rows)


def _phrases(line: str, where: str) -> list[tuple[list[str], int]]:
    """The words and the class of each node, the whole last."""
    phrases: list[tuple[list[str], int]] = []
    open_nodes: list[tuple[int, list[str]]] = []
    words = line.replace("(", " ( ").replace(")", " ) ").split()
    problem = ValueError(f"{where}: no tree. Expected one such as (3 (2 It) (4 works)), with classes from 0 to 4.")
    place = 0
    while place < len(words):
        word = words[place]
        if word == "(":
            place += 1
            if place == len(words) or words[place] not in "01234" or (phrases and not open_nodes):
                raise problem
            open_nodes.append((int(words[place]), []))
        elif not open_nodes:
            raise problem
        elif word == ")":
            label, tokens = open_nodes.pop()
            if not tokens:
                raise problem
            phrases.append((tokens, label))
            if open_nodes:
                open_nodes[-1][1].extend(tokens)
        else:
            open_nodes[-1][1].append(word)
        place += 1
    if open_nodes or not phrases:
        raise problem
    return phrases


__all__ = ["read_trees"]
