"""Everything of torch that is not public, in one place. Nothing of it is taken on trust.

Each use is tried once on a tiny product and compared with the plain way. Where an operator is missing, fails or gives
other numbers, the plain way is used instead, and one warning says so. Known to work: torch 2.13.
"""

import functools
import os
import warnings
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .fast_fork_elmo import lock

_trusted: dict[Hashable, bool] = {}


def _is_trusted(name: str, trial: Callable[[], bool], instead: str, *kind: Hashable) -> bool:
    """Whether a trial of something private went well; made once, and a failure reported once."""
    found = _trusted.get((name, *kind))
    if found is not None:
        return found
    with lock:
        if (name, *kind) not in _trusted:
            try:
                # Tensors made in inference mode are other tensors.
                with torch.inference_mode(False), torch.no_grad(), torch.autocast("cpu", enabled=False):
                    reason = None if trial() else "gives other numbers than expected"
            except Exception as error:
                reason = f"fails ({type(error).__name__}: {error})"
            _trusted[name, *kind] = reason is None
            if reason is not None:
                warnings.warn(
                    f"torch {torch.__version__}: {name} {reason}, so {instead} Vectors stay the same; known to work "
                    "is torch 2.13.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return _trusted[name, *kind]


def _is_near(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    same_kind = found.shape == expected.shape and found.dtype == expected.dtype
    return same_kind and torch.allclose(found.float(), expected.float(), rtol=tolerance, atol=tolerance)


def _numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers between -1 and 1 that no formula of the trials expects, without drawing any."""
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(1, count + 1, dtype=torch.float64) ** 1.5).view(shape).to(dtype)


# -- products by oneDNN with a weight in its own order


def pack_weight(weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight)


def packed_linear(x: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


def packed_add(other: torch.Tensor, x: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise.binary(x, other, packed, None, "add")


def packed_clipped(x: torch.Tensor, packed: torch.Tensor, bound: float) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, packed, None, "hardtanh", [-float(bound), float(bound)], "")


def onednn_can(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies by weights of this type on this device in its own order."""
    if device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16):
        return False
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled):
        return False
    if dtype == torch.bfloat16 and not _is_trusted("the question for bfloat16", _asks_for_bfloat16, PLAIN_PRODUCTS):
        return False
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    return _is_trusted("oneDNN's product", lambda: _try_products(dtype), PLAIN_PRODUCTS, dtype)


def mkl_is_faster(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether torch's own products, which are MKL's, are the faster ones for a weight as it lies.

    Measured on an Intel processor with AVX-512 they take half of oneDNN's time where a side lies transposed, and less
    for the rest; on one by AMD oneDNN is ahead everywhere. A measurement at the start could turn out another way in
    the next process, and a training that goes on there would then not be the same bit for bit.
    """
    return device.type == "cpu" and dtype == torch.float32 and torch.backends.mkl.is_available() and _is_by_intel()


@functools.cache
def _is_by_intel() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as about:
            named = about.read(200)
    except OSError:
        named = os.environ.get("PROCESSOR_IDENTIFIER", "")  # of Windows
    return "GenuineIntel" in named


PLAIN_PRODUCTS = "torch's own products are used, which are slower."


def _asks_for_bfloat16() -> bool:
    return isinstance(torch.ops.mkldnn._is_mkldnn_bf16_supported(), bool)


def _try_products(dtype: torch.dtype) -> bool:
    x, weight, bias, other = (_numbers(*shape, dtype=dtype) for shape in ((3, 8), (16, 8), (16,), (3, 16)))
    packed, tolerance = pack_weight(weight), 1e-5 if dtype == torch.float32 else 0.05
    plain = F.linear(x, weight)
    tall, wide = _numbers(8, 24, dtype=dtype).t()[:16], _numbers(16, 24, dtype=dtype)[:, :8]
    pairs = [
        (packed_linear(x, weight, bias), F.linear(x, weight, bias)),  # a weight as it lies
        (packed_linear(x, tall, None), F.linear(x, tall)),
        (packed_linear(x, wide, None), F.linear(x, wide)),
        (packed_linear(x, packed, None), plain),
        (packed_linear(x, packed, bias), F.linear(x, weight, bias)),
        (packed_add(other, x, packed), plain + other),
        (packed_clipped(x, packed, 0.5), plain.clamp(-0.5, 0.5)),
    ]
    return all(_is_near(found, expected, tolerance) for found, expected in pairs)


# -- products in eight bits


def pack_int8(rounded: torch.Tensor) -> torch.Tensor:
    return torch.ops.onednn.qlinear_prepack(rounded, None)


def int8_linear(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """x (n, in) unsigned with 128 as its zero, the form in which oneDNN has fast kernels -> (n, out) in float32."""
    arguments = (packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], "")
    return torch.ops.onednn.qlinear_pointwise(x, 1.0, 128, *arguments)


def int8_can(device: torch.device) -> bool:
    """Whether products in eight bits are exact and fast here: on older CPUs their sums overflow."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return _is_trusted("the question for eight bits", _asks_for_int8, INT8_AS_FLOATS) and (
        torch.cpu._is_vnni_supported() and _is_trusted("oneDNN's product in eight bits", _try_int8, INT8_AS_FLOATS)
    )


INT8_AS_FLOATS = "weights in eight bits are multiplied as float32, which is slower."


def _asks_for_int8() -> bool:
    return isinstance(torch.cpu._is_vnni_supported(), bool)


def _try_int8() -> bool:
    x, weight = (_numbers(*shape).mul(100).round() for shape in ((3, 8), (16, 8)))
    scale = _numbers(16).abs()
    packed = pack_int8(weight.to(torch.int8))
    found = int8_linear((x + 128).to(torch.uint8), packed, scale, torch.zeros(16, dtype=torch.long))
    return _is_near(found, F.linear(x, weight) * scale, 1e-4)


# -- derivatives that write where they are told


def sigmoid_backward(d_y: torch.Tensor, y: torch.Tensor, out: torch.Tensor):
    """`out = d_y * y * (1 - y)`, of y = sigmoid(x)."""
    if _is_trusted("sigmoid_backward", _try_sigmoid_backward, PLAIN_DERIVATIVES):
        torch.ops.aten.sigmoid_backward.grad_input(d_y, y, grad_input=out)
    else:
        out.copy_(d_y * y * (1 - y))


def tanh_backward(d_y: torch.Tensor, y: torch.Tensor, out: torch.Tensor):
    """`out = d_y * (1 - y * y)`, of y = tanh(x)."""
    if _is_trusted("tanh_backward", _try_tanh_backward, PLAIN_DERIVATIVES):
        torch.ops.aten.tanh_backward.grad_input(d_y, y, grad_input=out)
    else:
        out.copy_(d_y * (1 - y * y))


PLAIN_DERIVATIVES = "derivatives are computed in several steps."


def _try_sigmoid_backward() -> bool:
    d_y, y, out = _numbers(6), torch.sigmoid(_numbers(6) * 3), torch.empty(6)
    torch.ops.aten.sigmoid_backward.grad_input(d_y, y, grad_input=out)
    return _is_near(out, d_y * y * (1 - y), 1e-5)


def _try_tanh_backward() -> bool:
    d_y, y, out = _numbers(6), torch.tanh(_numbers(6) * 3), torch.empty(6)
    torch.ops.aten.tanh_backward.grad_input(d_y, y, grad_input=out)
    return _is_near(out, d_y * (1 - y * y), 1e-5)


# -- what has to be seen at work by others: without an answer, nothing is passed over


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is its numbers and nothing more."""
    return type(tensor) in (torch.Tensor, nn.Parameter) and not tensor.is_meta


def is_untouched(module: nn.Module) -> bool:
    """Whether a module is computed by its own `forward` on its own parameters, unseen by any hook."""
    return _is_trusted("the list of a module's hooks", _try_hooks, REFERENCE) and _is_untouched(module)


def transforms_are_active() -> bool:
    """Whether a function transform (`torch.func`) is at work; also where nobody can tell."""
    return not _is_trusted("the question for function transforms", _try_transforms, REFERENCE) or (
        torch._C._are_functorch_transforms_active()
    )


REFERENCE = "the plain loop over time is used, which is much slower."


def _is_untouched(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return (
        not any(hooks)
        and "forward" not in vars(module)
        and all(is_plain(parameter) for parameter in module._parameters.values() if parameter is not None)
    )


def _try_hooks() -> bool:
    # Not nn.Linear, which would draw its first weight and move everybody's random numbers on.
    plain, seen, before, replaced = (nn.PReLU() for _ in range(4))
    seen.register_forward_hook(lambda *_: None)
    before.register_forward_pre_hook(lambda *_: None)
    replaced.weight = nn.Parameter(torch.ones(1, device="meta"))
    return [_is_untouched(module) for module in (plain, seen, before, replaced)] == [True, False, False, False]


def _try_transforms() -> bool:
    answers = [torch._C._are_functorch_transforms_active()]

    def asked(x: torch.Tensor) -> torch.Tensor:
        answers.append(torch._C._are_functorch_transforms_active())
        return x

    torch.func.vmap(asked)(torch.ones(2))
    return answers == [False, True]


# -- whether a tensor has changed


def version(tensor: torch.Tensor) -> Any:
    """Something that is another one after a tensor was changed in place; None where nobody counts."""
    if tensor.is_inference():
        return None
    if _is_trusted("the count of a tensor's changes", _try_version, "what was made from weights is made anew."):
        return _counted(tensor)
    return object()  # equal to nothing else


def _counted(tensor: torch.Tensor) -> int:
    return tensor._version


def _try_version() -> bool:
    x = torch.ones(2)
    before = _counted(x)
    x.add_(1)
    return before != _counted(x)
