"""Products in int8 by the library in C, and the order in which it reads weights."""

from functools import partial

import torch
from torch.nn import functional as F

from .native import Library
from .threads import run_in_parallel

PER_WORD = {"float32": 1, "bfloat16": 2, "int8": 4}
# Products of this many numbers are worth a second thread, and up to so many threads are.
LARGE, MOST_THREADS = 2**22, 2


def words_of(kind: str, numbers: int) -> int:
    """In how many words a row of numbers is stored, with the word of its scale."""
    return -(-numbers // PER_WORD[kind]) + 1


def in_words(panels: torch.Tensor, kind: str) -> torch.Tensor:
    """(panels, 4, LANES, columns) -> (panels, columns / G rounded up, 4, LANES, G)."""
    per_word = PER_WORD[kind]
    panels = F.pad(panels, (0, -panels.shape[-1] % per_word)).unflatten(-1, (-1, per_word))
    return panels.permute(0, 3, 1, 2, 4).contiguous()


def in_full_panels(weight: torch.Tensor, lanes: int) -> torch.Tensor:
    """A weight (P, H) with rows of zeros behind it, so that there are 4 LANES for each panel."""
    return F.pad(weight, (0, 0, 0, -len(weight) % (4 * lanes)))


class NativeInt8Product:
    """`x @ weight.T` in eight bits, with a scale for each row of the weight (out, in) and for each token."""

    def __init__(self, values: torch.Tensor, scale: torch.Tensor, library: Library):
        self.library, self.shape = library, values.shape
        values = in_full_panels(values, library.lanes)
        self.panels = in_words(values.unflatten(0, (-1, 4, library.lanes)), "int8")
        self.offsets = -library.zero_point * values.sum(1, dtype=torch.int32)
        self.scales = F.pad(scale.float(), (0, len(values) - len(scale)))

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`x @ weight.T + bias`."""
        (outputs, columns), rows, panel = self.shape, x.contiguous().float(), 4 * self.library.lanes
        words = torch.empty(len(x) * words_of("int8", columns), dtype=torch.int32)
        y, biases = rows.new_empty(len(x), outputs), torch.zeros_like(self.scales)
        if bias is not None:
            biases[:outputs] = bias
        self.library.to_words(len(x), columns, rows.data_ptr(), words.data_ptr())
        parts = self.panels, biases, self.scales, self.offsets, words, y
        pointers = [part.data_ptr() for part in parts]

        def run(first: int, after: int):
            self.library.linear(len(x), columns, outputs, first, after, *pointers)

        shares = min(MOST_THREADS, torch.get_num_threads()) if y.numel() * columns >= LARGE else 1
        share = -(-outputs // (shares * panel)) * panel
        starts = range(0, outputs, share)
        run_in_parallel([partial(run, start, min(start + share, outputs)) for start in starts])
        return y.to(x.dtype)

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """`other + x @ weight.T`."""
        return other + self(x)

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        """`x @ weight.T`, clipped to `bound` on both sides."""
        y = self(x)
        return y if bound is None else y.clamp_(-bound, bound)
