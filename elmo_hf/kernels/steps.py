"""What a loop over packed time steps needs to know of its batch sizes."""

import itertools
from dataclasses import dataclass

import numpy as np
import torch

# Tokens whose input half of the gates is computed in one product. More would not stay in the cache until their step.
TOKENS_AT_ONCE = 192


@dataclass
class Steps:
    """The time steps of packed tokens: n texts have a token at a step, and these are always the first ones."""

    sizes: list[int]  # texts of each step
    starts: list[int]  # the first packed token of each step

    @classmethod
    def of(cls, batch_sizes: list[int]) -> "Steps":
        """Of the batch sizes of a packing."""
        return cls(batch_sizes, [0, *itertools.accumulate(batch_sizes)][:-1])

    def last_outputs(self, y: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """Of the outputs (N, P) the last of each text, or its initial state h (B, P) if it has no token."""
        if not self.sizes:
            return h.clone()
        sizes, starts = np.array(self.sizes), np.array(self.starts)
        # A text's last step is the last one whose size exceeds the text's number.
        last_step = np.searchsorted(-sizes, -np.arange(sizes[0]), side="left") - 1
        last = torch.from_numpy(starts[last_step] + np.arange(sizes[0]))
        return torch.cat([y.index_select(0, last.to(y.device)), h[sizes[0] :]])

    def blocks(self) -> list[tuple[int, int]]:
        """Runs of whole steps with at most TOKENS_AT_ONCE tokens (or one step): (first step, step after the last)."""
        blocks, first = [], 0
        for step, (start, size) in enumerate(zip(self.starts, self.sizes, strict=True)):
            if start + size - self.starts[first] > TOKENS_AT_ONCE and step > first:
                blocks.append((first, step))
                first = step
        return [*blocks, (first, len(self.sizes))] if self.sizes else []
