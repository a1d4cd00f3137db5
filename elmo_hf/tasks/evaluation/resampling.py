"""Bootstrap intervals and approximate randomisation, for scores that are functions of sums over examples."""

from collections.abc import Callable, Iterator

import numpy as np

# Sums of counts (..., numbers) -> a score (...).
Score = Callable[[np.ndarray], np.ndarray]
# Numbers of a matrix of resamples that are held at one time.
CHUNK_NUMBERS = 2**23


def bootstrap_interval(
    counts: np.ndarray, score: Score, samples: int = 1000, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """The percentile interval of a score over samples of the examples, drawn with replacement (Efron 1979).

    Args:
        counts: (examples, numbers).
        score: the score of sums of counts.
        samples: number of samples.
        seed: of the draws.
        level: share of the samples that the interval holds.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.tasks.evaluation.resampling import bootstrap_interval
    >>> right = np.array([[1, 1]] * 80 + [[0, 1]] * 20)  # 80 of 100 are right
    >>> low, high = bootstrap_interval(right, lambda sums: sums[..., 0] / sums[..., 1])
    >>> 0.70 < low < 0.75 and 0.85 < high < 0.90
    True

    ```
    """
    return interval(score(bootstrap_sums(counts, samples, seed)), level)


def bootstrap_sums(counts: np.ndarray, samples: int = 1000, seed: int = 0) -> np.ndarray:
    """The sums of counts over samples of the examples, drawn with replacement: (samples, numbers)."""
    return np.concatenate([weights @ counts for weights in _resamples(len(counts), samples, seed)])


def interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The percentiles between which a share of the values lies."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_difference(
    first: np.ndarray, second: np.ndarray, score: Score, samples: int = 1000, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """The bootstrap interval of `score(first) - score(second)`; both are counts of the same examples."""
    # The same examples are drawn for both.
    sums, other_sums = np.split(bootstrap_sums(np.hstack([first, second]), samples, seed), 2, axis=1)
    return interval(score(sums) - score(other_sums), level)


def randomization_test(
    first: np.ndarray, second: np.ndarray, score: Score, samples: int = 10_000, seed: int = 0
) -> float:
    """The p-value of a difference between two systems by approximate randomisation (Noreen 1989).

    The predictions of each example are swapped between the systems with a probability of 1/2. The p-value is the share
    of swaps with a difference at least as large as the observed one.

    Args:
        first, second: (examples, numbers), counts of both systems for the same examples.
        score: the score of sums of counts.
        samples: number of random swaps.
        seed: of the swaps.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.tasks.evaluation.resampling import randomization_test
    >>> first, second = (np.array([[int(n < right), 1] for n in range(100)]) for right in (90, 70))
    >>> accuracy = lambda sums: sums[..., 0] / sums[..., 1]
    >>> randomization_test(first, second, accuracy) < 0.001, randomization_test(first, first, accuracy)
    (True, 1.0)

    ```
    """
    difference, sums, other_sums = second - first, first.sum(0), second.sum(0)
    observed = abs(score(sums) - score(other_sums))
    generator, at_least = np.random.default_rng(seed), 0
    for size in _chunk_sizes(len(first), samples):
        swapped = generator.integers(0, 2, (size, len(first))).astype(np.float32) @ difference  # (size, numbers)
        values = np.abs(score(sums + swapped) - score(other_sums - swapped))
        at_least += int((values >= observed - 1e-6).sum())
    return (at_least + 1) / (samples + 1)


def _resamples(examples: int, samples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each example is drawn, (samples, examples), in chunks."""
    generator = np.random.default_rng(seed)
    for size in _chunk_sizes(examples, samples):
        yield generator.multinomial(examples, np.full(examples, 1 / examples), size).astype(np.float32)


def _chunk_sizes(examples: int, samples: int) -> Iterator[int]:
    rows = max(CHUNK_NUMBERS // max(examples, 1), 1)
    for begin in range(0, samples, rows):
        yield min(rows, samples - begin)


__all__ = ["bootstrap_interval", "bootstrap_sums", "interval", "paired_difference", "randomization_test"]
