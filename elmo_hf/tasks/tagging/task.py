"""Tagging as a task to fine-tune on: a label for each word, of entities, parts of speech or any column."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from elmo_hf.embedding.embedder import batches_by_length
from elmo_hf.tasks.finetuning.file_formats import (
    FORMATS,
    Columns,
    columns_of_dataset,
    detect_format,
    find_column,
    read_table,
)
from elmo_hf.tasks.finetuning.task import Comparison, Task, TrainingDefaults, epochs_for, f_scores, ratio
from elmo_hf.tasks.tagging.conll import CONLLU_COLUMNS, read_conll, read_conllu
from elmo_hf.tasks.tagging.labels import align_labels
from elmo_hf.tasks.tagging.spans import has_span_labels, label_spans
from elmo_hf.text.files import excerpt, numbered_lines, plural

WORD_COLUMNS = ("tokens", "words", "form")
# A CRF has a transition for each pair of labels.
MAX_LABELS = 2000
SAMPLE_LINES = 2000
# Comments of CoNLL-U: `# text = ...`, `# newdoc id = ...`, `# newpar`. The line `# O` is a word and its label.
COMMENT = re.compile(r"# ?([\w.]+( id)? ?=|(newdoc|newpar)\b)")


class TaggedSentence(NamedTuple):
    """The labels that a model predicts for a sentence, and the probability of each."""

    labels: list[str]
    scores: list[float]


class TaggingTask(Task):
    """A label for each word. Scored by whole spans if the labels are in BIO, else by single words."""

    name = "tagging"
    model_class = "ElmoForTokenClassification"
    heads: ClassVar[tuple[str, ...]] = ("linear", "bilstm-crf")
    label_columns: ClassVar[tuple[str, ...]] = ("labels", "tags", "ner_tags", "upos", "pos_tags", "pos", "xpos")
    conllu_column: ClassVar[str | None] = "upos"

    def __init__(self, columns: Any = None):
        super().__init__(columns)
        self.by_spans = False

    @property
    def score(self) -> str:  # type: ignore[override]
        """F1 of spans, or the share of words with the right label."""
        return "f1" if self.by_spans else "accuracy"

    # -- data

    def read(self, path: str, part: str = "train") -> Any:
        """The examples of a file or dataset."""
        format = detect_format(path)
        if format == "conllu":
            return self._read_conllu(path)
        if format == "conll":
            return self._read_conll(path)
        if format not in ("jsonl", "json", "parquet", "dataset"):
            raise ValueError(
                f"{path} is {FORMATS[format]}. Expected words with labels: CoNLL, CoNLL-U, JSON lines, Parquet or a "
                "dataset."
            )
        return self._from_columns(read_table(path, format, part), path)

    def from_rows(self, rows: Any) -> Any:
        """Examples from rows in memory."""
        return self._from_columns(columns_of_dataset(rows), "The data")

    def _read_conllu(self, path: str) -> Any:
        column = self.columns.label or self.conllu_column
        if column not in CONLLU_COLUMNS[2:]:
            named = "has no column of entities" if column is None else f"has no column {column!r}"
            raise ValueError(
                f"{path} is CoNLL-U, which {named}: name one of {', '.join(CONLLU_COLUMNS[2:])} (--column)."
            )
        sentences = read_conllu(path, [column])
        return self._checked(sentences.rename_column(column, "labels"), path)

    def _read_conll(self, path: str) -> Any:
        sample = _sample_columns(path)
        chosen = self.columns.label
        if chosen is not None and re.fullmatch(r"-?\d+", chosen) is None:
            raise ValueError(f"Invalid column: {chosen!r}. Columns of CoNLL ({path}) have numbers, from 0 or from -1.")
        tokens = _token_column(sample.rows) if self.columns.text is None else int(self.columns.text)
        label = self._label_column(sample.rows) if chosen is None else int(chosen)
        columns = {"tokens": tokens, "labels": label}
        return self._checked(read_conll(path, columns, sample.separator, sample.comment), path)

    def _label_column(self, rows: list[list[str]]) -> int:
        """The last column, or for entities the last one whose labels are in BIO."""
        return -1

    def _from_columns(self, columns: Columns, where: str) -> Any:
        text = find_column(columns, where, WORD_COLUMNS, self.columns.text, "words")
        label = find_column(columns, where, self.label_columns, self.columns.label, "labels")
        for number, (words, labels) in enumerate(zip(columns[text], columns[label], strict=True)):
            for name, values in ((text, words), (label, labels)):
                if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
                    raise ValueError(
                        f"{where}, row {number}: {name!r} holds {excerpt(repr(values), 60)}. Expected a list of "
                        "strings."
                    )
            if len(words) != len(labels):
                raise ValueError(
                    f"{where}, row {number}: {plural(len(words), 'word')} and {plural(len(labels), 'label')}. "
                    "Expected a label for each word."
                )
        return self._checked(_dataset({"tokens": columns[text], "labels": columns[label]}), where)

    def _checked(self, sentences: Any, where: str) -> Any:
        if not len(sentences) or not any(sentences["tokens"]):
            raise ValueError(f"{where} holds no sentences. Expected words with labels.")
        counts = self.label_counts(sentences)
        if len(counts) > MAX_LABELS:
            raise ValueError(
                f"{where}: {len(counts):,} different labels in {plural(sum(counts.values()), 'word')}, for example "
                f"{', '.join(map(repr, [*counts][:3]))}. Expected at most {MAX_LABELS:,}: does another column hold "
                "the labels (--column)?"
            )
        if "" in counts or "_" in counts and len(counts) == 1:
            raise ValueError(f"{where}: words without a label. Expected a label for each word.")
        return sentences

    def label_counts(self, examples: Any) -> Counter:
        """How often each label occurs."""
        return Counter(label for labels in examples["labels"] for label in labels)

    def label_names(self, examples: Any) -> list[str]:
        """The labels in a fixed order."""
        return sorted(self.label_counts(examples), key=lambda label: (label != "O", label))

    def use_labels(self, names: Sequence[str]):
        """Adapts the task to the labels of a model."""
        self.by_spans = has_span_labels(names)

    # -- training

    def defaults(self, count: int) -> TrainingDefaults:
        """Measured defaults for so many examples."""
        head = "bilstm-crf" if self.by_spans else "linear"
        return TrainingDefaults(head, "small" if head == "bilstm-crf" else None, 0.01, epochs_for(count, steps=700))

    def collate(self, examples: list[dict[str, Any]], tokenizer: Any, model: Any) -> dict[str, torch.Tensor]:
        """A batch as tensors."""
        words = [example["tokens"] for example in examples]
        batch = tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
        label2id = model.config.label2id
        rows = [
            align_labels(batch.word_ids(row), [label2id[label] for label in example["labels"]])
            for row, example in enumerate(examples)
        ]
        return {**batch, "labels": torch.tensor(rows)}

    # -- prediction and scores

    @torch.no_grad()
    def predict(self, model: Any, tokenizer: Any, examples: Any, batch_tokens: int = 8192) -> list[TaggedSentence]:
        """What a model says about each prepared example."""
        sentences = examples["tokens"][:]
        predictions = [TaggedSentence([], [])] * len(sentences)
        for numbers, inputs in batched_sentences(model, tokenizer, sentences, batch_tokens):
            for number, sentence in zip(numbers, tagged_rows(model, inputs), strict=True):
                predictions[number] = sentence
        return predictions

    def counts(self, examples: Any, predictions: Sequence[TaggedSentence]) -> np.ndarray:
        """What each example contributes to the scores, a row for each."""
        rows = []
        for gold, sentence in zip(examples["labels"], predictions, strict=True):
            right = sum(a == b for a, b in zip(gold, sentence.labels, strict=True))
            expected, predicted = self.spans(gold), self.spans(sentence.labels)
            rows.append([right, len(gold), len(expected & predicted), len(predicted), len(expected)])
        return np.array(rows, dtype=float).reshape(-1, 5)

    def spans(self, labels: Sequence[str]) -> set[Any]:
        """The spans that count."""
        return set(label_spans(labels)) if self.by_spans else set()

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """The scores of sums of counts."""
        accuracy = {"accuracy": ratio(sums[..., 0], sums[..., 1])}
        return {**f_scores(sums[..., 2], sums[..., 3], sums[..., 4]), **accuracy} if self.by_spans else accuracy

    def comparisons(self, examples: Any, predictions: Sequence[TaggedSentence]) -> Iterator[Comparison]:
        """Gold and predicted labels side by side."""
        for number, (gold, sentence) in enumerate(zip(examples["labels"], predictions, strict=True)):
            if self.by_spans:
                yield from _compared_spans(number, self.spans(gold), self.spans(sentence.labels))
            else:
                for pair in zip(gold, sentence.labels, strict=True):
                    yield Comparison(number, *pair)

    def errors(self, examples: Any, predictions: Sequence[TaggedSentence]) -> list[float]:
        """The number of wrong words, plus the mean probability that the model gave to its wrong labels."""
        errors = []
        for gold, sentence in zip(examples["labels"], predictions, strict=True):
            wrong = [
                score
                for label, guess, score in zip(gold, sentence.labels, sentence.scores, strict=True)
                if label != guess
            ]
            errors.append(len(wrong) + float(np.mean(wrong)) / 2 if wrong else 0.0)
        return errors

    def show(self, example: Any, prediction: TaggedSentence) -> str:
        """An example with what is wrong about its prediction."""
        words = []
        for word, gold, guess in zip(example["tokens"], example["labels"], prediction.labels, strict=True):
            words.append(word if gold == guess else f"{word} [{guess}, not {gold}]")
        return " ".join(words)


class NerTask(TaggingTask):
    """Named entities: the column whose labels are in BIO, scored by whole entities."""

    name = "ner"
    item_name = "entity"
    label_columns = ("ner_tags", "labels", "tags", "ner")
    conllu_column = None

    def use_labels(self, names: Sequence[str]):
        """Adapts the task to the labels of a model."""
        super().use_labels(names)
        if not self.by_spans:
            raise ValueError(
                f"These labels are not those of entities: {', '.join(map(repr, names[:5]))}. Expected labels such as "
                "B-PER, I-PER and O; for other labels the task is `tagging`, and --column names another column."
            )

    def _label_column(self, rows: list[list[str]]) -> int:
        width = min(map(len, rows))
        for column in range(width - 1, 0, -1):
            if has_span_labels([*{row[column] for row in rows}]):
                return column
        return -1


class PosTask(TaggingTask):
    """Parts of speech: the column `upos` of CoNLL-U, scored by single words."""

    name = "pos"
    label_columns = ("upos", "pos_tags", "pos", "labels", "tags", "xpos")


def batched_sentences(
    model: Any, tokenizer: Any, sentences: Sequence[list[str]], batch_tokens: int
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """The numbers of sentences of like length, and their tensors; sentences without words are left out."""
    numbers = [number for number, words in enumerate(sentences) if words]
    for places in batches_by_length([len(sentences[number]) for number in numbers], batch_tokens, None):
        batch = [numbers[place] for place in places]
        words = [sentences[number] for number in batch]
        inputs = tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
        yield batch, {name: values.to(model.device) for name, values in inputs.items()}


def tagged_rows(model: Any, inputs: dict[str, torch.Tensor]) -> list[TaggedSentence]:
    """The labels of the words of each row of a batch, `<S>` and `</S>` left out, and their probabilities."""
    scores, labels = model(**inputs).logits.float().softmax(-1).max(-1)  # (B, T)
    scores, labels, mask = scores.cpu(), labels.cpu(), inputs["attention_mask"].bool().cpu()
    names = model.config.id2label
    return [
        TaggedSentence([names[label] for label in labels[row][mask[row]][1:-1].tolist()], values)
        for row, values in enumerate(scores[row][mask[row]][1:-1].tolist() for row in range(len(mask)))
    ]


def _compared_spans(number: int, gold: set, predicted: set) -> Iterator[Comparison]:
    """Spans of the same words are compared by their labels; a span of words that the other side lacks, with None."""
    labels = {(span.first, span.last): span.label for span in predicted}
    for span in sorted(gold, key=lambda span: span.first):
        yield Comparison(number, span.label, labels.pop((span.first, span.last), None))
    for label in labels.values():
        yield Comparison(number, None, label)


class _Sample(NamedTuple):
    rows: list[list[str]]
    separator: str | None
    comment: str | None


def _sample_columns(path: str) -> _Sample:
    """The columns of the first lines, what separates them, and what begins a comment."""
    lines, comments = [], 0
    for number, line in numbered_lines(path):
        if number > SAMPLE_LINES:
            break
        if not line.strip() or line.startswith("-DOCSTART-"):
            continue
        if COMMENT.match(line):
            comments += 1
        else:
            lines.append(line)
    if not lines:
        raise ValueError(f"{path} is empty. Expected words with labels.")
    tabs = Counter(line.count("\t") for line in lines)
    separator = "\t" if len(tabs) == 1 and 0 not in tabs else None
    rows = [line.split("\t") if separator else line.split() for line in lines]
    widths = Counter(map(len, rows))
    if max(widths) == 1:
        raise ValueError(f"{path}: one column. Expected a word and its label on each line, as in CoNLL.")
    if len(widths) > 5 and widths.most_common(1)[0][1] < len(rows) / 2:
        raise ValueError(
            f"{path} looks like text, a sentence on each line. Expected a word and its label on each line (CoNLL), an "
            "empty line between sentences."
        )
    return _Sample(rows, separator, "# " if comments else None)


def _token_column(rows: list[list[str]]) -> int:
    """Column 0, or column 1 if column 0 numbers the words."""
    return int(len(rows[0]) > 2 and all(row[0].isdigit() for row in rows))


def _dataset(rows: dict[str, list[list[str]]]) -> Any:
    from datasets import Dataset, Features, List, Value

    return Dataset.from_dict(rows, features=Features({name: List(Value("string")) for name in rows}))


__all__ = ["NerTask", "PosTask", "TaggedSentence", "TaggingTask", "batched_sentences", "tagged_rows"]
