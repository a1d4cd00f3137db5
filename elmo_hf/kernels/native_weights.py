"""The weights of an LSTM layer in the order of the library in C, in float32, bfloat16 or int8.

A word of 32 bits holds one number, two or four. LANES units of the cell, or outputs of the projection, lie side by
side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from .cell import gate_bias
from .linear import is_quantized
from .native import Library
from .native_product import in_full_panels, in_words


def kind_of(weights: Sequence[Any]) -> str | None:
    """In which kind of products a layer of these weights (input, state, bias, projection or None) is computed."""
    matrices = [weight for weight in (*weights[:2], weights[3]) if weight is not None]
    if all(is_quantized(weight) for weight in matrices):
        return "int8"
    if any(is_quantized(weight) for weight in matrices):
        return None
    return {torch.float32: "float32", torch.bfloat16: "bfloat16"}.get(matrices[0].dtype)


@dataclass
class NativeWeights:
    """A layer's weights as the library reads them. G is how many numbers a word holds."""

    kind: str
    of_input: torch.Tensor  # (H / LANES, P / G rounded up, 4, LANES, G)
    bias: torch.Tensor  # (4H,)
    of_state: torch.Tensor  # (H / LANES, P / G rounded up, 4, LANES, G)
    of_cell: torch.Tensor | None  # (P / (4 LANES) rounded up, H / G, 4, LANES, G)
    scales: torch.Tensor | None = None  # of int8: of the outputs of the three, one behind the other
    offsets: torch.Tensor | None = None  # in int32, what the zero point adds to each output, with a minus

    @classmethod
    def of(cls, weights: Sequence[Any], library: Library) -> "NativeWeights":
        """Of the weights of input, state, bias, and projection or None."""
        kind, lanes = kind_of(weights), library.lanes
        assert kind is not None
        of_input, of_state = (
            in_words(_values(weight).unflatten(0, (4, -1, lanes)).transpose(0, 1), kind) for weight in weights[:2]
        )
        of_cell = None
        if weights[3] is not None:
            of_cell = in_words(in_full_panels(_values(weights[3]), lanes).unflatten(0, (-1, 4, lanes)), kind)
        result = cls(kind, of_input, gate_bias(weights[2].detach().float()), of_state, of_cell)
        if kind == "int8":
            present = [weight for weight in (*weights[:2], weights[3]) if weight is not None]
            scales = torch.cat([scale.detach().float() for _, scale in present])
            sums = torch.cat([values.detach().sum(1, dtype=torch.int32) for values, _ in present])
            missing = -len(scales) % (4 * lanes)
            result.scales, result.offsets = (
                F.pad(part, (0, missing)) for part in (scales, -library.zero_point * sums)
            )
        return result

    def pointers(self) -> dict[str, int | None]:
        """Where the parts lie."""
        names = ("of_input", "bias", "of_state", "of_cell", "scales", "offsets")
        parts = ((name, getattr(self, name)) for name in names)
        return {name: None if part is None else part.data_ptr() for name, part in parts}


def _values(weight: Any) -> torch.Tensor:
    return (weight[0] if is_quantized(weight) else weight).detach()
