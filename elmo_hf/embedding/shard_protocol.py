"""What a sharded run expects of writers of shards."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from .sentence_chunks import Chunk


@dataclass(frozen=True)
class WrittenShard:
    """A finished shard."""

    number: int
    sentences: int
    words: int


class WithNotes(Protocol):
    """An open shard."""

    notes: dict[str, Any]


class ReadableFormat(Protocol):
    """A format of shards."""

    @property
    def ending(self) -> str:
        """The end of the names of the files."""

    @property
    def read(self) -> Callable[[Path], WithNotes]:
        """Opens a shard."""


class Writer(Protocol):
    """Writes the shard of a chunk. Its bytes depend on the chunk and the settings only."""

    device: torch.device

    def write(self, chunk: Chunk) -> WrittenShard:
        """Computes the shard of a chunk and writes it."""

    def is_intact(self, chunk: Chunk) -> bool:
        """Whether the shard of a chunk can be read completely and has the content of the chunk."""


class WriterLoader(Protocol):
    """What another process needs to write shards; it is pickled."""

    @property
    def model(self) -> Any:
        """The name of the model or of the models."""

    @property
    def folder(self) -> str:
        """Where the shards are written."""

    @property
    def settings(self) -> dict[str, Any]:
        """Of the store; `threads` is the number of threads of each process, and `weights` tells models apart."""

    def load(self) -> Writer:
        """Loads the writer in another process."""
