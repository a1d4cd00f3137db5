"""What a sharded run expects of writers of shards."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from .sentence_chunks import Chunk


@dataclass(frozen=True)
class WrittenShard:
    """A finished shard."""

    number: int
    sentences: int
    words: int


class Writer(Protocol):
    """Writes the shard of a chunk. Its bytes depend on the chunk and the settings only."""

    device: torch.device

    def write(self, chunk: Chunk) -> WrittenShard:
        """Computes the shard of a chunk and writes it."""

    def is_intact(self, chunk: Chunk) -> bool:
        """Whether the shard of a chunk can be read completely and has the content of the chunk."""


class WriterLoader(Protocol):
    """What another process needs to write shards; it is pickled.

    Args:
        model: the name of the model or of the models.
        folder: where the shards are written.
        settings: of the store; `threads` is the number of threads of each process, and `weights` tells models apart.
    """

    model: Any
    folder: str
    settings: dict[str, Any]

    def load(self) -> Writer:
        """Loads the writer in another process."""
