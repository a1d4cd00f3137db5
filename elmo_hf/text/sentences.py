"""Labelled sentences: pairs of SNLI, trees of the Stanford Sentiment Treebank."""

import os
from typing import Any

from elmo_hf.text.files import numbered_lines
from elmo_hf.text.srl import json_lines

INFERENCES = ("entailment", "neutral", "contradiction")


def read_snli(path: str | os.PathLike) -> Any:
    """Reads JSON lines of `sentence1`, `sentence2` and `gold_label`; pairs without a label (`-`) are left out.

    Returns:
        a `datasets.Dataset`: `premise`, `hypothesis`, `label`.

    Example:

    ```python
    >>> import json, pathlib, tempfile
    >>> from elmo_hf.text.sentences import read_snli
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.jsonl")
    >>> _ = path.write_text(json.dumps({"sentence1": "A b .", "sentence2": "C .", "gold_label": "neutral"}))
    >>> read_snli(path)[0]
    {'premise': 'A b .', 'hypothesis': 'C .', 'label': 'neutral'}

    ```
    """
    rows: dict[str, list[str]] = {"premise": [], "hypothesis": [], "label": []}
    for number, record in json_lines(path, ("sentence1", "sentence2", "gold_label")):
        label = record["gold_label"]
        if label == "-":
            continue
        if label not in INFERENCES:
            raise ValueError(f"{path}, line {number}: the label {label!r}; accepted are {', '.join(INFERENCES)}.")
        for name, value in zip(rows, (record["sentence1"], record["sentence2"], label), strict=True):
            rows[name].append(value)
    from datasets import Dataset

    return Dataset.from_dict(rows)


def read_trees(path: str | os.PathLike, phrases: bool = False) -> Any:
    """Reads trees as `(3 (2 It) (4 works))`, one a line: words, and the class of the whole or of every phrase.

    Returns:
        a `datasets.Dataset`: `tokens`, `label` (0 to 4).

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.text.sentences import read_trees
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.txt")
    >>> _ = path.write_text("(3 (2 It) (4 works))")
    >>> read_trees(path)[:], len(read_trees(path, phrases=True))
    ({'tokens': [['It', 'works']], 'label': [3]}, 3)

    ```
    """
    rows: dict[str, list[Any]] = {"tokens": [], "label": []}
    for number, line in numbered_lines(path):
        if line.strip():
            found = _phrases(line, f"{path}, line {number}")
            for tokens, label in found if phrases else found[-1:]:
                rows["tokens"].append(tokens)
                rows["label"].append(label)
    from datasets import Dataset

    return Dataset.from_dict(rows)


def _phrases(line: str, where: str) -> list[tuple[list[str], int]]:
    """The words and the class of each node, the whole last."""
    found: list[tuple[list[str], int]] = []
    open_nodes: list[tuple[int, list[str]]] = []
    words = line.replace("(", " ( ").replace(")", " ) ").split()
    problem = ValueError(f"{where}: no tree; accepted is one as (3 (2 It) (4 works)), with classes from 0 to 4.")
    place = 0
    while place < len(words):
        word = words[place]
        if word == "(":
            place += 1
            if place == len(words) or words[place] not in "01234" or (found and not open_nodes):
                raise problem
            open_nodes.append((int(words[place]), []))
        elif not open_nodes:
            raise problem
        elif word == ")":
            label, tokens = open_nodes.pop()
            if not tokens:
                raise problem
            found.append((tokens, label))
            if open_nodes:
                open_nodes[-1][1].extend(tokens)
        else:
            open_nodes[-1][1].append(word)
        place += 1
    if open_nodes or not found:
        raise problem
    return found


__all__ = ["INFERENCES", "read_snli", "read_trees"]
