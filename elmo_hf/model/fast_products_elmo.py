"""Matrix products with weights that were rearranged once, and rearranged again as soon as they have changed.

oneDNN multiplies much faster by a weight in its own order. Such a copy can be neither saved nor moved, so it lives
here, outside of the module, and is dropped with it. Everything else (other devices, other types, a torch without
these operators) multiplies by the weight itself.
"""

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from .fast_fork_elmo import lock
from .fast_int8_elmo import Int8Product
from .fast_operators_elmo import (
    int8_can,
    mkl_is_faster,
    onednn_can,
    pack_weight,
    packed_add,
    packed_clipped,
    packed_linear,
    version,
)
from .int8_elmo import dense_weight, is_quantized

SMALL = 2**20  # numbers of a weight


class PlainLinear:
    """`x @ weight.T` by torch itself."""

    def __init__(self, weight: torch.Tensor):
        self.weight = weight

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return F.linear(x, self.weight, bias)

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(other, x, self.weight.t())

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        y = F.linear(x, self.weight)
        return y if bound is None else y.clamp_(-bound, bound)


class OneDnnLinear:
    """The same by oneDNN with a weight in its own order; sums and clips happen inside the product."""

    def __init__(self, weight: torch.Tensor):
        weight = weight.detach().contiguous()
        self.packed = pack_weight(weight)
        # A call costs oneDNN ten microseconds before it begins: more than torch takes for one row and a small weight.
        self.plain = PlainLinear(weight) if weight.numel() <= SMALL else None

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return packed_linear(in_few_shapes(x), self.packed, bias)[: len(x)]

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if self.plain is not None and len(x) == 1:
            return self.plain.add_to(other, x)
        return packed_add(other, x, self.packed)

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        if self.plain is not None and len(x) == 1:
            return self.plain.clipped(x, bound)
        if bound is None:
            return self(x)
        return packed_clipped(in_few_shapes(x), self.packed, bound)[: len(x)]


def in_few_shapes(x: torch.Tensor) -> torch.Tensor:
    """x (n, in) with rows of zeros after it.

    oneDNN writes a program for every number of rows that it meets and keeps a thousand of them, half a megabyte each.
    """
    n = len(x)
    step = 1 if n <= 16 else 8 if n <= 64 else 32 if n <= 256 else 128
    missing = -n % step
    return F.pad(x, (0, 0, 0, missing)) if missing else x


Linear = PlainLinear | OneDnnLinear | Int8Product


def linear_once(weight: torch.Tensor) -> Linear:
    """The fastest for many products by a weight that is used in this call only; for one there is `multiply`."""
    return OneDnnLinear(weight) if onednn_can(weight.device, weight.dtype) else PlainLinear(weight)


def _on_top(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    return weights[0] if len(weights) == 1 else torch.cat(list(weights))


def product_kept(owner: nn.Module, modules: Sequence[nn.Module], name: str = "weight") -> Linear:
    """The fastest product by the weights that several modules have under a name, on top of each other; kept."""
    if not is_quantized(modules[0], name):
        return linear_kept(owner, name, *(getattr(module, name) for module in modules))
    parts = tuple(getattr(module, f"{name}_{part}") for part in ("int8", "scale") for module in modules)
    if int8_can(parts[0].device):
        halves = parts[: len(modules)], parts[len(modules) :]
        return kept(owner, name, parts, lambda: Int8Product(*map(_on_top, halves)))
    return kept(owner, name, parts, lambda: linear_once(_on_top([dense_weight(module, name) for module in modules])))


def linear_kept(
    owner: nn.Module,
    name: str,
    *weights: torch.Tensor,
    join: Callable[[Sequence[torch.Tensor]], torch.Tensor] = _on_top,
) -> Linear:
    """The fastest product by a weight, or by what `join` makes from several; kept for the next call."""
    if not onednn_can(weights[0].device, weights[0].dtype):
        return PlainLinear(join(weights))
    return kept(owner, name, weights, lambda: OneDnnLinear(join(weights)))


def multiply(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The fastest `F.linear` for one product by a weight: oneDNN takes it as it lies, also transposed."""
    if not len(x) or mkl_is_faster(weight.device, weight.dtype) or not onednn_can(weight.device, weight.dtype):
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x, weight, bias)
    return packed_linear(in_few_shapes(x), weight, bias)[: len(x)]


def weight_gradient(d_y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """`d_y.T @ x` over all rows (N, out), (N, in)."""
    if not len(x) or mkl_is_faster(x.device, x.dtype) or not onednn_can(x.device, x.dtype):
        with torch.autocast(x.device.type, enabled=False):
            return d_y.t() @ x
    d_y, x = in_few_shapes(d_y), in_few_shapes(x)
    # The narrower one is written anew in the order of a product's left side; the other one stays as it lies.
    if d_y.shape[1] <= x.shape[1]:
        return packed_linear(d_y.t().contiguous(), x.t(), None)
    return packed_linear(x.t().contiguous(), d_y.t(), None).t()


def trained_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """`F.linear` with gradients, each of its three products the fastest."""
    if not onednn_can(weight.device, weight.dtype):
        return F.linear(x, weight, bias)
    return _TrainedLinear.apply(x, weight, bias)


class _TrainedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return multiply(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        d_x = multiply(d_y, weight.t()) if needed[0] else None
        d_weight = weight_gradient(d_y, x) if needed[1] else None
        return d_x, d_weight, d_y.sum(0) if needed[2] else None


# -- what was made from weights, for as long as these stay as they are


class _Sources:
    """What weights looked like when something was made from them."""

    def __init__(self, weights: Sequence[torch.Tensor]):
        self.weights = [weakref.ref(weight) for weight in weights]
        self.marks = [_mark(weight) for weight in weights]
        self.steps = [_step(weight) for weight in weights]
        self.sample = self._sample(weights)

    def are_unchanged(self, weights: Sequence[torch.Tensor]) -> bool:
        if len(weights) != len(self.weights):
            return False
        pairs = zip(weights, self.weights, self.marks, strict=True)
        if not all(one() is weight and mark == _mark(weight) for weight, one, mark in pairs):
            return False
        return all(map(torch.equal, self._sample(weights), self.sample))

    def _sample(self, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Some numbers of each weight, those of one device in one tensor: a call for each would take longer."""
        devices: dict[torch.device, list[torch.Tensor]] = {}
        for weight, step in zip(weights, self.steps, strict=True):
            devices.setdefault(weight.device, []).append(weight.detach().reshape(-1)[::step])
        return [torch.cat(numbers) for numbers in devices.values()]


def _mark(weight: torch.Tensor) -> tuple:
    return version(weight), weight.data_ptr(), weight.shape, weight.dtype, weight.device


def _step(weight: torch.Tensor) -> int:
    """From number to number of a sample.

    Fused optimizers and edits through `.data` leave a weight's version as it was. They cannot leave its numbers: a
    walk along the diagonals meets every row and every column.
    """
    if weight.dim() < 2 or not weight.numel():
        return 1
    columns = weight.numel() // len(weight)
    step = max(min(len(weight), columns) - 1, 1)
    while math.gcd(step, columns) > 1:
        step -= 1
    return step


_kept: weakref.WeakKeyDictionary[nn.Module, dict[str, tuple[_Sources, Any]]] = weakref.WeakKeyDictionary()


def kept(owner: nn.Module, name: str, weights: tuple[torch.Tensor, ...], make: Callable[[], Any]) -> Any:
    """What `make` makes from the weights: the same object for as long as none of them has changed."""
    with lock:
        entry = _kept.get(owner, {}).get(name)
    if entry is not None and entry[0].are_unchanged(weights):
        return entry[1]
    # Looked at before it is read: a change in between makes the next call look again.
    sources = _Sources(weights)
    made = make()
    with lock:
        _kept.setdefault(owner, {})[name] = (sources, made)
    return made


def forget(owner: nn.Module):
    """Drops all that was made from weights of this module."""
    with lock:
        _kept.pop(owner, None)


def _forget_trained(optimizer: Optimizer, *_: Any):
    if not _kept:
        return
    trained = {id(p) for group in optimizer.param_groups for p in group["params"] if p.grad is not None}
    with lock:
        for entries in _kept.values():
            for name in [name for name, (sources, _) in entries.items() if _any_of(trained, sources)]:
                del entries[name]


def _any_of(trained: set[int], sources: _Sources) -> bool:
    return any(id(weight()) in trained for weight in sources.weights)


register_optimizer_step_post_hook(_forget_trained)
