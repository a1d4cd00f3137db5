"""Weights in eight bits: a quarter of the memory, and products several times as fast on a CPU that has them.

Each row of a weight has its own scale, and so has each token on its way in (at run time), so that a token's vector
does not depend on its neighbours. Cosine to float32, mean over tokens, on every layer: above 0.999.
"""

import torch
from torch import nn
from torch.nn import functional as F


def quantize_weight(module: nn.Module, name: str):
    """Replaces a weight by the buffers `<name>_int8` (rows, columns) and `<name>_scale` (rows,)."""
    weight = getattr(module, name).detach()
    scale = weight.float().abs().amax(1).clamp(min=1e-12) / 127
    rounded = (weight.float() / scale[:, None]).round().clamp(-127, 127).to(torch.int8)
    setattr(module, name, None)
    module.register_buffer(f"{name}_int8", rounded)
    module.register_buffer(f"{name}_scale", scale)


def is_quantized(module: nn.Module, name: str = "weight") -> bool:
    return f"{name}_int8" in module._buffers


def dense_weight(module: nn.Module, name: str = "weight") -> torch.Tensor | None:
    """A module's weight by name, as numbers to multiply by whatever it is stored as; None where it has none."""
    if not is_quantized(module, name):
        return getattr(module, name)
    rounded, scale = getattr(module, f"{name}_int8"), getattr(module, f"{name}_scale")
    return rounded.to(scale.dtype) * scale[:, None]


class ElmoInt8Linear(nn.Module):
    """A linear layer with its weight in eight bits; for inference."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.weight = linear.weight
        self.bias = linear.bias
        quantize_weight(self, "weight")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, dense_weight(self), self.bias)


class Int8Product:
    """`x @ weight.T` in eight bits by oneDNN, with a weight in its own order."""

    def __init__(self, rounded: torch.Tensor, scale: torch.Tensor):
        self.packed = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.scale, self.zeros = scale.float(), torch.zeros(len(scale), dtype=torch.long)

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        y, scale = self._product(x)
        return (y.mul_(scale) if bias is None else torch.addcmul(bias.float(), y, scale)).to(x.dtype)

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y, scale = self._product(x)
        return torch.addcmul(other.float(), y, scale).to(x.dtype)

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        y = self(x)
        return y if bound is None else y.clamp_(-bound, bound)

    def _product(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The product (n, rows) without the scales (n, 1) of the tokens, and these."""
        x = x.float()
        scale = x.abs().amax(1, keepdim=True).div_(127).clamp_(min=1e-12)
        # Unsigned with 128 in the middle: the form in which oneDNN has fast kernels.
        rounded = torch.div(x, scale).round_().add_(128).to(torch.uint8)
        arguments = (self.packed, self.scale, self.zeros, None, 1.0, 0, torch.float32, "none", [], "")
        return torch.ops.onednn.qlinear_pointwise(rounded, 1.0, 128, *arguments), scale


def int8_can(device: torch.device) -> bool:
    """Whether products in eight bits are exact and fast here: on older CPUs their sums overflow."""
    operators = torch.ops.onednn
    known = hasattr(operators, "qlinear_prepack") and hasattr(operators, "qlinear_pointwise")
    return device.type == "cpu" and torch.backends.mkldnn.is_available() and known and torch.cpu._is_vnni_supported()
