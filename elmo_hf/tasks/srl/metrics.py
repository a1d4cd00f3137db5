"""Metrics of semantic roles: whole arguments."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from elmo_hf.tasks.srl.frames import bio_spans
from elmo_hf.tasks.tagging.labels import IGNORED


def role_metrics(names: Mapping[int, str]) -> Callable[[Any], dict[str, float]]:
    """The `compute_metrics` of a Trainer: precision, recall and F1 of whole arguments; the predicate itself, `V`, does
    not count, as in the scorer of CoNLL 2005.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.tasks.srl.metrics import role_metrics
    >>> names = {0: "O", 1: "B-V", 2: "B-ARG1"}
    >>> role_metrics(names)((np.eye(3)[[[1, 2, 0]]], np.array([[1, 2, 2]])))
    {'precision': 1.0, 'recall': 0.5, 'f1': 0.6666666666666666}

    ```
    """

    def compute(prediction: Any) -> dict[str, float]:
        logits, labels = prediction
        predicted: set[tuple] = set()
        expected: set[tuple] = set()
        for row, (guess, gold) in enumerate(zip(np.argmax(logits, -1), labels, strict=True)):
            labeled = gold != IGNORED
            for numbers, spans in ((guess[labeled], predicted), (gold[labeled], expected)):
                spans |= {(row, *span) for span in bio_spans([names[int(n)] for n in numbers]) if span[0] != "V"}
        right = len(predicted & expected)
        precision, recall = right / max(len(predicted), 1), right / max(len(expected), 1)
        return {"precision": precision, "recall": recall, "f1": 2 * right / max(len(predicted) + len(expected), 1)}

    return compute


__all__ = ["role_metrics"]
