"""Measures of semantic change between two samples of uses, with permutation tests and bootstrap intervals.

N uses of a word, those of the old corpus first; d the size of a vector. Every measure is a function of the means of
some features of the uses on either side, which makes thousands of resamples one matrix product:

- APD, the average pairwise distance: the mean cosine distance of all pairs of an old and a new use. Vectors are
  standardised first, each dimension over all N uses; benchmarks/semantic_change.py shows what it gains.
- PRT, the prototype distance: the cosine distance of the mean vectors.
- JSD, the Jensen-Shannon divergence of the shares of clusters, in bits.
"""

from collections.abc import Sequence

import numpy as np

from .layer_reader import unit_vectors

MEASURES = ("apd", "prt", "jsd")
# Resamples whose means are computed at a time.
RESAMPLES_AT_ONCE = 500


def check_measure(measure: str) -> None:
    """Raises ValueError for a measure that does not exist."""
    if measure not in MEASURES:
        raise ValueError(f"Invalid `measure`: {measure!r}. Expected {', '.join(map(repr, MEASURES))}.")


def measure_features(measure: str, vectors: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """The features (N, f) of uses whose means a measure compares.

    Args:
        measure: `"apd"`, `"prt"` or `"jsd"`.
        vectors: (N, d).
        clusters: (N,), the cluster of each use.
    """
    check_measure(measure)
    if measure == "apd":
        return unit_vectors(standardise(vectors))
    if measure == "prt":
        return vectors
    return np.eye(int(clusters.max()) + 1, dtype=np.float32)[clusters]


def standardise(vectors: np.ndarray) -> np.ndarray:
    """Vectors (N, d) with mean 0 and variance 1 in each dimension; a dimension that does not vary becomes 0."""
    deviation = vectors.std(0)
    return (vectors - vectors.mean(0)) / np.where(deviation > 1e-7, deviation, np.inf)


def compare_means(measure: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The value of a measure from the means (..., f) of the features on both sides -> (...)."""
    if measure == "apd":
        return 1 - (old * new).sum(-1)
    if measure == "prt":
        return 1 - (unit_vectors(old) * unit_vectors(new)).sum(-1)
    from scipy.spatial.distance import jensenshannon

    return np.nan_to_num(jensenshannon(old, new, base=2, axis=-1)) ** 2


def measure_change(measure: str, vectors: np.ndarray, clusters: np.ndarray, num_old: int) -> float:
    """How much the uses of a word differ between two corpora.

    Args:
        measure: `"apd"`, `"prt"` or `"jsd"`.
        vectors: (N, d).
        clusters: (N,), the cluster of each use, for `"jsd"`.
        num_old: how many of the uses are of the old corpus; they come first.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.analysis.change_measures import measure_change
    >>> vectors, clusters = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 0.0]]), np.array([0, 0, 1, 0])
    >>> round(measure_change("prt", vectors, clusters, 2), 3), round(measure_change("jsd", vectors, clusters, 2), 3)
    (0.553, 0.311)

    ```
    """
    features = measure_features(measure, vectors, clusters)
    return float(compare_means(measure, features[:num_old].mean(0), features[num_old:].mean(0)))


def permutation_p_value(
    measure: str, vectors: np.ndarray, clusters: np.ndarray, num_old: int, permutations: int, seed: int
) -> float:
    """The share of random divisions of the uses into two sides whose measure is at least as large as the observed."""
    from scipy.stats import permutation_test

    features = measure_features(measure, vectors, clusters)
    result = permutation_test(
        (np.arange(num_old), np.arange(num_old, len(vectors))),
        _statistic(measure, features),
        n_resamples=permutations,
        alternative="greater",
        vectorized=True,
        batch=RESAMPLES_AT_ONCE,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def bootstrap_interval(
    measure: str,
    vectors: np.ndarray,
    clusters: np.ndarray,
    num_old: int,
    resamples: int,
    seed: int,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """The percentile bootstrap interval of a measure; both sides are resampled."""
    from scipy.stats import bootstrap

    features = measure_features(measure, vectors, clusters)
    result = bootstrap(
        (np.arange(num_old), np.arange(num_old, len(vectors))),
        _statistic(measure, features),
        n_resamples=resamples,
        confidence_level=confidence,
        vectorized=True,
        batch=RESAMPLES_AT_ONCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _statistic(measure: str, features: np.ndarray):
    """A statistic of the numbers of the uses on both sides, as scipy's resampling functions call it."""

    def mean(numbers: np.ndarray) -> np.ndarray:
        numbers = np.atleast_2d(numbers).astype(np.int64)  # (resamples, uses)
        offsets = len(features) * np.arange(len(numbers))[:, None]
        counts = np.bincount((numbers + offsets).ravel(), minlength=len(features) * len(numbers))
        return counts.reshape(len(numbers), -1).astype(features.dtype) @ features / numbers.shape[1]

    def statistic(old: np.ndarray, new: np.ndarray, axis: int = -1) -> np.ndarray:
        values = compare_means(measure, mean(old), mean(new))
        return values if old.ndim > 1 else values[0]

    return statistic


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """The q values of Benjamini and Hochberg, which bound the share of false discoveries."""
    from scipy.stats import false_discovery_control

    return false_discovery_control(p_values).tolist() if len(p_values) else []


def frequency_percentiles(values: Sequence[float], frequencies: Sequence[float], neighbours: int = 50) -> list[float]:
    """Where each value stands among those of the words that are most similar in frequency, in percent.

    Measures depend on frequency, so that a word is compared with its neighbours in the order of frequencies.

    Args:
        values: of a measure, one for each word.
        frequencies: of the words.
        neighbours: how many words each is compared with, half of them rarer.
    """
    order = np.argsort(frequencies, kind="stable")
    ranked = np.asarray(values, dtype=float)[order]
    size = min(neighbours + 1, len(ranked))
    percentiles = np.empty(len(ranked))
    for rank, value in enumerate(ranked):
        start = min(max(rank - size // 2, 0), len(ranked) - size)
        window = ranked[start : start + size]
        below, equal = (window < value).sum(), (window == value).sum()
        percentiles[order[rank]] = 100 * (below + (equal - 1) / 2) / max(size - 1, 1)
    return percentiles.tolist()


__all__ = ["MEASURES", "measure_change"]
