"""The loop of one LSTM layer in Python, without gradients, over products by oneDNN or torch.

N is the number of packed tokens, n of them belong to a time step; B texts, P the projection size, H the cell size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from .cell import cell_, gate_bias
from .linear import Product, inference_product
from .steps import Steps

# Packed x (N, P), h (B, P) and c (B, H) of one direction.
Packed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Clips = tuple[float | None, float | None]


@dataclass
class LayerProducts:
    """The products by the weights of one layer and direction, its bias and its clips."""

    from_input: Product
    from_state: Product
    project: Product | None
    bias: torch.Tensor  # (4H,), with the 1 of the forget gate
    clips: Clips

    @classmethod
    def of(cls, weights: Any, clips: Clips, rows: int) -> "LayerProducts":
        """Of the weights (input, recurrent, bias, projection) for steps of up to `rows` texts."""
        return cls.of_weights(partial(inference_product, rows=rows), weights, clips)

    @classmethod
    def of_weights(cls, product: Callable[[Any], Product], weights: Any, clips: Clips) -> "LayerProducts":
        """The same with products that `product` makes."""
        of_input, of_state, bias, of_cell = weights
        project = None if of_cell is None else product(of_cell)
        return cls(product(of_input), product(of_state), project, gate_bias(bias), clips)


def through_time(products: LayerProducts, steps: Steps, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Packed:
    """Packed inputs (N, P) and states (B, P), (B, H) -> packed outputs (N, P) and the last states.

    The cell works in float32 at least, whatever the weights are.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    state, y, outputs = c.to(wide, copy=True, memory_format=torch.contiguous_format), h, []
    for first, after in steps.blocks():
        start, end = steps.starts[first], steps.starts[after - 1] + steps.sizes[after - 1]
        for from_input in products.from_input(x[start:end], products.bias).split(steps.sizes[first:after]):
            size = len(from_input)
            gates = products.from_state.add_to(from_input, y[:size]).to(wide)
            m = cell_(gates, state[:size], products.clips[0]).to(x.dtype)
            y = m if products.project is None else products.project.clipped(m, products.clips[1])
            outputs.append(y)
    y = torch.cat(outputs)
    return y, steps.last_outputs(y, h), state.to(c.dtype)
