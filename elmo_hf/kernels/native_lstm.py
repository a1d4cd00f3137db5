"""The loop of one LSTM layer, and a step of its cell for training, by the library in C (native/)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .cell import cell_, cell_backward_, gate_bias
from .linear import PlainProduct, is_quantized
from .loop import Clips, LayerProducts, Packed, through_time
from .native import Library, library
from .prepared import cached, can_fingerprint, fingerprint, hashes_of, layout_of, store
from .steps import Steps
from .threads import run_in_parallel

# Tokens whose input half of the gates is computed at once: as many as stay in a cache near the processor.
TOKENS_AT_ONCE = 48
# Share of oneDNN's time on one thread with AVX-512, for 1 / 8 / 64 texts: small size 0.4 / 0.6 / 0.8, medium 0.6 /
# 0.65 / 0.85, original 0.75 / 0.85 / 0.95. With more numbers in a weight than LARGE, and narrower vectors or more
# threads than the library uses (one for each direction), it is therefore for few texts at a time only.
LARGE, FEW_ROWS = 2**20, 2
WIDE, DIRECTIONS = 16, 2
KIND = "native"


def most_texts(weight: torch.Tensor) -> int | None:
    """Up to how many texts at a time the library is faster than oneDNN's products; None for any number."""
    if weight.numel() <= LARGE:
        return None
    wins = library().lanes >= WIDE and torch.get_num_threads() <= DIRECTIONS
    return None if wins else FEW_ROWS


def serves(weights: Sequence[Any], x: torch.Tensor, rows: int) -> bool:
    """Whether the library computes a layer with these weights for so many texts, without gradients."""
    if x.device.type != "cpu" or x.dtype != torch.float32 or is_quantized(weights[0][0]):
        return False
    native = library()
    if native is None or weights[0][2].shape[0] % (4 * native.lanes):
        return False
    if not all(can_fingerprint([part for part in of_direction if part is not None]) for of_direction in weights):
        return False
    most = most_texts(weights[0][0])
    return most is None or rows <= most


@dataclass
class NativeWeights:
    """A layer's weights in the order of the library: LANES units of the cell, or outputs, side by side."""

    of_input: torch.Tensor  # (H / LANES, P, 4, LANES)
    bias: torch.Tensor  # (4H,)
    of_state: torch.Tensor  # (H / LANES, P, 4, LANES)
    of_cell: torch.Tensor | None  # (P / (4 LANES), rounded up, H, 4, LANES)

    @classmethod
    def of(cls, weights: Sequence[torch.Tensor | None], lanes: int) -> "NativeWeights":
        """Of the weights of input, state, bias, and projection or None."""
        of_input, of_state, bias, of_cell = (None if w is None else w.detach() for w in weights)
        gates = [w.view(4, -1, lanes, w.shape[1]).permute(1, 3, 0, 2).contiguous() for w in (of_input, of_state)]
        if of_cell is not None:
            size, cell = of_cell.shape
            of_cell = torch.cat([of_cell, of_cell.new_zeros(-size % (4 * lanes), cell)])
            of_cell = of_cell.view(-1, 4, lanes, cell).permute(0, 3, 1, 2).contiguous()
        return cls(gates[0], gate_bias(bias), gates[1], of_cell)


def run_layer(inputs: Sequence[Packed], weights: Sequence[Any], batch_sizes: list[int], clips: Clips) -> list[Packed]:
    """One layer of all directions, these in parallel where threads are allowed.

    Each thread first hashes its weights: where a byte has changed since they were arranged, they are arranged anew.
    """
    native, results = library(), []
    tasks = [_Task(native, packed, w, batch_sizes, clips) for packed, w in zip(inputs, weights, strict=True)]
    run_in_parallel([task.run_if_unchanged for task in tasks])
    for task in tasks:
        if not task.done:
            task.arrange_and_run()
        results.append((task.y, task.h, task.c))
    return results


class _Task:
    """One direction of a layer: its inputs, its outputs, and its weights as they were arranged before."""

    def __init__(self, native: Library, packed: Packed, weights: Any, batch_sizes: list[int], clips: Clips):
        x, h, c = packed
        self.native, self.clips = native, clips
        self.sources = [part for part in weights if part is not None]
        self.weights = weights
        self.x = x.detach().contiguous()
        self.h, self.c = (part.detach().clone(memory_format=torch.contiguous_format) for part in (h, c))
        self.y, cell = torch.empty_like(self.x), c.shape[1]
        self.gates, self.m = x.new_empty(TOKENS_AT_ONCE, 4 * cell), x.new_empty(2, batch_sizes[0], cell + native.lanes)
        self.sizes = torch.tensor(batch_sizes, dtype=torch.int32)
        self.done = False
        kind = f"native {native.lanes}"
        entry = cached(kind, self.sources)
        self.kind, self.mark, self.arranged = kind, *(entry or (None, None))
        if entry is not None and self.mark.layout != layout_of(self.sources):
            self.arranged = None

    def run_if_unchanged(self):
        if self.arranged is not None and hashes_of(self.sources) == self.mark.hashes:
            self.run()

    def arrange_and_run(self):
        mark = fingerprint(self.sources)
        self.arranged = NativeWeights.of(self.weights, self.native.lanes)
        store(self.kind, self.sources, mark, self.arranged)
        self.run()

    def run(self):
        w, tensors = self.arranged, (self.x, self.h, self.c, self.y, self.gates, self.m)
        self.native.layer(
            self.x.shape[1],
            self.c.shape[1],
            w.of_input.data_ptr(),
            w.bias.data_ptr(),
            w.of_state.data_ptr(),
            0 if w.of_cell is None else w.of_cell.data_ptr(),
            *map(_clip, self.clips),
            len(self.sizes),
            self.sizes.data_ptr(),
            TOKENS_AT_ONCE,
            *(tensor.data_ptr() for tensor in tensors),
        )
        self.done = True


@dataclass
class NativeCell:
    """One step of the cell in one pass over memory, as `cell_` and `cell_backward_`; for training."""

    library: Library

    @classmethod
    def of(cls, c: torch.Tensor) -> "NativeCell | None":
        """For cells of this size, if there is a library for them. They are float32 whatever the weights are."""
        if c.device.type != "cpu" or c.dtype == torch.float64:
            return None
        native = library()
        return None if native is None or c.shape[1] % native.lanes else cls(native)

    def forward(self, gates: torch.Tensor, c: torch.Tensor, bound: float | None) -> torch.Tensor:
        """One step, as `cell_`."""
        if not (gates.is_contiguous() and c.is_contiguous()):
            return cell_(gates, c, bound)
        m = torch.empty_like(c)
        self.library.cell(*c.shape, _clip(bound), gates.data_ptr(), c.data_ptr(), m.data_ptr())
        return m

    def backward(
        self,
        d_gates: torch.Tensor,
        m: torch.Tensor,
        gates: torch.Tensor,
        before: torch.Tensor,
        after: torch.Tensor,
        d_m: torch.Tensor,
        d_c: torch.Tensor,
        bound: float | None,
    ):
        """One step backwards, as `cell_backward_`."""
        tensors = gates, before, after, d_m, d_c, d_gates, m
        if not all(tensor.is_contiguous() for tensor in tensors):
            return cell_backward_(d_gates, m, gates, before, after, d_m, d_c, bound)
        self.library.cell_backward(*d_c.shape, _clip(bound), *(tensor.data_ptr() for tensor in tensors))


def _clip(bound: float | None) -> float:
    return -1.0 if bound is None else float(bound)


def largest_difference(library: Library) -> float:
    """Between the library and the loop in Python, over small layers with and without projection and clips."""
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 0]] * 2).bool()
    sizes = sorted(mask.sum(1).tolist(), reverse=True)
    batch_sizes = [sum(size > step for size in sizes) for step in range(sizes[0])]
    cell, largest = 2 * library.lanes, 0.0
    for size, clips in ((cell - 3, (3.0, 0.5)), (2 * cell + 5, (0.3, None)), (cell, (None, 3.0))):
        projects = size != cell
        shapes = [(4 * cell, size), (4 * cell, size), (4 * cell,), (size, cell)]
        # Larger weights would multiply rounding errors from token to token.
        weights = [0.3 * _numbers(*shape) for shape in shapes[: 3 + projects]] + [None] * (not projects)
        x, h, c = (_numbers(rows, width) for rows, width in ((sum(sizes), size), (len(mask), size), (len(mask), cell)))
        with torch.no_grad():
            both = clips[0], clips[1] if projects else None
            expected = through_time(LayerProducts.of_weights(_RowByRow, weights, both), Steps.of(batch_sizes), x, h, c)
            task = _Task(library, (x, h, c), weights, batch_sizes, both)
            task.arranged = NativeWeights.of(weights, library.lanes)
            task.run()
        for actual, reference in zip((task.y, task.h, task.c), expected, strict=True):
            largest = max(largest, float((actual - reference).abs().nan_to_num(torch.inf).max()))
    return max(largest, _largest_difference_of_cells(library))


def _largest_difference_of_cells(library: Library) -> float:
    """The same for one step of the cell and of its backward pass."""
    rows, size, largest = 3, 2 * library.lanes, 0.0
    for bound in (None, 0.5):
        results = []
        for native in (NativeCell(library), None):
            forward, backward = (cell_, cell_backward_) if native is None else (native.forward, native.backward)
            gates, before = 3 * _numbers(rows, 4 * size), _numbers(rows, size)
            after, d_m, d_c = before.clone(), _numbers(2 * rows, size)[rows:], _numbers(3 * rows, size)[2 * rows :]
            m, d_gates, m_again = forward(gates, after, bound), torch.empty(rows, 4 * size), torch.empty(rows, size)
            backward(d_gates, m_again, gates, before, after, d_m, d_c, bound)
            results.append(torch.cat([gates, after, m, d_gates, d_c, m_again], 1))
        largest = max(largest, float((results[0] - results[1]).abs().nan_to_num(torch.inf).max()))
    return largest


class _RowByRow(PlainProduct):
    """Products without threads.

    The check computes hundreds of small products. On a busy machine each would wait for all processors, which would
    delay the first sentence by seconds.
    """

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        y = torch.stack([(self.weight * row).sum(1) for row in x])
        return y if bias is None else y + bias

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return other + self(x)

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        return self(x) if bound is None else self(x).clamp_(-bound, bound)


def _numbers(*shape: int) -> torch.Tensor:
    """Pseudo-random numbers between -1 and 1 that do not change the state of any random generator."""
    k = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64)
    return (k * k * 0.6180339887498949 % 2 - 1).view(shape).float()
