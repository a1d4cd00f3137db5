"""A corpus as integers on disk: written in one pass over the text, read through memory maps.

Memory grows with the number of different words, never with the text.
"""

import errno
import hashlib
import heapq
import json
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmo_hf.atomic_files import atomic_folder, manifest_problem, write_manifest
from elmo_hf.model.tokenization_elmo import BOS, EOS, ElmoTokenizer

# Words 0, 1 and 2: no token, which no text can hold, and the boundaries. ElmoTokenizer.word_table has the same order.
MARKS = ("", BOS, EOS)
BEGIN, END = 1, 2
LINES_AT_ONCE, TOKENS_AT_ONCE = 4096, 2**22
# One sentence in so many is held out, until there are enough.
HELD_OUT_SHARE, MOST_HELD_OUT = 50, 1000


class Corpus:
    """Sentences as word numbers, each between the numbers of `<S>` and `</S>`.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoTokenizer
    >>> from elmo_hf.pretraining import Corpus
    >>> folder = tempfile.mkdtemp() + "/corpus"
    >>> corpus = Corpus.write(["a b a", "c"], folder, ElmoTokenizer("whitespace"))
    >>> corpus.words, corpus.counts.tolist(), corpus.sentence(0).tolist()
    (['', '<S>', '</S>', 'a', 'b', 'c'], [0, 2, 2, 2, 1, 1], [1, 3, 4, 3, 2])

    ```
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)
        problem = manifest_problem(self.folder)
        if problem is not None:
            raise ValueError(f"{self.folder} holds no complete corpus: {problem}.")
        about = json.loads((self.folder / "corpus.json").read_text(encoding="utf-8"))
        self.fingerprint: str = about["fingerprint"]
        self.tokens = np.memmap(self.folder / "tokens.int32", np.int32, "r")
        # Where each sentence begins, and where the last one ends.
        self.starts = np.memmap(self.folder / "starts.int64", np.int64, "r")
        self.counts = np.load(self.folder / "counts.npy")
        self.held_out = (self.folder / "held_out.txt").read_text(encoding="utf-8").splitlines()

    @classmethod
    def write(
        cls,
        lines: Iterable[str],
        folder: str | os.PathLike,
        tokenizer: ElmoTokenizer,
        hold_out: bool = False,
        source: Any = None,
    ) -> "Corpus":
        """Writes sentences, one a line, into a new folder; either all of it is there afterwards or nothing.

        Args:
            lines: text; blank lines are passed over.
            tokenizer: its splitting makes the words.
            hold_out: keep up to 1,000 sentences out, for evaluation. A hash of the text chooses them, so that the
                same sentence twice is never on both sides.
            source: where the lines come from, to be compared by `is_of`.
        """
        try:
            with atomic_folder(folder) as place:
                write_corpus(lines, place, tokenizer, hold_out, source)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise  # else another process was faster
        return cls(folder)

    @staticmethod
    def is_of(folder: str | os.PathLike, source: Any) -> bool:
        """Whether the folder holds a corpus that was written from `source`."""
        try:
            about = json.loads((Path(folder) / "corpus.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(about, dict) and about.get("source") == json.loads(json.dumps(source))

    @property
    def words(self) -> list[str]:
        """The different words in the order of their numbers, the marks first."""
        return (self.folder / "words.txt").read_bytes().decode("utf-8", "surrogatepass").split("\n")[:-1]

    @property
    def num_sentences(self) -> int:
        """Number of sentences."""
        return len(self.starts) - 1

    @property
    def num_words(self) -> int:
        """Words of all sentences, boundaries not counted."""
        return len(self.tokens) - 2 * self.num_sentences

    @property
    def num_pairs(self) -> int:
        """Predictions of one direction: one more than words for each sentence."""
        return len(self.tokens) - self.num_sentences

    def pairs(self, sentences: np.ndarray) -> np.ndarray:
        """Predictions that each of the sentences holds."""
        return self.starts[sentences + 1] - self.starts[sentences] - 1

    def sentence(self, number: int) -> np.ndarray:
        """Numbers of the words of a sentence, its boundaries included."""
        return self.tokens[self.starts[number] : self.starts[number + 1]]


def write_corpus(lines: Iterable[str], folder: Path, tokenizer: ElmoTokenizer, hold_out: bool, source: Any) -> str:
    """Writes the files of a `Corpus` into an empty folder; returns its fingerprint."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    for mark in MARKS:
        _ = numbers[mark]
    held_out: dict[str, int] = {}
    digest, end = hashlib.blake2b(digest_size=16), 0
    with open(folder / "tokens.int32", "wb") as tokens, open(folder / "starts.int64", "wb") as starts:
        starts.write(np.int64(0).tobytes())
        for batch in _batches(_training_lines(lines, held_out) if hold_out else lines):
            rows = [[BOS, *words, EOS] for words in tokenizer.split(batch) if words]
            lengths = np.fromiter(map(len, rows), np.int64, len(rows))
            ids = np.fromiter((numbers[word] for row in rows for word in row), np.int32, lengths.sum())
            tokens.write(ids.tobytes())
            starts.write((end + lengths.cumsum()).tobytes())
            digest.update(ids.tobytes())
            end += int(lengths.sum())
    if not end:
        raise ValueError("The corpus is empty: no line contains a word. Expected a sentence per line.")
    words = "".join(f"{word}\n" for word in numbers)
    digest.update(words.encode("utf-8", "surrogatepass"))
    (folder / "words.txt").write_bytes(words.encode("utf-8", "surrogatepass"))
    (folder / "held_out.txt").write_bytes(
        "".join(f"{' '.join(line.splitlines())}\n" for line in held_out).encode("utf-8", "replace")
    )
    np.save(folder / "counts.npy", _counts(folder / "tokens.int32", len(numbers)))
    about = {"fingerprint": digest.hexdigest(), "source": source}
    (folder / "corpus.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
    write_manifest(folder)
    return about["fingerprint"]


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    lines = iter(lines)
    while batch := list(islice(lines, LINES_AT_ONCE)):
        yield batch


def _training_lines(lines: Iterable[str], held_out: dict[str, int]) -> Iterator[str]:
    """The lines that are not held out; those with the smallest hashes are put into `held_out` with their counts."""
    largest: list[tuple[int, str]] = []  # a heap of the lines held out, the largest hash first
    for line in lines:
        hashed = zlib.crc32(line.encode("utf-8", "replace"))
        if hashed % HELD_OUT_SHARE or not line.strip():
            yield line
        elif line in held_out:
            held_out[line] += 1
        elif len(held_out) < MOST_HELD_OUT:
            held_out[line] = 1
            heapq.heappush(largest, (-hashed, line))
        elif -largest[0][0] > hashed:
            held_out[line] = 1
            _, back = heapq.heappushpop(largest, (-hashed, line))
            yield from [back] * held_out.pop(back)
        else:
            yield line


def _counts(path: Path, size: int) -> np.ndarray:
    """How often each number occurs, counted in pieces."""
    tokens = np.memmap(path, np.int32, "r")
    counts = np.zeros(size, np.int64)
    for start in range(0, len(tokens), TOKENS_AT_ONCE):
        counts += np.bincount(tokens[start : start + TOKENS_AT_ONCE], minlength=size)
    return counts
