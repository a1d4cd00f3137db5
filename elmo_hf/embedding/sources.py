"""Sentences where they lie: text raw or tokenised, JSON lines, Parquet, datasets. Nothing is left out: line n of a
file is sentence n of the store, blank lines too.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from elmo_hf.text.files import OPENERS, STANDARD_INPUT, find_files, numbered_lines

from .windows import Sentence

# Columns that are looked for where none is named, in this order.
COLUMNS = ("text", "sentence", "words", "tokens")


class SentenceSource:
    """The sentences of an input, in its order; each iteration begins anew.

    Args:
        given: files or patterns, `-` for standard input, or the name of a dataset. What ends in `.jsonl` holds a
            string, a list of words, or an object on each line; `.parquet` a column; all else is text. Packed files
            (`.gz`, `.xz`, `.bz2`, `.zst`) are unpacked, and `.jsonl.gz` is JSON lines too.
        tokenized: words stand between spaces and are not split any further.
        column: of JSON objects, Parquet or a dataset. Not given: the first there is of text, sentence, words, tokens.
        dataset: `given` is a dataset's name on the Hub, or the folder of a saved one.
        split: the dataset's.
        errors: what happens to text that is not UTF-8: `"strict"`, `"replace"` or `"ignore"`.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.embedding import SentenceSource
    >>> path = pathlib.Path(tempfile.mkdtemp(), "some.jsonl")
    >>> _ = path.write_text('"One sentence."\\n["New York", "sleeps"]\\n{"text": "Third"}\\n')
    >>> list(SentenceSource(path))
    ['One sentence.', ['New York', 'sleeps'], 'Third']

    ```
    """

    def __init__(
        self,
        given: str | os.PathLike | Sequence[str | os.PathLike],
        tokenized: bool = False,
        column: str | None = None,
        dataset: bool = False,
        split: str = "train",
        errors: str = "strict",
    ):
        self.given, self.tokenized, self.column = given, tokenized, column
        self.dataset, self.split, self.errors = dataset, split, errors
        # A name that is wrong should be known before a model is loaded.
        self.files = [] if dataset else find_files(given)

    @property
    def repeats(self) -> bool:
        """Whether it can be read twice."""
        pipes = [name for name in self.files if name == STANDARD_INPUT or not os.path.isfile(name)]
        return not self.dataset and not pipes

    def __iter__(self) -> Iterator[Sentence]:
        if self.dataset:
            yield from self._of_dataset()
        for path in self.files:
            kind = _kind(path)
            read = {".jsonl": self._of_json, ".parquet": self._of_parquet}.get(kind, self._of_text)
            yield from read(path)

    def _of_text(self, path: str) -> Iterator[Sentence]:
        for _, line in numbered_lines(path, self.errors):
            yield line.split() if self.tokenized else line.strip()

    def _of_json(self, path: str) -> Iterator[Sentence]:
        for number, line in numbered_lines(path, self.errors):
            where = f"{path}, line {number}"
            try:
                value = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{where} is not JSON: {error}.") from None
            if isinstance(value, dict):
                value = value[self._chosen(list(value), where)]
            yield self._sentence(value, where)

    def _of_parquet(self, path: str) -> Iterator[Sentence]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).strip().rstrip(".")
            raise ValueError(f"{path} is damaged, or no Parquet file: {reason}.") from None
        column = self._chosen(file.schema_arrow.names, path)
        number = 0
        for batch in file.iter_batches(1024, columns=[column]):
            for value in batch.column(0).to_pylist():
                yield self._sentence(value, f"{path}, row {number}")
                number += 1

    def _of_dataset(self) -> Iterator[Sentence]:
        rows = load_rows(os.fspath(self.given), self.split)
        column = None
        for number, row in enumerate(rows):
            where = f"{self.given}, row {number}"
            column = column or self._chosen(list(row), where)
            yield self._sentence(row[column], where)

    def _chosen(self, names: list[str], where: str) -> str:
        wanted = COLUMNS if self.column is None else (self.column,)
        found = [name for name in wanted if name in names]
        if not found:
            looked = " or ".join(map(repr, wanted))
            raise ValueError(f"{where} has no {looked}; its columns are {', '.join(map(repr, names))}.")
        return found[0]

    def _sentence(self, value: Any, where: str) -> Sentence:
        if isinstance(value, str):
            return value.split() if self.tokenized else value.strip()
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return value
        raise ValueError(f"{where} holds {value!r:.60}; accepted are a string or a list of words.")


def load_rows(name: str, split: str) -> Any:
    """The rows of a dataset: of a folder that `save_to_disk` wrote, or streamed from the Hub."""
    from datasets import DatasetDict, load_dataset, load_from_disk

    if any(Path(name, file).exists() for file in ("dataset_info.json", "dataset_dict.json")):
        loaded = load_from_disk(name)
        return loaded[split] if isinstance(loaded, DatasetDict) else loaded
    return load_dataset(name, split=split, streaming=True)


def _kind(path: str) -> str:
    root, ending = os.path.splitext(path)
    return os.path.splitext(root)[1].lower() if ending.lower() in OPENERS else ending.lower()
