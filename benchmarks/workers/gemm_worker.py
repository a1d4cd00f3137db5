"""The machine's limit: nothing but the matrix products that the LSTMs of such a model cannot do without.

Per layer one product for the input half of the gates of all tokens, then, token by token, one for the recurrent half
and one for the projection; all sentences as long as their batch's average, so without any padding. Of four ways the
fastest counts: torch's own product or oneDNN's with weights packed beforehand, directions in turn or at once.
"""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch
from serve import Program, serve
from torch.nn import functional as F

Product = Callable[[torch.Tensor], torch.Tensor]


def plain(weight: torch.Tensor, rows: int) -> Product:
    return lambda x: F.linear(x, weight)


def packed(weight: torch.Tensor, rows: int) -> Product:
    pack = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, pack, None, "none", [], "")


class Limit:
    """The products of one model's LSTMs."""

    def __init__(self, cell: int, projection: int, layers: int, threads: int):
        self.sizes, self.threads = (projection, projection, cell), threads
        shapes = [(4 * cell, projection), (4 * cell, projection), (projection, cell)]
        self.weights = [[[torch.randn(shape) for shape in shapes] for _ in range(layers)] for _ in range(2)]
        self.shared_threads = max(1, threads // 2)
        self.pool = ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(self.shared_threads,))
        self.products = cache(self._products)
        self.fastest = cache(self._fastest)

    @torch.inference_mode()
    def _products(self, way: Callable, rows: int) -> list:
        return [[[way(weight, rows) for weight in layer] for layer in stack] for stack in self.weights]

    def in_turn(self, way: Callable, rows: int, length: int):
        torch.set_num_threads(self.threads)
        for stack in self.products(way, rows):
            self._run(stack, rows, length)

    def at_once(self, way: Callable, rows: int, length: int):
        torch.set_num_threads(self.shared_threads)
        list(self.pool.map(lambda stack: self._run(stack, rows, length), self.products(way, rows)))

    @torch.inference_mode()
    def _run(self, stack: list, rows: int, length: int):
        x, h, c = (torch.ones(n, size) for n, size in zip((rows * length, rows, rows), self.sizes, strict=True))
        for of_input, recurrent, projection in stack:
            of_input(x)
            for _ in range(length):
                recurrent(h)
                projection(c)

    def _fastest(self, rows: int) -> tuple[Callable, Callable]:
        timings = []
        for way in [plain] + ([packed] if torch.backends.mkldnn.is_available() else []):
            for order in (self.in_turn, self.at_once):
                order(way, rows, 4)
                start = time.perf_counter()
                order(way, rows, 16)
                timings.append((time.perf_counter() - start, order, way))
        return min(timings, key=lambda timing: timing[0])[1:]


def load(settings: dict) -> Program:
    lstm = json.loads(Path(settings["checkpoint"], "options.json").read_text())["lstm"]
    limit = Limit(lstm["dim"], lstm["projection_dim"], lstm["n_layers"], settings["threads"])

    def embed(batch):
        rows, length = len(batch), round(sum(len(words) + 2 for words in batch) / len(batch))
        order, way = limit.fastest(rows)
        order(way, rows, length)

    return Program(f"torch {torch.__version__}", embed, lambda result, batch: [])


serve(load)
