"""Private operators of torch that call oneDNN, each at one place. Tests compare them with the public ones.

Known to work with torch 2.8 to 2.13; where an operator is missing, public ones are used instead.
"""

import functools
import os

import torch
from torch.nn import functional as F


def pack_weight(weight: torch.Tensor) -> torch.Tensor:
    """A weight in the memory format of oneDNN."""
    return torch.ops.mkldnn._reorder_linear_weight(weight)


def packed_linear(x: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`F.linear` by a weight that is packed or plain, also transposed."""
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


def packed_add(other: torch.Tensor, x: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    """`other + F.linear(x, packed)`."""
    return torch.ops.mkldnn._linear_pointwise.binary(x, other, packed, None, "add")


@functools.cache
def supports(device_type: str, dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies by weights of this type on this device in its own memory format."""
    if device_type != "cpu" or dtype not in (torch.float32, torch.bfloat16):
        return False
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled):
        return False
    operators = torch.ops.mkldnn
    if not (hasattr(operators, "_reorder_linear_weight") and hasattr(operators, "_linear_pointwise")):
        return False
    if dtype == torch.float32:
        return True
    return hasattr(operators, "_is_mkldnn_bf16_supported") and operators._is_mkldnn_bf16_supported()


@functools.cache
def mkl_is_faster() -> bool:
    """Whether torch's own float32 products, which are MKL's, are faster than oneDNN for a weight that is not packed.

    Measured on an Intel processor with AVX-512 they take half of oneDNN's time where a side is transposed, and less
    for the rest; on AMD oneDNN is ahead everywhere. A measurement at start-up could differ between processes, and
    training that resumes in another process would then not be the same bit for bit.
    """
    if not torch.backends.mkl.is_available():
        return False
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            processor = file.read(200)
    except OSError:
        processor = os.environ.get("PROCESSOR_IDENTIFIER", "")  # Windows
    return "GenuineIntel" in processor


def pack_int8(values: torch.Tensor) -> torch.Tensor:
    """A weight in eight bits in the memory format of oneDNN."""
    return torch.ops.onednn.qlinear_prepack(values, None)


def int8_linear(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """x (n, in) unsigned with 128 as its zero, the form in which oneDNN has fast kernels -> (n, out) in float32."""
    arguments = (packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], "")
    return torch.ops.onednn.qlinear_pointwise(x, 1.0, 128, *arguments)


@functools.cache
def supports_int8(device_type: str) -> bool:
    """Whether products in eight bits are exact and fast: on processors without VNNI their sums overflow."""
    if device_type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    operators = torch.ops.onednn
    if not (hasattr(operators, "qlinear_prepack") and hasattr(operators, "qlinear_pointwise")):
        return False
    return hasattr(torch.cpu, "_is_vnni_supported") and torch.cpu._is_vnni_supported()


@functools.cache
def multiplies_matrices() -> bool:
    """Whether the processor has units for products of whole matrices in bfloat16 and int8 (AMX), which oneDNN uses."""
    return hasattr(torch.cpu, "_is_amx_tile_supported") and torch.cpu._is_amx_tile_supported()


def sigmoid_backward(d_y: torch.Tensor, y: torch.Tensor, out: torch.Tensor):
    """`out = d_y * y * (1 - y)` for y = sigmoid(x)."""
    torch.ops.aten.sigmoid_backward.grad_input(d_y, y, grad_input=out)


def tanh_backward(d_y: torch.Tensor, y: torch.Tensor, out: torch.Tensor):
    """`out = d_y * (1 - y * y)` for y = tanh(x)."""
    torch.ops.aten.tanh_backward.grad_input(d_y, y, grad_input=out)


def rows_of_few_shapes(n: int) -> int:
    """The next number of rows of which there are few.

    oneDNN compiles a program for every number of rows and caches a thousand of them, half a megabyte each.
    """
    step = 1 if n <= 16 else 8 if n <= 64 else 32 if n <= 256 else 128
    return n + -n % step


def in_few_shapes(x: torch.Tensor) -> torch.Tensor:
    """x (n, in) with rows of zeros behind it, so that there are few different n."""
    missing = rows_of_few_shapes(len(x)) - len(x)
    return F.pad(x, (0, 0, 0, missing)) if missing else x


def with_spare_rows(x: torch.Tensor) -> torch.Tensor:
    """The same with rows of any values, for products whose rows do not mix: those behind x in its memory, if any."""
    rows, columns = rows_of_few_shapes(len(x)), x.shape[1]
    memory = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    if rows == len(x) or not x.is_contiguous() or rows * columns > memory:
        return in_few_shapes(x)
    return x.as_strided((rows, columns), (columns, 1))


def new_rows(like: torch.Tensor, rows: int, columns: int | None = None) -> torch.Tensor:
    """An empty tensor (rows, columns) with memory for spare rows behind it."""
    return like.new_empty(rows_of_few_shapes(rows), like.shape[1] if columns is None else columns)[:rows]
