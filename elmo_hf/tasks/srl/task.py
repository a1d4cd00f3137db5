"""Semantic role labelling as a task to fine-tune on: the arguments of one predicate of a sentence."""

from collections.abc import Sequence
from typing import Any

import torch

from elmo_hf.tasks.finetuning.file_formats import FORMATS, columns_of_dataset, detect_format
from elmo_hf.tasks.finetuning.task import TrainingDefaults, epochs_for
from elmo_hf.tasks.srl.frames import bio_spans, frame_rows, read_srl
from elmo_hf.tasks.tagging.task import TaggedSentence, TaggingTask, batched_sentences, tagged_rows


class SrlTask(TaggingTask):
    """The roles of the words for a predicate, scored by whole arguments without the predicate itself."""

    name = "srl"
    heads = ("srl",)
    example_name = "predicate"
    item_name = "argument"

    def read(self, path: str, part: str = "train") -> Any:
        """The examples of a file or dataset."""
        format = detect_format(path)
        if format in ("parquet", "dataset"):
            from elmo_hf.tasks.finetuning.file_formats import read_table

            columns = read_table(path, format, part)
            rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
            return frame_rows(enumerate(rows, 1), path)
        if format != "jsonl":
            raise ValueError(f"{path} looks like {FORMATS[format]}. Expected JSON lines of `words` and `frames`.")
        return self._checked(read_srl(path), path)

    def from_rows(self, rows: Any) -> Any:
        """Examples from rows in memory."""
        columns = columns_of_dataset(rows)
        if "frames" in columns:
            records = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
            return frame_rows(enumerate(records, 1), "The data")
        from datasets import Dataset

        return self._checked(
            Dataset.from_dict({name: columns[name] for name in ("tokens", "predicate", "labels")}), "The data"
        )

    def raw_keys(self, examples: Any) -> list[Any]:
        """What makes two examples duplicates before they are prepared."""
        return [tuple(tokens) for tokens in examples["tokens"]]

    def key(self, example: Any) -> Any:
        """What makes two prepared examples duplicates."""
        return (tuple(example["tokens"]), example["predicate"])

    def defaults(self, count: int) -> TrainingDefaults:
        """Measured defaults for so many examples."""
        return TrainingDefaults("srl", "small", 0.01, epochs_for(count, steps=800))

    def collate(self, examples: list[dict[str, Any]], tokenizer: Any, model: Any) -> dict[str, torch.Tensor]:
        """A batch as tensors."""
        batch = super().collate(examples, tokenizer, model)
        return {**batch, "token_type_ids": _marks(batch, [example["predicate"] for example in examples])}

    @torch.no_grad()
    def predict(self, model: Any, tokenizer: Any, examples: Any, batch_tokens: int = 8192) -> list[TaggedSentence]:
        """What a model says about each prepared example."""
        sentences, predicates = examples["tokens"][:], examples["predicate"][:]
        predictions = [TaggedSentence([], [])] * len(sentences)
        for numbers, inputs in batched_sentences(model, tokenizer, sentences, batch_tokens):
            inputs["token_type_ids"] = _marks(inputs, [predicates[number] for number in numbers])
            for number, sentence in zip(numbers, tagged_rows(model, inputs), strict=True):
                predictions[number] = sentence
        return predictions

    def spans(self, labels: Sequence[str]) -> set[Any]:
        """Scores of the beginning and the end of an answer, and of no answer or None."""
        from elmo_hf.tasks.tagging.spans import Span

        return {Span(*span) for span in bio_spans(labels) if span[0] != "V"}

    def show(self, example: Any, prediction: TaggedSentence) -> str:
        """An example with what is wrong about its prediction."""
        return f"({example['tokens'][example['predicate']]}) {super().show(example, prediction)}"

    def usage(self, model: str | None) -> str:
        """The line that uses a trained model."""
        return "To use it: the code on its card, README.md."


def _marks(batch: dict[str, torch.Tensor], predicates: list[int]) -> torch.Tensor:
    """1 at the predicate of each row: behind `<S>`, which is the first position that is not masked."""
    mask = batch["attention_mask"].bool()
    marks = torch.zeros_like(mask, dtype=torch.long)
    first = mask.long().argmax(1)  # (B,)
    marks[torch.arange(len(marks)), first + 1 + torch.tensor(predicates, device=first.device)] = 1
    return marks


__all__ = ["SrlTask"]
