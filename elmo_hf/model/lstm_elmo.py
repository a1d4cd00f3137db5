"""The recurrence: LSTM cells with projection and clipping, forward and backward stacks.

`lstm_reference` says what is computed. By default fast_lstm_elmo computes it in packed batches.
"""

import torch
from torch import nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_elmo import ElmoConfig
from .dispatch_elmo import has_fast_way
from .int8_elmo import dense_weight, is_quantized, quantize_weight

# One pair (h, c) per layer: h (B, directions, P), c (B, directions, H).
States = tuple[tuple[torch.Tensor, torch.Tensor], ...]


class ElmoLstmLayer(GradientCheckpointingLayer):
    """One layer of one direction. Gates are in the order input, candidate, forget, output."""

    may_be_fused = True

    def __init__(self, config: ElmoConfig, skip: bool):
        super().__init__()
        projection, cell = config.projection_size, config.cell_size
        self.skip = skip
        self.cell_clip = config.cell_clip
        self.weight_input = nn.Parameter(torch.empty(4 * cell, projection))
        self.weight_recurrent = nn.Parameter(torch.empty(4 * cell, projection))
        self.bias = nn.Parameter(torch.empty(4 * cell))
        # With H == P the originals have neither a projection nor its clip.
        self.projected = cell != projection
        self.weight_projection = nn.Parameter(torch.empty(projection, cell)) if self.projected else None
        self.projection_clip = config.projection_clip if self.projected else None

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, h: torch.Tensor, c: torch.Tensor, reverse: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """x (B, T, P), mask (B, T), state h (B, P) and c (B, H) -> output (B, T, P) and the state after the text.

        The state passes over masked positions as if they were not there, and their output is zero.
        """
        return lstm_reference(self, x, mask, h, c, reverse)

    def step(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One token of every row: x (B, P), h (B, P), c (B, H) -> new h and c."""
        of_input, of_state = dense_weight(self, "weight_input"), dense_weight(self, "weight_recurrent")
        gates = F.linear(x, of_input, self.bias) + F.linear(h, of_state)  # (B, 4H)
        i, j, f, o = gates.chunk(4, -1)
        # A forget bias of 1 is part of the originals' cell, not of their stored bias.
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
        c = _clip(c, self.cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if self.projected:
            h = _clip(F.linear(h, dense_weight(self, "weight_projection")), self.projection_clip)
        return h, c

    def quantize(self):
        """Puts the weights into eight bits, for inference."""
        for name in ("weight_input", "weight_recurrent", *(["weight_projection"] if self.projected else [])):
            quantize_weight(self, name)

    @property
    def quantized(self) -> bool:
        return is_quantized(self, "weight_input")


def lstm_reference(
    layer: ElmoLstmLayer, x: torch.Tensor, mask: torch.Tensor, h: torch.Tensor, c: torch.Tensor, reverse: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The truth that every faster way is tested against: a plain loop over time."""
    length = x.shape[1]
    outputs = [x.new_zeros(x.shape[0], x.shape[2])] * length
    for t in reversed(range(length)) if reverse else range(length):
        here = mask[:, t, None]  # (B, 1)
        new_h, new_c = layer.step(x[:, t], h, c)
        h, c = torch.where(here, new_h, h), torch.where(here, new_c, c)
        outputs[t] = torch.where(here, new_h, 0.0)
    output = torch.stack(outputs, 1) if length else torch.zeros_like(x)  # (B, T, P)
    return (output + x if layer.skip else output), h, c


class ElmoBiLm(nn.Module):
    """The stacks of both directions, which share nothing but their input."""

    may_be_fused = True

    engine = "auto"

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.config = config
        self.forward_layers = self._stack(config)
        self.backward_layers = self._stack(config) if config.bidirectional else None

    @staticmethod
    def _stack(config: ElmoConfig) -> nn.ModuleList:
        skips = [config.use_skip_connections and number > 0 for number in range(config.num_hidden_layers)]
        return nn.ModuleList(ElmoLstmLayer(config, skip) for skip in skips)

    @property
    def directions(self) -> list[nn.ModuleList]:
        return [stack for stack in (self.forward_layers, self.backward_layers) if stack is not None]

    def initial_states(self, batch: int, like: torch.Tensor) -> States:
        """Zeros, which is where every text begins unless a state is handed in."""
        config, directions = self.config, len(self.directions)
        h = like.new_zeros(batch, directions, config.projection_size)
        c = like.new_zeros(batch, directions, config.cell_size)
        return tuple((h, c) for _ in range(config.num_hidden_layers))

    @has_fast_way("run_bilm")
    def forward(
        self,
        x_forward: torch.Tensor,
        mask: torch.Tensor,
        x_backward: torch.Tensor | None = None,
        past_states: States | None = None,
        dropout: float = 0.0,
    ) -> tuple[tuple[torch.Tensor, ...], States]:
        """Token vectors (B, T, P) and their mask (B, T) -> L tensors (B, T, directions * P) and the last states.

        Without `x_backward` the backward stack reads `x_forward` from its end. With it (a pretraining window, where
        each direction holds other tokens) the backward stack reads `x_backward` in the order given. `dropout` acts
        on the input of every layer that is in training mode.
        """
        if past_states is None:
            past_states = self.initial_states(x_forward.shape[0], x_forward)
        inputs = [x_forward, x_forward if x_backward is None else x_backward][: len(self.directions)]
        reverses = [False, x_backward is None][: len(self.directions)]
        outputs, states = [], []
        for direction, (stack, x, reverse) in enumerate(zip(self.directions, inputs, reverses, strict=True)):
            for layer, (h, c) in zip(stack, past_states, strict=True):
                x = F.dropout(x, dropout, layer.training)
                x, h, c = layer(x, mask, h[:, direction], c[:, direction], reverse)
                outputs.append(x)
                states.append((h, c))
        depth = self.config.num_hidden_layers
        layers = tuple(torch.cat(outputs[number::depth], -1) for number in range(depth))
        last = tuple(
            tuple(torch.stack(part, 1) for part in zip(*states[number::depth], strict=True)) for number in range(depth)
        )
        return layers, last


def _clip(x: torch.Tensor, bound: float | None) -> torch.Tensor:
    return x if bound is None else x.clamp(-bound, bound)
