"""Files of semantic roles, a sentence a line, and labels for one predicate."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from elmo_hf.tasks.tagging.labels import encode_words
from elmo_hf.text.files import json_lines, plural


def read_srl(path: str | os.PathLike) -> Any:
    """Reads JSON lines of `words` and `frames`, each a `predicate` (a word's number) and `spans` of roles.

    A span is `[role, first, last]`, words counted from 0, both ends included.

    Returns:
        a `datasets.Dataset`, a predicate a row: `tokens`, `predicate`, and `labels` in BIO.

    Example:

    ```python
    >>> import json, pathlib, tempfile
    >>> from elmo_hf.tasks.srl.frames import read_srl
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.jsonl")
    >>> frame = {"predicate": 1, "spans": [["ARG0", 0, 0], ["V", 1, 1], ["ARG1", 2, 3]]}
    >>> _ = path.write_text(json.dumps({"words": ["She", "sold", "the", "house"], "frames": [frame]}))
    >>> read_srl(path)[0]["labels"]
    ['B-ARG0', 'B-V', 'B-ARG1', 'I-ARG1']

    ```
    """
    return frame_rows(json_lines(path, ("words", "frames")), os.fspath(path))


def frame_rows(records: Iterable[tuple[int, Mapping[str, Any]]], where: str) -> Any:
    """Numbered records of `words` and `frames` -> a `datasets.Dataset`, a predicate a row, as [`read_srl`]."""
    rows: dict[str, list[Any]] = {"tokens": [], "predicate": [], "labels": []}
    for number, record in records:
        for frame in record["frames"]:
            rows["tokens"].append(record["words"])
            rows["predicate"].append(frame["predicate"])
            rows["labels"].append(_bio(frame, len(record["words"]), f"{where}, line {number}"))
    from datasets import Dataset  # here: it takes a second, and most users of the package read no such file

    return Dataset.from_dict(rows)


def encode_predicates(batch: Mapping[str, Any], tokenizer: Any, label2id: Mapping[str, int]) -> dict[str, list]:
    """Rows of [`read_srl`] -> what the head `"srl"` trains on; made for `Dataset.map(..., batched=True)`.

    Example:

    ```python
    >>> from elmo_hf import ElmoTokenizer
    >>> from elmo_hf.tasks.srl.frames import encode_predicates
    >>> batch = {"tokens": [["She", "sold"]], "predicate": [1], "labels": [["B-ARG0", "B-V"]]}
    >>> encode_predicates(batch, ElmoTokenizer(), {"B-ARG0": 0, "B-V": 1})["token_type_ids"]
    [[0, 0, 1, 0]]

    ```
    """
    rows = encode_words(batch, tokenizer, label2id)
    lengths = [len(ids) for ids in rows["input_ids"]]
    rows["token_type_ids"] = [
        [int(place == predicate + 1) for place in range(length)]  # <S> comes first
        for predicate, length in zip(batch["predicate"], lengths, strict=True)
    ]
    return rows


def bio_spans(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """The spans of a sequence in BIO: role, first and last word. An `I-X` that goes on with nothing begins a span.

    Example:

    ```python
    >>> from elmo_hf.tasks.srl.frames import bio_spans
    >>> bio_spans(["B-A", "I-A", "O", "I-B"])
    [('A', 0, 1), ('B', 3, 3)]

    ```
    """
    spans: list[tuple[str, int, int]] = []
    before = ""
    for place, label in enumerate(labels):
        mark, _, role = label.partition("-")
        if mark == "I" and before == role and role:
            spans[-1] = (role, spans[-1][1], place)
        elif mark in ("B", "I"):
            spans.append((role, place, place))
        before = role
    return spans


def _bio(frame: dict[str, Any], length: int, where: str) -> list[str]:
    labels = ["O"] * length
    for role, first, last in frame["spans"]:
        if not 0 <= first <= last < length:
            raise ValueError(f"{where}: the span {role} from {first} to {last} is not in {plural(length, 'word')}.")
        if any(label != "O" for label in labels[first : last + 1]):
            raise ValueError(f"{where}: the span {role} from {first} to {last} meets another one.")
        labels[first : last + 1] = [f"B-{role}", *[f"I-{role}"] * (last - first)]
    if not 0 <= frame["predicate"] < length:
        raise ValueError(f"{where}: the predicate {frame['predicate']} is not in {plural(length, 'word')}.")
    return labels


__all__ = ["bio_spans", "encode_predicates", "read_srl"]
