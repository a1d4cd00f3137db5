"""Perplexity on held-out text, with the softmax over all words and each sentence from a state of zeros."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from elmo_hf.language_model.scorer import ElmoScorer
from elmo_hf.model.language_modeling_elmo import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer


@dataclass(frozen=True)
class Losses:
    """Summed negative log likelihoods of both directions, and how many predictions each sum is of."""

    forward: float = 0.0
    backward: float = 0.0
    predictions: int = 0

    def __add__(self, other: "Losses") -> "Losses":
        return Losses(
            self.forward + other.forward, self.backward + other.backward, self.predictions + other.predictions
        )


@dataclass(frozen=True)
class HeldOutPerplexity:
    """Perplexities of a text: forward, backward, and the exponential of the mean of both mean losses."""

    forward: float
    backward: float
    average: float
    predictions: int

    @classmethod
    def of(cls, losses: Losses, bidirectional: bool = True) -> "HeldOutPerplexity":
        count = max(losses.predictions, 1)
        forward, backward = losses.forward / count, losses.backward / count
        average = (forward + backward) / 2 if bidirectional else forward
        return cls(_exp(forward), _exp(backward) if bidirectional else float("nan"), _exp(average), losses.predictions)

    def __str__(self) -> str:
        return f"{self.average:.1f} (forward {self.forward:.1f}, backward {self.backward:.1f})"


def evaluate(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, lines: Iterable[str], batch_size: int = 32
) -> HeldOutPerplexity:
    """Perplexity of a text, a sentence a line, each from a state of zeros: order and batch size change nothing.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
    >>> from elmo_hf.pretraining import evaluate
    >>> words = ["<S>", "</S>", "<UNK>", "a", "b"]
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, vocab_size=5)
    >>> found = evaluate(ElmoForPreTraining(config), ElmoTokenizer(word_vocabulary=words), ["a b", "b"])
    >>> found.predictions, found.forward > 1
    (5, True)

    ```
    """
    losses = summed_losses(model, tokenizer, lines, batch_size)
    if not losses.predictions:
        raise ValueError("There is no text to evaluate on; accepted are lines with at least one word.")
    return HeldOutPerplexity.of(losses, model.config.bidirectional)


def summed_losses(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, lines: Iterable[str], batch_size: int = 32
) -> Losses:
    """As `evaluate`, as sums that can be added up. The model is in evaluation mode meanwhile."""
    training, total = model.training, Losses()
    model.eval()
    try:
        for score in ElmoScorer(model, tokenizer, batch_size).score_stream(line for line in lines if line.strip()):
            backward = 0.0 if score.backward is None else -float(score.backward.sum())
            # Of its tokens, a sentence's first is given to each direction.
            total += Losses(-float(score.forward.sum()), backward, len(score.tokens) - 1)
    finally:
        model.train(training)
    return total


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else float("inf")
