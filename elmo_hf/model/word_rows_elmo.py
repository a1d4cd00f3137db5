"""Words <-> rows of bytes, and the file of the language model's words."""

import os
from collections.abc import Sequence

import numpy as np

from .configuration_elmo import BEGIN_OF_SENTENCE_BYTE, END_OF_SENTENCE_BYTE

# Bytes and marks of a row; every id in a row is one more, because 0 means "no token".
BEGIN_OF_WORD, END_OF_WORD, PADDING = 258, 259, 260
PADDING_CHARACTER = PADDING + 1  # the id that fills a row after the end mark
PAD, BOS, EOS, UNK = "<PAD>", "<S>", "</S>", "<UNK>"


def byte_rows(words: Sequence[str], width: int, truncation: str = "characters") -> np.ndarray:
    """Words -> rows (N, width): begin mark, UTF-8 bytes, end mark, filled up; ids are shifted by one.

    Example:

    ```python
    >>> from elmo_hf import byte_rows
    >>> byte_rows(["é"], width=6).tolist()
    [[259, 196, 170, 260, 261, 261]]

    ```
    """
    most = width - 2
    encoded = [word.encode("utf-8", "ignore") for word in words]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    for number in np.flatnonzero(lengths > most).tolist():
        cut = encoded[number][:most]
        # A cut word loses the bytes of a character that did not fit.
        cut = cut.decode("utf-8", "ignore").encode("utf-8") if truncation == "characters" else cut
        encoded[number], lengths[number] = cut, len(cut)
    rows = np.full((len(encoded), width), PADDING + 1, dtype=np.int64)
    rows[:, 0] = BEGIN_OF_WORD + 1
    place = np.arange(1, width) - 1  # of each column after the first
    rows[:, 1:][place < lengths[:, None]] = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.int64) + 1
    rows[np.arange(len(encoded)), lengths + 1] = END_OF_WORD + 1
    return rows


def read_word_vocabulary(path: str | os.PathLike) -> list[str]:
    """Words of a vocabulary file, one a line, in the order of the softmax's rows.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import read_word_vocabulary
    >>> path = pathlib.Path(tempfile.mkdtemp(), "vocab.txt")
    >>> _ = path.write_text("<S>\\n</S>\\n<UNK>\\nthe\\n")
    >>> read_word_vocabulary(path)
    ['<S>', '</S>', '<UNK>', 'the']

    ```
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        words = []
        try:
            words += (line.rstrip("\r\n") for line in file)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{os.fspath(path)} is no list of words in UTF-8, which is accepted: {error.reason} near line "
                f"{len(words) + 1}."
            ) from None
    # The original's marker of an end, which it does not count either.
    return [word for word in words if word != "!!!MAXTERMID"]


def mark_rows(width: int) -> np.ndarray:
    """The rows (3, width) of no token, of `<S>` and of `</S>`."""
    rows = np.full((3, width), PADDING + 1, dtype=np.int64)
    rows[0] = 0
    rows[1:, :3] = np.array([BEGIN_OF_WORD, 0, END_OF_WORD]) + 1
    rows[1:, 1] = np.array([BEGIN_OF_SENTENCE_BYTE, END_OF_SENTENCE_BYTE]) + 1
    return rows


def word_of_row(row: Sequence[int]) -> str:
    """The word that a row was made of; what truncation cut off is lost."""
    values = np.asarray(row) - 1
    if values[0] < 0:
        return PAD
    ends = np.flatnonzero(values == END_OF_WORD)
    inside = values[1 : ends[0] if len(ends) else None]
    if len(inside) == 1 and inside[0] in (BEGIN_OF_SENTENCE_BYTE, END_OF_SENTENCE_BYTE):
        return BOS if inside[0] == BEGIN_OF_SENTENCE_BYTE else EOS
    return bytes(inside[inside < 256].astype(np.uint8)).decode("utf-8", "replace")
