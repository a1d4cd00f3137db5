"""Linear probes: what one linear layer reads off each layer, off their average, and off a learned mix."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from elmo_hf import read_conll, read_conllu, read_word_vectors

from .layer_reader import LayerReader
from .results import AnalysisResult, layer_names, text_table

AVERAGE, MIX, WORD_VECTORS = "average", "learned mix", "word vectors"
IGNORED = -100


@dataclass
class ProbeResult:
    """One probe, taken from the epoch that was best on the development data.

    Args:
        name: what was read: a layer, `"average"`, `"learned mix"`, `"word vectors"`.
        accuracy: shares of words that were labelled rightly, by the name of the data.
        labels: F1 of each label on the last of the data.
        mix: weights of the layers, of the learned mix only.
    """

    name: str
    accuracy: dict[str, float]
    labels: dict[str, float]
    mix: list[float] | None = None


@dataclass
class Probe(AnalysisResult):
    """The probes of all layers.

    Args:
        column: what was predicted.
        results: the probes, layer 0 first.
        counts: how often each label stands in the last of the data.
    """

    column: str
    results: list[ProbeResult]
    counts: dict[str, int] = field(default_factory=dict)

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and the rows."""
        names = list(self.results[0].accuracy)
        heads = [self.column, *(f"{name}, %" for name in names)]
        return heads, [[result.name, *(100 * result.accuracy[name] for name in names)] for result in self.results]

    def label_table(self) -> str:
        """F1 of the labels, the most frequent first."""
        order = sorted(self.counts, key=lambda label: -self.counts[label])
        rows = [
            [label, self.counts[label], *(100 * result.labels[label] for result in self.results)] for label in order
        ]
        return text_table(["label", "words", *(result.name for result in self.results)], rows)

    def __str__(self) -> str:
        mixes = [result.mix for result in self.results if result.mix is not None]
        weights = [f"weights of the learned mix: {' '.join(f'{weight:.2f}' for weight in mix)}" for mix in mixes]
        return "\n".join([super().__str__(), *weights, "", self.label_table()])

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {
            "column": self.column,
            "counts": self.counts,
            "results": [
                {"name": result.name, "accuracy": result.accuracy, "labels": result.labels, "mix": result.mix}
                for result in self.results
            ],
        }

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        from . import plots

        groups = {name: [100 * result.accuracy[name] for result in self.results] for name in self.results[0].accuracy}
        plots.points(path, [result.name for result in self.results], groups, f"{self.column}: accuracy, %")


def read_labelled(path: str | os.PathLike, column: str) -> tuple[list[list[str]], list[list[str]]]:
    """Words and labels of a file: CoNLL-U with the column's name, any other with its number (-1 is the last)."""
    name = Path(path).name.lower()
    if ".conllu" in name:
        data = read_conllu(path, [column])
        return list(data["tokens"]), list(data[column])
    try:
        number = int(column)
    except ValueError:
        raise ValueError(
            f"The column {column!r} of {path} is invalid. Expected a number, from 0 or from -1 for the last, "
            "or a name if the file is CoNLL-U (.conllu)."
        ) from None
    data = read_conll(path, {"tokens": 0, "labels": number})
    return list(data["tokens"]), list(data["labels"])


def probe(
    reader: LayerReader,
    data: Mapping[str, tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]],
    column: str = "labels",
    word_vectors: str | os.PathLike | None = None,
    store: str | os.PathLike | None = None,
    epochs: int = 8,
    seed: int = 0,
    say: Callable[[str], Any] | None = None,
) -> Probe:
    """Trains a linear probe on each layer, their average, a learned mix, and word vectors.

    Args:
        data: words and labels of sentences by name. The first is trained on, the second chooses the epoch, and the
            labels' scores are of the last.
        column: what the labels are called.
        word_vectors: a file of GloVe's or word2vec's text, to probe beside the layers.
        store: a folder that stores the vectors, so that an interrupted run can be resumed.
        say: called with the name of each probe and what else takes time.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.analysis import LayerReader, probe
    >>> seed = torch.manual_seed(0)
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> reader = LayerReader(ElmoModel(config).eval(), ElmoTokenizer())
    >>> data = [["cats", "sleep"], ["dogs", "sleep"]], [["NOUN", "VERB"], ["NOUN", "VERB"]]
    >>> probes = probe(reader, {"train": data, "dev": data}, epochs=50)
    >>> [result.name for result in probes.results], probes.results[0].accuracy["dev"]
    (['layer 0', 'layer 1', 'layer 2', 'average', 'learned mix'], 1.0)

    ```
    """
    if len(data) < 2:
        raise ValueError(f"{len(data)} data sets were given. Expected two or more: to train, to choose, to test.")
    say = say or (lambda text: None)
    names = sorted({label for _, labels in [next(iter(data.values()))] for row in labels for label in row})
    numbers = {label: number for number, label in enumerate(names)}
    gold = {
        name: torch.tensor([numbers.get(label, IGNORED) for row in labels for label in row])
        for name, (_, labels) in data.items()
    }
    if not all(map(len, gold.values())):
        raise ValueError("A data set has no words. Expected at least one word in each.")
    say("reading")
    vectors = _vectors(reader, data, store)  # name -> (L + 1, words, size), float16
    averages = {name: x.float().mean(0, keepdim=True) for name, x in vectors.items()}
    read = {layer: {name: x[number : number + 1] for name, x in vectors.items()}
            for number, layer in enumerate(layer_names(reader.num_layers))}  # fmt: skip
    read |= {AVERAGE: averages, MIX: vectors}
    if word_vectors is not None:
        read[WORD_VECTORS] = _static(word_vectors, data)
    last = list(data)[-1]
    counts = {label: int((gold[last] == number).sum()) for label, number in numbers.items()}
    counts = {label: count for label, count in counts.items() if count}
    results = []
    for name, features in read.items():
        say(name)
        results.append(_train(name, features, gold, names, counts, epochs, seed))
    return Probe(column, results, counts)


def _vectors(reader: LayerReader, data: Mapping[str, Any], store: str | os.PathLike | None) -> dict[str, torch.Tensor]:
    vectors = {}
    for name, (sentences, _) in data.items():
        words = sum(map(len, sentences))
        table = torch.empty(reader.num_layers, words, reader.size, dtype=torch.float16)
        start = 0
        folder = None if store is None else Path(store) / name
        for layers in reader.read_stored(list(map(list, sentences)), folder, name):
            table[:, start : start + layers.shape[1]] = torch.from_numpy(np.asarray(layers))
            start += layers.shape[1]
        vectors[name] = table
    return vectors


def _static(path: str | os.PathLike, data: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    words = {name: [word for row in sentences for word in row] for name, (sentences, _) in data.items()}
    known, vectors = read_word_vectors(path, {word for part in words.values() for word in part})
    rows = {word: row for row, word in enumerate(known, 1)}
    table = torch.from_numpy(np.concatenate([np.zeros_like(vectors[:1]), vectors]))  # row 0: unknown words
    return {
        name: table[[rows.get(word, rows.get(word.lower(), 0)) for word in part]][None] for name, part in words.items()
    }


class _Probe(nn.Module):
    """A linear layer over a softmax-weighted sum of what it is given; of one layer the sum is that layer."""

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, train: torch.Tensor, num_labels: int):
        super().__init__()
        average = train[:, : 2**16].float().mean(0)
        self.register_buffer("mean", average.mean(0))
        self.register_buffer("scale", 1 / average.std(0, correction=0).clamp(min=1e-3))
        self.weight = nn.Parameter(torch.zeros(len(train)))
        self.classifier = nn.Linear(train.shape[-1], num_labels)

    def forward(self, layers: torch.Tensor) -> torch.Tensor:
        mixed = torch.einsum("l,lnd->nd", self.weight.softmax(0), layers.float()) if len(layers) > 1 else layers[0]
        return self.classifier((mixed.float() - self.mean) * self.scale)


def _train(
    name: str,
    features: dict[str, torch.Tensor],
    gold: dict[str, torch.Tensor],
    names: list[str],
    counts: dict[str, int],
    epochs: int,
    seed: int,
) -> ProbeResult:
    train, dev, *_ = list(features)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _Probe(features[train], len(names))
    optimizer = torch.optim.Adam(
        [{"params": model.classifier.parameters(), "lr": 4e-3}, {"params": [model.weight], "lr": 2e-2}]
    )
    size = 512
    steps = epochs * -(-len(gold[train]) // size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    best: tuple[float, dict[str, torch.Tensor]] = (-1.0, {})
    for _ in range(epochs):
        for batch in torch.randperm(len(gold[train]), generator=generator).split(size):
            loss = F.cross_entropy(model(features[train][:, batch]), gold[train][batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        accuracy = float((_predict(model, features[dev]) == gold[dev]).float().mean())
        if accuracy > best[0]:
            best = accuracy, {key: value.clone() for key, value in model.state_dict().items()}
    model.load_state_dict(best[1])
    guesses = {part: _predict(model, x) for part, x in features.items()}
    measured = [part for part in features if part != train]
    last = measured[-1]
    mix = model.weight.softmax(0).tolist() if len(model.weight) > 1 else None
    accuracies = {part: float((guesses[part] == gold[part]).float().mean()) for part in measured}
    return ProbeResult(name, accuracies, _label_scores(guesses[last], gold[last], names, counts), mix)


@torch.no_grad()
def _predict(model: _Probe, features: torch.Tensor) -> torch.Tensor:
    return torch.cat([model(batch).argmax(-1) for batch in features.split(4096, 1)])


def _label_scores(
    guesses: torch.Tensor, gold: torch.Tensor, names: list[str], counts: dict[str, int]
) -> dict[str, float]:
    scores = {}
    for number, label in enumerate(names):
        if label in counts:
            right = int(((guesses == number) & (gold == number)).sum())
            scores[label] = 2 * right / (int((guesses == number).sum()) + counts[label])
    return scores
