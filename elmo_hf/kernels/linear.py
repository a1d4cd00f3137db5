"""Matrix products: the kernel for `linear`, and products for the other kernels, by oneDNN where it is faster."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from . import onednn
from .eligibility import is_eager, needs_gradients, share_type_and_device
from .mixed_precision import uses_bfloat16
from .native import library, supports
from .native_product import NativeInt8Product, multiplies_few_rows, multiply_few_rows
from .onednn import in_few_shapes, new_rows, with_spare_rows
from .prepared import prepared

SMALL = 2**20  # numbers of a weight
BLOCK_ROWS = 128  # rows of a product; a multiple is a number of rows that oneDNN gets


class PlainProduct:
    """`x @ weight.T` by torch itself."""

    def __init__(self, weight: torch.Tensor):
        self.weight = weight

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`x @ weight.T + bias`."""
        return F.linear(x, self.weight, bias)

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """`other + x @ weight.T`."""
        return torch.addmm(other, x, self.weight.t())

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        """`x @ weight.T`, clipped to `bound` on both sides."""
        y = F.linear(x, self.weight)
        return y if bound is None else y.clamp_(-bound, bound)


class OneDnnProduct:
    """The same by oneDNN with a packed weight; sums are part of the product."""

    def __init__(self, weight: torch.Tensor):
        weight = weight.detach().contiguous()
        self.packed = onednn.pack_weight(weight)
        # A call costs oneDNN ten microseconds before it begins: more than torch takes for one row and a small weight.
        self.plain = PlainProduct(weight) if weight.numel() <= SMALL else None

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`x @ weight.T + bias`."""
        return onednn.packed_linear(with_spare_rows(x), self.packed, bias)[: len(x)]

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """`other + x @ weight.T`."""
        if self.plain is not None and len(x) == 1:
            return self.plain.add_to(other, x)
        return onednn.packed_add(other, x, self.packed)

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        """`x @ weight.T`, clipped to `bound` on both sides."""
        if self.plain is not None and len(x) == 1:
            return self.plain.clipped(x, bound)
        # oneDNN can clip within the product, but then what is no number becomes one.
        y = self(x)
        return y if bound is None else y.clamp_(-bound, bound)


class Int8Product:
    """`x @ weight.T` in eight bits by oneDNN, with a scale for each row of the weight and for each token."""

    def __init__(self, values: torch.Tensor, scale: torch.Tensor):
        self.packed = onednn.pack_int8(values)
        self.scale, self.zeros = scale.float(), torch.zeros(len(scale), dtype=torch.long)

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """`x @ weight.T + bias`."""
        y, scale = self._product(x)
        return (y.mul_(scale) if bias is None else torch.addcmul(bias.float(), y, scale)).to(x.dtype)

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """`other + x @ weight.T`."""
        y, scale = self._product(x)
        return torch.addcmul(other.float(), y, scale).to(x.dtype)

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        """`x @ weight.T`, clipped to `bound` on both sides."""
        y = self(x)
        return y if bound is None else y.clamp_(-bound, bound)

    def _product(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The product (n, rows) without the scales (n, 1) of the tokens, and these."""
        x = x.float()
        scale = x.abs().amax(1, keepdim=True).div_(127).clamp_(min=1e-12)
        rounded = torch.div(x, scale).round_().add_(128).to(torch.uint8)
        return onednn.int8_linear(rounded, self.packed, self.scale, self.zeros), scale


Product = PlainProduct | OneDnnProduct | Int8Product | NativeInt8Product


def is_quantized(weight: Any) -> bool:
    """Whether a weight is a pair of values in eight bits and their scales."""
    return isinstance(weight, tuple)


def tensors_of(weight: Any) -> tuple[torch.Tensor, ...]:
    """The tensors that a weight consists of."""
    return tuple(weight) if is_quantized(weight) else (weight,)


def dequantize(weight: Any) -> torch.Tensor:
    """A weight as floats."""
    return weight[0].to(weight[1].dtype) * weight[1][:, None] if is_quantized(weight) else weight


def inference_product(weight: Any, rows: int) -> Product:
    """The fastest product by a weight that trains nothing, for about so many rows.

    A packed weight is cached, which needs the native library; without it, packing has to pay within the call.
    """
    if is_quantized(weight):
        values, scale = weight
        if values.device.type == "cpu" and supports("int8") and not onednn.multiplies_matrices():
            return prepared("native int8", (values, scale), lambda: NativeInt8Product(values, scale, library()))
        if onednn.supports_int8(values.device.type):
            return prepared("int8", (values, scale), lambda: Int8Product(values, scale))
        return prepared("int8 as floats", (values, scale), lambda: training_product(dequantize(weight)))
    if onednn.supports(weight.device.type, weight.dtype) and (library() is not None or rows >= 64):
        # Packed from a copy, because a cached value must not keep its weight alive.
        return prepared("onednn", (weight,), lambda: OneDnnProduct(weight.detach().clone()))
    return PlainProduct(weight)


def training_product(weight: torch.Tensor) -> Product:
    """The fastest for many products by a weight that is used in this call only; for one there is `multiply`."""
    return OneDnnProduct(weight) if onednn.supports(weight.device.type, weight.dtype) else PlainProduct(weight)


def multiply(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The fastest `F.linear` for one product by a weight: oneDNN takes it unpacked, also transposed."""
    if not len(x) or not _prefers_onednn(weight):
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x, weight, bias)
    return onednn.packed_linear(with_spare_rows(x), weight, bias)[: len(x)]


def weight_gradient(d_y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """`d_y.T @ x` over all rows (N, out), (N, in)."""
    if not len(x) or not _prefers_onednn(x):
        with torch.autocast(x.device.type, enabled=False):
            return d_y.t() @ x
    d_y, x = in_few_shapes(d_y), in_few_shapes(x)
    # The narrower one is copied into the order of a product's left side; the other one stays as it is.
    if d_y.shape[1] <= x.shape[1]:
        return onednn.packed_linear(d_y.t().contiguous(), x.t(), None)
    return onednn.packed_linear(x.t().contiguous(), d_y.t(), None).t()


def _prefers_onednn(weight: torch.Tensor) -> bool:
    if weight.dtype == torch.float32 and onednn.mkl_is_faster():
        return False
    return onednn.supports(weight.device.type, weight.dtype)


def linear(plain: Callable, x: torch.Tensor, weight: Any, bias: torch.Tensor | None = None) -> Any:
    """The kernel for `linear`: rows (n, in) on the CPU."""
    parts = tensors_of(weight)
    if x.device.type != "cpu" or x.dim() != 2 or not len(x) or not is_eager((x, bias, *parts)):
        return NotImplemented
    if not share_type_and_device((x, bias, *parts[len(parts) - 1 :])):
        return NotImplemented
    if needs_gradients((x, bias, *parts)):
        if is_quantized(weight) or not onednn.supports("cpu", weight.dtype):
            return NotImplemented
        return _TrainedLinear.apply(plain, uses_bfloat16((x, weight, bias)), x, weight, bias)
    if not is_quantized(weight):
        # A packed weight saves less than it takes to find out whether the weight has changed.
        if not _prefers_onednn(weight):
            return NotImplemented
        with torch.no_grad():
            return _multiply_in_blocks(x, weight, bias)
    with torch.no_grad():
        return inference_product(weight, len(x))(x, bias)


def _multiply_in_blocks(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`multiply`, with few rows by the library in C: all of them, or those behind the last whole block.

    oneDNN would compute up to 127 rows too many, because it gets few different numbers of rows.
    """
    native, whole = library(), len(x) - len(x) % BLOCK_ROWS
    if multiplies_few_rows(native, x, weight):
        return multiply_few_rows(native, x, weight, bias)
    if not whole or not multiplies_few_rows(native, x[whole:], weight):
        return multiply(x, weight, bias)
    parts = [multiply(x[:whole], weight, bias), multiply_few_rows(native, x[whole:], weight, bias)]
    return torch.cat(parts, out=new_rows(x, len(x), len(weight)))


class _TrainedLinear(torch.autograd.Function):
    """`F.linear` with gradients, each of its three products the fastest; `mixed` ones are computed in bfloat16."""

    @staticmethod
    def forward(
        ctx: Any, plain: Callable, mixed: bool, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.plain, ctx.mixed = plain, mixed
        ctx.save_for_backward(x, weight, bias)
        if not mixed:
            return multiply(x, weight, bias)
        y = multiply(x.bfloat16(), weight.bfloat16()).float()
        return y if bias is None else y.add_(bias)

    @staticmethod
    def backward(ctx: Any, d_y: torch.Tensor) -> tuple[Any, ...]:
        x, weight, bias = ctx.saved_tensors
        needed = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():  # gradients that are differentiated again
            return None, None, *plain_gradients(ctx.plain, (x, weight, bias), needed, d_y)
        d_bias, kind = d_y.sum(0) if needed[2] else None, d_y.dtype
        if ctx.mixed:
            d_y, x, weight = d_y.bfloat16(), x.bfloat16(), weight.bfloat16()
        d_x = multiply(d_y, weight.t()).to(kind) if needed[0] else None
        d_weight = weight_gradient(d_y, x).to(kind) if needed[1] else None
        return None, None, d_x, d_weight, d_bias


def plain_gradients(
    function: Callable[..., Any], inputs: Any, needed: Any, gradients: Any
) -> list[torch.Tensor | None]:
    """Gradients that can be differentiated again: by autograd through the plain function.

    Args:
        function: the plain function of the inputs.
        inputs: tensors or None.
        needed: which inputs need a gradient.
        gradients: of the outputs.
    """
    # Views, because one input may have been computed from another one.
    views = [None if x is None else x.view_as(x) for x in inputs]
    chosen = [x for x, need in zip(views, needed, strict=True) if need]
    results = iter(torch.autograd.grad(function(*views), chosen, gradients, create_graph=True, allow_unused=True))
    return [next(results) if need else None for need in needed]
