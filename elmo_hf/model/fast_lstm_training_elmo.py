"""The recurrence with gradients: one LSTM layer over packed tokens, and its backward pass through time by hand.

Plain autograd records a dozen operations a step and adds a weight's gradient up step by step. Here a layer is one
operation, and each weight's gradient is one product after the loop. Kept until then, in each layer and direction:
5H + 2P numbers a token (the four gates, the cell, input and output), 84 KB a token for all layers of the small size
(2 x 1024 / 128) and 336 KB for the original size (2 x 4096 / 512).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable

from .fast_lstm_elmo import LayerProducts, Packing, cell_, cell_output, gate_bias
from .fast_products_elmo import linear_once, weight_gradient

if TYPE_CHECKING:
    from .lstm_elmo import ElmoLstmLayer

Tensors = tuple[torch.Tensor | None, ...]
# What one layer of one direction takes: x (N, P), h (B, P), c (B, H) and its four weights, the last of them or None.
INPUTS = 7


def run_layers_trained(
    layers: Sequence["ElmoLstmLayer"], packing: Packing, *given: torch.Tensor
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """The same layer of each direction: x, h, c of each -> (y, last h, last c) of each, with gradients to all."""
    flat = []
    for number, layer in enumerate(layers):
        flat += given[3 * number : 3 * number + 3]
        flat += [layer.weight_input, layer.weight_recurrent, layer.bias, layer.weight_projection]
    outputs = _LayerThroughTime.apply(packing, (layers[0].cell_clip, layers[0].projection_clip), *flat)
    return [outputs[at : at + 3] for at in range(0, len(outputs), 3)]


class _LayerThroughTime(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packing: Packing, clips: tuple, *flat: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        ctx.packing, ctx.clips = packing, clips
        groups = [flat[at : at + INPUTS] for at in range(0, len(flat), INPUTS)]
        results = [_forward(packing, clips, *group) for group in groups]
        # All of it by save_for_backward: gradient checkpointing and in-place checks know only of that.
        ctx.save_for_backward(*flat, *(tensor for outputs, steps in results for tensor in (outputs[0], *steps)))
        return tuple(tensor for outputs, _ in results for tensor in outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        saved, packing, clips = ctx.saved_tensors, ctx.packing, ctx.clips
        count, steps = len(gradients) // 3, len(packing.sizes)
        kept, results = saved[count * INPUTS :], []
        for number in range(count):
            group = saved[number * INPUTS : (number + 1) * INPUTS]
            y, *of_steps = kept[number * (1 + 2 * steps) : (number + 1) * (1 + 2 * steps)]
            needed = ctx.needs_input_grad[2 + number * INPUTS : 2 + (number + 1) * INPUTS]
            given = gradients[3 * number : 3 * number + 3]
            results += _backward(packing, clips, group, y, of_steps, given, needed)
        return None, None, *results


def _forward(
    packing: Packing,
    clips: tuple[float | None, float | None],
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor,
    weight_input: torch.Tensor,
    weight_recurrent: torch.Tensor,
    bias: torch.Tensor,
    weight_projection: torch.Tensor | None,
) -> tuple[tuple[torch.Tensor, ...], list[torch.Tensor]]:
    """(y, last h, last c), and of every step the gates (n, 4H) and the cell (n, H), both as `cell_` leaves them."""
    if not packing.sizes:
        return (torch.zeros_like(x), h.clone(), c.clone()), []
    products = LayerProducts(
        linear_once(weight_input),
        linear_once(weight_recurrent),
        None if weight_projection is None else linear_once(weight_projection),
    )
    inner, bias = torch.promote_types(x.dtype, torch.float32), gate_bias(bias)
    state, y, outputs, gates_kept, cells_kept = c.to(inner) * -2, h, [], [], []
    for first, after in packing.blocks():
        start, end = packing.starts[first], packing.starts[after - 1] + packing.sizes[after - 1]
        for of_input in products.from_input(x[start:end], bias).split(packing.sizes[first:after]):  # (n, 4H)
            size = of_input.shape[0]
            gates = products.from_state.add_to(of_input, y[:size]).to(inner)
            m = cell_(gates, state[:size], clips[0]).to(x.dtype)
            y = m if products.project is None else products.project.clipped(m, clips[1])
            outputs.append(y)
            gates_kept.append(gates)
            cells_kept.append(state[:size].clone())
    y = torch.cat(outputs)
    return (y, packing.last_outputs(y, h), (state * -0.5).to(c.dtype)), [*gates_kept, *cells_kept]


def _backward(
    packing: Packing,
    clips: tuple[float | None, float | None],
    group: Tensors,
    y: torch.Tensor,
    of_steps: list[torch.Tensor],
    gradients: Tensors,
    needed: Sequence[bool],
) -> list[torch.Tensor | None]:
    """Gradients of the seven inputs; None for those that need none."""
    x, h, c, weight_input, weight_recurrent, _, weight_projection = group
    d_y, d_h, d_c = gradients
    if not packing.sizes:
        weights = group[3:]
        return [d_y, d_h, d_c, *(torch.zeros_like(w) if n else None for w, n in zip(weights, needed[3:], strict=True))]
    inner = of_steps[0].dtype
    gates, cells = of_steps[: len(packing.sizes)], of_steps[len(packing.sizes) :]
    to_state = linear_once(weight_recurrent.t())
    to_cell = None if weight_projection is None else linear_once(weight_projection.t())
    d_h, d_c = d_h.clone(), d_c.to(inner)
    d_gates = x.new_empty(x.shape[0], 4 * c.shape[1], dtype=inner)
    d_projected = x.new_empty(x.shape)  # of the projection's result, before its clip
    first_cell = c.to(inner) * -2
    for step in reversed(range(len(packing.sizes))):
        start, size = packing.starts[step], packing.sizes[step]
        d_projected_now = torch.add(d_y[start : start + size], d_h[:size], out=d_projected[start : start + size])
        if clips[1] is not None:
            d_projected_now.mul_(y[start : start + size].abs() < clips[1])
        d_m = (d_projected_now if to_cell is None else to_cell(d_projected_now)).to(inner)
        before = cells[step - 1][:size] if step else first_cell[:size]
        d_gates_now = d_gates[start : start + size]
        cell_backward_(d_gates_now, gates[step], before, cells[step], d_m, d_c[:size], clips[0])
        d_h[:size] = to_state(d_gates_now.to(x.dtype))
    d_gates = d_gates.to(x.dtype)
    d_weights = _weight_gradients(packing, group, y, gates, cells, d_gates, d_projected, needed[3:])
    d_x = linear_once(weight_input.t())(d_gates) if needed[0] else None
    return [d_x, d_h, d_c.to(c.dtype), *d_weights]


def cell_backward_(
    d_gates: torch.Tensor,
    gates: torch.Tensor,
    before: torch.Tensor,
    after: torch.Tensor,
    d_m: torch.Tensor,
    d_c: torch.Tensor,
    bound: float | None,
):
    """One step of `cell_` backwards: fills `d_gates` (n, 4H), the gradient of the gates before their functions.

    `gates`, and the cell `before` and `after`, are as `cell_` leaves them (-2 times the state). `d_c` (n, H) comes in
    as the gradient of the true state after the step and is changed into that of the state before.
    """
    sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward
    i, half_j, f, o = gates.chunk(4, -1)
    d_i, d_j, d_f, d_o = d_gates.chunk(4, -1)
    squashed = torch.sigmoid(after).mul_(-2).add_(1)  # tanh of the state
    sigmoid_backward.grad_input(d_m * squashed, o, grad_input=d_o)
    d_c.add_(tanh_backward(d_m * o, squashed))
    if bound is not None:
        d_c.mul_(after.abs() < 2 * bound)
    j = half_j * 2
    sigmoid_backward.grad_input(d_c * j, i, grad_input=d_i)
    tanh_backward.grad_input(d_c * i, j, grad_input=d_j)
    sigmoid_backward.grad_input((d_c * before).mul_(-0.5), f, grad_input=d_f)
    d_c.mul_(f)


def _weight_gradients(
    packing: Packing,
    group: Tensors,
    y: torch.Tensor,
    gates: list[torch.Tensor],
    cells: list[torch.Tensor],
    d_gates: torch.Tensor,
    d_projected: torch.Tensor,
    needed: Sequence[bool],
) -> list[torch.Tensor | None]:
    """Those of weight_input, weight_recurrent, bias and weight_projection: one product each over all tokens."""
    x, h = group[:2]
    d_input = d_recurrent = d_projection = None
    if needed[0] or needed[1]:
        outputs = y.split(packing.sizes)
        before = [h[: packing.sizes[0]], *(o[:size] for o, size in zip(outputs, packing.sizes[1:], strict=False))]
        both = weight_gradient(d_gates, torch.cat([x, torch.cat(before)], 1))  # (4H, 2P)
        d_input, d_recurrent = (part.contiguous() for part in both.chunk(2, 1))
    d_bias = d_gates.sum(0) if needed[2] else None
    if needed[3]:
        m = [cell_output(of_gates, of_cell) for of_gates, of_cell in zip(gates, cells, strict=True)]
        d_projection = weight_gradient(d_projected, torch.cat(m).to(x.dtype))
    return [d_input, d_recurrent, d_bias, d_projection]
