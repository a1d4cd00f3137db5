"""Word vectors remembered from batch to batch: natural text repeats most of its words."""

from collections.abc import Callable

import torch

from .fast_fork_elmo import lock

# What remembered words of a model take at most, unless somebody says otherwise.
BYTES = 2**26
# What a word takes besides its vector: its bytes, its number, and its places in the dictionary and the list.
BYTES_OF_WORD = 256


class WordCache:
    """Vectors (P,) of words in up to `most_bytes`; a new word takes the place of the one that came first."""

    def __init__(self, most_bytes: int, size: int, dtype: torch.dtype):
        self.capacity = most_bytes // bytes_of_word(size, dtype)
        self._slots: dict[bytes, int] = {}
        self._words: list[bytes] = []  # by slot
        self._next = 0
        self._store: torch.Tensor | None = None  # (up to capacity, P)

    def __len__(self) -> int:
        return len(self._slots)

    def vectors(self, words: list[bytes], encode: Callable[[list[bytes]], torch.Tensor]) -> torch.Tensor:
        """Distinct words -> (words, P); `encode` makes those that are not here."""
        if not self.capacity or not words:
            return encode(words)
        with lock:
            slots = [*map(self._slots.get, words)]
            missing = [number for number, slot in enumerate(slots) if slot is None]
            if not missing:
                return self._store[slots]
            known = [number for number, slot in enumerate(slots) if slot is not None]
            found = self._store[[slots[number] for number in known]] if known else None
        made = encode([words[number] for number in missing])
        with lock:
            self._remember([words[number] for number in missing][-self.capacity :], made[-self.capacity :])
        if found is None:
            return made
        result = made.new_empty(len(words), made.shape[1])
        result[known], result[missing] = found, made
        return result

    def _remember(self, words: list[bytes], vectors: torch.Tensor):
        # Another thread may have brought some of them in the meantime.
        new = [number for number, word in enumerate(words) if word not in self._slots]
        slots = []
        for number in new:
            slot, word = self._next, words[number]
            if slot < len(self._words):
                del self._slots[self._words[slot]]
                self._words[slot] = word
            else:
                self._words.append(word)
            self._slots[word] = slot
            slots.append(slot)
            self._next = (slot + 1) % self.capacity
        self._make_room(vectors)
        self._store[slots] = vectors[new]

    def _make_room(self, like: torch.Tensor):
        here = 0 if self._store is None else len(self._store)
        if here < len(self._words):
            rows = min(max(2 * here, len(self._words), 1024), self.capacity)
            # What inference mode makes could not be written to outside of it.
            with torch.inference_mode(False):
                store = torch.empty(rows, like.shape[1], dtype=like.dtype, device=like.device)
            if here:
                store[:here] = self._store
            self._store = store


def bytes_of_word(size: int, dtype: torch.dtype) -> int:
    """What remembering one word with a vector of so many numbers takes, at most."""
    return size * dtype.itemsize + BYTES_OF_WORD
