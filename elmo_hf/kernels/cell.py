"""One step of the LSTM's cell, forwards and backwards, written for torch's operators. n rows, H units.

torch's sigmoid is about ten times as fast as its tanh, so `tanh(x) = 2 * sigmoid(2 * x) - 1` everywhere, and `c` is
kept as -2 times the cell's state, which saves the scaling. The gates become sigmoid(i), tanh(j) / 2, sigmoid(f),
sigmoid(o).
"""

import torch

from .onednn import sigmoid_backward, tanh_backward


def gate_bias(bias: torch.Tensor) -> torch.Tensor:
    """The stored bias plus the 1 of the forget gate, which is part of the original cell."""
    bias = bias.detach().clone()
    bias.unflatten(0, (4, -1))[2] += 1
    return bias


def cell_(gates: torch.Tensor, c: torch.Tensor, bound: float | None) -> torch.Tensor:
    """One step of the cell from its gates (n, 4H); changes c (n, H) and the gates in place and returns m (n, H)."""
    i, j, f, o = gates.chunk(4, -1)
    j.mul_(2)
    gates.sigmoid_()
    j.sub_(0.5)
    c.mul_(f).addcmul_(i, j, value=-4)
    if bound is not None:
        c.clamp_(-2 * bound, 2 * bound)
    return torch.addcmul(o, torch.sigmoid(c), o, value=-2)


def cell_backward_(
    d_gates: torch.Tensor,
    m: torch.Tensor,
    gates: torch.Tensor,
    before: torch.Tensor,
    after: torch.Tensor,
    d_m: torch.Tensor,
    d_c: torch.Tensor,
    bound: float | None,
):
    """One step of `cell_` backwards: fills `d_gates` (n, 4H), gradients of the gates before their functions, and `m`.

    `gates`, and the cell `before` and `after`, are as `cell_` leaves them. `d_c` (n, H) comes in as the gradient of
    the true state after the step and is changed into that of the state before. `m` (n, H) is what `cell_` returned.
    """
    i, half_j, f, o = gates.chunk(4, -1)
    d_i, d_j, d_f, d_o = d_gates.chunk(4, -1)
    squashed = torch.sigmoid(after).mul_(-2).add_(1)  # tanh of the state
    torch.mul(squashed, o, out=m)
    sigmoid_backward(d_m * squashed, o, d_o)
    d_m = d_m * o
    tanh_backward(d_m, squashed, d_m)
    d_c.add_(d_m)
    if bound is not None:
        d_c.mul_(after.abs() < 2 * bound)
    j = half_j * 2
    sigmoid_backward(d_c * j, i, d_i)
    tanh_backward(d_c * i, j, d_j)
    sigmoid_backward((d_c * before).mul_(-0.5), f, d_f)
    d_c.mul_(f)
