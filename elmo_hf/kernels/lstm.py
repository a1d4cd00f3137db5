"""The kernel for `lstm_layer`: chooses between the loop in C, the loop in Python over oneDNN, and training."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import native_lstm
from .eligibility import is_eager, needs_gradients, share_type_and_device
from .linear import is_quantized, tensors_of
from .loop import LayerProducts, through_time
from .lstm_training import train_layer
from .steps import Steps


def lstm_layer(
    plain: Callable,
    inputs: Sequence[torch.Tensor],
    hs: Sequence[torch.Tensor],
    cs: Sequence[torch.Tensor],
    weights: Sequence[Any],
    batch_sizes: list[int],
    cell_clip: float | None,
    projection_clip: float | None,
    mask: torch.Tensor | None = None,
) -> Any:
    """The kernel for `lstm_layer`."""
    parts = [part for w in weights for weight in w if weight is not None for part in tensors_of(weight)]
    states = [*inputs, *hs, *cs]
    if mask is not None or not batch_sizes or not is_eager([*states, *parts]):
        return NotImplemented
    if not share_type_and_device([*states, *(part for part in parts if part.is_floating_point())]):
        return NotImplemented
    clips, packed = (cell_clip, projection_clip), list(zip(inputs, hs, cs, strict=True))
    quantized = is_quantized(weights[0][0])
    if needs_gradients([*states, *parts]):
        if quantized:
            return NotImplemented
        results = train_layer(plain, packed, weights, batch_sizes, clips)
    elif native_lstm.serves(weights, inputs[0], batch_sizes[0]):
        results = native_lstm.run_layer(packed, weights, batch_sizes, clips)
    elif inputs[0].device.type == "cpu" and inputs[0].dtype in (torch.float32, torch.bfloat16):
        # Without gradients one direction after the other: each uses all threads in its products.
        steps = Steps.of(batch_sizes)
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            products = [LayerProducts.of(w, clips, batch_sizes[0]) for w in weights]
            results = [through_time(p, steps, *of_direction) for p, of_direction in zip(products, packed, strict=True)]
    else:
        return NotImplemented
    return tuple(list(part) for part in zip(*results, strict=True))


__all__ = ["lstm_layer"]
