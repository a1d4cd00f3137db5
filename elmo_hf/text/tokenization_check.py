"""Recognizing text that is tokenised already: punctuation marks stand between spaces."""

import re
from collections.abc import Iterable
from itertools import islice

from elmo_hf.text.inputs import Sentence

SENTENCES_CHECKED = 1000
# Tokenised text has nearly all of its marks detached, raw text nearly none.
MIN_DETACHED = 0.8

_MARKS = re.escape(',.!?;:()[]"“”„«»…，。、！？；：「」『』（）،؟؛।։።')
_DETACHED = re.compile(rf"[{_MARKS}]+|'(?:s|t|d|m|ll|re|ve)|n't")
# A period counts at the end of a line only (see `count_marks`), and not after initials or an abbreviation like U.S.
_ATTACHED = re.compile(rf"[(\[\"“„«]+\w.*|.*[\w%'’][{_MARKS.replace(re.escape('.'), '')}]+\.?[\"”“»]*")
_FINAL_PERIOD = re.compile(r"[^.]*\w\w[.][\"”“»)]*")


def looks_tokenized(lines: Iterable[Sentence]) -> bool:
    """Whether text looks tokenised: most punctuation marks stand between spaces (`It 's late , they said .`).

    The first 1,000 lines are checked. Lists of words are skipped, and text without punctuation is not tokenised.

    Example:

    ```python
    >>> from elmo_hf.text.tokenization_check import looks_tokenized
    >>> looks_tokenized(["It 's late , they said ."]), looks_tokenized(["It's late, they said."])
    (True, False)

    ```
    """
    detached = attached = 0
    for line in islice(lines, SENTENCES_CHECKED):
        if isinstance(line, str):
            detached_marks, attached_marks = count_marks(line)
            detached, attached = detached + detached_marks, attached + attached_marks
    return detached > 0 and detached >= MIN_DETACHED * (detached + attached)


def count_marks(line: str) -> tuple[int, int]:
    """Counts the words of a line that are punctuation marks, and those that have a mark attached."""
    words = line.split()
    detached = sum(_DETACHED.fullmatch(word) is not None for word in words)
    attached = sum(_ATTACHED.fullmatch(word) is not None for word in words)
    return detached, attached + (bool(words) and _FINAL_PERIOD.fullmatch(words[-1]) is not None)


__all__ = ["count_marks", "looks_tokenized"]
