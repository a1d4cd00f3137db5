"""Formats of annotated data: how they are recognised, and tables of columns from JSON lines, TSV, CSV and datasets."""

import csv
import difflib
import glob
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmo_hf.text.files import excerpt, find_files, numbered_lines, opened
from elmo_hf.text.inputs import DATASET_FILES, file_type

# How messages call the formats.
FORMATS = {
    "conllu": "CoNLL-U",
    "conll": "CoNLL",
    "trees": "trees of the Stanford Sentiment Treebank",
    "json": "JSON",
    "jsonl": "JSON lines",
    "tsv": "TSV",
    "csv": "CSV",
    "parquet": "Parquet",
    "dataset": "a dataset",
    "documents": "CoNLL 2012 documents",
    "folder": "a folder",
}
# What the name of a file says; the others are told by their first lines.
ENDINGS = {
    ".conllu": "conllu",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tsv": "tsv",
    ".csv": "csv",
    ".parquet": "parquet",
    ".tar": "documents",
    ".tgz": "documents",
}
SAMPLE_LINES = 200
# Splits of a dataset, in the order in which they are tried.
SPLITS = {"train": ("train",), "dev": ("validation", "dev", "val"), "test": ("test",)}

Columns = dict[str, list[Any]]


def is_dataset(name: str) -> bool:
    """Whether a name is that of a dataset: the folder of a saved one, or `owner/name` on the Hub.

    A single word, and a name in a folder of this machine, are names of files.

    Example:

    ```python
    >>> from elmo_hf.tasks.finetuning.file_formats import is_dataset
    >>> [is_dataset(name) for name in ("stanfordnlp/snli", "snli", "snli_train.jsonl.gz", "data/missing.txt")]
    [True, False, False, False]

    ```
    """
    if os.path.exists(name):
        return any(Path(name, file).exists() for file in DATASET_FILES)
    if re.fullmatch(r"[\w-]+/[\w.-]+", name) is None or file_type(name) != "":
        return False
    return not os.path.isdir(os.path.dirname(name))


def check_exists(path: str):
    """Raises ValueError if there is no such file; the error names a file with a similar name."""
    if os.path.exists(path) or glob.has_magic(path):
        return
    folder = os.path.dirname(path)
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    # A name without its ending is the most common mistake.
    close = [name for name in sorted(names) if name.startswith(f"{os.path.basename(path)}.")]
    close = close or difflib.get_close_matches(os.path.basename(path), names, 1)
    advice = f" Did you mean {os.path.join(folder, close[0])}?" if close else ""
    raise ValueError(
        f"There is no file {path}.{advice} Expected a file of annotated data, or a dataset of the Hub by its whole "
        "name, e.g., stanfordnlp/imdb."
    )


def detect_format(path: str) -> str:
    """The format of a file, a key of `FORMATS`: by the ending of its name, else by its first lines.

    Raises:
        ValueError: if there is no such file, or it is empty.
    """
    if is_dataset(path):
        return "dataset"
    if os.path.isdir(path):
        return "folder"
    check_exists(path)
    find_files(path)
    if (ending := file_type(path)) in ENDINGS:
        _check_content(path)
        return ENDINGS[ending]
    lines = _first_lines(path)
    first = lines[0].lstrip()
    if first.startswith("#begin document") or first.endswith(".conll"):
        return "documents"
    if re.match(r"\(\d ", first):
        return "trees"
    if first.startswith(("{", "[")):
        return "jsonl" if _is_json(lines[0]) and not _is_squad(lines[0]) else "json"
    words = [line.split("\t") for line in lines if not line.startswith("#")]
    return "conllu" if words and all(len(fields) == 10 for fields in words) else "conll"


def _check_content(path: str):
    with opened(path) as (file, _):
        if not file.read(1):
            raise ValueError(f"{path} is empty. Expected annotated data.")


def _first_lines(path: str) -> list[str]:
    lines = [line for _, line in itertools.islice(numbered_lines(path), SAMPLE_LINES) if line.strip()]
    if not lines:
        raise ValueError(f"{path} is empty. Expected annotated data.")
    return lines


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _is_squad(line: str) -> bool:
    return "data" in json.loads(line) and '"paragraphs"' in line


# -- tables of named columns


def read_table(path: str, format: str, part: str = "train") -> Columns:
    """Reads a table as lists of values by column. Columns of a TSV or CSV file without a header are called 0, 1, 2 ...

    Args:
        path: the file, or the name of a dataset.
        format: a key of `FORMATS`.
        part: `"train"`, `"dev"` or `"test"`: which split of a dataset.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.tasks.finetuning.file_formats import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp(), "reviews.tsv")
    >>> _ = path.write_text("text\\tlabel\\nGood.\\tpos\\nBad.\\tneg\\n")
    >>> read_table(str(path), "tsv")
    {'text': ['Good.', 'Bad.'], 'label': ['pos', 'neg']}

    ```
    """
    if format == "dataset":
        return columns_of_dataset(_load_split(path, part))
    readers = {"jsonl": _read_json_lines, "json": _read_json, "tsv": _read_tsv, "csv": _read_csv}
    columns = {**readers, "parquet": _read_parquet}[format](path)
    if not columns or not len(next(iter(columns.values()))):
        raise ValueError(f"{path} holds no rows. Expected annotated data.")
    return columns


def columns_of_dataset(dataset: Any) -> Columns:
    """The columns of a `datasets.Dataset` or of a list of rows; numbers of a `ClassLabel` become its names."""
    if not hasattr(dataset, "column_names"):
        return _columns(enumerate(dataset, 1), "The data")
    columns = {name: list(dataset[name]) for name in dataset.column_names}
    for name, feature in (getattr(dataset, "features", None) or {}).items():
        inner = getattr(feature, "feature", feature)
        names = getattr(inner, "names", None)
        if names is not None:
            columns[name] = [_class_names(value, names) for value in columns[name]]
    return columns


def _class_names(value: Any, names: list[str]) -> Any:
    if isinstance(value, list):
        return [_class_names(each, names) for each in value]
    return None if value is None or value < 0 else names[value]


def _load_split(name: str, part: str) -> Any:
    from datasets import load_dataset, load_from_disk

    with _loading(name):
        loaded = load_from_disk(name) if os.path.isdir(name) else load_dataset(name)
    if not isinstance(loaded, Mapping):
        return loaded
    split = next((split for split in SPLITS[part] if split in loaded), None)
    if split is None:
        raise ValueError(f"The dataset {name} has no split for {part}: it has {', '.join(map(repr, loaded))}.")
    return loaded[split]


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """Says of a dataset of the Hub that cannot be loaded that there is no such file either."""
    try:
        yield
    except (OSError, ValueError) as error:
        if os.path.isdir(name):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(f"There is no file {name}, and no dataset of this name could be loaded: {reason}.") from error


def dataset_splits(name: str) -> list[str]:
    """Which of train, dev and test a dataset has."""
    from datasets import get_dataset_split_names, load_from_disk

    with _loading(name):
        loaded = load_from_disk(name) if os.path.isdir(name) else dict.fromkeys(get_dataset_split_names(name))
    return [part for part, splits in SPLITS.items() if isinstance(loaded, Mapping) and {*splits} & {*loaded}]


def _read_json_lines(path: str) -> Columns:
    def records() -> Iterator[tuple[int, Any]]:
        for number, line in numbered_lines(path):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    raise ValueError(f"{path}, line {number} is not JSON: {error}.") from None

    return _columns(records(), path)


def _read_json(path: str) -> Columns:
    with opened(path) as (file, _):
        try:
            records = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}.") from None
    if not isinstance(records, list):
        raise ValueError(f"{path} holds one JSON object. Expected a list of objects, or an object on each line.")
    return _columns(enumerate(records, 1), path)


def _columns(records: Iterable[tuple[int, Any]], path: str) -> Columns:
    columns: Columns = {}
    for number, record in records:
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number} holds {excerpt(repr(record), 60)}. Expected a JSON object.")
        columns = columns or {name: [] for name in record}
        for name, values in columns.items():
            values.append(record.get(name))
    return columns


def _read_parquet(path: str) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path).to_pydict()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is damaged, or no Parquet file: {str(error).strip().rstrip('.')}.") from None


def _read_tsv(path: str) -> Columns:
    return _read_delimited(path, csv.reader(_lines_of(path), delimiter="\t", quoting=csv.QUOTE_NONE))


def _read_csv(path: str) -> Columns:
    return _read_delimited(path, csv.reader(_lines_of(path)))


def _lines_of(path: str) -> Iterator[str]:
    return (line.rstrip("\r\n") + "\n" for _, line in numbered_lines(path))


def _read_delimited(path: str, reader: Any) -> Columns:
    columns: Columns = {}
    names: list[str] = []
    try:
        for row in reader:
            if not row or row == [""]:
                continue
            if not names:
                header = _is_header(row)
                names = row if header else [str(number) for number in range(len(row))]
                columns = {name: [] for name in names}
                if header:
                    continue
            if len(row) != len(names):
                raise ValueError(
                    f"{path}, line {reader.line_num}: {len(row)} columns, but the first row has {len(names)}. "
                    "Expected the same number of columns in each row."
                )
            for name, value in zip(names, row, strict=True):
                columns[name].append(value)
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from None
    return columns


def _is_header(row: list[str]) -> bool:
    names = {name for group in (*TEXT_COLUMNS, *LABEL_COLUMNS) for name in group}
    return any(field.strip().lower() in names for field in row)


# -- the columns of texts and labels, by their usual names

PAIR_COLUMNS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("question1", "question2"),
    ("text", "text_pair"),
    ("text", "pair"),
    ("text_a", "text_b"),
)
TEXT_COLUMNS = (("text", "sentence", "tokens", "words", "review", "content", "title"), *PAIR_COLUMNS)
LABEL_COLUMNS = (
    ("label", "labels", "gold_label", "class", "category", "score", "rating", "stars", "similarity", "sentiment"),
)


def find_column(columns: Columns, path: str, candidates: Iterable[str], chosen: str | None, content: str) -> str:
    """The name of a column: the chosen one, or the first candidate that the table has."""
    candidates = [chosen] if chosen is not None else list(candidates)
    for name in candidates:
        if name in columns:
            return name
    available = ", ".join(map(repr, columns))
    expected = f"{candidates[0]!r}" if chosen is not None else f"one of {', '.join(map(repr, candidates))}"
    raise ValueError(f"{path} has no column of {content}: expected {expected}, but its columns are {available}.")


__all__ = [
    "FORMATS",
    "columns_of_dataset",
    "dataset_splits",
    "detect_format",
    "find_column",
    "is_dataset",
    "read_table",
]
