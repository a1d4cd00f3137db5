"""Metrics of coreference: MUC, B³ and CEAFe."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def coreference_scores(
    predicted: Iterable[Sequence[Sequence[Any]]], expected: Iterable[Sequence[Sequence[Any]]]
) -> dict[str, float]:
    """MUC, B³ and CEAFe over all documents, in percent, and their mean F1, the score of CoNLL 2012.

    Args:
        predicted, expected: for each document its clusters, lists of mentions.

    Example:

    ```python
    >>> from elmo_hf.tasks.coreference.metrics import coreference_scores
    >>> {name: round(value, 1) for name, value in coreference_scores([[["a", "b"]]], [[["a", "b", "c"]]]).items()}
    {'muc': 66.7, 'b_cubed': 61.5, 'ceaf_e': 80.0, 'conll': 69.4}

    ```
    """
    counts = np.zeros((3, 2, 2))
    for guess, gold in zip(predicted, expected, strict=True):
        counts += coreference_counts(guess, gold)
    return {name: float(score) for name, score in scores_of_counts(counts).items()}


def coreference_counts(predicted: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]) -> np.ndarray:
    """What one document contributes: (3, 2, 2), of MUC, B³ and CEAFe, for precision and recall, right and all."""
    guess, gold = ([frozenset(cluster) for cluster in clusters if cluster] for clusters in (predicted, expected))
    counts = np.zeros((3, 2, 2))
    counts[:, 0] = [_muc(guess, gold), _b_cubed(guess, gold), _ceaf_e(guess, gold)]
    counts[:, 1] = [_muc(gold, guess), _b_cubed(gold, guess), _ceaf_e(gold, guess)]
    return counts


def scores_of_counts(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Sums of counts (..., 3, 2, 2) -> the F1 of each measure and their mean, (...), in percent."""
    precision, recall = (counts[..., side, 0] / np.maximum(counts[..., side, 1], 1e-12) for side in (0, 1))
    f1 = 200 * precision * recall / np.maximum(precision + recall, 1e-12)  # (..., 3)
    return {"muc": f1[..., 0], "b_cubed": f1[..., 1], "ceaf_e": f1[..., 2], "conll": f1.mean(-1)}


def _muc(own: list[frozenset], other: list[frozenset]) -> tuple[float, float]:
    """Links of `own` clusters that are kept in the other ones, of all links."""
    place = {mention: number for number, cluster in enumerate(other) for mention in cluster}
    links = 0
    for cluster in own:
        pieces = {place.get(mention, (mention,)) for mention in cluster}
        links += len(cluster) - len(pieces)
    return links, sum(len(cluster) - 1 for cluster in own)


def _b_cubed(own: list[frozenset], other: list[frozenset]) -> tuple[float, float]:
    """For each mention the share of its own cluster that is with it in the other one."""
    cluster_of = {mention: cluster for cluster in other for mention in cluster}
    none: frozenset = frozenset()
    right = sum(len(cluster & cluster_of.get(mention, none)) / len(cluster) for cluster in own for mention in cluster)
    return right, sum(map(len, own))


def _ceaf_e(own: list[frozenset], other: list[frozenset]) -> tuple[float, float]:
    """The similarity `2 |A & B| / (|A| + |B|)` of clusters under the best pairing of them, of all own clusters."""
    if not own or not other:
        return 0.0, len(own)
    similarity = np.array([[2 * len(a & b) / (len(a) + len(b)) for b in other] for a in own])
    return _best_pairing(similarity), len(own)


def _best_pairing(similarity: np.ndarray) -> float:
    """The largest sum of one value in each row and column (the Hungarian method, row by row)."""
    cost = -similarity if similarity.shape[0] <= similarity.shape[1] else -similarity.T
    rows, columns = cost.shape
    row_price, column_price = np.zeros(rows + 1), np.zeros(columns + 1)
    row_of = np.zeros(columns + 1, dtype=int)  # numbers from 1; 0 is no row
    for row in range(1, rows + 1):
        row_of[0], column = row, 0
        least, before = np.full(columns + 1, np.inf), np.zeros(columns + 1, dtype=int)
        seen = np.zeros(columns + 1, dtype=bool)
        while row_of[column]:
            seen[column] = True
            now = row_of[column]
            free = np.flatnonzero(~seen[1:]) + 1
            reduced = cost[now - 1, free - 1] - row_price[now] - column_price[free]
            better = reduced < least[free]
            least[free[better]], before[free[better]] = reduced[better], column
            following = free[least[free].argmin()]
            step = least[following]
            row_price[row_of[seen]] += step
            column_price[seen] -= step
            least[free] -= step
            column = following
        while column:
            row_of[column], column = row_of[before[column]], before[column]
    return float(-sum(cost[row_of[column] - 1, column - 1] for column in range(1, columns + 1) if row_of[column]))


__all__ = ["coreference_scores"]
