"""The sampled softmax of the original program (TensorFlow's), for training with a large vocabulary.

Words are drawn without replacement from a log-uniform distribution over the lines of the vocabulary, which therefore
has to be sorted by frequency.
"""

import math
from typing import Any

import torch
from torch import Tensor

from elmo_hf.kernels.random_streams import shared_generator
from elmo_hf.model.modeling_elmo import run_kernel
from elmo_hf.model.modeling_elmo_lm import softmax_nll


def draw_words(number: int, vocabulary: int, generator: torch.Generator | None = None) -> tuple[Tensor, int]:
    """Draws lines of a vocabulary, log-uniform, until `number` are distinct.

    Args:
        number: negative samples.
        vocabulary: lines of the vocabulary.
        generator: what draws; None for torch's own.

    Returns:
        The distinct lines, sorted, and the number of draws.

    Example:

    ```python
    >>> from elmo_hf.pretraining.sampled_softmax import draw_words
    >>> words, draws = draw_words(3, vocabulary=3)
    >>> words.tolist(), draws >= 3
    ([0, 1, 2], True)

    ```
    """
    if not 1 <= number <= vocabulary:
        raise ValueError(f"Invalid number of negative samples: {number}. Expected 1 to {vocabulary}, the vocabulary.")
    draws = torch.empty(0, dtype=torch.long)
    while True:
        uniform = torch.rand(max(4 * number, 64), dtype=torch.float64, generator=generator)
        fresh = torch.exp(uniform * math.log(vocabulary + 1))
        draws = torch.cat([draws, (fresh.long() - 1).clamp_(0, vocabulary - 1)])
        ordered, places = torch.sort(draws, stable=True)
        is_first = torch.ones_like(ordered, dtype=torch.bool)  # where a line is drawn for the first time
        is_first[1:] = ordered[1:] != ordered[:-1]
        words, first_draws = ordered[is_first], places[is_first]
        if len(words) >= number:
            last = first_draws.kthvalue(number).values
            return words[first_draws <= last], int(last) + 1


def log_expected_counts(words: Tensor, vocabulary: int, draws: int) -> Tensor:
    """Log of the expected count of each line among distinct draws: 1 - (1 - p)^draws, p log-uniform."""
    probability = torch.log1p(1 / (words.double() + 1)) / math.log(vocabulary + 1)
    return torch.log(-torch.expm1(draws * torch.log1p(-probability))).float()


def sampled_losses(softmax: Any, x: list[Tensor], targets: list[Tensor], num_sampled: int) -> list[Tensor]:
    """The summed loss of each direction among its target and negative samples, as `ElmoSoftmax` returns it.

    Only the rows of targets and of negative samples are read from the softmax, each once.

    Args:
        softmax: the ElmoSoftmax of a language model.
        x: the rows (N, P) of each direction.
        targets: (N,) of each direction, lines of the vocabulary.
        num_sampled: negative samples for each direction.
    """
    vocabulary = softmax.out_features
    samples = [draw_words(num_sampled, vocabulary, shared_generator()) for _ in x]
    words = [drawn.to(x[0].device) for drawn, _ in samples]
    lines, places = torch.unique(torch.cat([*targets, *words]), return_inverse=True)
    weight, bias = softmax.rows(lines)  # (lines, P), (lines,)
    places = places.split([len(part) for part in (*targets, *words)])
    losses = []
    for number, (rows, target, drawn, (_, draws)) in enumerate(zip(x, targets, words, samples, strict=True)):
        of_targets, of_samples = places[number], places[len(x) + number]
        rows = rows.to(weight.dtype)
        corrected = bias - log_expected_counts(lines, vocabulary, draws)
        biases = [corrected[subset] for subset in (of_targets, of_samples)]
        own = (rows * weight[of_targets]).sum(-1).float() + biases[0]
        # A sample that is the target itself does not count a second time.
        hits = torch.searchsorted(drawn, target).clamp_(max=len(drawn) - 1)
        hits = torch.where(drawn[hits] == target, hits, -1)
        losses.append(run_kernel(softmax_nll, rows, weight[of_samples], biases[1], hits, own))
    return losses
