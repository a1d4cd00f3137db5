"""Weights prepared for a kernel: arranged once, and again as soon as a byte of the originals has changed.

A weight can change without a trace that torch shows (through `.data`, by a fused optimizer), so its bytes are hashed
at every use, at the speed at which memory is read. That is little for a batch, and as much as a product of a few rows:
such products take their weight as it is. Inside of `constant_weights` each weight is hashed once. Without the native
library, which hashes, nothing is cached but sentences inside of `constant_weights`.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils.weak import WeakIdKeyDictionary

from .native import library
from .threads import run_in_parallel

LARGE = 2**24  # bytes from which on two threads hash: to start a thread takes as long as to hash some megabytes


class Fingerprint(NamedTuple):
    """What tells tensors from what they were before: where they lie, their form, and a hash of their bytes."""

    layout: tuple
    hashes: tuple[int, ...]


# Storage of the first source -> {kind: (fingerprint, what was prepared)}. Tensors with weak references to them could
# not be swapped.
_cache: WeakIdKeyDictionary = WeakIdKeyDictionary()
_lock = threading.Lock()
# Inside of `constant_weights`: the hashes of each tensor in the state that PyTorch shows.
_known_hashes: ContextVar[dict[tuple, tuple[int, int]] | None] = ContextVar("known_hashes", default=None)
# The same where the native library cannot hash.
_known_digests: ContextVar[dict[tuple, bytes] | None] = ContextVar("known_digests", default=None)


@contextmanager
def constant_weights() -> Iterator[None]:
    """Promises that weights stay as they are inside of the block, so that each is verified once and not at every call.

    A model of the small size then takes 60% of the time for a single sentence whose words are cached, and a little
    less for one of new words; vectors stay the same to the last bit. In-place operations, `load_state_dict`, `.to()`
    and replaced parameters are noticed all the same. Not noticed until the block ends are changes that PyTorch does
    not count: values written through `.data` or NumPy, and steps of fused optimizers. The promise holds for this
    thread.
    ElmoEmbedder makes it for each chunk of sentences, ElmoScorer and `perplexity` for each batch.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.kernels import constant_weights
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)).eval()
    >>> tokenizer = ElmoTokenizer()
    >>> with torch.inference_mode(), constant_weights():
    ...     for text in ["It rains .", "It pours ."]:
    ...         output = model(**tokenizer([text], return_tensors="pt"))
    >>> output.last_hidden_state.shape
    torch.Size([1, 5, 8])

    ```
    """
    tokens = [(variable, variable.set(variable.get() or {})) for variable in (_known_hashes, _known_digests)]
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.reset(token)


def weights_are_constant() -> bool:
    """Whether the caller has promised so, see `constant_weights`, and hashes are known after the first use."""
    return _known_hashes.get() is not None


def can_fingerprint(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the bytes of these tensors can be hashed."""
    return library() is not None and all(t.device.type == "cpu" and t.is_contiguous() for t in tensors)


def layout_of(tensors: Sequence[torch.Tensor]) -> tuple:
    """Where tensors lie, and their form."""
    return tuple((tensor.data_ptr(), tensor.shape, tensor.dtype) for tensor in tensors)


def hashes_of(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """The hashes of the bytes of tensors, two for each: of its first and of its second half."""
    known = _known_hashes.get()
    if known is None:
        return library().hashes(stretches_of(tensors))
    hashes: list[int] = []
    for tensor in tensors:
        # Tensors made in inference mode have no version counter.
        key = None if tensor.is_inference() else (tensor.data_ptr(), tensor._version, tensor.shape, tensor.dtype)
        pair = known.get(key)
        if pair is None:
            pair = library().hashes(_halves(tensor))
            if key is not None:
                known[key] = pair
        hashes += pair
    return tuple(hashes)


def stretches_of(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Address and length of each stretch of memory that is hashed: two for each tensor."""
    return [half for tensor in tensors for half in _halves(tensor)]


def identity_of(tensors: Sequence[torch.Tensor]) -> tuple | None:
    """Hashes of the bytes of tensors, or None where hashing at every call would take too long.

    On a GPU, and without the native library, that takes some 0.1 s for the small size: it pays inside of
    `constant_weights`, where each tensor is hashed once.
    """
    if can_fingerprint(tensors):
        return hashes_of(tensors)
    known = _known_digests.get()
    if known is None or any(tensor.is_inference() for tensor in tensors):
        return None
    keys = [(t.device, t.data_ptr(), t._version, t.shape, t.dtype) for t in tensors]
    for key, tensor in zip(keys, tensors, strict=True):
        if key not in known:
            data = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
            known[key] = hashlib.blake2b(data.numpy(), digest_size=16).digest()
    return tuple(known[key] for key in keys)


def _halves(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Address and length of the two halves of a tensor's bytes."""
    size, start = tensor.numel() * tensor.element_size(), tensor.data_ptr()
    return [(start, size // 2), (start + size // 2, size - size // 2)]


def fingerprint(tensors: Sequence[torch.Tensor]) -> Fingerprint:
    """The fingerprint of tensors for which `can_fingerprint` is true; large ones are hashed by two threads."""
    if weights_are_constant() or sum(tensor.nbytes for tensor in tensors) < LARGE:
        return Fingerprint(layout_of(tensors), hashes_of(tensors))
    hashes = [0] * (2 * len(tensors))

    def hash_halves(half: int):
        hashes[half::2] = library().hashes([_halves(tensor)[half] for tensor in tensors])

    run_in_parallel([partial(hash_halves, half) for half in (0, 1)])
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
