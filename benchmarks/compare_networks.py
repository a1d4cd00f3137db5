"""Compares the programs of compare.py under a network: a BiLSTM-CRF over the frozen vectors of words.

    python benchmarks/compare_networks.py DATA PEERS --cache vectors -o benchmarks/measured/compare_networks.json

The cache may be that of compare.py, whose tasks, vectors and standardisation these are. Of a program with several
layers the network reads a learned mix. It is one biLSTM layer of 100 units in each direction and a CRF, trained for
ten epochs with AdamW, a rate that falls linearly and dropout of 0.3; nothing is tuned for one of the programs.
"""

import argparse
import functools
import json
import sys

import numpy as np
import torch
from compare import Vectors, argument_parser, missing_seeds, save, table, with_predicate
from compare_data import TASKS, Part, Task
from compare_programs import PROGRAMS
from torch import nn

from elmo_hf import LinearChainCrf, StackedBiLstm

SIZE, DROPOUT = 100, 0.3
EPOCHS, BATCH_SIZE, LEARNING_RATE, WEIGHT_DECAY, MAX_NORM = 10, 16, 0.002, 0.01, 5.0
WORD_TASKS = ("UPOS", "XPOS", "UNER", "WNUT17", "SRL")


class Network(nn.Module):
    """A learned mix of layers, a biLSTM, a linear layer and a CRF."""

    def __init__(self, layers: int, size: int, labels: list[str]):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layers))
        self.encoder = StackedBiLstm(size, SIZE, 1, DROPOUT)
        self.dropout = nn.Dropout(DROPOUT)
        self.linear = nn.Linear(self.encoder.output_size, len(labels))
        self.crf = LinearChainCrf(len(labels), labels)
        for module in self.modules():
            if module is not self and hasattr(module, "initial_weights"):
                module.initial_weights()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Scores (B, W, labels) of vectors (B, W, layers, size)."""
        mixed = torch.einsum("l,bwld->bwd", self.weight.softmax(0), x)
        return self.linear(self.dropout(self.encoder(mixed, mask)))


class Sentences:
    """Standardised vectors of sentences and the numbers of their labels, in padded batches."""

    def __init__(self, arrays: list[np.ndarray], part: Part, labels: dict[str, int], scale: tuple | None = None):
        if part.predicates is not None:
            arrays = [with_predicate(array, number) for array, number in zip(arrays, part.predicates, strict=True)]
        if scale is None:
            words = np.concatenate(arrays, 1).astype(np.float32)
            scale = words.mean(1), words.std(1).clip(1e-3)
        self.arrays, self.scale = arrays, scale  # (layers, words, size) of each sentence; (layers, size) both
        self.labels = [torch.tensor([labels[label] for label in row]) for row in part.labels]

    def batch(self, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(B, W, layers, size), mask (B, W) and labels (B, W), 0 where there is no word."""
        mean, deviation = self.scale
        vectors = [
            torch.from_numpy((self.arrays[row].astype(np.float32) - mean[:, None]) / deviation[:, None]).transpose(
                0, 1
            )
            for row in rows
        ]
        labels = nn.utils.rnn.pad_sequence([self.labels[row] for row in rows], batch_first=True)
        lengths = torch.tensor([len(self.labels[row]) for row in rows])
        mask = torch.arange(labels.shape[1]) < lengths[:, None]
        return nn.utils.rnn.pad_sequence(vectors, batch_first=True), mask, labels


def train(network: Network, sentences: Sentences):
    """Trains a network with the settings of this file."""
    count = len(sentences.labels)
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = EPOCHS * -(-count // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    network.train()
    for _ in range(EPOCHS):
        for rows in torch.randperm(count).split(BATCH_SIZE):
            x, mask, labels = sentences.batch(rows.tolist())
            optimizer.zero_grad()
            loss = -network.crf.log_likelihood(network(x, mask), labels, mask).sum() / mask.sum()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
            optimizer.step()
            schedule.step()


@torch.no_grad()
def predict(network: Network, sentences: Sentences) -> list[int]:
    """The labels of all words in order."""
    network.eval()
    order = sorted(range(len(sentences.labels)), key=lambda row: len(sentences.labels[row]))
    found: list[list[int]] = [[] for _ in order]
    for start in range(0, len(order), BATCH_SIZE):
        rows = order[start : start + BATCH_SIZE]
        x, mask, _ = sentences.batch(rows)
        decoded = network.crf.decode(network(x, mask), mask)
        for row, labels, present in zip(rows, decoded, mask, strict=True):
            found[row] = labels[present].tolist()
    return [label for row in found for label in row]


def score(task: Task, vectors: Vectors, layers: list[int], seed: int) -> float:
    """The score of one task, in percent, for some layers of a program and one seed."""
    names = sorted({label for part in task.parts.values() for row in part.labels for label in row})
    numbers = {name: number for number, name in enumerate(names)}
    arrays = {
        name: [array[layers] for array in vectors.read(f"{task.text}.{name}", part.sentences)]
        for name, part in task.parts.items()
    }
    training = Sentences(arrays["train"], task.parts["train"], numbers)
    test = Sentences(arrays["test"], task.parts["test"], numbers, training.scale)
    torch.manual_seed(seed)
    network = Network(len(layers), training.scale[0].shape[1], names)
    train(network, training)
    return task.score([names[number] for number in predict(network, test)])


def compare(arguments: argparse.Namespace):
    """Fills the table cell by cell, and writes it after each."""
    results = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    tasks = {name: TASKS[name](arguments.data) for name in arguments.tasks}
    for name in arguments.programs:
        program = PROGRAMS[name](arguments.peers, arguments.data)
        row, layers = list(program.rows.items())[-1]  # the mix, where a program has one
        for task_name, task in tasks.items():
            cell = results.setdefault(name, {}).setdefault(task_name, {}).setdefault(row, {})
            vectors = Vectors(arguments.cache, program)
            for _ in missing_seeds(cell, functools.partial(score, task, vectors, layers)):
                save(results, arguments.output)
            print(f"{name}, {row}: {task_name} {sorted(cell.values())}", file=sys.stderr, flush=True)


def main():
    """The command."""
    arguments = argument_parser(__doc__, WORD_TASKS).parse_args()
    compare(arguments)
    print(table(json.loads(arguments.output.read_text())))


if __name__ == "__main__":
    main()
