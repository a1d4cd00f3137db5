"""The original's optimizer: Adagrad, clipping by the global norm, gradients that may be sparse."""

import math

import torch
from accelerate import Accelerator
from torch import nn

from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining


def original_adagrad(parameters: list[nn.Parameter], lr: float, unroll_steps: int) -> torch.optim.Adagrad:
    """Adagrad with the original's initial accumulator of 1 and its gradients of unroll_steps * loss.

    Adagrad divides a gradient s * g by sqrt(1 + sum of (s * g)^2), which is g / sqrt(1 / s^2 + sum of g^2): instead of
    scaling gradients, the accumulator starts at 1 / s^2. The norm to clip at is divided by s too.
    """
    return torch.optim.Adagrad(parameters, lr=lr, initial_accumulator_value=1 / unroll_steps**2)


def share_sparse_gradient(parameter: nn.Parameter, accelerator: Accelerator):
    """Gives each process the mean of all processes' sparse gradients; only rows that somebody touched travel."""
    assert parameter.grad is not None
    gradient = parameter.grad.coalesce()
    rows = accelerator.pad_across_processes(gradient.indices()[0])  # filled up with row 0 ...
    values = accelerator.pad_across_processes(gradient.values())  # ... and zeros
    rows, values = accelerator.gather(rows), accelerator.gather(values) / accelerator.num_processes
    parameter.grad = torch.sparse_coo_tensor(rows[None], values, gradient.shape, check_invariants=False).coalesce()


def clip_by_global_norm(model: nn.Module, most: float) -> torch.Tensor:
    """Scales all gradients down to a global norm of `most` if it is larger; returns what it was."""
    values = []
    for parameter in model.parameters():
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                values.append(parameter.grad._values())
            else:
                values.append(parameter.grad)
    norm = torch.nn.utils.get_total_norm(values)
    if math.isfinite(most):
        torch._foreach_mul_(values, most / norm.clamp(min=most))
    return norm


def use_sparse_gradients(model: ElmoForPreTraining) -> list[str]:
    """Makes gradients of tables over the vocabulary sparse, where negative samples are drawn.

    Not every optimizer accepts these. Returns the names of the parameters that have them.
    """
    if model.config.num_sampled is None:
        return []
    model.softmax.sparse_gradients = True
    names = [] if model.config.share_embedding_softmax else ["softmax.weight"]
    if model.config.word_input:
        embedding = model.elmo.token_encoder.embedding
        assert embedding is not None
        embedding.sparse = True
        names.append("elmo.token_encoder.embedding.weight")
    return names
