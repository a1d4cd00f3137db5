"""Scores of a tagger: whole entities."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from elmo_hf.tasks.tagging.labels import IGNORED


def entity_metrics(names: Mapping[int, str] | Sequence[str]) -> Callable[[Any], dict[str, float]]:
    """The `compute_metrics` of a Trainer: precision, recall and F1 of whole entities, as conlleval counts them.

    Args:
        names: the label of each number, `model.config.id2label`, in a scheme such as `B-LOC`, `I-LOC`, `O`.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf import entity_metrics
    >>> logits, labels = np.eye(3)[[[0, 1, 2, 0]]], np.array([[-100, 1, 2, -100]])
    >>> entity_metrics(["O", "B-LOC", "I-LOC"])((logits, labels))
    {'precision': 1.0, 'recall': 1.0, 'f1': 1.0, 'accuracy': 1.0}

    ```
    """
    try:
        from seqeval import metrics
    except ImportError as error:
        raise ImportError(
            "entity_metrics counts entities with seqeval, which is not installed: pip install 'elmo-hf[train]'."
        ) from error

    def compute(prediction: Any) -> dict[str, float]:
        logits, labels = prediction  # (N, T, num_labels), (N, T)
        pairs = list(zip(np.argmax(logits, -1), labels, strict=True))
        predicted = [[names[int(label)] for label in guess[gold != IGNORED]] for guess, gold in pairs]
        expected = [[names[int(label)] for label in gold[gold != IGNORED]] for _, gold in pairs]
        scores = {name: getattr(metrics, f"{name}_score") for name in ("precision", "recall", "f1")}
        result = {name: float(score(expected, predicted, zero_division=0)) for name, score in scores.items()}
        return {**result, "accuracy": float(metrics.accuracy_score(expected, predicted))}

    return compute


__all__ = ["entity_metrics"]
