"""The kernel for `softmax_nll`: the loss and its gradients in one pass over the logits, part by part."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from .eligibility import is_eager, share_type_and_device
from .linear import multiply, plain_gradients, weight_gradient
from .mixed_precision import uses_bfloat16

# Logits that exist at one time: 4 MB, which stay in a processor's cache; 64 MB elsewhere, and where few rows would do.
LOGITS_IN_CACHE, LOGITS_AT_ONCE = 2**20, 2**24
FEW_ROWS = 64


def softmax_nll(
    plain: Callable,
    rows: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    targets: torch.Tensor,
    own: torch.Tensor | None = None,
) -> Any:
    """The kernel for `softmax_nll`."""
    if not is_eager((rows, weight, bias, targets, own)) or not share_type_and_device((rows, weight)):
        return NotImplemented
    mixed = uses_bfloat16((rows, weight, bias))
    with torch.autocast(rows.device.type, enabled=False):
        return _Nll.apply(plain, mixed, rows, weight, bias, own, targets, torch.is_grad_enabled())


class _Nll(torch.autograd.Function):
    """Sum over rows of log(sum of exp of all logits) - own logit, and its gradients in the same pass.

    The gradient of logits is known as soon as they are: computing it there and then saves no logits and computes none
    twice. Without `own`, `targets` are the candidates that are each row's target; with it, candidates to leave out of
    a row, or -1. With `mixed`, products are in bfloat16.
    """

    @staticmethod
    def forward(
        ctx: Any,
        plain: Callable,
        mixed: bool,
        rows: torch.Tensor,  # (N, P)
        weight: torch.Tensor,  # (K, P)
        bias: torch.Tensor,  # (K,)
        own: torch.Tensor | None,  # (N,)
        targets: torch.Tensor,  # (N,)
        records_gradients: bool,
    ) -> torch.Tensor:
        total = rows.new_zeros((), dtype=torch.float32)
        needed = [records_gradients and need for need in ctx.needs_input_grad[2:6]]
        inputs = rows, weight, bias, own
        gradients = [torch.zeros_like(x) if need else None for x, need in zip(inputs, needed, strict=True)]
        size = _rows_at_once(rows, len(weight))
        all_rows, factors = (rows.bfloat16(), weight.bfloat16()) if mixed else (rows, weight)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            chunk = all_rows[part]
            logits = _logits(chunk, factors, bias)  # (n, K)
            if own is None:
                at_target = (torch.arange(len(chunk), device=rows.device), targets[part])
                truth, largest = logits[at_target], logits.amax(-1)
            else:
                hits = (targets[part] >= 0).nonzero().squeeze(1)
                logits[hits, targets[part][hits]] = -torch.inf
                truth = own[part].to(logits.dtype)
                largest = torch.maximum(logits.amax(-1), truth)
            # They are divided by their sum later, on smaller tensors, which saves a pass over (n, K) and a second exp.
            shares = logits.sub_(largest[:, None]).exp_()
            of_truth, sums = torch.exp(truth - largest), shares.sum(-1)
            sums = sums if own is None else sums + of_truth
            total += (torch.log(sums) + largest - truth).sum()
            if any(needed):
                if own is None:
                    shares[at_target] -= sums
                elif needed[3]:
                    gradients[3][part] = of_truth / sums - 1
                _add_gradients(gradients, part, chunk, factors, shares, sums.reciprocal_())
        if gradients[1] is not None:
            gradients[1] = gradients[1].contiguous()
        ctx.plain, ctx.gradients = plain, gradients
        ctx.save_for_backward(rows, weight, bias, own, targets)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        if torch.is_grad_enabled():  # gradients that are differentiated again
            *inputs, targets = ctx.saved_tensors
            plain = partial(_plain, ctx.plain, targets)
            return None, None, *plain_gradients(plain, inputs, ctx.needs_input_grad[2:6], gradient), None, None
        return None, None, *[g if g is None else g * gradient.to(g.dtype) for g in ctx.gradients], None, None


def _plain(
    plain: Callable, targets: torch.Tensor, rows: Any, weight: Any, bias: Any, own: torch.Tensor | None
) -> torch.Tensor:
    return plain(rows, weight, bias, targets, own)


def _rows_at_once(rows: torch.Tensor, candidates: int) -> int:
    """How many rows' logits are computed at a time."""
    most = max(1, LOGITS_AT_ONCE // candidates)
    return min(most, max(FEW_ROWS, LOGITS_IN_CACHE // candidates)) if rows.device.type == "cpu" else most


def _logits(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """(n, K), in float32."""
    if bias.dtype == weight.dtype == torch.float32:
        return multiply(rows, weight, bias).float()
    return multiply(rows, weight).float().add_(bias)


def _add_gradients(
    gradients: list[torch.Tensor | None],
    part: slice,
    rows: torch.Tensor,
    weight: torch.Tensor,
    shares: torch.Tensor,
    scale: torch.Tensor,
):
    """Adds what the gradient of the logits of `part`, `scale` (n,) times `shares` (n, K), means for the inputs."""
    if gradients[2] is not None:
        gradients[2] += (scale @ shares).to(gradients[2].dtype)
    shares, scale = shares.to(weight.dtype), scale[:, None]
    if gradients[0] is not None:
        gradients[0][part] = multiply(shares, weight.t()) * scale
    if gradients[1] is not None:
        of_part = weight_gradient(shares, (rows * scale).to(weight.dtype)).to(gradients[1].dtype)
        # The first part is not added to zeros: its strides may differ, and adding across strides is slow.
        gradients[1] = gradients[1].add_(of_part) if part.start else of_part
