"""The kernel for `lstm_layer` with gradients: one layer over packed tokens, with a backward pass through time by hand.

Plain autograd records a dozen operations a step and adds a weight's gradient up step by step. Here a layer is one
operation, and each weight's gradient is one product after the loop. Saved until then, for each layer and direction:
5H + 3P numbers a token (the four gates, the cell, input, output and the output before it), 86 KB a token for all
layers of the small size (2 x 1024 / 128) and 344 KB for the original size (2 x 4096 / 512). In mixed precision, see
`mixed_lstm`, less than half of it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from . import mixed_lstm
from .cell import cell_, cell_backward_, gate_bias
from .linear import multiply, plain_gradients, training_product, weight_gradient
from .mixed_precision import uses_bfloat16
from .native_lstm import NativeCell
from .steps import Steps
from .threads import run_torch_in_parallel

# From this many multiplications per step on, a thread for each direction is faster.
ENOUGH_FOR_THREADS = 2**21
# The tensors of one direction: x, h, c and the four weights, the last of which may be None.
GROUP = 7
Clips = tuple[float | None, float | None]
Packed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def train_layer(
    plain: Callable, inputs: Sequence[Packed], weights: Sequence[Any], batch_sizes: list[int], clips: Clips
) -> list[Packed]:
    """One layer of all directions, with gradients to inputs, states and weights."""
    tensors = [tensor for states, matrices in zip(inputs, weights, strict=True) for tensor in (*states, *matrices)]
    results = _LayerThroughTime.apply(plain, batch_sizes, clips, uses_bfloat16(tensors), *tensors)
    return [results[first : first + 3] for first in range(0, len(results), 3)]


class _LayerThroughTime(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        plain: Callable,
        batch_sizes: list[int],
        clips: Clips,
        mixed: bool,
        *tensors: torch.Tensor | None,
    ) -> tuple[torch.Tensor, ...]:
        steps = Steps.of(batch_sizes)
        ctx.plain, ctx.steps, ctx.clips, ctx.mixed, ctx.tensors = plain, steps, clips, mixed, len(tensors)
        groups = [tensors[first : first + GROUP] for first in range(0, len(tensors), GROUP)]
        forward = mixed_lstm.forward if mixed else _forward
        done = _for_each(steps, tensors[3], [partial(forward, steps, clips, group) for group in groups])
        # Everything goes through save_for_backward, which gradient checkpointing and in-place checks rely on.
        saved = [(*group, *state) for group, (_, state) in zip(groups, done, strict=True)]
        ctx.save_for_backward(*[tensor for part in saved for tensor in part])
        return (*[tensor for results, _ in done for tensor in results],)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        directions = ctx.tensors // GROUP
        each = len(saved) // directions
        own = [saved[number * each : (number + 1) * each] for number in range(directions)]
        needed = ctx.needs_input_grad[4:]
        if torch.is_grad_enabled():  # gradients that are differentiated again
            inputs = [tensor for part in own for tensor in part[:GROUP]]
            return None, None, None, None, *plain_gradients(partial(_plain, ctx), inputs, needed, gradients)
        calls, backward = [], mixed_lstm.backward if ctx.mixed else _backward
        for number, (part, first) in enumerate(zip(own, range(0, ctx.tensors, GROUP), strict=True)):
            of_outputs = gradients[3 * number : 3 * (number + 1)]
            of_inputs = needed[first : first + GROUP]
            calls.append(partial(backward, ctx.steps, ctx.clips, part[:GROUP], part[GROUP:], of_outputs, of_inputs))
        results = _for_each(ctx.steps, saved[3], calls)
        return None, None, None, None, *[tensor for group in results for tensor in group]


def _plain(ctx: Any, *tensors: torch.Tensor | None) -> list[torch.Tensor]:
    """The plain function of the same tensors, its results direction by direction."""
    groups = [tensors[first : first + GROUP] for first in range(0, len(tensors), GROUP)]
    inputs, hs, cs = ([group[place] for group in groups] for place in range(3))
    outputs = ctx.plain(inputs, hs, cs, [group[3:] for group in groups], ctx.steps.sizes, *ctx.clips)
    return [tensor for part in zip(*outputs, strict=True) for tensor in part]


def _for_each(steps: Steps, weight: torch.Tensor, calls: Sequence[partial]) -> list[Any]:
    """The results of the calls for each direction, in parallel where a step is long.

    One after the other, each on all threads, would leave threads idle in everything that only one of them does.
    """
    results = [None] * len(calls)
    work = 2 * weight.numel() * steps.sizes[0]
    if len(calls) == 1 or weight.device.type != "cpu" or work < ENOUGH_FOR_THREADS:
        with torch.autocast(weight.device.type, enabled=False):
            return [call() for call in calls]

    def run(number: int):
        results[number] = calls[number]()

    run_torch_in_parallel([partial(run, number) for number in range(len(calls))])
    return results


def _forward(
    steps: Steps, clips: Clips, group: Sequence[torch.Tensor | None]
) -> tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor], list[torch.Tensor]]:
    """As `through_time`; input and state go into the gates in one product, whose left side the backward pass needs."""
    x, h, c, of_input, of_state, bias, of_cell = group
    inner, size = torch.promote_types(x.dtype, torch.float32), x.shape[1]
    native = NativeCell.of(c)
    cell = cell_ if native is None else native.forward
    to_gates, bias = training_product(torch.cat([of_input, of_state], 1)), gate_bias(bias)
    project = None if of_cell is None else training_product(of_cell)
    y, joined = torch.empty_like(x), x.new_empty(len(x), 2 * size)
    joined[:, :size] = x
    state, before = c.to(inner, copy=True, memory_format=torch.contiguous_format), h
    all_gates, cells = [], []  # (n, 4H) of each step, and the cell (n, H), both as `cell_` leaves them
    for start, rows in zip(steps.starts, steps.sizes, strict=True):
        now = slice(start, start + rows)
        joined[now, size:] = before[:rows]
        gates = to_gates(joined[now], bias).to(inner)
        m = cell(gates, state[:rows], clips[0]).to(x.dtype)
        before = y[now] = m if project is None else project.clipped(m, clips[1])
        all_gates.append(gates)
        cells.append(state[:rows].clone())
    return (y, steps.last_outputs(y, h), state.to(c.dtype)), [y, joined, *all_gates, *cells]


def _backward(
    steps: Steps,
    clips: Clips,
    group: Sequence[torch.Tensor | None],
    saved: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    needed: Sequence[bool],
) -> list[torch.Tensor | None]:
    """Gradients of the seven inputs; None for those that need none."""
    _, _, c, weight_input, weight_recurrent, _, weight_projection = group
    y, joined, *of_steps = saved  # (N, P), and (N, 2P) each token's input and the output before it
    gates, cells = of_steps[: len(steps.sizes)], of_steps[len(steps.sizes) :]
    d_y, d_h, d_c = gradients
    inner = gates[0].dtype
    to_state = training_product(weight_recurrent.t())
    to_cell = None if weight_projection is None else training_product(weight_projection.t())
    d_h, d_c = d_h.clone(), d_c.to(inner, copy=True)
    d_gates = y.new_empty(len(y), 4 * c.shape[1], dtype=inner)
    d_projected = torch.empty_like(y)  # of the projection's result, before its clip
    m = y.new_empty(len(y), c.shape[1], dtype=inner)
    first_cell = c.to(inner).contiguous()
    native = NativeCell.of(c)
    cell_backward = cell_backward_ if native is None else native.backward
    for step in reversed(range(len(steps.sizes))):
        start, size = steps.starts[step], steps.sizes[step]
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
