"""Regression as a task to fine-tune on: a number for a sentence or a pair."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from elmo_hf.tasks.classification.task import ClassifiedText, TextTask
from elmo_hf.tasks.finetuning.task import TrainingDefaults, epochs_for, ratio
from elmo_hf.text.files import excerpt


class RegressionTask(TextTask):
    """A number for each text or pair, scored by Pearson's correlation."""

    name = "regression"
    score = "pearson"
    has_labels = False

    def value_of(self, value: Any, where: str) -> float:
        """The label or number of a row, checked."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"{where}: {excerpt(repr(value), 60)} is no number. Expected numbers; for classes the task is "
                "`classification`, and --column names another column."
            ) from None
        if not math.isfinite(number):
            raise ValueError(f"{where}: {number}. Expected finite numbers.")
        return number

    def check_examples(self, examples: Any, where: str, unlabeled: int):
        """Raises ValueError if the labels or texts do not suit the task."""
        if len({*examples["label"]}) < 2:
            raise ValueError(
                f"{where}: every row has the number {examples['label'][0]:g}. Expected numbers that differ."
            )

    def defaults(self, count: int) -> TrainingDefaults:
        """Measured defaults for so many examples."""
        if self.pairs:
            return TrainingDefaults("esim", "small", 0.003, epochs_for(count, steps=700))
        return TrainingDefaults("linear", None, 0.01, epochs_for(count, steps=800))

    def config_settings(self, labels: list[str] | None) -> dict[str, Any]:
        """Settings of the model's configuration."""
        return {"num_labels": 1, "problem_type": "regression"}

    def initialize(self, model: Any, examples: Any):
        """The bias begins at the mean, which the head would need many steps to reach."""
        linear = getattr(model.classifier, "linear", model.classifier)
        with torch.no_grad():
            linear.bias.fill_(float(np.mean(examples["label"])))

    def targets(self, examples: list[dict[str, Any]], model: Any) -> torch.Tensor:
        """The labels of a batch as a tensor."""
        return torch.tensor([example["label"] for example in examples], dtype=torch.float32)

    def read_logits(self, logits: torch.Tensor, model: Any) -> list[ClassifiedText]:
        """Logits (B, labels) -> predictions."""
        return [ClassifiedText(value, 1.0) for value in logits[:, 0].tolist()]

    def counts(self, examples: Any, predictions: Sequence[ClassifiedText]) -> np.ndarray:
        """The sums that a correlation is made of, of numbers from which the mean of the gold ones is subtracted."""
        x = np.array(examples["label"], dtype=float)
        y = np.array([prediction.label for prediction in predictions]) - x.mean()
        x = x - x.mean()
        return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y, (x - y) ** 2], 1)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """The scores of sums of counts."""
        n, x, y, xx, yy, xy, squares = np.moveaxis(sums, -1, 0)
        variances = np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0)
        return {"pearson": ratio(n * xy - x * y, np.sqrt(variances)), "rmse": np.sqrt(squares / n)}

    def errors(self, examples: Any, predictions: Sequence[ClassifiedText]) -> list[float]:
        """How bad each prediction is; 0 is right."""
        pairs = zip(examples["label"], predictions, strict=True)
        return [abs(gold - prediction.label) for gold, prediction in pairs]


__all__ = ["RegressionTask"]
