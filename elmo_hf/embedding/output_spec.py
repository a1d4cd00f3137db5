"""The output specification: layers, pooling, boundaries and number type of vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from elmo_hf.model.modeling_elmo import pool_words

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
POOLINGS = (None, "mean", "max", "first_last")
NAMED_LAYERS = ("mix", "all", "top", "average")


@dataclass(frozen=True)
class OutputSpec:
    """Which vectors are computed from a model's layers.

    Args:
        layers: `"mix"`, `"average"`, or the numbers of layers, 0 being the token vectors.
        several: vectors have a first axis for layers, because more than one was asked for, or a list.
        pooling: None for a vector of each word, else one vector for the sentence.
        boundaries: vectors of `<S>` and `</S>` too.
        dtype: `"float32"`, `"float16"` or `"bfloat16"`.
    """

    layers: str | tuple[int, ...]
    several: bool
    pooling: str | None = None
    boundaries: bool = False
    dtype: str = "float32"

    @classmethod
    def from_arguments(
        cls,
        config: Any,
        layers: str | int | Sequence[int] = "mix",
        pooling: str | None = None,
        boundaries: bool = False,
        dtype: str | torch.dtype = "float32",
    ) -> "OutputSpec":
        """Checks what a user asked for against the model's config."""
        if pooling not in POOLINGS:
            raise ValueError(f"Invalid `pooling`: {pooling!r}. Expected {', '.join(map(repr, POOLINGS))}.")
        if pooling is not None and boundaries:
            raise ValueError("`boundaries` keeps <S> and </S>, but `pooling` is over the words alone: one of the two.")
        dtype = str(dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise ValueError(f"Invalid `dtype`: {dtype!r}. Expected {', '.join(DTYPES)}.")
        chosen, several = _chosen_layers(layers, config.num_hidden_layers)
        return cls(chosen, several, pooling, boundaries, dtype)

    @property
    def count(self) -> int:
        """The number of layers."""
        return 1 if isinstance(self.layers, str) else len(self.layers)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The number type as torch names it."""
        return DTYPES[self.dtype]

    def select_layers(self, mixed: torch.Tensor, hidden_states: Sequence[torch.Tensor] | None) -> list[torch.Tensor]:
        """A model's mix (B, T, size) and layers -> what is kept of them, each (B, T, size)."""
        if self.layers == "mix":
            return [mixed]
        assert hidden_states is not None
        if isinstance(self.layers, str):  # "average"
            return [torch.stack(list(hidden_states)).mean(0)]
        return [hidden_states[number] for number in self.layers]

    def gather(self, chosen: Sequence[torch.Tensor], lengths: torch.Tensor, directions: int) -> list[torch.Tensor]:
        """Vectors (B, T, size) of each layer kept -> for each sentence (layers, rows, size), on the CPU.

        `lengths` (B,) counts words; position 0 of each row is `<S>`, and after its last word stands `</S>`.
        """
        if self.pooling is not None:
            places = torch.arange(chosen[0].shape[1], device=chosen[0].device)
            words = (places > 0) & (places <= lengths.to(places.device)[:, None])  # (B, T)
            pooled = torch.stack([pool_words(x.float(), words, self.pooling, directions) for x in chosen], 1)
            return list(pooled[:, :, None].to("cpu", self.torch_dtype))  # (layers, 1, size) each
        stacked = torch.stack([x.to("cpu", self.torch_dtype) for x in chosen], 1)  # (B, layers, T, size)
        begin, end = (0, 2) if self.boundaries else (1, 1)
        return [row[:, begin : length + end] for row, length in zip(stacked, lengths.tolist(), strict=True)]

    def squeeze(self, vectors: Any) -> Any:
        """(layers, rows, size) of one sentence -> without the axes that were not asked for."""
        if self.pooling is not None:
            vectors = vectors[:, 0]
        return vectors if self.several else vectors[0]


def _chosen_layers(layers: Any, number: int) -> tuple[str | tuple[int, ...], bool]:
    """What is computed, and whether it has an axis for layers."""
    if isinstance(layers, str):
        if layers in ("mix", "average"):
            return layers, False
        if layers in ("all", "top"):
            return (tuple(range(number + 1)), True) if layers == "all" else ((number,), False)
    several = isinstance(layers, (list, tuple))
    numbers = list(layers) if several else [layers]
    if numbers and all(type(index) is int and -number - 1 <= index <= number for index in numbers):
        return tuple(index % (number + 1) for index in numbers), several
    raise ValueError(
        f"Invalid `layers`: {layers!r}. Expected {', '.join(map(repr, NAMED_LAYERS))}, a number from 0 (the token "
        f"vectors) to {number}, or a list of such numbers."
    )
