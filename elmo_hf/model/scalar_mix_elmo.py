"""ElmoScalarMix: how the layers become one vector per token."""

from collections.abc import Sequence

import torch
from torch import nn

from .configuration_elmo import check_mix
from .dispatch_elmo import has_fast_way


class ElmoScalarMix(nn.Module):
    """`gamma * sum_j softmax(weight)_j * layer_j`, or a mix that does not learn.

    Args:
        num_layers: number of layers that come in, the token vectors included.
        mode: `"learned"`, `"average"`, `"top"`, a layer's number, or a list of fixed weights.
        layer_norm: None, `"sentence"` (mean and variance over a sentence's own words) or `"batch"` (over all words
            of the batch, as the original does: a vector then depends on its batch mates).
        l2: factor of the penalty `sum(weight ** 2)`, see [`~ElmoScalarMix.penalty`].

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import ElmoScalarMix
    >>> mix = ElmoScalarMix(num_layers=3)
    >>> layers = [torch.full((1, 2, 4), float(number)) for number in range(3)]
    >>> mix(layers)[0, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> mix.layer_weights()
    tensor([0.3333, 0.3333, 0.3333])

    ```
    """

    may_be_fused = True

    engine = "auto"

    def __init__(
        self,
        num_layers: int,
        mode: str | int | Sequence[float] = "learned",
        layer_norm: str | None = None,
        l2: float = 0.0,
    ):
        super().__init__()
        check_mix(mode, num_layers)
        self.num_layers, self.mode, self.layer_norm, self.l2 = num_layers, mode, layer_norm, l2
        learned = mode == "learned"
        self.weight = nn.Parameter(torch.zeros(num_layers)) if learned else None
        self.gamma = nn.Parameter(torch.ones(1)) if learned else None

    def layer_weights(self) -> torch.Tensor:
        """What each layer counts, on the CPU and without gradient: the softmax of `weight`, or the fixed weights."""
        if self.weight is not None:
            return self.weight.detach().float().softmax(0).cpu()
        return torch.tensor(self._fixed_weights())

    def penalty(self) -> torch.Tensor | float:
        """`l2 * sum(weight ** 2)`, which a task adds to its loss; 0 when nothing is learned or `l2` is 0."""
        return self.l2 * self.weight.square().sum() if self.weight is not None and self.l2 else 0.0

    @has_fast_way("mix_layers")
    def forward(
        self,
        hidden_states: Sequence[torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        word_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Layers (B, T, size) -> their mix (B, T, size), zero where `attention_mask` (B, T) is.

        `word_mask` names the positions whose mean and variance the layer norm takes: `attention_mask` without the
        sentence boundaries. Not given, all of `attention_mask` count.
        """
        if len(hidden_states) != self.num_layers:
            raise ValueError(f"This mix is for {self.num_layers} layers, but {len(hidden_states)} were given.")
        if attention_mask is None:
            attention_mask = torch.ones(hidden_states[0].shape[:2], device=hidden_states[0].device)
        mask = attention_mask.bool()
        layers = list(hidden_states)
        if self.layer_norm is not None:
            words = mask if word_mask is None else word_mask.bool()
            layers = [self._normalise(layer, words) for layer in layers]
        return torch.where(mask[..., None], self.weighted_sum(layers), 0.0)

    def weighted_sum(self, layers: Sequence[torch.Tensor]) -> torch.Tensor:
        """The mix of layers of any shape, without regard to padding or layer norm."""
        if self.weight is not None:
            weights = _widened(self.weight).softmax(0).to(layers[0].dtype).unbind()
        else:
            weights = self._fixed_weights()
        mixed = sum(weight * layer for weight, layer in zip(weights, layers, strict=True) if _is_used(weight))
        return mixed if self.gamma is None else self.gamma.to(mixed.dtype) * mixed

    def _fixed_weights(self) -> list[float]:
        if self.mode == "average":
            return [1 / self.num_layers] * self.num_layers
        if isinstance(self.mode, (str, int)):
            chosen = self.num_layers - 1 if self.mode == "top" else self.mode
            return [float(number == chosen) for number in range(self.num_layers)]
        return [float(weight) for weight in self.mode]

    def _normalise(self, layer: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        over = (0, 1, 2) if self.layer_norm == "batch" else (1, 2)
        x, here = _widened(layer), words[..., None]  # (B, T, size), (B, T, 1)
        count = (here.sum(over, keepdim=True) * x.shape[-1]).clamp(min=1)
        mean = torch.where(here, x, 0.0).sum(over, keepdim=True) / count
        variance = torch.where(here, x - mean, 0.0).square().sum(over, keepdim=True) / count
        return ((x - mean) / torch.sqrt(variance + 1e-12)).to(layer.dtype)

    def extra_repr(self) -> str:
        return f"num_layers={self.num_layers}, mode={self.mode!r}, layer_norm={self.layer_norm!r}, l2={self.l2}"


def _widened(x: torch.Tensor) -> torch.Tensor:
    """Half precision as float32, for sums and softmax; the rest as it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _is_used(weight: torch.Tensor | float) -> bool:
    # A fixed weight of 0 leaves the layer out, so that nothing flows back into it.
    return isinstance(weight, torch.Tensor) or weight != 0.0


__all__ = ["ElmoScalarMix"]
