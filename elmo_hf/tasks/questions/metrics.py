"""Metrics of answers: exact match and F1."""

import collections
import re
import string
from collections.abc import Sequence


def squad_scores(answers: Sequence[str], expected: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and F1, in percent, of answers against the texts that are right; none right means no answer.

    As in SQuAD's own scorer: small letters, no punctuation, no articles, and the best of the right texts counts.

    Example:

    ```python
    >>> from elmo_hf.tasks.questions.metrics import squad_scores
    >>> squad_scores(["the Cat sat", ""], [["cat sat down", "Dog"], []])
    {'exact': 50.0, 'f1': 90.0}

    ```
    """
    exact = f1 = 0.0
    for answer, texts in zip(answers, expected, strict=True):
        right = [_normal(text) for text in texts] or [[]]
        words = _normal(answer)
        exact += words in right
        f1 += max(_overlap(words, text) for text in right)
    count = max(len(expected), 1)
    return {"exact": 100 * exact / count, "f1": 100 * f1 / count}


def _normal(text: str) -> list[str]:
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def _overlap(words: list[str], right: list[str]) -> float:
    if not words or not right:
        return float(words == right)
    common = sum((collections.Counter(words) & collections.Counter(right)).values())
    return 2 * common / (len(words) + len(right))


__all__ = ["squad_scores"]
