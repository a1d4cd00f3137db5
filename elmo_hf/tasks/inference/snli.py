"""Pairs of sentences in the format of SNLI."""

import os
from typing import Any

from elmo_hf.text.files import json_lines

INFERENCES = ("entailment", "neutral", "contradiction")


def read_snli(path: str | os.PathLike) -> Any:
    """Reads JSON lines of `sentence1`, `sentence2` and `gold_label`; pairs without a label (`-`) are left out.

    Returns:
        a `datasets.Dataset`: `premise`, `hypothesis`, `label`.

    Example:

    ```python
    >>> import json, pathlib, tempfile
    >>> from elmo_hf.tasks.inference.snli import read_snli
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
            raise ValueError(f"{path}, line {number}: the label {label!r}. Expected {', '.join(INFERENCES)}.")
        for name, value in zip(rows, (record["sentence1"], record["sentence2"], label), strict=True):
            rows[name].append(value)
    from datasets import Dataset

    return Dataset.from_dict(rows)


__all__ = ["INFERENCES", "read_snli"]
