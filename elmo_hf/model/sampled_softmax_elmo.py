"""The loss over a large vocabulary: all words in parts that fit in memory, or a sample of words.

Sampling is that of the original (TensorFlow's sampled softmax): words are drawn without replacement from a log-uniform
distribution over lines of the vocabulary, which is why a vocabulary has to be sorted by frequency.
"""

import math
from typing import Any

import torch
from torch.nn import functional as F

from .fast_products_elmo import multiply, weight_gradient

# Logits that exist at one time: 4 MB, which stay in a processor's cache; 64 MB elsewhere, and where few rows would do.
LOGITS_IN_CACHE, LOGITS_AT_ONCE = 2**20, 2**24
FEW_ROWS = 64


def log_uniform(words: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Probability of each line k of a vocabulary in one draw: log((k + 2) / (k + 1)) / log(vocabulary + 1)."""
    return torch.log1p(1 / (words.double() + 1)) / math.log(vocabulary + 1)


def draw_words(number: int, vocabulary: int) -> tuple[torch.Tensor, int]:
    """Draws until `number` different lines have come; returns these, sorted, and how many draws it took.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.model.sampled_softmax_elmo import draw_words
    >>> words, tries = draw_words(3, vocabulary=3)
    >>> words.tolist(), tries >= 3
    ([0, 1, 2], True)

    ```
    """
    if not 1 <= number <= vocabulary:
        raise ValueError(f"{number} different words cannot be drawn from a vocabulary of {vocabulary}.")
    draws = torch.empty(0, dtype=torch.long)
    while True:
        fresh = torch.exp(torch.rand(max(4 * number, 64), dtype=torch.float64) * math.log(vocabulary + 1))
        draws = torch.cat([draws, (fresh.long() - 1).clamp_(0, vocabulary - 1)])
        ordered, places = torch.sort(draws, stable=True)
        first = torch.ones_like(ordered, dtype=torch.bool)  # where a line comes for the first time
        first[1:] = ordered[1:] != ordered[:-1]
        words, arrivals = ordered[first], places[first]
        if len(words) >= number:
            last = arrivals.kthvalue(number).values
            return words[arrivals <= last], int(last) + 1


def log_expected_counts(words: torch.Tensor, vocabulary: int, tries: int) -> torch.Tensor:
    """Log of how often each line is expected among what `tries` draws brought: 1 - (1 - p)^tries."""
    return torch.log(-torch.expm1(tries * torch.log1p(-log_uniform(words, vocabulary)))).float()


def full_nll(rows: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Sum of the negative log likelihoods of `targets` (N,) over all words: rows (N, P), weight (V, P), bias (V,)."""
    # Under autocast a plain loop gives rows of another type.
    return _Nll.apply(rows.to(weight.dtype), weight, bias, None, targets, None, torch.is_grad_enabled())


def sampled_nll(
    rows: torch.Tensor,
    targets: torch.Tensor,
    weights: tuple[torch.Tensor, torch.Tensor],
    biases: tuple[torch.Tensor, torch.Tensor],
    words: torch.Tensor,
    corrections: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Sum of the negative log likelihoods of `targets` (N,) among themselves and the words drawn.

    Args:
        rows: (N, P).
        targets, words: lines of the vocabulary, (N,) and (n,); `words` sorted and different.
        weights, biases: those of the targets (N, P), (N,) and of the words drawn (n, P), (n,).
        corrections: the log of their expected counts, (N,) and (n,).
    """
    rows = rows.to(weights[0].dtype)
    own = (rows * weights[0]).sum(-1).float() + biases[0] - corrections[0]
    # Where a word drawn is the target itself, it does not count a second time.
    places = torch.searchsorted(words, targets).clamp_(max=len(words) - 1)
    hits = torch.where(words[places] == targets, places, -1)
    return _Nll.apply(rows, weights[1], biases[1] - corrections[1], own, None, hits, torch.is_grad_enabled())


class _Nll(torch.autograd.Function):
    """Sum over rows of log(sum of exp of all logits) - own logit, and its gradients in the same pass.

    The gradient of logits is known as soon as they are: computing it there and then keeps no logits for later and
    computes none twice. `own` are the targets' logits where these are no candidates; otherwise `targets` says which
    candidate each row's target is. `hits` names a candidate to leave out of a row, -1 for none.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,  # (N, P)
        weight: torch.Tensor,  # (K, P)
        bias: torch.Tensor,  # (K,)
        own: torch.Tensor | None,  # (N,)
        targets: torch.Tensor | None,  # (N,)
        hits: torch.Tensor | None,  # (N,)
        wanted: bool,
    ) -> torch.Tensor:
        total = rows.new_zeros((), dtype=torch.float32)
        needed = [wanted and need for need in ctx.needs_input_grad[:4]]
        gradients = [torch.zeros_like(x) if need else None for x, need in zip((rows, weight, bias, own), needed)]  # noqa: B905
        size = _rows_at_once(rows, len(weight))
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            some = rows[part]
            logits = _logits(some, weight, bias)  # (n, K)
            if own is None:
                here = (torch.arange(len(some), device=rows.device), targets[part])
                truth, largest = logits[here], logits.amax(-1)
            else:
                found = (hits[part] >= 0).nonzero().squeeze(1)
                logits[found, hits[part][found]] = -torch.inf
                truth = own[part].to(logits.dtype)
                largest = torch.maximum(logits.amax(-1), truth)
            # Divided by their sum only where they meet few numbers: a pass over (n, K) less, and no second exp.
            shares = logits.sub_(largest[:, None]).exp_()
            of_truth, sums = torch.exp(truth - largest), shares.sum(-1)
            sums = sums if own is None else sums + of_truth
            total += (torch.log(sums) + largest - truth).sum()
            if any(needed):
                if own is None:
                    shares[here] -= sums
                elif needed[3]:
                    gradients[3][part] = of_truth / sums - 1
                _add_gradients(gradients, part, some, weight, shares, sums.reciprocal_())
        if gradients[1] is not None:
            gradients[1] = gradients[1].contiguous()
        ctx.gradients = gradients
        ctx.save_for_backward(rows, weight, bias, own, targets, hits)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        if torch.is_grad_enabled():  # asked for a gradient that can be differentiated again
            return *_differentiable_gradients(ctx, gradient), None, None, None
        scaled = [None if one is None else one * gradient.to(one.dtype) for one in ctx.gradients]
        return *scaled, None, None, None


def _differentiable_gradients(ctx: Any, gradient: torch.Tensor) -> list[torch.Tensor | None]:
    """The same gradients from operations that autograd knows, all logits at once."""
    # Views, because `own` itself depends on the rows: that way of theirs is not ours to follow.
    rows, weight, bias, own = given = [None if one is None else one.view_as(one) for one in ctx.saved_tensors[:4]]
    targets, hits = ctx.saved_tensors[4:]
    logits = F.linear(rows, weight).float() + bias  # (N, K)
    if own is None:
        total = F.cross_entropy(logits, targets, reduction="sum")
    else:
        left_out = torch.arange(len(weight), device=rows.device) == hits[:, None]
        normal = torch.logaddexp(logits.masked_fill(left_out, -torch.inf).logsumexp(-1), own)
        total = (normal - own).sum()
    needed = ctx.needs_input_grad[:4]
    wanted = [one for one, need in zip(given, needed, strict=True) if need]
    found = iter(torch.autograd.grad(total, wanted, gradient, create_graph=True))
    return [next(found) if need else None for need in needed]


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
        of_part = weight_gradient(shares, (rows * scale).to(weight.dtype))
        # Not added to zeros: the numbers may lie in another order, and adding across orders is slow.
        gradients[1] = gradients[1].add_(of_part) if part.start else of_part
