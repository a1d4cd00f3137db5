"""Rows that carry a state along: sentences dealt to them as the original deals, for training and for measuring.

`rows` rows of `steps` predictions make a window. A row that runs dry pulls the next sentence from one stream that all
rows share; a row goes on in the next window where it stopped. What can no longer fill every row is dropped.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np


class Segment(NamedTuple):
    """Some predictions of a sentence: `number` of them from `start` on."""

    sentence: int
    start: int
    number: int


class Packer:
    """Deals sentences to rows; `stream(k)` gives the k-th sentence and its predictions, or None at the end.

    Example:

    ```python
    >>> from elmo_hf.language_model.streams import Packer
    >>> lengths = [3, 2, 4]
    >>> packer = Packer(lambda k: (k, lengths[k]) if k < len(lengths) else None, rows=2, steps=2)
    >>> for row in packer.next():
    ...     print([tuple(segment) for segment in row])
    [(0, 0, 2)]
    [(1, 0, 2)]
    >>> packer.next() is None  # the first row ends its sentence and pulls the third; nothing is left for the second
    True

    ```
    """

    def __init__(self, stream: Callable[[int], tuple[int, int] | None], rows: int, steps: int):
        self.stream, self.rows, self.steps = stream, rows, steps
        self.window, self.taken = 0, 0
        self.current: list[Segment] = [Segment(-1, 0, 0)] * rows  # what is left of each row's sentence

    def next(self) -> list[list[Segment]] | None:
        """The next window, row by row; None when the stream cannot fill it, which drops it."""
        window: list[list[Segment]] = []
        for row in range(self.rows):
            window.append([])
            free = self.steps
            while free:
                sentence, start, left = self.current[row]
                if not left:
                    pulled = self.stream(self.taken)
                    if pulled is None:
                        return None
                    self.taken += 1
                    sentence, start, left = pulled[0], 0, pulled[1]
                number = min(left, free)
                window[row].append(Segment(sentence, start, number))
                self.current[row] = Segment(sentence, start + number, left - number)
                free -= number
        self.window += 1
        return window

    def state(self) -> dict[str, Any]:
        """Where the packer is, as JSON can hold it."""
        return {"window": self.window, "taken": self.taken, "current": [list(segment) for segment in self.current]}

    def restore(self, state: dict[str, Any]):
        """Continues from what `state` returned."""
        self.window, self.taken = state["window"], state["taken"]
        self.current = [Segment(*segment) for segment in state["current"]]


def fill_streams(
    pairs: Iterable[tuple[np.ndarray, ...]], streams: int, window: int
) -> Iterator[tuple[np.ndarray, ...]]:
    """Sentences -> windows (streams, 2, window, ...), until they no longer fill every row.

    Each sentence is a tuple of arrays (2, predictions, ...), forward and backward. Only what rows have not yet used up
    is held.
    """
    following = iter(pairs)
    held: dict[int, tuple[np.ndarray, ...]] = {}

    def pull(number: int) -> tuple[int, int] | None:
        sentence = next(following, None)
        if sentence is None:
            return None
        held[number] = sentence
        return number, sentence[0].shape[1]

    packer = Packer(pull, streams, window)
    while (rows := packer.next()) is not None:
        parts = [[_cut(held, segments, part) for segments in rows] for part in range(len(held[rows[0][0].sentence]))]
        yield tuple(np.stack(part) for part in parts)
        unfinished = {segment.sentence for segment in packer.current if segment.number}
        held = {number: sentence for number, sentence in held.items() if number in unfinished}


def _cut(held: dict[int, tuple[np.ndarray, ...]], segments: list[Segment], part: int) -> np.ndarray:
    """One part (2, window, ...) of the sentences that a row reads in this window."""
    pieces = [held[sentence][part][:, start : start + number] for sentence, start, number in segments]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, 1)
