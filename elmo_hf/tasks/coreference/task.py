"""Coreference as a task to fine-tune on: documents in the columns of CoNLL 2012, clusters of mentions."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from elmo_hf.tasks.coreference.conll2012 import Document, coreference_files, encode_document, parts_of
from elmo_hf.tasks.coreference.metrics import coreference_counts, scores_of_counts
from elmo_hf.tasks.finetuning.file_formats import FORMATS, detect_format
from elmo_hf.tasks.finetuning.task import Task, TrainingDefaults, epochs_for

# Every so many files of a folder, one is for dev.
HELD_OUT_FILES = 10


class Documents(torch.utils.data.Dataset):
    """Documents with the methods of a `datasets.Dataset` that a run calls."""

    column_names = ("document",)

    def __init__(self, documents: Sequence[Document]):
        self.documents = list(documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, number: int) -> Document:
        return self.documents[number]

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    def select(self, numbers: Any) -> "Documents":
        """Some of the documents."""
        return Documents([self.documents[number] for number in numbers])

    def shuffle(self, seed: int) -> "Documents":
        """The documents in random order."""
        return self.select(np.random.default_rng(seed).permutation(len(self)).tolist())


class EncodedDocuments(torch.utils.data.Dataset):
    """Documents as tensors, encoded when they are read."""

    def __init__(self, documents: Documents, tokenizer: Any):
        self.documents, self.tokenizer = documents, tokenizer

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return encode_document(self.documents[number], self.tokenizer)


class CoreferenceTask(Task):
    """Clusters of mentions, scored by the mean F1 of MUC, B³ and CEAFe. Long documents are read in parts."""

    name = "coreference"
    model_class = "ElmoForCoreference"
    heads = ("spans",)
    score = "conll"
    example_name = "document part"
    item_name = "mention"
    has_labels = False
    one_example_batches = True

    def __init__(self, columns: Any = None):
        super().__init__(columns)
        self.part_sentences = 30

    def configure(self, settings: Any):
        """Reads the settings of a run that only this task has."""
        self.part_sentences = settings.part_sentences

    def read(self, path: str, part: str = "train") -> Documents:
        """The examples of a file or dataset."""
        format = detect_format(path)
        if format not in ("documents", "conll", "folder"):
            raise ValueError(
                f"{path} looks like {FORMATS[format]}. Expected CoNLL 2012: files, a folder or an archive."
            )
        documents = [document for documents in coreference_files(path).values() for document in documents]
        if not any(document.clusters for document in documents):
            raise ValueError(f"{path}: no document has a mention. Expected coreference in the last column.")
        return Documents(documents)

    def from_rows(self, rows: Any) -> Documents:
        """Examples from rows in memory."""
        return Documents([row if isinstance(row, Document) else Document(**row) for row in rows])

    def raw_keys(self, examples: Documents) -> list[Any]:
        """What makes two examples duplicates before they are prepared."""
        return [repr(document.sentences) for document in examples]

    def prepare(self, examples: Documents, tokenizer: Any) -> Documents:
        """Examples whose texts are split into words."""
        return Documents([part for document in examples for part in parts_of(document, self.part_sentences)])

    def texts(self, example: Document) -> list[list[str]]:
        """The words of each text of a prepared example."""
        return example.sentences

    def defaults(self, count: int) -> TrainingDefaults:
        """Measured defaults for so many examples."""
        return TrainingDefaults("spans", "small", 0.001, epochs_for(count, steps=300, batch_size=1), 1)

    def training_set(self, examples: Documents, tokenizer: Any, model: Any) -> EncodedDocuments:
        """What the Trainer iterates over."""
        return EncodedDocuments(examples, tokenizer)

    def collate(self, examples: list[dict[str, Any]], tokenizer: Any, model: Any) -> dict[str, torch.Tensor]:
        """A batch as tensors."""
        if len(examples) != 1:
            raise ValueError("Invalid `batch_size`: a batch of documents. Expected 1 for coreference.")
        return examples[0]

    def predict(self, model: Any, tokenizer: Any, examples: Documents, batch_tokens: int = 8192) -> list[Any]:
        """What a model says about each prepared example."""
        return [model.clusters(tokenizer, document.sentences) for document in examples]

    def counts(self, examples: Documents, predictions: Sequence[Any]) -> np.ndarray:
        """What each example contributes to the scores, a row for each."""
        pairs = zip(predictions, examples, strict=True)
        counts = [coreference_counts(clusters, document.clusters) for clusters, document in pairs]
        return np.array(counts).reshape(len(examples), -1)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """The scores of sums of counts."""
        scores = scores_of_counts(sums.reshape(*sums.shape[:-1], 3, 2, 2))
        return {name: scores[name] / 100 for name in ("conll", "muc", "b_cubed", "ceaf_e")}

    def errors(self, examples: Documents, predictions: Sequence[Any]) -> list[float]:
        """What is missing to a mean F1 of 1."""
        return (1 - self.scores(self.counts(examples, predictions))["conll"]).tolist()

    def show(self, example: Document, prediction: Any) -> str:
        """An example with what is wrong about its prediction."""

        def text(span: Any) -> str:
            return " ".join(example.sentences[span[0]][span[1] : span[2] + 1])

        clusters = "; ".join(", ".join(map(text, cluster)) for cluster in prediction[:8])
        return f"{example.name}: {len(prediction)} clusters, not {len(example.clusters)}: {clusters}"

    def usage(self, model: str | None) -> str:
        """The line that uses a trained model."""
        name = "MODEL" if model is None else model
        return f"To use it: ElmoForCoreference.from_pretrained({name!r}).clusters(tokenizer, sentences)."


__all__ = ["CoreferenceTask", "Documents"]
