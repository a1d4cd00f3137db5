"""The recurrence with gradients: one LSTM layer over packed tokens, and its backward pass through time by hand.

Plain autograd records a dozen operations a step and adds a weight's gradient up step by step. Here a layer is one
operation, and each weight's gradient is one product after the loop. Kept until then, in each layer and direction:
5H + 3P numbers a token (the four gates, the cell, input, output and the output before it), 86 KB a token for all
layers of the small size (2 x 1024 / 128) and 344 KB for the original size (2 x 4096 / 512).
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from .fast_cell_elmo import cell_, cell_backward_
from .fast_lstm_elmo import Packed, gate_bias
from .fast_native_elmo import NativeCell
from .fast_packing_elmo import Packing
from .fast_products_elmo import linear_once, multiply, weight_gradient
from .fast_threads_elmo import side_by_side_in_torch

if TYPE_CHECKING:
    from .lstm_elmo import ElmoLstmLayer

# Multiplications of one step from which on a thread for each direction is faster.
ENOUGH_FOR_THREADS = 2**21
# What one direction brings: x, h, c and the four weights, the last of which may be none. Of the first two the backward
# pass has copies.
GROUP, COPIED = 7, 2
Clips = tuple[float | None, float | None]


class _Kept(NamedTuple):
    """What the backward pass of one direction needs."""

    y: torch.Tensor  # (N, P)
    joined: torch.Tensor  # (N, 2P), each token's input and the output before it
    gates: list[torch.Tensor]  # (n, 4H) of each step, and the cell (n, H), both as `cell_` leaves them
    cells: list[torch.Tensor]


def run_layers_trained(
    layers: Sequence["ElmoLstmLayer"], packing: Packing, *given: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The same layer of each direction, with gradients to what is given and to the weights.

    Three tensors for each direction come and go side by side: gradient checkpointing sees no others.
    """
    clips = [(layer.cell_clip, layer.projection_clip) for layer in layers]
    tensors = []
    for number, layer in enumerate(layers):
        weights = layer.weight_input, layer.weight_recurrent, layer.bias, layer.weight_projection
        tensors += [*given[3 * number : 3 * (number + 1)], *weights]
    return _LayersThroughTime.apply(packing, clips, *tensors)


class _LayersThroughTime(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packing: Packing, clips: list[Clips], *tensors: torch.Tensor | None) -> Packed:
        ctx.packing, ctx.clips = packing, clips
        groups = [tensors[first : first + GROUP] for first in range(0, len(tensors), GROUP)]
        calls = [partial(_forward, packing, *one) for one in zip(clips, groups, strict=True)]
        done = _of_each(packing, tensors[3], calls)
        # All of it by save_for_backward: gradient checkpointing and in-place checks know only of that.
        kept = [
            (*group[COPIED:], one.y, one.joined, *one.gates, *one.cells)
            for group, (_, one) in zip(groups, done, strict=True)
        ]
        ctx.save_for_backward(*[tensor for one in kept for tensor in one])
        return (*[tensor for results, _ in done for tensor in results],)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        saved, steps, calls = ctx.saved_tensors, len(ctx.packing.sizes), []
        each = len(saved) // len(ctx.clips)
        for number, clips in enumerate(ctx.clips):
            own = saved[number * each : (number + 1) * each]
            group, (y, joined, *of_steps) = own[: GROUP - COPIED], own[GROUP - COPIED :]
            parts = _Kept(y, joined, of_steps[:steps], of_steps[steps:])
            needed = ctx.needs_input_grad[2:][number * GROUP : (number + 1) * GROUP]
            wanted = gradients[3 * number : 3 * (number + 1)], needed
            calls.append(partial(_backward, ctx.packing, clips, group, parts, *wanted))
        found = _of_each(ctx.packing, saved[1], calls)
        return None, None, *[tensor for group in found for tensor in group]


def _of_each(packing: Packing, weight: torch.Tensor, calls: Sequence[partial]) -> list[Any]:
    """What the calls for each direction return. Side by side where a step is long: products of both on all threads in
    turn would leave the others waiting whenever one works alone.
    """
    results = [None] * len(calls)
    work = 2 * weight.numel() * (packing.sizes[0] if packing.sizes else 0)
    if len(calls) == 1 or weight.device.type != "cpu" or work < ENOUGH_FOR_THREADS:
        return [call() for call in calls]

    def make(number: int):
        results[number] = calls[number]()

    side_by_side_in_torch([partial(make, number) for number in range(len(calls))])
    return results


def _forward(
    packing: Packing, clips: Clips, group: Sequence[torch.Tensor | None]
) -> tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor], _Kept]:
    """As `through_time`; input and state go into the gates in one product, whose left side the backward pass needs."""
    x, h, c, of_input, of_state, bias, of_cell = group
    inner, size = torch.promote_types(x.dtype, torch.float32), x.shape[1]
    native = NativeCell.of(c)
    cell = cell_ if native is None else native.forward
    to_gates, bias = linear_once(torch.cat([of_input, of_state], 1)), gate_bias(bias)
    project = None if of_cell is None else linear_once(of_cell)
    y, joined = torch.empty_like(x), x.new_empty(len(x), 2 * size)
    joined[:, :size] = x
    state, before, kept = c.to(inner) * -2, h, _Kept(y, joined, [], [])
    for start, rows in zip(packing.starts, packing.sizes, strict=True):
        now = slice(start, start + rows)
        joined[now, size:] = before[:rows]
        gates = to_gates(joined[now], bias).to(inner)
        m = cell(gates, state[:rows], clips[0]).to(x.dtype)
        before = y[now] = m if project is None else project.clipped(m, clips[1])
        kept.gates.append(gates)
        kept.cells.append(state[:rows].clone())
    return (y, packing.last_outputs(y, h), (state * -0.5).to(c.dtype)), kept


def _backward(
    packing: Packing,
    clips: Clips,
    group: Sequence[torch.Tensor | None],
    kept: _Kept,
    gradients: Sequence[torch.Tensor],
    needed: Sequence[bool],
) -> list[torch.Tensor | None]:
    """Gradients of the seven inputs; None for those that need none."""
    c, weight_input, weight_recurrent, _, weight_projection = group
    y, joined, gates, cells = kept
    d_y, d_h, d_c = gradients
    if not packing.sizes:
        weights = group[1:]
        return [d_y, d_h, d_c, *(torch.zeros_like(w) if n else None for w, n in zip(weights, needed[3:], strict=True))]
    inner = gates[0].dtype
    to_state = linear_once(weight_recurrent.t())
    to_cell = None if weight_projection is None else linear_once(weight_projection.t())
    d_h, d_c = d_h.clone(), d_c.to(inner, copy=True)
    d_gates = y.new_empty(len(y), 4 * c.shape[1], dtype=inner)
    d_projected = torch.empty_like(y)  # of the projection's result, before its clip
    m = y.new_empty(len(y), c.shape[1], dtype=inner)
    first_cell = c.to(inner) * -2
    native = NativeCell.of(c)
    cell_backward = cell_backward_ if native is None else native.backward
    for step in reversed(range(len(packing.sizes))):
        start, size = packing.starts[step], packing.sizes[step]
        d_projected_now = torch.add(d_y[start : start + size], d_h[:size], out=d_projected[start : start + size])
        if clips[1] is not None:
            d_projected_now.mul_(y[start : start + size].abs() < clips[1])
        d_m = (d_projected_now if to_cell is None else to_cell(d_projected_now)).to(inner)
        before = cells[step - 1][:size] if step else first_cell[:size]
        d_gates_now, m_now = d_gates[start : start + size], m[start : start + size]
        cell_backward(d_gates_now, m_now, gates[step], before, cells[step], d_m, d_c[:size], clips[0])
        d_h[:size] = to_state(d_gates_now.to(y.dtype))
    d_gates = d_gates.to(y.dtype)
    d_x = multiply(d_gates, weight_input.t()) if needed[0] else None
    return [d_x, d_h, d_c.to(c.dtype), *_weight_gradients(joined, m.to(y.dtype), d_gates, d_projected, needed[3:])]


def _weight_gradients(
    joined: torch.Tensor,
    m: torch.Tensor,
    d_gates: torch.Tensor,
    d_projected: torch.Tensor,
    needed: Sequence[bool],
) -> list[torch.Tensor | None]:
    """Those of weight_input, weight_recurrent, bias and weight_projection: one product each over all tokens."""
    d_input = d_recurrent = d_projection = None
    if needed[0] or needed[1]:
        both = weight_gradient(d_gates, joined)  # (4H, 2P)
        d_input, d_recurrent = (part.contiguous() for part in both.chunk(2, 1))
    d_bias = d_gates.sum(0) if needed[2] else None
    if needed[3]:
        d_projection = weight_gradient(d_projected, m)
    return [d_input, d_recurrent, d_bias, d_projection]
