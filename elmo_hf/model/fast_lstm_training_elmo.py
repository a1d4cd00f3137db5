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

from .fast_cell_elmo import cell_, cell_backward_
from .fast_lstm_elmo import LayerProducts, Packed, through_time
from .fast_native_elmo import NativeCell
from .fast_packing_elmo import Packing
from .fast_products_elmo import linear_once, multiply, weight_gradient

if TYPE_CHECKING:
    from .lstm_elmo import ElmoLstmLayer

Tensors = tuple[torch.Tensor | None, ...]


def run_layer_trained(
    layer: "ElmoLstmLayer", packing: Packing, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor
) -> Packed:
    """As `run_layer`, with gradients to the three tensors and the four weights, of which the last may be None."""
    weights = layer.weight_input, layer.weight_recurrent, layer.bias, layer.weight_projection
    return _LayerThroughTime.apply(packing, (layer.cell_clip, layer.projection_clip), x, h, c, *weights)


class _LayerThroughTime(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        packing: Packing,
        clips: tuple[float | None, float | None],
        x: torch.Tensor,
        h: torch.Tensor,
        c: torch.Tensor,
        *weights: torch.Tensor | None,
    ) -> Packed:
        ctx.packing, ctx.clips = packing, clips
        kept = []
        native = NativeCell.of(c)
        products, cell = LayerProducts.once(weights, *clips), cell_ if native is None else native.forward
        results = through_time(products, packing, x, h, c, kept, cell)
        gates, cells = zip(*kept, strict=True) if kept else ((), ())
        # All of it by save_for_backward: gradient checkpointing and in-place checks know only of that.
        ctx.save_for_backward(x, h, c, *weights, results[0], *gates, *cells)
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        saved, needed = ctx.saved_tensors, ctx.needs_input_grad[2:]
        *group, y = saved[:8]
        of_steps = saved[8:]
        return None, None, *_backward(ctx.packing, ctx.clips, group, y, of_steps, gradients, needed)


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
    d_h, d_c = d_h.clone(), d_c.to(inner, copy=True)
    d_gates = x.new_empty(x.shape[0], 4 * c.shape[1], dtype=inner)
    d_projected = x.new_empty(x.shape)  # of the projection's result, before its clip
    m = x.new_empty(x.shape[0], c.shape[1], dtype=inner)
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
        d_h[:size] = to_state(d_gates_now.to(x.dtype))
    d_gates = d_gates.to(x.dtype)
    d_weights = _weight_gradients(packing, group, y, m, d_gates, d_projected, needed[3:])
    d_x = multiply(d_gates, weight_input.t()) if needed[0] else None
    return [d_x, d_h, d_c.to(c.dtype), *d_weights]


def _weight_gradients(
    packing: Packing,
    group: Tensors,
    y: torch.Tensor,
    m: torch.Tensor,
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
        d_projection = weight_gradient(d_projected, m.to(x.dtype))
    return [d_input, d_recurrent, d_bias, d_projection]
