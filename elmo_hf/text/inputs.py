"""Inputs of commands and functions: text files, JSON lines, Parquet and datasets, as lines or as sentences.

`read_lines` gives the lines of text files, `SentenceSource` the sentences of any input, blank ones included, and
`read_dataset` and `lines_of_dataset` those of a dataset.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from elmo_hf.text.files import OPENERS, STANDARD_INPUT, find_files, numbered_lines

# A sentence is raw text or a list of words.
Sentence = str | Sequence[str]
Files = str | os.PathLike | Sequence[str | os.PathLike]

# Columns that hold the text if none is named, in this order.
COLUMNS = ("text", "sentence", "words", "tokens")
DATASET_FILES = ("dataset_info.json", "dataset_dict.json")


def read_lines(files: Files, errors: str = "strict", progress: bool = False) -> Iterator[str]:
    """Reads text files line by line; blank lines are skipped. Memory does not grow with the files.

    Args:
        files: paths or patterns as `news/*.txt.gz`; `-` is standard input. Files that end in .gz, .xz, .bz2 or .zst
            are unpacked.
        errors: what to do with a line that is not UTF-8: `"strict"` raises an error with the file's name and the
            line's number, `"replace"` and `"ignore"` are those of Python.
        progress: show a progress bar.

    Example:

    ```python
    >>> import gzip, pathlib, tempfile
    >>> from elmo_hf import read_lines
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("One line .\\n\\nAnother .\\n")
    >>> _ = (folder / "b.txt.gz").write_bytes(gzip.compress(b"Packed .\\n"))
    >>> list(read_lines(folder / "*.txt*"))
    ['One line .', 'Another .', 'Packed .']

    ```
    """
    paths = find_files(files)
    # The size of standard input is not known.
    total = None if STANDARD_INPUT in paths else sum(map(os.path.getsize, paths))
    # disable=None: no bar if the output is not a terminal
    with tqdm(total=total, unit="B", unit_scale=True, disable=None if progress else True) as bar:
        for path in paths:
            for _, line in numbered_lines(path, errors, bar):
                if text := line.strip():
                    yield text


class SentenceSource:
    """The sentences of an input in their order; each iteration starts again.

    Nothing is skipped: line n of a file is sentence n, also if it is blank.

    Args:
        input: files or patterns, `-` for standard input, or the name of a dataset. Each line of a `.jsonl` file is a
            string, a list of words, or an object; of a `.parquet` file a column is read; all other files are text.
            Packed files (`.gz`, `.xz`, `.bz2`, `.zst`) are unpacked.
        tokenized: the words are separated by spaces and are not split any further.
        column: of JSON objects, Parquet or a dataset. Default: the first of text, sentence, words, tokens.
        dataset: `input` is the name of a dataset on the Hub, or the folder of a saved one.
        split: of the dataset.
        errors: what to do with text that is not UTF-8: `"strict"`, `"replace"` or `"ignore"`.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import SentenceSource
    >>> path = pathlib.Path(tempfile.mkdtemp(), "some.jsonl")
    >>> _ = path.write_text('"One sentence."\\n["New York", "sleeps"]\\n{"text": "Third"}\\n')
    >>> list(SentenceSource(path))
    ['One sentence.', ['New York', 'sleeps'], 'Third']

    ```
    """

    def __init__(
        self,
        input: Files,
        tokenized: bool = False,
        column: str | None = None,
        dataset: bool = False,
        split: str = "train",
        errors: str = "strict",
    ):
        self.input, self.tokenized, self.column = input, tokenized, column
        self.dataset, self.split, self.errors = dataset, split, errors
        # A wrong name should be reported before a model is loaded.
        self.files = [] if dataset else find_files(input)

    @property
    def repeats(self) -> bool:
        """Whether it can be read twice."""
        return not self.dataset and all(path != STANDARD_INPUT and os.path.isfile(path) for path in self.files)

    def __iter__(self) -> Iterator[Sentence]:
        if self.dataset:
            yield from self._read_dataset()
        for path in self.files:
            readers = {".jsonl": self._read_json_lines, ".parquet": self._read_parquet}
            yield from readers.get(file_type(path), self._read_text)(path)

    def _read_text(self, path: str) -> Iterator[Sentence]:
        for _, line in numbered_lines(path, self.errors):
            yield self._sentence(line, path)

    def _read_json_lines(self, path: str) -> Iterator[Sentence]:
        for number, line in numbered_lines(path, self.errors):
            where = f"{path}, line {number}"
            try:
                value = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{where} is not JSON: {error}.") from None
            if isinstance(value, dict):
                value = value[self._choose_column(value, where)]
            yield self._sentence(value, where)

    def _read_parquet(self, path: str) -> Iterator[Sentence]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).strip().rstrip(".")
            raise ValueError(f"{path} is damaged, or no Parquet file: {reason}.") from None
        column = self._choose_column(file.schema_arrow.names, path)
        number = 0
        for batch in file.iter_batches(1024, columns=[column]):
            for value in batch.column(0).to_pylist():
                yield self._sentence(value, f"{path}, row {number}")
                number += 1

    def _read_dataset(self) -> Iterator[Sentence]:
        assert isinstance(self.input, (str, os.PathLike))
        name, column = os.fspath(self.input), None
        for number, row in enumerate(read_dataset(name, self.split)):
            where = f"{name}, row {number}"
            column = column or self._choose_column(row, where)
            yield self._sentence(row[column], where)

    def _choose_column(self, names: Iterable[str], where: str) -> str:
        names = list(names)
        candidates = COLUMNS if self.column is None else (self.column,)
        for name in candidates:
            if name in names:
                return name
        raise ValueError(
            f"{where} has no {' or '.join(map(repr, candidates))}; its columns are {', '.join(map(repr, names))}."
        )

    def _sentence(self, value: Any, where: str) -> Sentence:
        if isinstance(value, str):
            return value.split() if self.tokenized else value.strip()
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return value
        raise ValueError(f"{where} holds {value!r:.60}. Expected a string or a list of words.")


def check_is_list(value: Any, name: str, expected: str = "a list of sentences, [text]"):
    """Raises if a list is meant and a string is given, whose characters would be taken for its items.

    Example:

    ```python
    >>> from elmo_hf.text.inputs import check_is_list
    >>> check_is_list("It rains.", "sentences")
    Traceback (most recent call last):
    ValueError: Invalid `sentences`: the string 'It rains.'. Expected a list of sentences, [text].

    ```
    """
    if isinstance(value, (str, bytes)):
        raise ValueError(f"Invalid `{name}`: the string {value!r:.40}. Expected {expected}.")
    if not isinstance(value, Iterable):
        raise ValueError(f"Invalid `{name}`: {value!r:.40}. Expected {expected}.")


def read_dataset(name: str, split: str = "train") -> Iterable[dict[str, Any]]:
    """The rows of a dataset: from a folder that `save_to_disk` wrote, or streamed from the Hub."""
    from datasets import load_dataset, load_from_disk

    if any(Path(name, file).exists() for file in DATASET_FILES):
        loaded = load_from_disk(name)
        return loaded[split] if isinstance(loaded, Mapping) else loaded
    return load_dataset(name, split=split, streaming=True)


def lines_of_dataset(dataset: Iterable[dict[str, Any]], column: str = "text") -> Iterator[str]:
    """The lines of a dataset's column, streaming or not; a text of several lines gives each of them.

    Example:

    ```python
    >>> from datasets import Dataset
    >>> from elmo_hf.pretraining import lines_of_dataset
    >>> list(lines_of_dataset(Dataset.from_dict({"text": ["One .\\nTwo .", "Three ."]})))
    ['One .', 'Two .', 'Three .']

    ```
    """
    for row in dataset:
        if not isinstance(row.get(column), str):
            columns = ", ".join(map(repr, row))
            raise ValueError(f"The dataset has no text in a column {column!r}; its columns are {columns}.")
        yield from row[column].splitlines()


def file_type(path: str) -> str:
    """The ending of a file's name without that of its packing: `.jsonl` of `a.jsonl.gz`."""
    root, ending = os.path.splitext(path)
    return os.path.splitext(root)[1].lower() if ending.lower() in OPENERS else ending.lower()
