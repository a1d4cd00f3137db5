"""Spans of labelled words: from labels in BIO or BIOES, as conlleval finds them."""

from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """A span of words: its label, its first and its last word, counted from 0."""

    label: str
    first: int
    last: int


def label_spans(labels: Sequence[str]) -> list[Span]:
    """The spans of a sequence of labels such as `B-PER`, `I-PER`, `O`; `E-` ends a span and `S-` is one of one word.

    An `I-X` that continues nothing begins a span, as in conlleval.

    Example:

    ```python
    >>> from elmo_hf.tasks.tagging.spans import label_spans
    >>> label_spans(["B-PER", "I-PER", "O", "I-LOC", "S-LOC"])
    [Span(label='PER', first=0, last=1), Span(label='LOC', first=3, last=3), Span(label='LOC', first=4, last=4)]

    ```
    """
    spans: list[Span] = []
    mark_before, kind_before, first = "O", "", 0
    for place, label in enumerate([*labels, "O"]):
        mark, _, kind = label.partition("-")
        if mark not in "BIES" or not mark:
            mark, kind = "O", ""
        changed = kind != kind_before
        is_open = mark_before != "O"
        if is_open and (mark_before in "ES" or mark in "BSO" or changed):
            spans.append(Span(kind_before, first, place - 1))
        if mark != "O" and (mark in "BS" or mark_before in "ESO" or changed):
            first = place
        mark_before, kind_before = mark, kind
    return spans


def has_span_labels(names: Sequence[str]) -> bool:
    """Whether labels are in BIO or a scheme like it: each is `O`, or a mark of BIOES, a hyphen and a name.

    Example:

    ```python
    >>> from elmo_hf.tasks.tagging.spans import has_span_labels
    >>> has_span_labels(["O", "B-LOC", "I-LOC"]), has_span_labels(["NOUN", "VERB"])
    (True, False)

    ```
    """
    marked = [name for name in names if name != "O"]
    return bool(marked) and all(name[:2] in ("B-", "I-", "E-", "S-") and len(name) > 2 for name in marked)


__all__ = ["Span", "has_span_labels", "label_spans"]
