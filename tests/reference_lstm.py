"""The biLM's LSTM as a plain loop over the tokens of a padded batch, with autograd, and nothing of the package.

B texts of T tokens, P the projection size, H the cell size, D directions. Gates are in the order input, candidate,
forget, output.
"""

import torch
from torch.nn import functional as F


def run_bilm(bilm, x, mask, backward_x=None, past_states=None):
    """Token vectors (B, T, P) and their mask (B, T) -> the outputs (B, T, D * P) of each layer, and the last states.

    `bilm` is an ElmoBiLm, of which only parameters and settings are read. Without `backward_x` the backward direction
    reads `x` from its end; with it, it reads `backward_x` in the order given.
    """
    stacks = [stack for stack in (bilm.forward_layers, bilm.backward_layers) if stack is not None]
    if past_states is None:
        config = bilm.config
        h, c = (x.new_zeros(len(x), len(stacks), size) for size in (config.projection_size, config.cell_size))
        past_states = [(h, c)] * len(bilm.layers)
    layers, states = [], []
    inputs = [x, x if backward_x is None else backward_x][: len(stacks)]
    for number, (layer, (h, c)) in enumerate(zip(bilm.layers, past_states, strict=True)):
        outputs = []
        for direction, stack in enumerate(stacks):
            reverse = direction == 1 and backward_x is None
            state = h[:, direction], c[:, direction]
            outputs.append(run_layer(layer, stack[number], inputs[direction], mask, *state, reverse))
        inputs = [output for output, _, _ in outputs]
        layers.append(torch.cat(inputs, -1))
        states.append(tuple(torch.stack(part, 1) for part in list(zip(*outputs, strict=True))[1:]))
    return layers, states


def run_layer(layer, weights, x, mask, h, c, reverse):
    """x (B, T, P), mask (B, T), h (B, P), c (B, H) -> output (B, T, P), zero where masked, and the state after it.

    The state passes over masked positions as if they were not there.
    """
    length = x.shape[1]
    outputs = [torch.zeros_like(x[:, 0]) if length else None] * length
    for t in reversed(range(length)) if reverse else range(length):
        present = mask[:, t, None]  # (B, 1)
        new_h, new_c = step(weights, x[:, t], h, c, layer.cell_clip, layer.projection_clip)
        h, c = torch.where(present, new_h, h), torch.where(present, new_c, c)
        outputs[t] = torch.where(present, new_h, 0.0)
    output = torch.stack(outputs, 1) if length else torch.zeros_like(x)
    return (output + x if layer.skip else output), h, c


def step(weights, x, h, c, cell_clip, projection_clip):
    """One token of every text: x (B, P), h (B, P), c (B, H) -> the new h and c."""
    gates = F.linear(x, weights.weight_input, weights.bias) + F.linear(h, weights.weight_recurrent)  # (B, 4H)
    i, j, f, o = gates.chunk(4, -1)
    # A forget bias of 1 is part of the original cell, not of its stored bias.
    c = clip(torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j), cell_clip)
    h = torch.sigmoid(o) * torch.tanh(c)
    if weights.weight_projection is not None:
        h = clip(F.linear(h, weights.weight_projection), projection_clip)
    return h, c


def clip(x, bound):
    return x if bound is None else x.clamp(-bound, bound)
