"""Random numbers of the parts of a batch that are computed side by side, and the kernel for `dropout`.

torch has one random generator for all threads: with it, which thread draws first would decide what each one draws.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch

from .eligibility import is_eager


class RandomStreams(NamedTuple):
    """The generators of one part of a batch."""

    own: torch.Generator  # for what differs between the parts, such as dropout
    shared: torch.Generator  # the same numbers in every part, such as the negative samples of a batch

    @classmethod
    def of(cls, seed: int, part: int) -> "RandomStreams":
        """Of one part of the batch that a seed was drawn for."""
        return cls(*(torch.Generator().manual_seed(number) for number in (seed + 1 + part, seed)))


STREAMS: ContextVar[RandomStreams | None] = ContextVar("STREAMS", default=None)


@contextmanager
def random_streams(streams: RandomStreams) -> Iterator[None]:
    """Draws from `streams` in this thread."""
    token = STREAMS.set(streams)
    try:
        yield
    finally:
        STREAMS.reset(token)


def shared_generator() -> torch.Generator | None:
    """The generator that the parts of a batch share; None for torch's own."""
    streams = STREAMS.get()
    return None if streams is None else streams.shared


def dropout(plain: Callable, x: torch.Tensor, probability: float, trains: bool) -> Any:
    """The kernel for `dropout`, where a batch is computed in parts."""
    streams = STREAMS.get()
    if streams is None or not trains or not 0 < probability < 1 or not is_eager([x]):
        return NotImplemented
    kept = torch.empty_like(x).bernoulli_(1 - probability, generator=streams.own)
    return x * kept.div_(1 - probability)


__all__ = ["dropout"]
