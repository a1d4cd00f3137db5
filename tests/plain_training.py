"""The training loss in plain autograd, token by token: an independent reference for pretraining.

It shares nothing with the package but the names of the parameters.
"""

import math

import torch


def token_vector(p, config, row):
    """Character ids (C,) -> (P,)."""
    if config.word_input:
        return p["elmo.token_encoder.embedding.weight"][row]
    prefix = "elmo.token_encoder."
    characters = p[prefix + "embedding.weight"][row]  # (C, D)
    maxima = []
    for number, (width, _) in enumerate(config.character_cnn_filters):
        weight = p[f"{prefix}convolutions.{number}.weight"]  # (n, D, width)
        windows = characters.unfold(0, width, 1)  # (C - width + 1, D, width)
        values = torch.einsum("cdw,ndw->cn", windows, weight) + p[f"{prefix}convolutions.{number}.bias"]
        maxima.append(torch.relu(values.max(0).values))
    x = torch.cat(maxima)
    for number in range(config.num_highway_layers):
        name = f"{prefix}highways.{number}."
        gate = torch.sigmoid(p[name + "carry.weight"] @ x + p[name + "carry.bias"])
        x = gate * torch.relu(p[name + "transform.weight"] @ x + p[name + "transform.bias"]) + (1 - gate) * x
    if prefix + "projection.weight" in p:
        x = p[prefix + "projection.weight"] @ x + p[prefix + "projection.bias"]
    return x


def top_vectors(p, config, rows, direction, states):
    """Token vectors in reading order -> top vectors (T, P) and the states after them, [(h, c)] for each layer."""
    stack = ("forward", "backward")[direction]
    xs, after = rows, []
    for layer, (h, c) in enumerate(states):
        name = f"elmo.bilm.{stack}_layers.{layer}."
        outputs = []
        for x in xs:
            gates = p[name + "weight_input"] @ x + p[name + "weight_recurrent"] @ h + p[name + "bias"]
            i, j, f, o = gates.split(config.cell_size)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
            c = c.clamp(-config.cell_clip, config.cell_clip)
            h = p[name + "weight_projection"] @ (torch.sigmoid(o) * torch.tanh(c))
            h = h.clamp(-config.projection_clip, config.projection_clip)
            outputs.append(h + x if layer and config.use_skip_connections else h)
        xs = outputs
        after.append((h, c))
    return torch.stack(xs), after


def softmax_of(p, config):
    if config.share_embedding_softmax:
        return p["elmo.token_encoder.embedding.weight"][1:], p["softmax.bias"]
    return p["softmax.weight"], p["softmax.bias"]


def full_nll(p, config, tops, targets):
    weight, bias = softmax_of(p, config)
    return -torch.stack([(weight @ top + bias).log_softmax(-1)[t] for top, t in zip(tops, targets, strict=True)]).sum()


def sampled_nll(p, config, tops, targets, words, tries):
    weight, bias = softmax_of(p, config)
    size, total = config.vocab_size, 0.0

    def logit(top, k):
        probability = math.log((k + 2) / (k + 1)) / math.log(size + 1)
        return weight[k] @ top + bias[k] - math.log(1 - (1 - probability) ** tries)

    for top, target in zip(tops, targets.tolist(), strict=True):
        logits = [logit(top, target)] + [logit(top, word) for word in words if word != target]
        total = total - torch.stack(logits).log_softmax(-1)[0]
    return total


def loss(p, config, window, states, drawn=None):
    """`window` holds the four arrays of a training window; `states[row][direction][layer]` is (h, c).

    Returns the loss, the two means, and the states after. `drawn` are (words, tries) of each direction.
    """
    keys = (("input_ids", "labels"), ("backward_input_ids", "backward_labels"))[: config.num_directions]
    means, after = [], [[None] * len(keys) for _ in states]
    for direction, (ids, labels) in enumerate(keys):
        total = 0.0
        for row in range(len(states)):
            vectors = [token_vector(p, config, token) for token in window[ids][row]]
            tops, after[row][direction] = top_vectors(p, config, vectors, direction, states[row][direction])
            targets = window[labels][row]
            if drawn is None:
                total = total + full_nll(p, config, tops, targets)
            else:
                total = total + sampled_nll(p, config, tops, targets, *drawn[direction])
        means.append(total / window[labels].numel())
    return sum(means) / len(means), means, after
