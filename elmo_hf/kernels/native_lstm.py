"""The loop of one LSTM layer, and a step of its cell for training, by the library in C (native/)."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch

from . import onednn
from .cell import cell_, cell_backward_
from .linear import tensors_of
from .loop import Clips, Packed
from .native import Library, library, supports
from .native.calls import LayerCall
from .native.loader import KINDS
from .native_product import words_of
from .native_weights import NativeWeights, kind_of
from .prepared import (
    Fingerprint,
    cached,
    can_fingerprint,
    fingerprint,
    hashes_of,
    layout_of,
    store,
    stretches_of,
    weights_are_constant,
)

# Tokens whose input half of the gates is computed at once: as many as stay in a cache near the processor.
TOKENS_AT_ONCE = 48
# Share of the time of the loop in Python over oneDNN, for 1 / 8 / 64 texts.
# With AVX-512, LSTMs on one thread: float32, small size 0.4 / 0.5 / 0.55, original 0.75 / 0.8 / 0.9; bfloat16, small
# 0.2 / 0.4 / 0.6, original 0.6 / 0.8 / 0.9; int8, small 0.1 / 0.2 / 0.3, original 0.45 / 0.8 / 0.5.
# With AVX2, all of a forward pass on two threads: float32, small 0.35 / 0.4 / 0.6, original 0.95 / 0.9 / 0.85; int8,
# small 0.25 / 0.25 / 0.4, original 0.55 / 0.65 / 0.8.
# With more numbers in a weight than LARGE, it is for few texts at a time where vectors are narrower, there are more
# threads than the library uses (one for each direction), or oneDNN has units for matrices.
LARGE, FEW_ROWS = 2**20, 2
WIDE, DIRECTIONS = 8, 2
# Types of the tensors between layers, by the kind of products.
INPUT_TYPES = {
    "float32": (torch.float32,),
    "bfloat16": (torch.bfloat16,),
    "int8": (torch.float32, torch.bfloat16),
}


def most_texts(weight: torch.Tensor) -> int | None:
    """Up to how many texts at a time the library is faster than oneDNN's products; None for any number.

    Args:
        weight: the numbers of the input's weight.
    """
    if weight.numel() <= LARGE:
        return None
    wins = library().lanes >= WIDE and torch.get_num_threads() <= DIRECTIONS
    if weight.dtype != torch.float32 and onednn.multiplies_matrices():
        wins = False
    return None if wins else FEW_ROWS


def serves(weights: Sequence[Any], x: torch.Tensor, rows: int) -> bool:
    """Whether the library computes a layer with these weights for so many texts, without gradients."""
    kind = kind_of(weights[0])
    if x.device.type != "cpu" or kind is None or x.dtype not in INPUT_TYPES[kind] or not supports(kind):
        return False
    if weights[0][2].shape[0] % (4 * library().lanes):
        return False
    if not all(can_fingerprint(_sources(of_direction)) for of_direction in weights):
        return False
    most = most_texts(tensors_of(weights[0][0])[0])
    return most is None or rows <= most


def _sources(weights: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors of a layer's weights: input, state, bias, and projection or None."""
    return [part for weight in weights if weight is not None for part in tensors_of(weight)]


def run_layer(inputs: Sequence[Packed], weights: Sequence[Any], batch_sizes: list[int], clips: Clips) -> list[Packed]:
    """One layer of all directions, these in parallel where threads are allowed.

    Each thread first hashes its weights: where a byte has changed since they were arranged, they are arranged anew.
    """
    native = library()
    tasks = [LayerTask(native, packed, w, batch_sizes, clips) for packed, w in zip(inputs, weights, strict=True)]
    native.run([task.call for task in tasks if task.call is not None])
    for task in tasks:
        if task.call is None or not task.call.is_done:
            native.run([task.call_arranged()])
    return [task.results() for task in tasks]


class Arranged(NamedTuple):
    """Weights as they were arranged, and what tells whether their sources are the same: memory and its hashes."""

    weights: NativeWeights
    stretches: ctypes.Array
    hashes: ctypes.Array

    @classmethod
    def of(cls, weights: NativeWeights, sources: Sequence[torch.Tensor], mark: Fingerprint) -> "Arranged":
        """Of weights arranged from these sources, which had this fingerprint."""
        count, stretches = len(mark.hashes), chain.from_iterable(stretches_of(sources))
        return cls(weights, (ctypes.c_uint64 * (2 * count))(*stretches), (ctypes.c_uint64 * count)(*mark.hashes))


class LayerTask:
    """One direction of a layer: its inputs, its outputs, and its weights as they were arranged before.

    `call` is None if they have not been arranged, or are known to have changed.
    """

    def __init__(self, native: Library, packed: Packed, weights: Any, batch_sizes: list[int], clips: Clips):
        x, h, c = (part.detach() for part in packed)
        self.native, self.clips, self.dtype = native, clips, x.dtype
        self.sources, self.weights = _sources(weights), weights
        self.kind = kind_of(weights)
        self.x = x.float().contiguous()
        # The library changes the states in place.
        self.h, self.c = (part.to(torch.float32, copy=True, memory_format=torch.contiguous_format) for part in (h, c))
        (texts, size), cell = h.shape, c.shape[1]
        self.y, self.gates = torch.empty_like(self.x), self.x.new_empty(TOKENS_AT_ONCE, 4 * cell)
        self.m, self.room = self.x.new_empty(2, batch_sizes[0], cell + native.lanes), None
        if self.kind != "float32":
            inputs = max(TOKENS_AT_ONCE, texts) * words_of(self.kind, size)
            self.room = torch.empty(inputs + 2 * texts * words_of(self.kind, max(size, cell)), dtype=torch.int32)
        self.sizes = torch.tensor(batch_sizes, dtype=torch.int32)
        self.cache_key = f"native {self.kind} {native.lanes}"
        self.call: LayerCall | None = None
        entry = cached(self.cache_key, self.sources)
        if entry is not None and entry[0].layout == layout_of(self.sources):
            if not weights_are_constant():
                self.call = self.call_with(entry[1])
            elif hashes_of(self.sources) == entry[0].hashes:
                self.call = self.call_with(entry[1].weights)

    def call_arranged(self) -> LayerCall:
        """The call, with weights that are arranged now."""
        mark = fingerprint(self.sources)
        arranged = Arranged.of(NativeWeights.of(self.weights, self.native), self.sources, mark)
        store(self.cache_key, self.sources, mark, arranged)
        return self.call_with(arranged.weights)

    def call_with(self, arranged: Arranged | NativeWeights) -> LayerCall:
        """The call with weights whose sources have to be the same, or with weights that need no check."""
        verified = arranged if isinstance(arranged, Arranged) else None
        self.arranged = arranged  # holds the memory of the call
        weights = arranged if verified is None else verified.weights
        parts = ((name, getattr(self, name)) for name in ("sizes", "x", "h", "c", "y", "gates", "m", "room"))
        call = LayerCall(
            kind=KINDS.index(self.kind),
            projection=self.x.shape[1],
            cell=self.c.shape[1],
            steps=len(self.sizes),
            block=TOKENS_AT_ONCE,
            cell_clip=clip_number(self.clips[0]),
            projection_clip=clip_number(self.clips[1]),
            **weights.pointers(),
            **{name: None if part is None else part.data_ptr() for name, part in parts},
        )
        if verified is not None:
            call.hash_count = len(verified.hashes)
            call.stretches, call.hashes = map(ctypes.addressof, (verified.stretches, verified.hashes))
        return call

    def results(self) -> Packed:
        """The outputs and the last states, in the type of the inputs."""
        return self.y.to(self.dtype), self.h.to(self.dtype), self.c.to(self.dtype)


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
        self.library.cell(*c.shape, clip_number(bound), gates.data_ptr(), c.data_ptr(), m.data_ptr())
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
        self.library.cell_backward(*d_c.shape, clip_number(bound), *(tensor.data_ptr() for tensor in tensors))


def clip_number(bound: float | None) -> float:
    """A clip as the library takes it."""
    return -1.0 if bound is None else float(bound)
