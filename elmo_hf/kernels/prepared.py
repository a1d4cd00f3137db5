"""Weights prepared for a kernel: arranged once, and again as soon as a byte of the originals has changed.

A weight can change without a trace that torch shows (through `.data`, by a fused optimizer), so its bytes are hashed
at every use, at the speed at which memory is read: 0.2 ms for the small size, a fraction of a percent of the time of
a batch. Without the native library, which hashes, nothing is cached.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils.weak import WeakIdKeyDictionary

from .native import library
from .threads import run_in_parallel

LARGE = 2**20  # numbers from which on two threads hash


class Fingerprint(NamedTuple):
    """What tells tensors from what they were before: where they lie, their form, and a hash of their bytes."""

    layout: tuple
    hashes: tuple[int, ...]


# Storage of the first source -> {kind: (fingerprint, what was prepared)}. Tensors with weak references to them could
# not be swapped.
_cache: WeakIdKeyDictionary = WeakIdKeyDictionary()
_lock = threading.Lock()


def can_fingerprint(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the bytes of these tensors can be hashed."""
    return library() is not None and all(t.device.type == "cpu" and t.is_contiguous() for t in tensors)


def layout_of(tensors: Sequence[torch.Tensor]) -> tuple:
    """Where tensors lie, and their form."""
    return tuple((tensor.data_ptr(), tensor.shape, tensor.dtype) for tensor in tensors)


def hashes_of(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """The hashes of the bytes of tensors, two for each: of its first and of its second half."""
    return tuple(library().hash(*part) for tensor in tensors for part in _halves(tensor))


def _halves(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Address and length of the two halves of a tensor's bytes."""
    size, start = tensor.numel() * tensor.element_size(), tensor.data_ptr()
    return [(start, size // 2), (start + size // 2, size - size // 2)]


def fingerprint(tensors: Sequence[torch.Tensor]) -> Fingerprint:
    """The fingerprint of tensors for which `can_fingerprint` is true; large ones are hashed by two threads."""
    parts, hashes = [_halves(tensor) for tensor in tensors], [0] * (2 * len(tensors))

    def hash_halves(half: int):
        for number, halves in enumerate(parts):
            hashes[2 * number + half] = library().hash(*halves[half])

    calls = [partial(hash_halves, half) for half in (0, 1)]
    if sum(tensor.numel() for tensor in tensors) >= LARGE:
        run_in_parallel(calls)
    else:
        for call in calls:
            call()
    return Fingerprint(layout_of(tensors), tuple(hashes))


def cached(kind: str, sources: Sequence[torch.Tensor]) -> tuple[Fingerprint, Any] | None:
    """What was prepared from the sources, with their fingerprint at that time; to be compared before it is used."""
    with _lock:
        return _cache.get(sources[0].untyped_storage(), {}).get(kind)


def store(kind: str, sources: Sequence[torch.Tensor], mark: Fingerprint, value: Any):
    """Keeps what was prepared from the sources for as long as the storage of the first of them lives."""
    with _lock:
        _cache.setdefault(sources[0].untyped_storage(), {})[kind] = (mark, value)


def prepared(kind: str, sources: Sequence[torch.Tensor], prepare: Callable[[], Any]) -> Any:
    """What `prepare` makes from the sources: from the cache as long as their bytes are the same."""
    if not can_fingerprint(sources):
        return prepare()
    entry, mark = cached(kind, sources), fingerprint(sources)
    if entry is not None and entry[0] == mark:
        return entry[1]
    value = prepare()
    store(kind, sources, mark, value)
    return value
