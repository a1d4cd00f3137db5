"""One direction of a layer in mixed precision, forwards and backwards through time, for `lstm_training`.

Products take and give bfloat16; the state, the sum of each product, the gradient of the bias and what is returned are
float32. Saved until the backward pass, for each layer and direction: 12H + 8P bytes a token, less than half of what
float32 needs.
"""

from collections.abc import Sequence
from typing import Any

import torch

from .cell import gate_bias
from .linear import multiply, training_product, weight_gradient
from .mixed_cell import mixed_cell, mixed_cell_backward
from .steps import Steps

Clips = tuple[float | None, float | None]
HALF = torch.bfloat16


def forward(
    steps: Steps, clips: Clips, group: Sequence[Any]
) -> tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor], list[torch.Tensor]]:
    """The outputs, the last states, and what the backward pass needs.

    Args:
        steps: the time steps.
        clips: of the cell and of the projection.
        group: x (N, P), h (B, P), c (B, H), and the weights of input, state, bias, and projection or None.
    """
    x, h, c, of_input, of_state, bias, of_cell = group
    size, cell = x.shape[1], c.shape[1]
    to_gates, bias = training_product(torch.cat([of_input, of_state], 1).to(HALF)), gate_bias(bias)
    project = None if of_cell is None else training_product(of_cell.to(HALF))
    y, joined = torch.empty_like(x), x.new_empty(len(x), 2 * size, dtype=HALF)
    cells, m = x.new_empty(len(x), cell), x.new_empty(len(x), cell, dtype=HALF)
    joined[:, :size] = x
    before, state, all_gates = h.to(HALF), c.contiguous(), []
    for start, rows in zip(steps.starts, steps.sizes, strict=True):
        now = slice(start, start + rows)
        joined[now, size:] = before[:rows]
        gates = to_gates(joined[now])
        mixed_cell(gates, bias, state[:rows], cells[now], m[now], clips[0])
        before = m[now] if project is None else project.clipped(m[now], clips[1])
        y[now], state = before, cells[now]
        all_gates.append(gates)
    return (y, steps.last_outputs(y, h), steps.last_outputs(cells, c)), [y, joined, cells, m, bias, *all_gates]


def backward(
    steps: Steps,
    clips: Clips,
    group: Sequence[Any],
    saved: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    needed: Sequence[bool],
) -> list[torch.Tensor | None]:
    """Gradients of the seven inputs; None for those that need none."""
    _, _, c, of_input, of_state, _, of_cell = group
    y, joined, cells, m, bias, *gates = saved
    d_y, d_h, d_c = gradients
    to_state = training_product(of_state.t().to(HALF))
    to_cell = None if of_cell is None else training_product(of_cell.t().to(HALF))
    d_h, d_c, first_cell = d_h.clone(), d_c.clone(memory_format=torch.contiguous_format), c.contiguous()
    d_gates, d_bias = m.new_empty(len(y), 4 * c.shape[1]), torch.zeros_like(bias)
    d_projected = y.new_empty(y.shape, dtype=HALF)  # of the projection's result, before its clip
    for step in reversed(range(len(steps.sizes))):
        start, size = steps.starts[step], steps.sizes[step]
        now = slice(start, start + size)
        d_output = d_y[now] + d_h[:size]
        if clips[1] is not None and to_cell is not None:
            d_output.mul_(y[now].abs() < clips[1])
        d_projected[now] = d_output
        d_m = d_projected[now] if to_cell is None else to_cell(d_projected[now])
        earlier = steps.starts[step - 1]
        before = cells[earlier : earlier + size] if step else first_cell[:size]
        mixed_cell_backward(gates[step], bias, before, cells[now], d_m, d_c[:size], d_gates[now], d_bias, clips[0])
        d_h[:size] = to_state(d_gates[now])
    d_x = multiply(d_gates, of_input.t().to(HALF)).float() if needed[0] else None
    d_input = d_recurrent = d_projection = None
    if needed[3] or needed[4]:
        # Not `weight_gradient`, whose result would be transposed: it is copied into two tensors.
        d_input, d_recurrent = (part.float() for part in (d_gates.t() @ joined).chunk(2, 1))  # (4H, 2P)
    if needed[6]:
        d_projection = weight_gradient(d_projected, m).float()
    return [d_x, d_h, d_c, d_input, d_recurrent, d_bias if needed[5] else None, d_projection]
