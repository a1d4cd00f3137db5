"""evaluate: the scores of a fine-tuned model on annotated data, with what a reader needs to judge them."""

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from elmo_hf.tasks.evaluation.resampling import bootstrap_sums, interval, paired_difference, randomization_test
from elmo_hf.tasks.finetuning.task import ColumnChoice, Task, f_scores


class ScoreInterval(NamedTuple):
    """A score and its 95% confidence interval."""

    value: float
    low: float
    high: float


class LabelScores(NamedTuple):
    """Precision, recall and F1 of one label, and how often it is gold and predicted."""

    label: str
    f1: float
    precision: float
    recall: float
    gold: int
    predicted: int


class Comparison(NamedTuple):
    """The difference of two models in one score, its 95% interval, and its p-value by approximate randomisation."""

    score: str
    other_value: float
    difference: ScoreInterval
    p_value: float


@dataclass
class Evaluation:
    """What `evaluate` returns; `str` of it is the report that the command prints.

    Args:
        examples: their number.
        example_name: how the report calls them.
        scores: by name; the first is the main one.
        labels: of each label, the most frequent first.
        confusions: gold label, predicted label and count; None where one side has no label.
        worst: the examples with the worst predictions, as text.
        comparison: with another model, or None.
        unknown_labels: labels of the data that the model does not have.

    Example:

    ```python
    >>> from elmo_hf import Evaluation
    >>> from elmo_hf.tasks.evaluation.evaluate import ScoreInterval
    >>> print(Evaluation(100, "sentence", {"f1": ScoreInterval(0.5, 0.4, 0.6)}))
    100 sentences; score, and its 95% interval (bootstrap):
      f1   50.00   40.00 to  60.00

    ```
    """

    examples: int
    example_name: str
    scores: dict[str, ScoreInterval]
    labels: list[LabelScores] = field(default_factory=list)
    confusions: list[tuple[Any, Any, int]] = field(default_factory=list)
    worst: list[str] = field(default_factory=list)
    comparison: Comparison | None = None
    unknown_labels: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        from elmo_hf.tasks.evaluation.report import report

        return report(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "examples": self.examples,
            "scores": {name: score._asdict() for name, score in self.scores.items()},
            "labels": [label._asdict() for label in self.labels],
            "confusions": [
                {"gold": gold, "predicted": predicted, "count": n} for gold, predicted, n in self.confusions
            ],
            "worst": self.worst,
            "comparison": None
            if self.comparison is None
            else {**self.comparison._asdict(), "difference": self.comparison.difference._asdict()},
            "unknown_labels": self.unknown_labels,
        }


def evaluate(
    model: str | os.PathLike,
    data: Any,
    *,
    compare: str | os.PathLike | None = None,
    column: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    samples: int = 1000,
    seed: int = 0,
    worst: int = 20,
    device: str | None = None,
) -> Evaluation:
    """Scores a fine-tuned model on annotated data.

    Args:
        model: a folder, a repository of the Hub, or a bundled tagger.
        data: a file, the name of a dataset (its test split), a `datasets.Dataset`, or a list of dictionaries.
        compare: another model for the same task, for a paired test.
        column, text_column, pair_column: columns of labels, texts and second texts. Default: those that the model
            was trained on, if the data has them, else by their usual names.
        samples: number of bootstrap samples.
        seed: of the samples.
        worst: how many of the worst examples to list.
        device: as `"cuda"`. Default: a GPU if there is one.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf.tasks import evaluate, finetune
    >>> rows = [{"text": "It rains.", "label": "bad"}, {"text": "The sun shines.", "label": "good"}] * 10
    >>> folder = tempfile.mkdtemp() + "/weather"
    >>> _ = finetune("classification", train=rows, dev=rows, output=folder, epochs=3, say=lambda line: None)
    >>> evaluate(folder, rows).scores["accuracy"]
    ScoreInterval(value=1.0, low=1.0, high=1.0)

    ```
    """
    from elmo_hf.tasks.finetuning.task_names import task_of_model
    from elmo_hf.tasks.load_model import load_task_model

    if samples < 1 or worst < 0:
        raise ValueError(f"Invalid `samples` or `worst`: {samples}, {worst}. Expected at least 1, and at least 0.")
    loaded, tokenizer = load_task_model(model, device)
    task = task_of_model(loaded, ColumnChoice(column, text_column, pair_column))
    raw = _read(task, data, model)
    examples = task.prepare(raw, tokenizer)
    unknown_labels = _unknown_labels(task, examples, loaded, data if isinstance(data, (str, os.PathLike)) else None)
    predictions = task.predict(loaded, tokenizer, examples)
    counts = task.counts(examples, predictions)
    evaluation = Evaluation(len(examples), task.example_name, _scores(task, counts, samples, seed))
    evaluation.labels, evaluation.confusions = _labels_and_confusions(task, examples, predictions)
    evaluation.worst = _worst(task, examples, predictions, worst)
    evaluation.unknown_labels = unknown_labels
    if compare is not None:
        other, other_tokenizer = load_task_model(compare, device)
        other_task = task_of_model(other, task.columns)
        if type(other_task) is not type(task) or other_task.score != task.score:
            raise ValueError(
                f"{model} is a model for {task.name} and {compare} one for {other_task.name}. Expected two for the "
                "same task."
            )
        other_examples = other_task.prepare(raw, other_tokenizer)
        other_counts = other_task.counts(other_examples, other_task.predict(other, other_tokenizer, other_examples))
        evaluation.comparison = _compare(task, counts, other_counts, samples, seed)
    return evaluation


def _read(task: Task, data: Any, model: str | os.PathLike) -> Any:
    """The examples, from the columns that the user named, or those that the model was trained on."""
    from elmo_hf.tasks.load_model import training_columns

    def read() -> Any:
        is_path = isinstance(data, (str, os.PathLike))
        return task.read(os.fspath(data), "test") if is_path else task.from_rows(data)

    if task.columns:
        return read()
    task.columns = training_columns(model)
    if task.columns:
        try:
            return read()
        except ValueError:  # data of another format has other columns
            task.columns = ColumnChoice()
    return read()


def _unknown_labels(task: Task, examples: Any, model: Any, name: str | os.PathLike | None) -> dict[str, int]:
    """How often the data have each label that the model does not have. If that is all of them, raises ValueError."""
    if not task.has_labels:
        return {}
    known = list(model.config.id2label.values())
    counts = task.label_counts(examples)
    unknown = {str(label): count for label, count in counts.items() if label not in known}
    if counts and len(unknown) == len(counts):
        where = "The data have" if name is None else f"{os.fspath(name)} has"
        raise ValueError(
            f"{where} no label of the model: {', '.join(map(repr, [*unknown][:5]))}. Expected labels like "
            f"{', '.join(map(repr, known[:5]))}; does another column hold the labels (--column), or is "
            "this text without labels?"
        )
    return unknown


def _score(task: Task, name: str) -> Any:
    return lambda sums: task.scores(sums)[name]


def _scores(task: Task, counts: np.ndarray, samples: int, seed: int) -> dict[str, ScoreInterval]:
    resampled = task.scores(bootstrap_sums(counts, samples, seed))
    values = task.scores(counts.sum(0))
    return {name: ScoreInterval(float(value), *interval(resampled[name])) for name, value in values.items()}


def _labels_and_confusions(
    task: Task, examples: Any, predictions: Any
) -> tuple[list[LabelScores], list[tuple[Any, Any, int]]]:
    pairs = Counter((gold, predicted) for _, gold, predicted in task.comparisons(examples, predictions))
    gold: Counter[Any] = Counter()
    predicted: Counter[Any] = Counter()
    right: Counter[Any] = Counter()
    for (expected, guess), count in pairs.items():
        gold[expected] += count
        predicted[guess] += count
        right[expected] += count * (expected == guess)
    labels = [label for label in {*gold, *predicted} if label is not None]
    scores = []
    for label in sorted(labels, key=lambda label: (-gold[label], str(label))):
        values = f_scores(*(np.asarray(counts[label]) for counts in (right, predicted, gold)))
        f1, precision, recall = (float(values[name]) for name in ("f1", "precision", "recall"))
        scores.append(LabelScores(str(label), f1, precision, recall, gold[label], predicted[label]))
    confusions = [(*pair, count) for pair, count in pairs.items() if pair[0] != pair[1]]
    return scores, sorted(confusions, key=lambda row: (-row[2], str(row)))


def _worst(task: Task, examples: Any, predictions: Any, count: int) -> list[str]:
    errors = task.errors(examples, predictions)
    order = sorted(range(len(errors)), key=lambda number: -errors[number])
    return [task.show(examples[number], predictions[number]) for number in order[:count] if errors[number] > 0]


def _compare(task: Task, counts: np.ndarray, other: np.ndarray, samples: int, seed: int) -> Comparison:
    score = _score(task, task.score)
    value, other_value = (float(score(each.sum(0))) for each in (counts, other))
    interval = paired_difference(counts, other, score, samples, seed)
    p_value = randomization_test(counts, other, score, 10 * samples, seed)
    return Comparison(task.score, other_value, ScoreInterval(value - other_value, *interval), p_value)


__all__ = ["Comparison", "Evaluation", "LabelScores", "ScoreInterval", "evaluate"]
