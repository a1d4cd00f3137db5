"""Classification and regression as tasks to fine-tune on: a label or a number for a sentence or a pair."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from elmo_hf.embedding.embedder import batches_by_length
from elmo_hf.tasks.finetuning.file_formats import (
    FORMATS,
    LABEL_COLUMNS,
    PAIR_COLUMNS,
    TEXT_COLUMNS,
    Columns,
    columns_of_dataset,
    detect_format,
    find_column,
    read_table,
)
from elmo_hf.tasks.finetuning.task import Comparison, Task, TrainingDefaults, epochs_for, ratio
from elmo_hf.tasks.sentiment.trees import read_trees
from elmo_hf.text.files import excerpt, plural

# What the five classes of the Stanford Sentiment Treebank mean.
SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")
# Labels that mean that there is none, as SNLI's for pairs without a majority.
MISSING_LABELS = ("-", "", None)
MAX_LABELS = 10_000


class ClassifiedText(NamedTuple):
    """The label that a model predicts, or a number, and the probability of the label."""

    label: Any
    score: float


class TextTask(Task):
    """What classification and regression share: texts or pairs of texts, each with one value."""

    model_class = "ElmoForSequenceClassification"
    heads = ("linear", "bcn", "esim")
    switches = ("phrases",)
    item_name = "sentence"

    def __init__(self, columns: Any = None):
        super().__init__(columns)
        self.pairs = self.phrases = False

    def configure(self, settings: Any):
        """Reads the settings of a run that only this task has."""
        self.phrases = settings.phrases

    def value_of(self, value: Any, where: str) -> Any:
        """The label or number that a file holds, checked."""
        raise NotImplementedError

    # -- data

    def read(self, path: str, part: str = "train") -> Any:
        """The examples of a file or dataset."""
        format = detect_format(path)
        if format == "trees":
            return self._examples(_tree_columns(path, self.phrases and part == "train"), path)
        if self.phrases:
            raise ValueError(f"{path} is {FORMATS[format]}. Expected trees, whose phrases have labels (--phrases).")
        if format not in ("jsonl", "json", "tsv", "csv", "parquet", "dataset"):
            raise ValueError(
                f"{path} looks like {FORMATS[format]}. Expected texts with labels: TSV, CSV, JSON lines, Parquet, "
                "trees or a dataset, the file's name ending in .tsv, .csv, .jsonl or .parquet."
            )
        return self._from_columns(read_table(path, format, part), path)

    def from_rows(self, rows: Any) -> Any:
        """Examples from rows in memory."""
        return self._from_columns(columns_of_dataset(rows), "The data")

    def _from_columns(self, columns: Columns, where: str) -> Any:
        if "0" in columns and self.columns.label is None:
            columns = _named_columns(columns, where)
        names = [name for name in LABEL_COLUMNS[0] if name not in (self.columns.text, self.columns.pair)]
        label = find_column(columns, where, names, self.columns.label, "labels")
        texts = self._text_columns(columns, where, label)
        return self._examples(
            dict(zip(("text", "pair"), [columns[name] for name in texts], strict=False), label=columns[label]), where
        )

    def _text_columns(self, columns: Columns, where: str, label: str) -> list[str]:
        """The column of texts, or the two columns of pairs."""
        if self.columns.text is None and self.columns.pair is None:
            for pair in PAIR_COLUMNS:
                if {*pair} <= {*columns}:
                    return list(pair)
        names = [name for name in TEXT_COLUMNS[0] if name in columns and name != label]
        texts = [find_column(columns, where, names or TEXT_COLUMNS[0], self.columns.text, "texts")]
        if self.columns.pair is not None:
            texts.append(find_column(columns, where, (), self.columns.pair, "second texts"))
        return texts

    def _examples(self, columns: Columns, where: str) -> Any:
        """Rows with a label, as a dataset: `text`, `pair` if there is one, and `label`."""
        labeled = [number for number, label in enumerate(columns["label"]) if label not in MISSING_LABELS]
        if not labeled:
            raise ValueError(f"{where}: no row has a label. Expected a label in each row.")
        rows: dict[str, list[Any]] = {name: [] for name in columns}
        for number in labeled:
            row_name = f"{where}, row {number}"
            for name in ("text", "pair"):
                if name in columns:
                    rows[name].append(_text(columns[name][number], row_name))
            rows["label"].append(self.value_of(columns["label"][number], row_name))
        from datasets import Dataset

        examples = Dataset.from_dict(rows)
        self.check_examples(examples, where, len(columns["label"]) - len(labeled))
        self.pairs = "pair" in rows
        return examples

    def check_examples(self, examples: Any, where: str, unlabeled: int):
        """Raises ValueError if the labels cannot be those of classes."""

    def raw_keys(self, examples: Any) -> list[Any]:
        """What makes two examples duplicates before they are prepared."""
        texts = [examples[name] for name in ("text", "pair") if name in examples.column_names]
        return [repr(key) for key in zip(*texts, strict=True)]

    def prepare(self, examples: Any, tokenizer: Any) -> Any:
        """Examples whose texts are split into words."""

        def split(batch: dict[str, list]) -> dict[str, list]:
            columns = {"tokens": batch["text"], "pair_tokens": batch.get("pair")}
            return {name: _words(texts, tokenizer) for name, texts in columns.items() if texts is not None}

        return examples.map(split, batched=True)

    def texts(self, example: Any) -> list[list[str]]:
        """The words of each text of a prepared example."""
        return [example["tokens"]] + ([example["pair_tokens"]] if "pair_tokens" in example else [])

    # -- training

    def head_settings(self, head: str) -> dict[str, Any]:
        """Further settings of a head."""
        if head == "esim" and not self.pairs:
            raise ValueError("Invalid `head`: 'esim', which reads pairs. Expected 'linear' or 'bcn' for single texts.")
        if head == "bcn" and self.pairs:
            raise ValueError("Invalid `head`: 'bcn', which reads single texts. Expected 'linear' or 'esim' for pairs.")
        return {"sentence_pairs": True} if self.pairs and head == "linear" else {}

    def _add_lengths(self, batch: dict[str, list]) -> dict[str, list]:
        second = batch.get("pair_tokens", [[]] * len(batch["tokens"]))
        return {"length": [len(a) + len(b) for a, b in zip(batch["tokens"], second, strict=True)]}

    def collate(self, examples: list[dict[str, Any]], tokenizer: Any, model: Any) -> dict[str, torch.Tensor]:
        """A batch as tensors."""
        return {**encode_texts(self, examples, tokenizer), "labels": self.targets(examples, model)}

    def targets(self, examples: list[dict[str, Any]], model: Any) -> torch.Tensor:
        """The labels of a batch as a tensor."""
        raise NotImplementedError

    # -- prediction

    @torch.no_grad()
    def predict(self, model: Any, tokenizer: Any, examples: Any, batch_tokens: int = 8192) -> list[ClassifiedText]:
        """What a model says about each prepared example."""
        rows = list(examples)
        predictions: list[Any] = [None] * len(rows)
        lengths = [max(sum(map(len, self.texts(row))), 1) for row in rows]
        for numbers in batches_by_length(lengths, batch_tokens, None):
            batch = encode_texts(self, [rows[number] for number in numbers], tokenizer)
            logits = model(**{name: x.to(model.device) for name, x in batch.items()}).logits.float().cpu()
            for number, prediction in zip(numbers, self.read_logits(logits, model), strict=True):
                predictions[number] = prediction
        return predictions

    def read_logits(self, logits: torch.Tensor, model: Any) -> list[ClassifiedText]:
        """Logits (B, labels) -> predictions."""
        raise NotImplementedError

    def show(self, example: Any, prediction: ClassifiedText) -> str:
        """An example with what is wrong about its prediction."""
        text = " | ".join(" ".join(words) for words in self.texts(example))
        return f"[{_shown(prediction.label)}, not {_shown(example['label'])}] {text}"

    def usage(self, model: str | None) -> str:
        """The line that uses a trained model."""
        if not self.pairs:
            return super().usage(model).replace(".conll", ".jsonl")
        name = "MODEL" if model is None else model
        return (
            f'To use it: transformers.pipeline("text-classification", {name!r})({{"text": ..., "text_pair": ...}}), '
            "after `import elmo_hf`."
        )


class ClassificationTask(TextTask):
    """A class for each text or pair, scored by accuracy and the mean F1 of the classes."""

    name = "classification"
    score = "accuracy"
    max_scored_labels: ClassVar[int] = 200

    def value_of(self, value: Any, where: str) -> str:
        """The label or number of a row, checked."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, (str, int)):
            raise ValueError(f"{where}: the label {excerpt(repr(value), 60)}. Expected a string or a whole number.")
        return str(value)

    def check_examples(self, examples: Any, where: str, unlabeled: int):
        """Raises ValueError if the labels or texts do not suit the task."""
        counts = Counter(examples["label"])
        if len(counts) > min(MAX_LABELS, max(50, len(examples) / 2)):
            raise ValueError(
                f"{where}: {len(counts):,} different labels in {plural(len(examples), 'row')}, for example "
                f"{', '.join(excerpt(repr(name), 40) for name in [*counts][:3])}. Expected classes: does another "
                "column hold the labels (--column), or is the task `regression`?"
            )

    def label_counts(self, examples: Any) -> Counter:
        """How often each label occurs."""
        return Counter(examples["label"])

    def label_names(self, examples: Any) -> list[str]:
        """The labels in a fixed order."""
        names = self.label_counts(examples)
        if {*names} <= {*SENTIMENTS}:
            return [name for name in SENTIMENTS if name in names]
        return sorted(names, key=lambda name: (int(name), "") if name.isdigit() else (math.inf, name))

    def use_labels(self, names: Sequence[str]):
        """Adapts the task to the labels of a model."""
        self.names = list(names)

    def defaults(self, count: int) -> TrainingDefaults:
        """Measured defaults for so many examples."""
        if self.pairs:
            return TrainingDefaults("esim", "small", 0.003, epochs_for(count, steps=700))
        return TrainingDefaults("linear", None, 0.01, epochs_for(count, steps=800))

    def targets(self, examples: list[dict[str, Any]], model: Any) -> torch.Tensor:
        """The labels of a batch as a tensor."""
        return torch.tensor([model.config.label2id[example["label"]] for example in examples])

    def read_logits(self, logits: torch.Tensor, model: Any) -> list[ClassifiedText]:
        """Logits (B, labels) -> predictions."""
        scores, labels = logits.softmax(-1).max(-1)
        names = model.config.id2label
        return [ClassifiedText(names[n], score) for n, score in zip(labels.tolist(), scores.tolist(), strict=True)]

    def counts(self, examples: Any, predictions: Sequence[ClassifiedText]) -> np.ndarray:
        """Right, all; then for each label right, predicted and gold."""
        numbers = {name: n for n, name in enumerate(self.names[: self.max_scored_labels])}
        counts = np.zeros((len(predictions), 2 + 3 * len(numbers)))
        counts[:, 1] = 1
        for row, (gold, prediction) in enumerate(zip(examples["label"], predictions, strict=True)):
            counts[row, 0] = gold == prediction.label
            if gold in numbers:
                counts[row, 2 + 3 * numbers[gold]] = gold == prediction.label
                counts[row, 4 + 3 * numbers[gold]] = 1
            if prediction.label in numbers:
                counts[row, 3 + 3 * numbers[prediction.label]] = 1
        return counts

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """The scores of sums of counts."""
        right, predicted, gold = (sums[..., start::3] for start in (2, 3, 4))
        f1 = ratio(2 * right, predicted + gold)  # (..., labels)
        occurs = predicted + gold > 0
        return {
            "accuracy": ratio(sums[..., 0], sums[..., 1]),
            "macro_f1": ratio((f1 * occurs).sum(-1), occurs.sum(-1)),
        }

    def comparisons(self, examples: Any, predictions: Sequence[ClassifiedText]) -> Iterator[Comparison]:
        """Gold and predicted labels side by side."""
        for number, (gold, prediction) in enumerate(zip(examples["label"], predictions, strict=True)):
            yield Comparison(number, gold, prediction.label)

    def errors(self, examples: Any, predictions: Sequence[ClassifiedText]) -> list[float]:
        """The probability that the model gave to its wrong label."""
        pairs = zip(examples["label"], predictions, strict=True)
        return [0.0 if gold == prediction.label else prediction.score for gold, prediction in pairs]


class SentimentTask(ClassificationTask):
    """Classification with the biattentive network as its default head."""

    name = "sentiment"

    def defaults(self, count: int) -> TrainingDefaults:
        """Measured defaults for so many examples."""
        return TrainingDefaults("bcn", "small", 0.003, epochs_for(count, steps=800))


class InferenceTask(ClassificationTask):
    """Classification of pairs."""

    name = "inference"

    def check_examples(self, examples: Any, where: str, unlabeled: int):
        """Raises ValueError if the labels or texts do not suit the task."""
        super().check_examples(examples, where, unlabeled)
        if "pair" not in examples.column_names:
            raise ValueError(
                f"{where} has single texts. Expected pairs: columns such as premise and hypothesis, or sentence1 and "
                "sentence2 (--text-column, --pair-column)."
            )


def encode_texts(task: TextTask, examples: list[dict[str, Any]], tokenizer: Any) -> dict[str, torch.Tensor]:
    """Prepared examples -> the tensors that a model reads."""
    texts = [*zip(*map(task.texts, examples), strict=True)]
    pairs = {"return_token_type_ids": True} if len(texts) > 1 else {}
    sentences = [list(words) for words in texts]
    return dict(tokenizer(*sentences, is_split_into_words=True, padding=True, return_tensors="pt", **pairs))


def _text(value: Any, where: str) -> Any:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    raise ValueError(f"{where}: the text {excerpt(repr(value), 60)}. Expected a string or a list of words.")


def _words(texts: list[Any], tokenizer: Any) -> list[list[str]]:
    return tokenizer.split(texts) if isinstance(texts[0], str) else texts


def _tree_columns(path: str, phrases: bool) -> Columns:
    """The texts and labels of trees, or of all their phrases, each once."""
    trees = read_trees(path, phrases)
    rows = zip(trees["tokens"], trees["label"], strict=True)
    texts = list(dict.fromkeys((tuple(words), label) for words, label in rows)) if phrases else list(rows)
    return {"text": [list(words) for words, _ in texts], "label": [SENTIMENTS[label] for _, label in texts]}


def _named_columns(columns: Columns, where: str) -> Columns:
    """Columns of a file without a header: labels have the fewest different values, then the shortest."""
    if not 2 <= len(columns) <= 3:
        raise ValueError(
            f"{where}: {plural(len(columns), 'column')} and no header. Expected a header, or two columns (text and "
            "label) or three (two texts and a label); or name them by their numbers (--text-column 0 --column 1)."
        )
    label = min(columns, key=lambda name: (len({*columns[name]}), sum(map(len, columns[name]))))
    texts = [name for name in columns if name != label]
    names = ("text",) if len(texts) == 1 else PAIR_COLUMNS[0]
    return {**{new: columns[old] for new, old in zip(names, texts, strict=True)}, "label": columns[label]}


def _shown(label: Any) -> str:
    return f"{label:.3g}" if isinstance(label, float) else str(label)


__all__ = ["ClassificationTask", "ClassifiedText", "InferenceTask", "SentimentTask", "TextTask"]
