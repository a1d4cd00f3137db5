"""The recurrence without work on padding: tokens of a batch step by step, and the loop of one LSTM layer over them.

Rows are sorted, the longest first, so that the rows which still have a token are always the first ones. N is the
number of tokens of the batch, n of them belong to one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from .fast_products_elmo import Linear, product_kept

if TYPE_CHECKING:
    from .lstm_elmo import ElmoLstmLayer

# Tokens whose input half of the gates is one product. More would not fit the cache until their step comes.
TOKENS_AT_ONCE = 192


@dataclass
class Packing:
    """Where each token of a mask (B, T) goes: step after step, the rows of a step in the order of `rows`."""

    rows: torch.Tensor  # (B,), the batch's rows, longest first
    positions: torch.Tensor  # (N,), where in the flat (B * T) batch each packed token comes from, read forwards
    reversed_positions: torch.Tensor  # (N,), the same read backwards
    sizes: list[int]  # rows n of each step
    starts: list[int]  # the first packed token of each step
    lengths: list[int]  # tokens of each row, in the order of `rows`
    shape: tuple[int, int]  # (B, T)
    _inverse: torch.Tensor | None = field(default=None, repr=False)

    @classmethod
    def of(cls, mask: torch.Tensor) -> "Packing":
        here = mask.cpu().numpy()
        batch, width = here.shape
        lengths = here.sum(1)
        rows = np.argsort(-lengths, kind="stable")
        lengths = lengths[rows]
        row, column = np.nonzero(here[rows])  # (N,), row by row
        rank = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # the token's number in its row
        longest = int(lengths[0]) if batch else 0
        sizes = np.searchsorted(-lengths, -np.arange(longest), side="left")  # rows with more than t tokens
        starts = np.cumsum(sizes) - sizes
        origin = rows[row] * width + column
        positions, backwards = np.empty_like(origin), np.empty_like(origin)
        positions[starts[rank] + row] = origin
        backwards[starts[lengths[row] - 1 - rank] + row] = origin
        on_device = (torch.from_numpy(index).to(mask.device) for index in (rows, positions, backwards))
        return cls(*on_device, sizes.tolist(), starts.tolist(), lengths.tolist(), (batch, width))

    def pack(self, x: torch.Tensor, reverse: bool) -> torch.Tensor:
        """(B, T, P) -> (N, P)."""
        return x.flatten(0, 1).index_select(0, self.reversed_positions if reverse else self.positions)

    def unpack(self, xs: Sequence[torch.Tensor], reverses: Sequence[bool]) -> torch.Tensor:
        """(N, P) of each direction -> (B, T, directions * P), zero where masked."""
        size = xs[0].shape[1]
        padded = xs[0].new_zeros(self.shape[0] * self.shape[1], len(xs) * size)
        for number, (x, reverse) in enumerate(zip(xs, reverses, strict=True)):
            positions = self.reversed_positions if reverse else self.positions
            padded[positions, number * size : (number + 1) * size] = x
        return padded.unflatten(0, self.shape)

    def unsort(self, state: torch.Tensor) -> torch.Tensor:
        """A state in the order of `rows` -> in the order of the batch."""
        if self._inverse is None:
            self._inverse = torch.argsort(self.rows)
        return state.index_select(0, self._inverse)

    def last_outputs(self, y: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """Of the outputs (N, P) each row's last, or its first state h (B, P) where it has no token."""
        filled = self.sizes[0] if self.sizes else 0
        last = [self.starts[length - 1] + row for row, length in enumerate(self.lengths[:filled])]
        return torch.cat([y.index_select(0, torch.tensor(last, dtype=torch.long, device=y.device)), h[filled:]])

    def blocks(self) -> list[tuple[int, int]]:
        """Runs of whole steps with at most TOKENS_AT_ONCE tokens (or one step): (first step, step after the last)."""
        blocks, first = [], 0
        for step, (start, size) in enumerate(zip(self.starts, self.sizes, strict=True)):
            if start + size - self.starts[first] > TOKENS_AT_ONCE and step > first:
                blocks.append((first, step))
                first = step
        return [*blocks, (first, len(self.sizes))] if self.sizes else []


def gate_bias(bias: torch.Tensor) -> torch.Tensor:
    """The stored bias with the forget gate's 1, which is part of the originals' cell."""
    bias = bias.detach().clone()
    bias.unflatten(0, (4, -1))[2] += 1
    return bias


def cell_(gates: torch.Tensor, c: torch.Tensor, bound: float | None) -> torch.Tensor:
    """One step of the cell from its gates (n, 4H); changes c (n, H) and the gates in place and returns m (n, H).

    torch's sigmoid is about ten times as fast as its tanh, so `tanh(x) = 2 * sigmoid(2 * x) - 1` everywhere, and `c`
    is kept as -2 times the cell's state, which saves the scaling. The gates become sigmoid(i), tanh(j) / 2,
    sigmoid(f), sigmoid(o).
    """
    i, j, f, _ = gates.chunk(4, -1)
    j.mul_(2)
    gates.sigmoid_()
    j.sub_(0.5)
    c.mul_(f).addcmul_(i, j, value=-4)
    if bound is not None:
        c.clamp_(-2 * bound, 2 * bound)
    return cell_output(gates, c)


def cell_output(gates: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """m (n, H) of gates and cell as `cell_` leaves them."""
    o = gates.chunk(4, -1)[3]
    return torch.addcmul(o, torch.sigmoid(c), o, value=-2)


@dataclass
class LayerProducts:
    """The products by one layer's weights."""

    from_input: Linear
    from_state: Linear
    project: Linear | None

    @classmethod
    def kept(cls, layer: "ElmoLstmLayer") -> "LayerProducts":
        of_input, of_state = (product_kept(layer, [layer], name) for name in ("weight_input", "weight_recurrent"))
        return cls(of_input, of_state, product_kept(layer, [layer], "weight_projection") if layer.projected else None)


def run_layer(
    layer: "ElmoLstmLayer", x: torch.Tensor, packing: Packing, h: torch.Tensor, c: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Packed inputs (N, P) and sorted states (B, P), (B, H) -> packed outputs (N, P) and the last states; no gradient.

    The cell works in float32 at least, whatever the weights are.
    """
    if not packing.sizes:
        return torch.zeros_like(x), h, c
    products, bias = LayerProducts.kept(layer), gate_bias(layer.bias)
    inner = torch.promote_types(x.dtype, torch.float32)
    state, y, outputs = c.to(inner) * -2, h, []
    for first, after in packing.blocks():
        start, end = packing.starts[first], packing.starts[after - 1] + packing.sizes[after - 1]
        from_input = products.from_input(x[start:end], bias).split(packing.sizes[first:after])  # (n, 4H) each
        for of_input in from_input:
            size = of_input.shape[0]
            gates = products.from_state.add_to(of_input, y[:size]).to(inner)
            m = cell_(gates, state[:size], layer.cell_clip).to(x.dtype)
            y = m if products.project is None else products.project.clipped(m, layer.projection_clip)
            outputs.append(y)
    y = torch.cat(outputs)
    return y, packing.last_outputs(y, h), (state * -0.5).to(c.dtype)
