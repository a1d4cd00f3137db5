"""The kernel for `highway`: the gate of a highway in one pass over memory, by the library in C; without gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from .eligibility import is_eager, needs_gradients
from .freed_memory import keep_freed_memory
from .native import library
from .native.calls import HighwayCall
from .native_product import run_ranges
from .onednn import new_rows

# Numbers that are worth a second thread, and those of a batch whose memory is kept for the next one.
LARGE, LARGE_BATCH = 2**15, 2**18


def highway(plain: Callable, x: torch.Tensor, transformed: torch.Tensor, carried: torch.Tensor) -> Any:
    """The kernel for `highway`: rows (n, size) in float32 on the CPU."""
    parts, native = (x, transformed, carried), library()
    if native is None or not is_eager(parts) or needs_gradients(parts) or x.dim() != 2 or not len(x):
        return NotImplemented
    if any(part.dtype != torch.float32 or part.device.type != "cpu" or part.shape != x.shape for part in parts):
        return NotImplemented
    x, transformed, carried = (part.detach().contiguous() for part in parts)
    rows, size = x.shape
    if x.numel() >= LARGE_BATCH:
        keep_freed_memory()
    y = new_rows(x, rows)
    named = {"x": x, "transformed": transformed, "carried": carried, "y": y}
    call = partial(HighwayCall, size=size, **{name: part.data_ptr() for name, part in named.items()})
    run_ranges(native, call, rows, 1, torch.get_num_threads() if x.numel() >= LARGE else 1)
    return y


__all__ = ["highway"]
