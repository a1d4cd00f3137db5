"""Word vectors cached from batch to batch: natural text repeats most of its words."""

import sys
import threading
from typing import Any

import numpy as np
import torch

from .eligibility import is_observed, needs_gradients
from .prepared import Fingerprint, can_fingerprint, fingerprint

# What an entry takes besides its vector and its key: its slot, and its places in the dictionary and the list.
BYTES_PER_ENTRY = 168


class WordCache:
    """The context-free vectors of words, up to a number of words or of megabytes; first in, first out.

    A change of the encoder's weights or settings empties it. Without the native library, which compares weights,
    nothing is cached.
    """

    def __init__(self, words: int | None = None, megabytes: float | None = None):
        self.words, self.megabytes = words, megabytes
        self._lock = threading.Lock()
        self._clear(None)

    def _clear(self, mark: Any):
        self._mark: tuple[Fingerprint, tuple] | None = mark
        self._slots: dict[bytes, int] = {}
        self._keys: list[bytes] = []  # by slot
        self._next = 0
        self._vectors: torch.Tensor | None = None  # (up to capacity, P)

    def __len__(self) -> int:
        return len(self._slots)

    # A copy of a model, and another process, begin with an empty cache.

    def __reduce__(self) -> tuple:
        return WordCache, (self.words, self.megabytes)

    def __call__(self, encoder: Any, rows: torch.Tensor) -> torch.Tensor:
        """Distinct rows (U, C) -> (U, P); `encoder.encode` computes those that are not cached."""
        weights = [*encoder.parameters(), *encoder.buffers()]
        modules = list(encoder.modules())
        if needs_gradients(weights) or is_observed(modules) or not len(rows) or not can_fingerprint(weights):
            return encoder.encode(rows)
        with torch.no_grad():
            classes = tuple(type(module) for module in modules)
            settings = encoder.activation, encoder.config.max_characters_per_token, classes
            mark = fingerprint(weights), settings
            keys = _keys_of(rows)
            with self._lock:
                if mark != self._mark:
                    self._clear(mark)
                slots = [*map(self._slots.get, keys)]
                missing = [number for number, slot in enumerate(slots) if slot is None]
                if not missing:
                    return self._vectors[slots]
                hits = [number for number, slot in enumerate(slots) if slot is not None]
                known = self._vectors[[slots[number] for number in hits]] if hits else None
            # What is cached serves later calls with or without autocast.
            with torch.autocast(rows.device.type, enabled=False):
                computed = encoder.encode(rows if known is None else rows[missing])
            with self._lock:
                if mark == self._mark:
                    capacity = self._capacity(computed, keys[0])
                    if capacity:
                        new = [keys[number] for number in missing][-capacity:]
                        self._insert(new, computed[-capacity:], capacity)
        if known is None:
            return computed
        result = computed.new_empty(len(keys), computed.shape[1])
        result[hits], result[missing] = known, computed
        return result

    def _capacity(self, like: torch.Tensor, key: bytes) -> int:
        if self.words is not None:
            return self.words
        size = like.shape[1] * like.element_size() + sys.getsizeof(key) + BYTES_PER_ENTRY
        return int(self.megabytes * 2**20) // size

    def _insert(self, keys: list[bytes], vectors: torch.Tensor, capacity: int):
        # Another thread may have inserted some of them in the meantime.
        new = [number for number, key in enumerate(keys) if key not in self._slots]
        slots = []
        for number in new:
            slot, key = self._next, keys[number]
            if slot < len(self._keys):
                del self._slots[self._keys[slot]]
                self._keys[slot] = key
            else:
                self._keys.append(key)
            self._slots[key] = slot
            slots.append(slot)
            self._next = (slot + 1) % capacity
        self._make_room(vectors, capacity)
        self._vectors[slots] = vectors[new]

    def _make_room(self, like: torch.Tensor, capacity: int):
        size = 0 if self._vectors is None else len(self._vectors)
        if size < len(self._keys):
            rows = min(max(2 * size, len(self._keys), 1024), capacity)
            # A tensor created in inference mode could not be written to outside of it.
            with torch.inference_mode(False):
                vectors = torch.empty(rows, like.shape[1], dtype=like.dtype, device=like.device)
            if size:
                vectors[:size] = self._vectors
            self._vectors = vectors


def _keys_of(rows: torch.Tensor) -> list[bytes]:
    """The bytes of each row of ids."""
    ids = np.ascontiguousarray(rows.cpu().numpy().astype("<i4"))
    return ids.view(f"V{ids.shape[1] * 4}").ravel().tolist()
