"""The recurrence without work on padding: the loop of one LSTM layer over packed tokens.

N is the number of tokens of the batch, n of them belong to one step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .fast_cell_elmo import cell_
from .fast_packing_elmo import Packing
from .fast_products_elmo import Linear, product_kept

if TYPE_CHECKING:
    from .lstm_elmo import ElmoLstmLayer

# Packed x (N, P), h (B, P) and c (B, H) of one direction.
Packed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def run_layer(layer: "ElmoLstmLayer", packing: Packing, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Packed:
    """One layer of one direction without gradients: x (N, P), sorted states (B, P), (B, H) -> the same after it."""
    return through_time(LayerProducts.kept(layer), packing, x, h, c)


def gate_bias(bias: torch.Tensor) -> torch.Tensor:
    """The stored bias with the forget gate's 1, which is part of the originals' cell."""
    bias = bias.detach().clone()
    bias.unflatten(0, (4, -1))[2] += 1
    return bias


@dataclass
class LayerProducts:
    """The products by one layer's weights, and what else its step needs."""

    from_input: Linear
    from_state: Linear
    project: Linear | None
    bias: torch.Tensor  # (4H,), as `gate_bias` makes it
    cell_clip: float | None
    projection_clip: float | None

    @classmethod
    def kept(cls, layer: "ElmoLstmLayer") -> "LayerProducts":
        """Made once for weights that stay as they are."""
        names = ["weight_input", "weight_recurrent", *(["weight_projection"] if layer.projected else [])]
        products = [product_kept(layer, [layer], name) for name in names]
        project = products[2] if layer.projected else None
        return cls(*products[:2], project, gate_bias(layer.bias), layer.cell_clip, layer.projection_clip)

    @classmethod
    def of(
        cls,
        product: Callable[[torch.Tensor], Linear],
        weights: Sequence[torch.Tensor | None],
        cell_clip: float | None,
        projection_clip: float | None,
    ) -> "LayerProducts":
        """The same for weights of input, state, bias, and projection or None, each product as `product` makes it."""
        of_input, of_state, bias, of_cell = weights
        project = None if of_cell is None else product(of_cell)
        return cls(product(of_input), product(of_state), project, gate_bias(bias), cell_clip, projection_clip)


def through_time(
    products: LayerProducts,
    packing: Packing,
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor,
) -> Packed:
    """Packed inputs (N, P) and sorted states (B, P), (B, H) -> packed outputs (N, P) and the last states.

    The cell works in float32 at least, whatever the weights are.
    """
    if not packing.sizes:
        return torch.zeros_like(x), h.clone(), c.clone()
    inner = torch.promote_types(x.dtype, torch.float32)
    state, y, outputs = c.to(inner) * -2, h, []
    for first, after in packing.blocks():
        start, end = packing.starts[first], packing.starts[after - 1] + packing.sizes[after - 1]
        from_input = products.from_input(x[start:end], products.bias).split(packing.sizes[first:after])  # (n, 4H) each
        for of_input in from_input:
            size = of_input.shape[0]
            gates = products.from_state.add_to(of_input, y[:size]).to(inner)
            m = cell_(gates, state[:size], products.cell_clip).to(x.dtype)
            y = m if products.project is None else products.project.clipped(m, products.projection_clip)
            outputs.append(y)
    y = torch.cat(outputs)
    return y, packing.last_outputs(y, h), (state * -0.5).to(c.dtype)
