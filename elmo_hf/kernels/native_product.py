"""Products by the library in C: in int8, and of a few rows in floats; and the order in which it reads weights."""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional as F

from . import onednn
from .native import Library, supports
from .native.calls import Call, FloatLinearCall, Int8LinearCall
from .native.loader import KINDS
from .onednn import new_rows

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


def run_ranges(library: Library, call: Callable[..., Call], count: int, step: int, threads: int):
    """Runs calls for as many ranges of outputs or rows as there are threads; each begins at a whole step.

    Args:
        library: the library.
        call: makes a call of `first` and `after`.
        count: all outputs or rows.
        step: of the beginnings.
        threads: how many there may be.
    """
    share = -(-count // (threads * step)) * step
    library.run([call(first=start, after=min(start + share, count)) for start in range(0, count, share)])


# Rows for which a product by a weight as it is takes less time than oneDNN's, which copies the weight: with AVX-512
# 50% of it for 2 rows, 55 to 70% for 20, 85 to 90% for 64, and as much for 128; with AVX2 50%, 90%, and 130% for 64.
# By type and the numbers in a vector; ARM was not measured. For one row oneDNN has a way of its own.
FEW_ROWS = {("float32", 16): range(2, 129), ("float32", 8): range(2, 33), ("bfloat16", 16): range(2, 129)}
KIND_OF_TYPE = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


def multiplies_few_rows(library: Library | None, x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether `multiply_few_rows` computes `x @ weight.T` and is faster than oneDNN."""
    kind = KIND_OF_TYPE.get(weight.dtype)
    if library is None or kind is None or len(x) not in FEW_ROWS.get((kind, library.lanes), ()) or not supports(kind):
        return False
    if kind == "bfloat16" and onednn.multiplies_matrices():
        return False
    if x.dtype != weight.dtype or not (x.is_contiguous() and weight.is_contiguous()):
        return False
    return weight.shape[0] % 4 == 0 and weight.shape[1] % (library.lanes * PER_WORD[kind]) == 0


def multiply_few_rows(
    library: Library, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """`x @ weight.T + bias` (rows, out) of x (rows, in), by the weight (out, in) as it is."""
    (outputs, columns), rows = weight.shape, len(x)
    start = torch.zeros(outputs) if bias is None else bias.float().contiguous()
    y = new_rows(start[None], rows, outputs)  # in float32
    pointers = {"weight": weight.data_ptr(), "bias": start.data_ptr(), "x": x.data_ptr(), "y": y.data_ptr()}
    kind = KINDS.index(KIND_OF_TYPE[weight.dtype])
    call = partial(FloatLinearCall, kind=kind, rows=rows, columns=columns, outputs=outputs, **pointers)
    threads = torch.get_num_threads() if y.numel() * columns >= LARGE else 1
    run_ranges(library, call, outputs, 4, threads)
    return y.to(x.dtype)


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
        (outputs, columns), rows = self.shape, x.contiguous().float()
        words = torch.empty(len(x) * words_of("int8", columns), dtype=torch.int32)
        y, biases = rows.new_empty(len(x), outputs), torch.zeros_like(self.scales)
        if bias is not None:
            biases[:outputs] = bias
        self.library.to_words(len(x), columns, rows.data_ptr(), words.data_ptr())
        parts = {"panels": self.panels, "bias": biases, "scales": self.scales, "offsets": self.offsets}
        pointers = {name: part.data_ptr() for name, part in {**parts, "words": words, "y": y}.items()}
        call = partial(Int8LinearCall, rows=len(x), columns=columns, outputs=outputs, **pointers)
        threads = min(MOST_THREADS, torch.get_num_threads()) if y.numel() * columns >= LARGE else 1
        run_ranges(self.library, call, outputs, 4 * self.library.lanes, threads)
        return y.to(x.dtype)

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """`other + x @ weight.T`."""
        return other + self(x)

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        """`x @ weight.T`, clipped to `bound` on both sides."""
        y = self(x)
        return y if bound is None else y.clamp_(-bound, bound)
