"""The interface of a task: how its files become examples, how a model is trained on them, and how it is scored."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

# Tokens, padding included, that are read at one time when a model predicts.
BATCH_TOKENS = 8192


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns of a file hold what; None: found by their usual names.

    Args:
        label: the column of labels: a name, or for CoNLL a number from 0, or from -1 for the last.
        text: the column of texts or words.
        pair: the column of the second text of a pair.
    """

    label: str | None = None
    text: str | None = None
    pair: str | None = None

    def __bool__(self) -> bool:
        return any(self.to_dict().values())

    def to_dict(self) -> dict[str, str | None]:
        """As JSON holds it."""
        return asdict(self)


class TrainingDefaults(NamedTuple):
    """Settings of a training for which the user named none.

    Args:
        head: the type of head.
        preset: its preset of sizes, or None.
        lr: the learning rate.
        epochs: the maximum number of epochs.
        batch_size: examples in a batch.
    """

    head: str
    preset: str | None
    lr: float
    epochs: int
    batch_size: int = 32


def epochs_for(examples: int, steps: int, batch_size: int = 32, least: int = 3, most: int = 60) -> int:
    """The number of epochs that makes about so many steps.

    Example:

    ```python
    >>> from elmo_hf.tasks.finetuning.task import epochs_for
    >>> [epochs_for(examples, steps=800) for examples in (300, 3000, 300_000)]
    [60, 9, 3]

    ```
    """
    return max(least, min(most, round(steps * batch_size / max(examples, 1))))


class Comparison(NamedTuple):
    """A gold label beside a predicted one, in example number `example`; None where one of the two has no label."""

    example: int
    gold: Any
    predicted: Any


class Task:
    """A task. Examples are rows of a `datasets.Dataset`, whose columns depend on the task.

    Every score is a function of sums over examples: `counts` returns a row of numbers for each example, and `scores`
    turns their sum into scores. So a bootstrap only sums other examples.
    """

    name: ClassVar[str]
    # The task class of elmo_hf, and its heads; the first is for little data.
    model_class: ClassVar[str]
    heads: ClassVar[tuple[str, ...]]
    # The score by which the best checkpoint is chosen.
    score: ClassVar[str]
    # How messages call an example, and what is labelled.
    example_name: ClassVar[str] = "sentence"
    item_name: ClassVar[str] = "word"
    has_labels: ClassVar[bool] = True
    # Settings of a run, off by default, that only some tasks have.
    switches: ClassVar[tuple[str, ...]] = ()
    # Whether a batch is one example, as a document is.
    one_example_batches: ClassVar[bool] = False

    def __init__(self, columns: ColumnChoice | None = None):
        self.columns = columns or ColumnChoice()

    # -- data

    def read(self, path: str, part: str = "train") -> Any:
        """The examples of a file or dataset; `part` is which split of a dataset: train, dev or test."""
        raise NotImplementedError

    def from_rows(self, rows: Any) -> Any:
        """Examples from a `datasets.Dataset` or a list of dictionaries, with the columns of such a file."""
        raise NotImplementedError

    def label_counts(self, examples: Any) -> Counter:
        """How often each label occurs."""
        return Counter()

    def label_names(self, examples: Any) -> list[str] | None:
        """The labels that a model is trained to tell apart, in a fixed order; None if the task has none."""
        return sorted(self.label_counts(examples))

    def use_labels(self, names: Sequence[str]):
        """Adapts the task to the labels of a model."""

    def configure(self, settings: Any):
        """Reads settings of a run that only this task has."""

    def notes(self, part: str, examples: Any) -> Iterator[str]:
        """Sentences of a report about what is unusual in the examples of a part."""
        return iter(())

    def raw_keys(self, examples: Any) -> list[Hashable]:
        """What makes two examples of a file duplicates, before their texts are split."""
        return [tuple(tokens) for tokens in examples["tokens"]]

    def usage(self, model: str | None) -> str:
        """The line that uses a trained model; its name may not be known yet."""
        name = "MODEL" if model is None else model
        return f"To use it: elmo-hf annotate {name} corpus.txt -o labels.conll"

    def prepare(self, examples: Any, tokenizer: Any) -> Any:
        """Examples whose texts are split into words, in columns that the methods below read."""
        return examples

    def texts(self, example: Any) -> list[list[str]]:
        """The words of each text of a prepared example."""
        return [example["tokens"]]

    def key(self, example: Any) -> Hashable:
        """What makes two examples duplicates: their texts, not their labels."""
        return tuple(map(tuple, self.texts(example)))

    # -- training

    def defaults(self, count: int) -> TrainingDefaults:
        """Measured defaults for so many examples."""
        raise NotImplementedError

    def head_settings(self, head: str) -> dict[str, Any]:
        """Further settings of a head that this task needs."""
        return {}

    def config_settings(self, labels: list[str] | None) -> dict[str, Any]:
        """Settings of the model's configuration."""
        if labels is None:
            return {}
        return {"id2label": dict(enumerate(labels)), "label2id": {name: n for n, name in enumerate(labels)}}

    def initialize(self, model: Any, examples: Any):
        """Sets weights of a new model to better initial values."""

    def training_set(self, examples: Any, tokenizer: Any, model: Any) -> Any:
        """What a Trainer iterates over, with a column `length` if batches are to be of like lengths."""
        return examples.map(self._add_lengths, batched=True)

    def _add_lengths(self, batch: dict[str, list]) -> dict[str, list]:
        return {"length": [len(tokens) for tokens in batch["tokens"]]}

    def collate(self, examples: list[dict[str, Any]], tokenizer: Any, model: Any) -> dict[str, torch.Tensor]:
        """A batch of the training set as tensors."""
        raise NotImplementedError

    # -- prediction and scores

    def predict(self, model: Any, tokenizer: Any, examples: Any, batch_tokens: int = BATCH_TOKENS) -> list[Any]:
        """What a model says about each prepared example."""
        raise NotImplementedError

    def counts(self, examples: Any, predictions: Sequence[Any]) -> np.ndarray:
        """(examples, numbers): what each example contributes to the scores."""
        raise NotImplementedError

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Sums of counts (..., numbers) -> each score (...), from 0 to 1 where it is a share."""
        raise NotImplementedError

    def comparisons(self, examples: Any, predictions: Sequence[Any]) -> Iterator[Comparison]:
        """Gold and predicted labels side by side."""
        return iter(())

    def show(self, example: Any, prediction: Any) -> str:
        """An example with what is wrong about its prediction, as a line for a report."""
        raise NotImplementedError

    def errors(self, examples: Any, predictions: Sequence[Any]) -> list[float]:
        """How bad each prediction is; 0 is right."""
        raise NotImplementedError


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """`numerator / denominator`, 0 where the denominator is 0.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.tasks.finetuning.task import ratio
    >>> ratio(np.array([1.0, 0.0]), np.array([2.0, 0.0])).tolist()
    [0.5, 0.0]

    ```
    """
    numerator, denominator = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)


def f_scores(right: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall and F1 from numbers of right, predicted and gold items.

    Example:

    ```python
    >>> from elmo_hf.tasks.finetuning.task import f_scores
    >>> {name: float(value) for name, value in f_scores(1, 2, 4).items()}
    {'f1': 0.3333333333333333, 'precision': 0.5, 'recall': 0.25}

    ```
    """
    right, predicted, gold = (np.asarray(x, dtype=float) for x in (right, predicted, gold))
    return {
        "f1": ratio(2 * right, predicted + gold),
        "precision": ratio(right, predicted),
        "recall": ratio(right, gold),
    }


__all__ = ["ColumnChoice", "Comparison", "Task", "TrainingDefaults", "epochs_for", "f_scores", "ratio"]
