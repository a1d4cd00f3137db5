"""Telling senses of words apart by their vectors: the nearest example, or the nearest mean of examples, by layer."""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .layer_reader import LayerReader, unit_vectors
from .results import AnalysisResult, layer_names
from .sense_files import SenseData, SenseInstance

NEAREST, CENTROID = "nearest", "centroid"
FIRST_SENSE, FREQUENT = "first sense", "most frequent"


@dataclass
class SenseScore:
    """One way of telling senses apart.

    Args:
        method: `"nearest"` or `"centroid"` of a layer, or what does not look at the sentence: `"first sense"`, or
            `"most frequent"` of the training data.
        layer: None where no layer is looked at.
        f1: by the name of the data, where words that training does not have get their first sense.
        f1_without: the same where these words get no answer.
    """

    method: str
    layer: int | None
    f1: dict[str, float]
    f1_without: dict[str, float]

    @property
    def name(self) -> str:
        """What tables and plots call it."""
        return self.method if self.layer is None else f"{self.method}, {layer_names(self.layer + 1)[-1]}"


@dataclass
class Senses(AnalysisResult):
    """How well senses are told apart.

    Args:
        scores: of each way.
        counts: words of each of the data, and how many of them training has.
    """

    scores: list[SenseScore]
    counts: dict[str, dict[str, int]]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and the rows."""
        names = list(self.counts)
        rows = []
        for score in self.scores:
            rows.append([score.name, *(100 * score.f1[name] for name in names)])
            if score.layer is not None:
                rows.append(["  no fallback", *(100 * score.f1_without[name] for name in names)])
        return ["F1, %", *names], rows

    def __str__(self) -> str:
        notes = [
            f"{name}: {count['words']:,} words, {count['known']:,} of them in the training data"
            for name, count in self.counts.items()
        ]
        return "\n".join([super().__str__(), "", *notes])

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        scores = [
            {"method": score.method, "layer": score.layer, "f1": score.f1, "f1_without_fallback": score.f1_without}
            for score in self.scores
        ]
        return {"scores": scores, "counts": self.counts}

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        from . import plots

        names = list(self.counts)
        labels = [score.name for score in self.scores]
        groups = {name: [100 * score.f1[name] for score in self.scores] for name in names}
        plots.points(path, labels, groups, "F1, %")


def senses(
    reader: LayerReader,
    train: SenseData,
    tests: Mapping[str, SenseData],
    first_senses: Mapping[str, str] | None = None,
    store: str | os.PathLike | None = None,
) -> Senses:
    """Tells the senses of words apart by examples, with every layer.

    A word gets the sense of the nearest example of the same word in `train` (by cosine), or that of the nearest mean
    of a sense's examples. A word without an example gets its first sense.

    Args:
        tests: data by name. Data with several parts, as ALL of the unified sets, give a row for each part too.
        first_senses: of each word, as `read_first_senses` gives them. Not given: the most frequent in `train`, and no
            answer for words that are not there.
        store: a folder that stores the vectors, so that an interrupted run can be resumed.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.analysis import LayerReader, SenseData, SenseInstance, senses
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> reader = LayerReader(ElmoModel(config).eval(), ElmoTokenizer())
    >>> instances = [SenseInstance("bank", [sense], number, 1, 2) for number, sense in enumerate("xy")]
    >>> data = SenseData([["a", "bank"], ["the", "bank"]], instances)
    >>> result = senses(reader, data, {"same": data})
    >>> [score.f1["same"] for score in result.scores if score.layer == 2]
    [1.0, 1.0]

    ```
    """
    asked = {instance.word for data in tests.values() for instance in data.instances}
    known = [instance for instance in train.instances if instance.word in asked]
    folder = None if store is None else Path(store)
    examples = _vectors(reader, train.sentences, known, folder and folder / "train", "train")
    by_word: dict[str, list[int]] = defaultdict(list)
    for number, instance in enumerate(known):
        by_word[instance.word].append(number)
    frequent = {word: _most_frequent(known, numbers) for word, numbers in by_word.items()}
    fallback = frequent if first_senses is None else first_senses
    answers: dict[tuple[str, int | None], dict[str, list[str | None]]] = defaultdict(dict)
    for name, data in tests.items():
        vectors = _vectors(reader, data.sentences, data.instances, folder and folder / name, name)
        for layer in range(reader.num_layers):
            nearest, centroid = _answers(examples[layer], known, by_word, vectors[layer], data.instances)
            answers[NEAREST, layer][name], answers[CENTROID, layer][name] = nearest, centroid
        answers[FREQUENT, None][name] = [frequent.get(instance.word) for instance in data.instances]
        if first_senses is not None:
            answers[FIRST_SENSE, None][name] = [first_senses.get(instance.word) for instance in data.instances]
    order = sorted(answers, key=lambda key: (key[1] is not None, key[0] == CENTROID, key[1] or 0))
    scores = [SenseScore(*key, *_scores(tests, answers[key], fallback)) for key in order]
    counts = {
        name: {"words": len(instances), "known": sum(instance.word in by_word for instance in instances)}
        for name, data in tests.items()
        for name, instances in _parts(name, data.instances).items()
    }
    return Senses(scores, counts)


def _vectors(
    reader: LayerReader, sentences: list[list[str]], instances: list[SenseInstance], store: Path | None, name: str
) -> np.ndarray:
    """(L + 1, instances, size), of length 1; the words of an instance are averaged."""
    of_sentence: dict[int, list[int]] = defaultdict(list)
    for number, instance in enumerate(instances):
        of_sentence[instance.sentence].append(number)
    numbers = sorted(of_sentence)
    vectors = np.empty((reader.num_layers, len(instances), reader.size), np.float16)
    read = reader.read_stored([sentences[number] for number in numbers], store, name)
    for sentence, layers in zip(numbers, read, strict=True):
        for number in of_sentence[sentence]:
            instance = instances[number]
            vectors[:, number] = unit_vectors(layers[:, instance.start : instance.stop].astype(np.float32).mean(1))
    return vectors


def _most_frequent(known: list[SenseInstance], numbers: list[int]) -> str:
    counts = Counter(known[number].senses[0] for number in numbers)
    return max(counts, key=counts.__getitem__)


def _answers(
    examples: np.ndarray,
    known: list[SenseInstance],
    by_word: Mapping[str, list[int]],
    vectors: np.ndarray,
    instances: list[SenseInstance],
) -> tuple[list[str | None], list[str | None]]:
    """Each instance's sense by the nearest example and by the nearest mean; None where there is no example."""
    nearest: list[str | None] = [None] * len(instances)
    centroid: list[str | None] = [None] * len(instances)
    asked: dict[str, list[int]] = defaultdict(list)
    for number, instance in enumerate(instances):
        if instance.word in by_word:
            asked[instance.word].append(number)
    for word, numbers in asked.items():
        of_word = examples[by_word[word]].astype(np.float32)  # (examples, size)
        labels = [known[number].senses[0] for number in by_word[word]]
        names = list(dict.fromkeys(labels))
        member = np.array([[label == name for label in labels] for name in names], np.float32)  # (senses, examples)
        means = unit_vectors(member @ of_word)
        queries = vectors[numbers].astype(np.float32)
        for number, example, mean in zip(
            numbers, (queries @ of_word.T).argmax(1), (queries @ means.T).argmax(1), strict=True
        ):
            nearest[number], centroid[number] = labels[example], names[mean]
    return nearest, centroid


def _scores(
    tests: Mapping[str, SenseData], answers: Mapping[str, list[str | None]], fallback: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """F1 with and without fallback, of each of the data and its parts."""
    with_it, without = {}, {}
    for name, data in tests.items():
        pairs = list(zip(data.instances, answers[name], strict=True))
        for part in _parts(name, data.instances):
            part_pairs = [pair for pair in pairs if part in (name, pair[0].part)]
            without[part] = _f1(part_pairs)
            with_it[part] = _f1(
                [(instance, fallback.get(instance.word) if sense is None else sense) for instance, sense in part_pairs]
            )
    return with_it, without


def _f1(pairs: list[tuple[SenseInstance, str | None]]) -> float:
    """2 P R / (P + R), precision over the answers that were given and recall over all."""
    right = sum(sense in instance.senses for instance, sense in pairs)
    return 2 * right / (sum(sense is not None for _, sense in pairs) + len(pairs))


def _parts(name: str, instances: list[SenseInstance]) -> dict[str, list[SenseInstance]]:
    """All instances, and those of each part if there are several."""
    parts = {name: instances}
    names = sorted({instance.part for instance in instances})
    if len(names) > 1:
        parts |= {part: [instance for instance in instances if instance.part == part] for part in names}
    return parts
