"""One step of the LSTM's cell in mixed precision, forwards and backwards: by the library in C, or by torch.

The state is float32; what products take and give is bfloat16. n rows, H units. The gates are saved as the product gave
them, and their functions computed again: rounded functions would spoil derivatives such as 1 - i of an open gate.
"""

from typing import Any

import torch

from .native import Library, library
from .native_lstm import clip_number


def mixed_cell(*arguments: Any):
    """`plain_mixed_cell` for the same arguments, by the library where there is one."""
    native = _native(arguments)
    plain_mixed_cell(*arguments) if native is None else run_mixed_cell(native, *arguments)


def mixed_cell_backward(*arguments: Any):
    """`plain_mixed_cell_backward` for the same arguments, by the library where there is one."""
    native = _native(arguments)
    plain_mixed_cell_backward(*arguments) if native is None else run_mixed_cell_backward(native, *arguments)


def plain_mixed_cell(
    gates: torch.Tensor,
    bias: torch.Tensor,
    before: torch.Tensor,
    after: torch.Tensor,
    m: torch.Tensor,
    bound: float | None,
):
    """One step of the cell: fills the state after it, and m.

    Args:
        gates: (n, 4H) in bfloat16, without the bias.
        bias: (4H,) in float32, as `gate_bias` returns it.
        before, after: (n, H) in float32, the states.
        m: (n, H) in bfloat16, what is projected.
        bound: the clip of the state, or None.
    """
    i, j, f, o = (gates.float() + bias).chunk(4, -1)
    torch.addcmul(torch.sigmoid(f) * before, torch.sigmoid(i), torch.tanh(j), out=after)
    if bound is not None:
        after.clamp_(-bound, bound)
    m.copy_(torch.sigmoid(o) * torch.tanh(after))


def plain_mixed_cell_backward(
    gates: torch.Tensor,
    bias: torch.Tensor,
    before: torch.Tensor,
    after: torch.Tensor,
    d_m: torch.Tensor,
    d_c: torch.Tensor,
    d_gates: torch.Tensor,
    d_bias: torch.Tensor,
    bound: float | None,
):
    """The same step backwards: fills `d_gates` (n, 4H) in bfloat16 and adds their sum over the rows to `d_bias`.

    `d_c` (n, H) comes in as the gradient of the state after the step and is changed into that of the state before.
    """
    i, j, f, o = (gates.float() + bias).chunk(4, -1)
    i, j, f, o = torch.sigmoid(i), torch.tanh(j), torch.sigmoid(f), torch.sigmoid(o)
    squashed, d_m = torch.tanh(after), d_m.float()
    d_c.add_(d_m * o * (1 - squashed * squashed))
    if bound is not None:
        d_c.mul_(after.abs() < bound)
    d_o = d_m * squashed * o * (1 - o)
    exact = torch.cat([d_c * j * i * (1 - i), d_c * i * (1 - j * j), d_c * before * f * (1 - f), d_o], 1)
    d_bias.add_(exact.sum(0))
    d_gates.copy_(exact)
    d_c.mul_(f)


def run_mixed_cell(native: Library, *arguments: Any):
    """`plain_mixed_cell` for the same arguments, by a library."""
    *tensors, bound = arguments
    native.mixed_cell(*tensors[2].shape, clip_number(bound), *(tensor.data_ptr() for tensor in tensors))


def run_mixed_cell_backward(native: Library, *arguments: Any):
    """`plain_mixed_cell_backward` for the same arguments, by a library."""
    *tensors, bound = arguments
    native.mixed_cell_backward(*tensors[2].shape, clip_number(bound), *(tensor.data_ptr() for tensor in tensors))


def _native(arguments: tuple[Any, ...]) -> Library | None:
    """The library, if it serves these arguments: all tensors contiguous, H a multiple of its vectors."""
    native = library()
    if native is None or arguments[2].shape[1] % native.lanes:
        return None
    return native if all(tensor.is_contiguous() for tensor in arguments[:-1]) else None
