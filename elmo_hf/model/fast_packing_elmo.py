"""Which tokens of a batch are there, worked out once: tokens of a mask step by step, without padding.

Rows are sorted, the longest first, so that the rows which still have a token are always the first ones. N is the
number of tokens of the batch, n of them belong to one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

# Tokens whose input half of the gates is one product. More would not fit the cache until their step comes.
TOKENS_AT_ONCE = 192


@dataclass
class Packing:
    """Where each token of a mask (B, T) goes: step after step, the rows of a step in the order of `rows`."""

    rows: torch.Tensor  # (B,), the batch's rows, longest first
    positions: torch.Tensor  # (N,), where in the flat (B * T) batch each packed token comes from, read forwards
    turned: torch.Tensor  # (N,), tokens read forwards -> the same read backwards, and the other way round
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
        packed = starts[rank] + row
        positions, turned = np.empty_like(packed), np.empty_like(packed)
        positions[packed] = rows[row] * width + column
        turned[packed] = starts[lengths[row] - 1 - rank] + row
        on_device = (torch.from_numpy(index).to(mask.device) for index in (rows, positions, turned))
        return cls(*on_device, sizes.tolist(), starts.tolist(), lengths.tolist(), (batch, width))

    def pack(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, ...) -> (N, ...), read forwards."""
        return x.flatten(0, 1).index_select(0, self.positions)

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        """(N, ...) read forwards -> the same read backwards, and the other way round."""
        return x.index_select(0, self.turned)

    def unpack(self, xs: Sequence[torch.Tensor], reverses: Sequence[bool]) -> torch.Tensor:
        """(N, P) of each direction -> (B, T, directions * P), zero where masked."""
        size = xs[0].shape[1]
        padded = xs[0].new_zeros(self.shape[0] * self.shape[1], len(xs) * size)
        for number, (x, reverse) in enumerate(zip(xs, reverses, strict=True)):
            positions = self.turn(self.positions) if reverse else self.positions
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
