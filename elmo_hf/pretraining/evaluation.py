"""Perplexity on held-out text, with the softmax over all words and each sentence from a state of zeros."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from elmo_hf.language_modeling_elmo import ElmoForPreTraining
from elmo_hf.tokenization_elmo import ElmoTokenizer

# Sentences that are sorted by length together, and predictions of a sentence that are made at one time.
SENTENCES_AT_ONCE, STEPS_AT_ONCE = 4096, 64


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
class Perplexity:
    """Perplexities of a text: forward, backward, and the exponential of the mean of both mean losses."""

    forward: float
    backward: float
    average: float
    predictions: int

    @classmethod
    def of(cls, losses: Losses, bidirectional: bool = True) -> "Perplexity":
        count = max(losses.predictions, 1)
        forward, backward = losses.forward / count, losses.backward / count
        average = (forward + backward) / 2 if bidirectional else forward
        return cls(_exp(forward), _exp(backward) if bidirectional else float("nan"), _exp(average), losses.predictions)

    def __str__(self) -> str:
        return f"{self.average:.1f} (forward {self.forward:.1f}, backward {self.backward:.1f})"


def evaluate(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, lines: Iterable[str], batch_size: int = 32
) -> Perplexity:
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
    return Perplexity.of(losses, model.config.bidirectional)


@torch.no_grad()
def summed_losses(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, lines: Iterable[str], batch_size: int = 32
) -> Losses:
    """As `evaluate`, as sums that can be added up. The model is in evaluation mode meanwhile."""
    training, total, lines = model.training, Losses(), iter(lines)
    model.eval()
    try:
        while some := [words for words in tokenizer.split(list(islice(lines, SENTENCES_AT_ONCE))) if words]:
            some.sort(key=len)
            for start in range(0, len(some), batch_size):
                total += _batch_losses(model, tokenizer, some[start : start + batch_size])
    finally:
        model.train(training)
    return total


def _batch_losses(model: ElmoForPreTraining, tokenizer: ElmoTokenizer, sentences: list[list[str]]) -> Losses:
    total, states = Losses(), None
    for batch in _windows(model, tokenizer, sentences):
        output = model(**batch, past_states=states)
        count, states = int((batch["labels"] != -100).sum()), output.past_states
        backward = 0.0 if output.backward_loss is None else float(output.backward_loss) * count
        total += Losses(float(output.forward_loss) * count, backward, count)
    return total


def _windows(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, sentences: list[list[str]]
) -> Iterator[dict[str, torch.Tensor | bool]]:
    """The sentences as windows, in which both directions read and predict; long sentences take several."""
    batch = tokenizer(
        sentences,
        is_split_into_words=True,
        padding=True,
        padding_side="right",
        return_tensors="np",
        return_lm_labels=True,
    )
    ids, lines = batch["input_ids"], batch["labels"]  # (B, T, C) or (B, T), and (B, T)
    lengths = batch["attention_mask"].sum(1, keepdims=True)
    places = np.arange(ids.shape[1])
    backwards = np.where(places < lengths, lengths - 1 - places, places)  # (B, T), padding stays at the end
    rows = np.arange(len(ids))[:, None]
    arrays = {
        "input_ids": ids[:, :-1],
        "labels": lines[:, 1:],
        "attention_mask": (places < lengths - 1)[:, :-1].astype(np.int64),
    }
    if model.config.bidirectional:
        arrays["backward_input_ids"] = ids[rows, backwards][:, :-1]
        arrays["backward_labels"] = lines[rows, backwards][:, 1:]
    for start in range(0, ids.shape[1] - 1, STEPS_AT_ONCE):
        part = slice(start, start + STEPS_AT_ONCE)
        window = {key: torch.from_numpy(x[:, part].copy()).to(model.device) for key, x in arrays.items()}
        yield window if model.config.bidirectional else window | {"labels_are_targets": True}


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else float("inf")
