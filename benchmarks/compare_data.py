"""The tasks of the comparison: sentences as words, labels of words or of sentences, and their scores."""

import collections
import gzip
import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from seqeval.metrics import f1_score

from elmo_hf import ElmoTokenizer, read_conll, read_conllu
from elmo_hf.tasks.srl.frames import read_srl

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "english"))
from taggers import read_entities

# Of the training sets of EWT (the first sentences) and SST (a random sample): all of it takes an hour of a CPU.
TRAIN_SENTENCES = 1000
# Random pairs of SNLI; a pair without a majority of annotators has no label.
SNLI_LABELS = ("entailment", "neutral", "contradiction")
SNLI_PAIRS = {"train_100k": 3000, "test": 2000}


class Part(NamedTuple):
    """Sentences as words, and for each a list of labels: one for each word, or one for the sentence.

    Where labels are roles, a sentence stands once for each predicate, whose word has the number in `predicates`.
    """

    sentences: list[list[str]]
    labels: list[list[str]]
    predicates: list[int] | None = None


class Task(NamedTuple):
    """A task of the table; tasks with the same `text` share their vectors.

    The sentences of pairs follow each other, and the label of a pair is that of its first sentence.
    """

    text: str
    parts: dict[str, Part]
    metric: str
    of_sentences: bool = False
    of_pairs: bool = False

    def score(self, predicted: list[str]) -> float:
        """Accuracy or F1 of entities on the test part, in percent; `predicted` are all labels in order."""
        gold = self.parts["test"].labels
        if self.metric == "accuracy":
            flat = [label for labels in gold for label in labels]
            return 100 * sum(a == b for a, b in zip(flat, predicted, strict=True)) / len(flat)
        labels = iter(predicted)
        return 100 * float(f1_score(gold, [[next(labels) for _ in own] for own in gold], zero_division=0))


def ewt(column: str, most_train: int | None = TRAIN_SENTENCES) -> Callable[[Path], Task]:
    """UD English-EWT with its parts of speech, or the entities of Universal NER: the same sentences for all columns.

    Sentences that the two data sets split into words in different ways are left out.
    """

    def read(data: Path) -> Task:
        parts = {}
        for name, file, most in (("train", "train.first-commit-2022", most_train), ("test", "test", None)):
            tagged = read_conllu(data / "pos" / f"en_ewt-ud-{name}.conllu.gz", ["upos", "xpos"])
            named = read_entities(data / "ner" / "uner_en_ewt" / f"en_ewt-ud-{file}.iob2.gz")
            entities = collections.defaultdict(list)
            for row in named:  # the files have their sentences in different orders
                entities[tuple(row["tokens"])].append(row["entities"])
            both = (row for row in tagged if entities[tuple(row["tokens"])])
            rows = [{**row, "entities": entities[tuple(row["tokens"])].pop(0)} for row in both][:most]
            parts[name] = Part([row["tokens"] for row in rows], [row[column] for row in rows])
        text = "ewt" if most_train == TRAIN_SENTENCES else "ewt-all"
        return Task(text, parts, "f1" if column == "entities" else "accuracy")

    return read


def wnut(data: Path) -> Task:
    """Emerging entities of WNUT17, all training sentences."""
    files = {"train": "wnut17train.conll", "test": "emerging.test.annotated"}
    parts = {}
    for name, file in files.items():
        rows = read_conll(data / "ner" / file, separator="\t")
        parts[name] = Part(list(rows["tokens"]), list(rows["labels"]))
    return Task("wnut", parts, "f1")


def sentiment(classes: int) -> Callable[[Path], Task]:
    """SST-5, or SST-2 without the neutral sentences."""

    def read(data: Path) -> Task:
        parts = {}
        for name, most in (("train", TRAIN_SENTENCES), ("test", None)):
            with gzip.open(data / "sentiment" / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
                trees = [line.strip() for line in file if line.strip()]
            if most is not None:
                trees = random.Random(0).sample(trees, most)
            sentences = [re.findall(r" ([^ ()]+)\)", tree) for tree in trees]
            labels = [tree[1] for tree in trees]
            rows = [[label] for label in labels]
            if classes == 2:  # neutral sentences have no label
                rows = [[] if label == "2" else ["negative" if label < "2" else "positive"] for label in labels]
            parts[name] = Part(sentences, rows)
        return Task("sst", parts, "accuracy", of_sentences=True)

    return read


def pair_of(row: dict[str, Any]) -> tuple[str, str, str]:
    """The premise, the hypothesis and the label of a row of SNLI, as published or as a dataset of the Hub has them."""
    if "gold_label" in row:
        return row["sentence1"], row["sentence2"], row["gold_label"]
    return row["premise"], row["hypothesis"], row["label"]


def inference(data: Path) -> Task:
    """Entailment, contradiction or neither of pairs of SNLI."""
    parts = {}
    for name, count in SNLI_PAIRS.items():
        with gzip.open(data / "nli" / f"snli_{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            rows = [pair_of(json.loads(line)) for line in file]
        rows = random.Random(0).sample([row for row in rows if row[2] in SNLI_LABELS], count)
        sentences = ElmoTokenizer("moses-en").split([text for row in rows for text in row[:2]])
        labels = [labels for row in rows for labels in ([row[2]], [])]
        parts[name.partition("_")[0]] = Part(sentences, labels)
    return Task("snli", parts, "accuracy", of_sentences=True, of_pairs=True)


def roles(data: Path) -> Task:
    """Semantic roles of EWT, a predicate at a time; the predicate's own label is no role."""
    parts = {}
    for name, most in (("train", TRAIN_SENTENCES), ("test", None)):
        rows = read_srl(data / "srl" / f"ewt_srl.{name}.jsonl.gz").to_list()[:most]
        labels = [["O" if label.endswith("-V") else label for label in row["labels"]] for row in rows]
        parts[name] = Part([row["tokens"] for row in rows], labels, [row["predicate"] for row in rows])
    return Task("srl", parts, "f1")


TASKS: dict[str, Callable[[Path], Task]] = {
    "UPOS": ewt("upos"),
    "XPOS": ewt("xpos"),
    "UNER": ewt("entities"),
    "SST-5": sentiment(5),
    "SST-2": sentiment(2),
    "WNUT17": wnut,
    "SNLI": inference,
    "SRL": roles,
    "UPOS, all": ewt("upos", None),
    "XPOS, all": ewt("xpos", None),
    "UNER, all": ewt("entities", None),
}
