"""Question answering as a task to fine-tune on: files of SQuAD, answers as spans of a passage."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from elmo_hf.tasks.finetuning.data_report import share_of
from elmo_hf.tasks.finetuning.file_formats import FORMATS, columns_of_dataset, detect_format, read_table
from elmo_hf.tasks.finetuning.task import Task, TrainingDefaults, epochs_for, ratio
from elmo_hf.tasks.questions.answers import Answer, find_answers
from elmo_hf.tasks.questions.metrics import squad_scores
from elmo_hf.tasks.questions.squad import dataset_of_questions, encode_answers, read_squad
from elmo_hf.text.files import excerpt


class QuestionsTask(Task):
    """The answer to a question as a span of a passage, scored by SQuAD's F1 and exact match."""

    name = "questions"
    model_class = "ElmoForQuestionAnswering"
    heads = ("linear", "bidaf")
    score = "f1"
    example_name = "question"
    item_name = "question"
    has_labels = False
    switches = ("answerable_only",)

    def __init__(self, columns: Any = None):
        super().__init__(columns)
        self.no_answer = self.answerable_only = False
        self.max_length = 300

    def configure(self, settings: Any):
        """Reads the settings of a run that only this task has."""
        self.max_length, self.answerable_only = settings.max_length, settings.answerable_only

    def notes(self, part: str, examples: Any) -> Iterator[str]:
        """How many questions have no answer."""
        without = sum(not answers for answers in examples["answers"])
        if without:
            share = share_of(without, len(examples), self)
            yield f"{share} of {part} have no answer; --answerable-only leaves them out."

    def read(self, path: str, part: str = "train") -> Any:
        """The examples of a file or dataset."""
        format = detect_format(path)
        if format == "json":
            return self._checked(read_squad(path), path)
        if format not in ("jsonl", "parquet", "dataset"):
            raise ValueError(f"{path} looks like {FORMATS[format]}. Expected JSON of SQuAD, or a dataset like it.")
        return self._checked(dataset_of_questions(read_table(path, format, part), path), path)

    def from_rows(self, rows: Any) -> Any:
        """Examples from rows in memory."""
        return self._checked(dataset_of_questions(columns_of_dataset(rows), "The data"), "The data")

    def _checked(self, examples: Any, where: str) -> Any:
        answers = examples["answers"][:]
        if not any(answers):
            raise ValueError(f"{where}: no question has an answer. Expected questions with answers.")
        if self.answerable_only:
            return examples.filter(lambda row: bool(row["answers"]))
        self.no_answer = self.no_answer or not all(answers)
        return examples

    def raw_keys(self, examples: Any) -> list[Any]:
        """What makes two examples duplicates before they are prepared."""
        # Questions about one passage stay together.
        return examples["context"][:]

    def prepare(self, examples: Any, tokenizer: Any) -> Any:
        """Examples whose texts are split into words."""

        def split(batch: dict[str, list]) -> dict[str, list]:
            return {"tokens": tokenizer.split(batch["question"]), "context_tokens": tokenizer.split(batch["context"])}

        return examples.map(split, batched=True)

    def texts(self, example: Any) -> list[list[str]]:
        """The words of each text of a prepared example."""
        return [example["tokens"], example["context_tokens"]]

    def defaults(self, count: int) -> TrainingDefaults:
        """Measured defaults for so many examples."""
        return TrainingDefaults("bidaf", "small", 0.005, epochs_for(count, steps=800, batch_size=16), 16)

    def head_settings(self, head: str) -> dict[str, Any]:
        """Further settings of a head."""
        return {"no_answer": self.no_answer}

    def training_set(self, examples: Any, tokenizer: Any, model: Any) -> Any:
        """What the Trainer iterates over."""
        options = {"tokenizer": tokenizer, "max_length": self.max_length, "no_answer": self.no_answer}
        data = examples.map(encode_answers, batched=True, fn_kwargs=options, remove_columns=examples.column_names)
        if not len(data):
            raise ValueError(
                f"No answer is within the first {self.max_length} positions of its passage. Expected a larger "
                "`max_length`."
            )
        return data.map(lambda batch: {"length": [len(ids) for ids in batch["input_ids"]]}, batched=True)

    def collate(self, examples: list[dict[str, Any]], tokenizer: Any, model: Any) -> dict[str, torch.Tensor]:
        """A batch as tensors."""
        rows = [{name: value for name, value in example.items() if name != "length"} for example in examples]
        return dict(tokenizer.pad(rows, return_tensors="pt"))

    def predict(self, model: Any, tokenizer: Any, examples: Any, batch_tokens: int = 8192) -> list[Answer]:
        """What a model says about each prepared example."""
        return find_answers(model, tokenizer, examples["question"][:], examples["context"][:])

    def counts(self, examples: Any, predictions: Sequence[Answer]) -> np.ndarray:
        """What each example contributes to the scores, a row for each."""
        rows = []
        for answer, expected in zip(predictions, examples["answers"], strict=True):
            scores = squad_scores([answer.text], [expected])
            rows.append([scores["f1"] / 100, scores["exact"] / 100, 1])
        return np.array(rows).reshape(-1, 3)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """The scores of sums of counts."""
        return {"f1": ratio(sums[..., 0], sums[..., 2]), "exact": ratio(sums[..., 1], sums[..., 2])}

    def errors(self, examples: Any, predictions: Sequence[Answer]) -> list[float]:
        """What is missing to an F1 of 1; among equals, how sure the model is."""
        f1 = self.counts(examples, predictions)[:, 0]
        sure = np.argsort(np.argsort([answer.score for answer in predictions])) / max(len(predictions), 1)
        return [0.0 if value == 1 else 1 - value + 0.01 * rank for value, rank in zip(f1, sure, strict=True)]

    def show(self, example: Any, prediction: Answer) -> str:
        """An example with what is wrong about its prediction."""
        expected = " or ".join(map(repr, dict.fromkeys(example["answers"]))) or "no answer"
        return f"{example['question']} [{prediction.text!r}, not {expected}] {excerpt(example['context'], 120)}"

    def usage(self, model: str | None) -> str:
        """The line that uses a trained model."""
        return "To use it: model.answer(tokenizer, question, passage); the code is on its card, README.md."


__all__ = ["QuestionsTask"]
