"""Readers of annotated files with a word a line: CoNLL in its many spellings, and CoNLL-U."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from elmo_hf.text.files import numbered_lines, plural

if TYPE_CHECKING:
    from datasets import Dataset

    class AnnotatedSentences(Dataset):
        """A `datasets.Dataset` for type checkers, to some of which that class says nothing: a sentence a row."""

        @property
        def column_names(self) -> list[str]: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[dict[str, list[str]]]: ...
        @overload
        def __getitem__(self, key: int) -> dict[str, list[str]]: ...
        @overload
        def __getitem__(self, key: slice) -> dict[str, list[list[str]]]: ...
        @overload
        def __getitem__(self, key: str) -> Sequence[list[str]]: ...
        def __getitem__(self, key: Any) -> Any: ...


CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


def read_conll(
    path: str | os.PathLike,
    columns: Mapping[str, int] | None = None,
    separator: str | None = None,
    comment: str | None = None,
) -> "AnnotatedSentences":
    """Reads a file with a word a line, its labels beside it, and empty lines between sentences.

    Args:
        path: the file, UTF-8; `.gz`, `.xz`, `.bz2` and `.zst` are unpacked.
        columns: the number of the column, from 0 or from -1 for the last, of each column of the result. By default
            `{"tokens": 0, "labels": -1}`.
        separator: what stands between columns; None for any run of spaces and tabs.
        comment: lines that begin with this are left out. None keeps all, because `#hashtag` is a word too.

    Returns:
        a `datasets.Dataset`, a sentence a row, each column a list of strings. Lines of `-DOCSTART-` are no words.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import read_conll
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.conll")
    >>> _ = path.write_text("Rome B-LOC\\nburns O\\n\\nAh O\\n")
    >>> read_conll(path)[:]
    {'tokens': [['Rome', 'burns'], ['Ah']], 'labels': [['B-LOC', 'O'], ['O']]}

    ```
    """
    columns = {"tokens": 0, "labels": -1} if columns is None else columns
    rows: dict[str, list[list[str]]] = {name: [] for name in columns}
    for sentence in _sentences(path, comment):
        split = [(number, _columns(line, separator)) for number, line in sentence]
        first, width = split[0][0], len(split[0][1])
        for number, fields in split:
            if len(fields) != width:
                raise ValueError(
                    f"{path}, line {number}: {plural(len(fields), 'column')}, but line {first} of the same sentence "
                    f"has {width}. Expected the same number in all lines of a sentence."
                )
        for name, place in columns.items():
            if not -width <= place < width:
                raise ValueError(
                    f"{path}, line {first}: {plural(width, 'column')}, so there is no column {place} for `{name}`."
                )
            rows[name].append([fields[place] for _, fields in split])
        # Of one column the first is the last: a word would be its own label.
        if len({place % width for place in columns.values()}) < len(set(columns.values())):
            raise ValueError(
                f"{path}, line {first}: {plural(width, 'column')}. Expected a column for each of "
                f"{', '.join(map(repr, columns))}."
            )
    return _dataset(rows)


def read_conllu(path: str | os.PathLike, columns: Sequence[str] = ("upos",)) -> "AnnotatedSentences":
    """Reads CoNLL-U, the format of Universal Dependencies.

    Words are the syntactic ones, which carry the annotation: the lines of multiword tokens (`3-4`) and of empty
    nodes (`8.1`) are left out.

    Args:
        path: the file, UTF-8; `.gz`, `.xz`, `.bz2` and `.zst` are unpacked.
        columns: what to keep beside the words: `"lemma"`, `"upos"`, `"xpos"`, `"feats"`, `"head"`, `"deprel"`,
            `"deps"`, `"misc"`.

    Returns:
        a `datasets.Dataset`, a sentence a row: `tokens` and the named columns, each a list of strings.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import read_conllu
    >>> lines = ["# text = I'm", "1-2 I'm _ _ _ _ _ _ _ _", "1 I I PRON _ _ _ _ _ _", "2 'm be AUX _ _ _ _ _ _"]
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.conllu")
    >>> _ = path.write_text("\\n".join(lines[:1] + [line.replace(" ", "\\t") for line in lines[1:]]))
    >>> read_conllu(path)[0]
    {'tokens': ['I', "'m"], 'upos': ['PRON', 'AUX']}

    ```
    """
    unknown = [name for name in columns if name not in CONLLU_COLUMNS[2:]]
    if unknown:
        available = ", ".join(CONLLU_COLUMNS[2:])
        raise ValueError(f"CoNLL-U has no column {unknown[0]!r} beside the words; it has {available}.")
    places = {"tokens": CONLLU_COLUMNS.index("form"), **{name: CONLLU_COLUMNS.index(name) for name in columns}}
    rows: dict[str, list[list[str]]] = {name: [] for name in places}
    for sentence in _sentences(path, comment="#"):
        words = _conllu_words(path, sentence)
        for name, place in places.items():
            rows[name].append([fields[place] for fields in words])
    return _dataset(rows)


def _sentences(path: str | os.PathLike, comment: str | None) -> Iterator[list[tuple[int, str]]]:
    """The numbered lines of each sentence."""
    sentence: list[tuple[int, str]] = []
    for number, line in numbered_lines(path):
        if not line.strip() or line.startswith("-DOCSTART-"):
            if sentence:
                yield sentence
            sentence = []
        elif comment is None or not line.startswith(comment):
            sentence.append((number, line))
    if sentence:
        yield sentence


def _columns(line: str, separator: str | None) -> list[str]:
    # str.split() would also part words at the spaces that Unicode has beside these two.
    return re.split(r"[ \t]+", line.strip(" \t")) if separator is None else line.split(separator)


def _conllu_words(path: str | os.PathLike, sentence: list[tuple[int, str]]) -> list[list[str]]:
    """The ten fields of each syntactic word."""
    words: list[list[str]] = []
    for number, line in sentence:
        fields = line.split("\t")
        if len(fields) != len(CONLLU_COLUMNS):
            raise ValueError(
                f"{path}, line {number}: {plural(len(fields), 'column')} between tabs. Expected the ten of CoNLL-U."
            )
        if re.fullmatch(r"\d+[-.]\d+", fields[0]):
            continue
        if fields[0] != str(len(words) + 1):
            raise ValueError(
                f"{path}, line {number}: the word's number is {fields[0]!r}. Expected {len(words) + 1}, the next "
                "one, ranges as 3-4, and empty nodes as 8.1."
            )
        words.append(fields)
    return words


def _dataset(rows: dict[str, list[list[str]]]) -> Any:
    # Imported here: most users of the package read no annotated file, and it takes a second.
    from datasets import Dataset, Features, List, Value

    return Dataset.from_dict(rows, features=Features({name: List(Value("string")) for name in rows}))


__all__ = ["read_conll", "read_conllu"]
