"""The kernel for `distinct_rows`: rows compared by a 64-bit hash, because sorting rows of 50 numbers is slow."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from .eligibility import is_eager


def distinct_rows(plain: Callable, ids: torch.Tensor) -> Any:
    """The kernel for `distinct_rows`. The result is verified; if two rows share a hash, the plain function runs."""
    if not len(ids) or not is_eager([ids]):
        return NotImplemented
    hashes = (ids.long() * _hash_factors(ids.shape[1]).to(ids.device)).sum(1)  # (N,), wraps around
    values, inverse = hashes.unique(return_inverse=True)
    first = torch.empty(len(values), dtype=torch.int64, device=ids.device)
    first[inverse] = torch.arange(len(ids), device=ids.device)
    rows = ids[first]
    return (rows, inverse) if torch.equal(rows[inverse], ids) else NotImplemented


@functools.cache
def _hash_factors(width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-(2**62), 2**62, (width,), generator=generator, dtype=torch.int64) * 2 + 1


__all__ = ["distinct_rows"]
