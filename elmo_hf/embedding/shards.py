"""Shards of a store: their content, their file names `part-000000...`, and the formats that hold them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

# The one key of a shard's own notes.
NOTES = "elmo_hf_part"
# What to do about a damaged shard.
REMEDY = (
    "Remove the file and repeat the command, which writes it again; `elmo-hf embed` with --verify finds all damaged "
    "shards."
)


@dataclass(frozen=True)
class Shard:
    """The vectors of a chunk of sentences.

    Args:
        notes: which part of which store it is: `part`, `first` (sentence), `sentences`, `digest`, `store`.
        words: of each sentence.
        texts: of each sentence, as it was before it was split; None where words came in.
        vectors: of each sentence, (layers, rows, size).
    """

    notes: dict[str, Any]
    words: list[list[str]]
    texts: list[str] | None
    vectors: list[torch.Tensor]


class ShardReader(Protocol):
    """An open shard. Sentences are counted from the shard's own first."""

    notes: dict[str, Any]

    def vectors(self, start: int, stop: int) -> list[np.ndarray]:
        """(layers, rows, size) of some sentences; bfloat16 comes as float32."""

    def words(self, start: int, stop: int) -> list[list[str]]:
        """The words of each sentence from `start` to `stop`."""

    def texts(self, start: int, stop: int) -> list[str]:
        """The text of each sentence from `start` to `stop`."""


@dataclass(frozen=True)
class ShardFormat:
    """How shards are written and read: the end of their files' names, the types that they can hold."""

    name: str
    ending: str
    dtypes: tuple[str, ...]
    write: Callable[[Path, Shard], None]
    read: Callable[[Path], ShardReader]


class BrokenShard(ValueError):
    """A file that is no shard, or not a whole one; the message names it."""

    @classmethod
    def because(cls, what: str, error: Exception) -> "BrokenShard":
        """What was found, the reason as a library gives it, and what to do."""
        reason = str(error).strip().rstrip(".")
        return cls(f"{what}: {reason}. {REMEDY}")


def shard_name(number: int, ending: str) -> str:
    """The file name of a shard: `part-000000.safetensors`."""
    return f"part-{number:06d}{ending}"


def read_notes(text: str | bytes | None, path: Path) -> dict[str, Any]:
    """A shard's own notes, or a BrokenShard that says it has none."""
    if text is None:
        raise BrokenShard(f"{path} was not written as a part of a store of vectors (it has no {NOTES!r}).")
    return json.loads(text)


def notes_text(notes: dict[str, Any]) -> str:
    """The notes of a shard as JSON with sorted keys."""
    return json.dumps(notes, sort_keys=True)


def starts_of(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Where each of several things begins that lie one behind the other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64), dtype=np.int64)])
