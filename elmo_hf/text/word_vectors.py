"""Tables of word vectors: GloVe's and word2vec's text."""

import os
from collections.abc import Collection

import numpy as np

from elmo_hf.text.files import numbered_lines


def read_word_vectors(
    path: str | os.PathLike, words: Collection[str] | None = None, most: int | None = None
) -> tuple[list[str], np.ndarray]:
    """Reads a word a line and the numbers of its vector, as GloVe and word2vec write them; also packed files.

    Args:
        path: the file. A first line of two numbers, as word2vec's, is passed over.
        words: only these, and those that are one of these in small letters; None for all.
        most: at most so many.

    Returns:
        the words, and their vectors (words, size) in float32. A word that comes twice has the vector of the first.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import read_word_vectors
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.txt")
    >>> _ = path.write_text("2 2\\nthe 0.5 1\\nnew york 2 3\\n")
    >>> words, vectors = read_word_vectors(path)
    >>> words, vectors.tolist()
    (['the', 'new york'], [[0.5, 1.0], [2.0, 3.0]])

    ```
    """
    candidates = None if words is None else {*words, *(word.lower() for word in words)}
    vectors: dict[str, np.ndarray] = {}
    size = None
    for number, line in numbered_lines(path):
        fields = line.rstrip(" ").split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            size = int(fields[1])
            continue
        size = len(fields) - 1 if size is None else size
        word = " ".join(fields[:-size]) if size else ""
        if size < 1 or len(fields) <= size:
            raise ValueError(f"{path}, line {number}: {len(fields) - 1} numbers. Expected a word and {size} numbers.")
        if word in vectors or (candidates is not None and word not in candidates):
            continue
        try:
            vectors[word] = np.array(fields[-size:], dtype=np.float32)
        except ValueError:
            raise ValueError(f"{path}, line {number}: not all of the last {size} fields are numbers.") from None
        if len(vectors) == most:
            break
    if not vectors:
        raise ValueError(f"{path} has no vector of any of the words. Expected a word and its numbers on each line.")
    return list(vectors), np.stack(list(vectors.values()))


__all__ = ["read_word_vectors"]
