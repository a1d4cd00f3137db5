"""Perplexity of a text under a language model: sentence by sentence, or as the original program measures it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from elmo_hf.kernels import constant_weights
from elmo_hf.model.tokenization_elmo import UNK
from elmo_hf.text.inputs import check_is_list

from .probabilities import encode, log_probabilities, read_window
from .scorer import ElmoScorer
from .streams import fill_streams


@dataclass
class DirectionLoss:
    """The loss of one direction, and what it predicted.

    Args:
        nll: sum of the negative log likelihoods (natural logarithm) of all tokens.
        tokens: words and sentence boundaries that were predicted.
        words: the words among them.
        unknown: the words that the vocabulary does not have; they are predicted as `<UNK>`.
        bytes: UTF-8 bytes of the text, with the spaces and one line end for each sentence.

    Example:

    ```python
    >>> from elmo_hf import DirectionLoss
    >>> found = DirectionLoss(nll=8.0, tokens=4, words=3, unknown=1, bytes=16)
    >>> found.loss, found.loss_per_byte, round(found.perplexity, 3)
    (2.0, 0.5, 7.389)

    ```
    """

    nll: float = 0.0
    tokens: int = 0
    words: int = 0
    unknown: int = 0
    bytes: int = 0

    @property
    def loss(self) -> float:
        """Mean negative log likelihood of a token."""
        return self.nll / self.tokens

    @property
    def loss_per_byte(self) -> float:
        """Mean negative log likelihood of a byte of the text."""
        return self.nll / self.bytes

    @property
    def perplexity(self) -> float:
        """The exponential of the loss."""
        return exponential(self.loss)

    @property
    def perplexity_per_byte(self) -> float:
        """The exponential of the loss per byte."""
        return exponential(self.loss_per_byte)

    @property
    def unknown_rate(self) -> float:
        """The share of the words that the vocabulary does not have."""
        return self.unknown / self.words if self.words else 0.0

    def add(self, nll: float, about: np.ndarray):
        """`about` (N, 3) holds of each predicted token whether it is unknown, whether a word, and its bytes."""
        self.nll += nll
        self.tokens += len(about)
        unknown, words, size = about.sum(0).tolist()
        self.unknown, self.words, self.bytes = self.unknown + unknown, self.words + words, self.bytes + size


@dataclass
class Perplexity:
    """The result of `perplexity`.

    Args:
        forward, backward: each direction; backward is None if the model only reads forward.
        sentences: how many were read.
        streams, window: the arguments of `perplexity`; None if each sentence was read by itself.
        dropped: tokens at the end of the text that did not fill all streams and so were not predicted.

    Example:

    ```python
    >>> from elmo_hf import DirectionLoss, Perplexity
    >>> found = Perplexity(DirectionLoss(8.0, 4, 3, 0, 16), DirectionLoss(4.0, 4, 3, 0, 16), sentences=1)
    >>> found.loss, round(found.forward.perplexity, 2), round(found.perplexity, 2)
    (1.5, 7.39, 4.48)

    ```
    """

    forward: DirectionLoss
    backward: DirectionLoss | None
    streams: int | None = None
    window: int | None = None
    sentences: int = 0
    dropped: int = 0

    def numbers(self) -> list[float]:
        """All counts in a list, so that several processes can add up theirs."""
        return [float(number) for direction in self.directions for number in astuple(direction)]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float]) -> "Perplexity":
        """The result of what `numbers` returned, or of sums of it."""
        size = len(fields(DirectionLoss))
        parts = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        directions = [DirectionLoss(nll, *map(int, counts)) for nll, *counts in parts]
        return cls(directions[0], directions[1] if len(directions) > 1 else None)

    @property
    def directions(self) -> list[DirectionLoss]:
        """The losses of forward, and of backward if there is one."""
        return [self.forward] if self.backward is None else [self.forward, self.backward]

    @property
    def loss(self) -> float:
        """The mean of the directions' losses: what training minimises."""
        return sum(direction.loss for direction in self.directions) / len(self.directions)

    @property
    def perplexity(self) -> float:
        """The exponential of the loss."""
        return exponential(self.loss)

    @property
    def perplexity_per_byte(self) -> float:
        """The exponential of the loss per byte."""
        return exponential(sum(direction.loss_per_byte for direction in self.directions) / len(self.directions))

    def __str__(self) -> str:
        rows: list[tuple[str, DirectionLoss | Perplexity]] = [("forward", self.forward)]
        if self.backward is not None:
            rows += [("backward", self.backward), ("average", self)]
        lines = [f"{'perplexity':<12}{'per word':>12}{'per byte':>12}"]
        for name, row in rows:
            lines.append(f"{name:<12}{row.perplexity:>12,.2f}{row.perplexity_per_byte:>12.4f}")
        counts = self.forward
        lines.append(
            f"{counts.tokens:,} tokens in each direction: {counts.words:,} words, {counts.unknown_rate:.2%} of them "
            f"out of vocabulary, and {counts.tokens - counts.words:,} sentence boundaries; {counts.bytes:,} bytes"
        )
        if self.streams is not None:
            lines.append(
                f"state carried along in {self.streams} streams, windows of {self.window}; at the end "
                f"{self.dropped:,} tokens dropped"
            )
        return "\n".join(lines)


def perplexity(
    model: PreTrainedModel,
    tokenizer: Any,
    sentences: Iterable[str | Sequence[str]],
    streams: int | None = None,
    window: int | None = None,
    batch_size: int | None = None,
) -> Perplexity:
    """The perplexity of a text, with the full softmax.

    The state is reset at sentence starts, so that the result depends on nothing but the model and the text. With
    `streams` it is what the original program measures: that many rows are filled with sentence after sentence, the
    state of each row is carried along, and tokens at the end that do not fill all rows are dropped.

    Args:
        model: an ElmoForPreTraining.
        tokenizer: its ElmoTokenizer, with the vocabulary.
        sentences: strings, or lists of words; `read_lines(files)` returns those of files. Blank ones are skipped.
        streams: number of rows with a carried state; the original has 256. Default: reset the state.
        window: tokens of a row in one step, only with `streams`. Default: 1, as in the original.
        batch_size: sentences in a batch, only without `streams`. Default: 32.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer, perplexity
    >>> words = ["<S>", "</S>", "<UNK>", "cats", "sleep"]
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, vocab_size=len(words))
    >>> model, tokenizer = ElmoForPreTraining(config), ElmoTokenizer(word_vocabulary=words)
    >>> result = perplexity(model, tokenizer, ["cats sleep", "cats purr"])
    >>> result.forward.tokens, result.forward.words, result.forward.bytes, result.forward.unknown_rate
    (6, 4, 21, 0.25)
    >>> result.perplexity > 1
    True

    ```
    """
    check_is_list(sentences, "sentences")
    window = _checked_window(streams, window, batch_size)
    result = count(ElmoScorer(model, tokenizer, batch_size or 32), sentences, streams, window)
    if not result.sentences:
        raise ValueError("The text has no words: nothing to measure. Expected at least one line that is not blank.")
    if not result.forward.tokens:
        raise ValueError(
            f"The text has {result.dropped:,} tokens in {result.sentences:,} sentences, too little to fill {streams} "
            f"streams of {result.window} once. Expected fewer streams, or none (each sentence by itself)."
        )
    return result


def count(
    scorer: ElmoScorer,
    sentences: Iterable[str | Sequence[str]],
    streams: int | None = None,
    window: int | None = None,
) -> Perplexity:
    """As `perplexity`, but a text without words has zeros, to which other processes can add theirs."""
    model = scorer.model
    backward = DirectionLoss() if model.config.bidirectional else None
    result = Perplexity(DirectionLoss(), backward, streams, window)
    texts = (text for text in sentences if (text.strip() if isinstance(text, str) else text))
    training = model.training
    model.eval()
    try:
        if streams is None:
            _by_sentence(result, scorer, texts)
        else:
            _in_streams(result, scorer, texts, streams, window or 1)
    finally:
        model.train(training)
    return result


def exponential(loss: float) -> float:
    """The perplexity of a loss; infinite where no float can hold it."""
    return math.exp(loss) if loss < 700 else math.inf


def _checked_window(streams: int | None, window: int | None, batch_size: int | None) -> int | None:
    for name, value in (("streams", streams), ("window", window), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise ValueError(f"Invalid `{name}`: {value}. Expected a whole number of at least 1.")
    if streams is None:
        if window is not None:
            raise ValueError(f"Invalid `window`: {window} without `streams`. Expected both, or neither.")
        return None
    if batch_size is not None:
        raise ValueError(f"Invalid `batch_size`: {batch_size} with `streams` {streams}. Expected one of the two.")
    return window or 1


def _by_sentence(result: Perplexity, scorer: ElmoScorer, texts: Iterable[str | Sequence[str]]):
    sizes: list[np.ndarray] = []  # of the sentences that the scorer has read ahead

    def remembered() -> Iterator[list[str]]:
        for text in texts:
            words = scorer.words(text)
            sizes.append(_sizes(text, words))
            yield words

    for score in scorer.score_stream(remembered()):
        about = _about(score.unknown, sizes.pop(0))
        result.forward.add(-score.forward.sum(), about[1:])
        if result.backward is not None and score.backward is not None:
            result.backward.add(-score.backward.sum(), about[:-1])
        result.sentences += 1


@torch.no_grad()
@constant_weights()
def _in_streams(
    result: Perplexity, scorer: ElmoScorer, texts: Iterable[str | Sequence[str]], streams: int, window: int
):
    model, states, read = scorer.model, None, 0

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal read
        for text in texts:
            inputs, targets = _pairs(scorer, text)
            result.sentences += 1
            read += targets.shape[1]
            yield inputs, targets

    for inputs, targets in fill_streams(pairs(), streams, window):
        ids = torch.from_numpy(inputs).flatten(1, 2)  # (B, 2, W, C) -> (B, 2 W, C): both directions at once
        tokens, mask = encode(model, ids, torch.ones(ids.shape[:2]))
        forward, backward = tokens.split(window, 1)
        tops, states = read_window(model, forward, mask[:, :window], backward, states)
        for number, (direction, top) in enumerate(zip(result.directions, tops, strict=True)):
            predicted = targets[:, number].reshape(-1, 4)
            log_likelihoods = log_probabilities(model, [top.flatten(0, 1)], torch.from_numpy(predicted[:, 0]))
            direction.add(-log_likelihoods.sum().item(), predicted[:, 1:])
    result.dropped = read - result.forward.tokens


def _pairs(scorer: ElmoScorer, text: str | Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """What each direction reads (2, n + 1, C), and of each token that it predicts then the line and `_about`."""
    words = scorer.words(text)
    batch = scorer.tokenizer([words], is_split_into_words=True, return_lm_labels=True, return_tensors="np")
    ids, labels = batch["input_ids"][0], batch["labels"][0]
    unknown = labels == scorer.tokenizer.word_lines[UNK]
    targets = np.concatenate([labels[:, None], _about(unknown, _sizes(text, words))], 1)  # (n + 2, 4)
    return np.stack([ids[:-1], ids[:0:-1]]), np.stack([targets[1:], targets[-2::-1]])


def _about(unknown: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(T, 3) of a sentence's tokens: unknown or not, word or boundary, bytes."""
    words = np.ones_like(sizes)
    words[[0, -1]] = 0
    return np.stack([unknown.astype(np.int64), words, sizes], -1)


def _sizes(text: str | Sequence[str], words: list[str]) -> np.ndarray:
    """Bytes of each token; a boundary stands for the spaces and the line end, so that a sentence has all its bytes."""
    line = (text if isinstance(text, str) else " ".join(words)).strip()
    of_words = [len(word.encode("utf-8", "replace")) for word in words]
    rest = len(line.encode("utf-8", "replace")) + 1 - sum(of_words)
    return np.array([rest, *of_words, rest])
