"""The linear heads: one linear layer on the mix, for tokens and for sentences or pairs of them."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from torch.nn import functional as F

from .configuration_elmo import ElmoConfig
from .head_base_elmo import SentenceHead, SpanHead, TokenHead
from .head_settings_elmo import HeadSettings, require


class LinearTokens(TokenHead, nn.Linear):
    """A linear layer on the vector of every token."""

    @strict
    @dataclass(kw_only=True)
    class Settings(HeadSettings):
        """None of its own."""

        places = ("input",)

    def __init__(self, config: ElmoConfig, settings: Any, sizes: Any):
        nn.Linear.__init__(self, sizes.input, config.num_labels)

    def logits(self, read: Any) -> torch.Tensor:
        return self(read.x)  # (B, T, num_labels)


class LinearSentences(SentenceHead, nn.Linear):
    """A linear layer on the pooled words of a sentence, or on `[u; v; |u - v|; u * v]` of two."""

    @strict
    @dataclass(kw_only=True)
    class Settings(HeadSettings):
        """
        Args:
            pooling: how the words of a sentence become one vector: their `"mean"`, their `"max"`, or `"first_last"`,
                the forward vector of the last word beside the backward vector of the first.
            sentence_pairs: compare two sentences in place of reading one.
        """

        places = ("input",)

        pooling: Literal["mean", "max", "first_last"] = "mean"
        sentence_pairs: bool = False

        def validate_pooling(self):
            clash = self.pooling == "first_last" and self.word_vectors is not None
            require(not clash, "pooling", self.pooling, "'mean' or 'max' with word vectors, which have no directions")

    def __init__(self, config: ElmoConfig, settings: Any, sizes: Any):
        nn.Linear.__init__(self, sizes.input * (4 if settings.sentence_pairs else 1), config.num_labels)
        self.pooling, self.num_directions = settings.pooling, config.num_directions
        self.reads_pairs = settings.sentence_pairs

    def logits(self, *sentences: Any) -> torch.Tensor:
        pooled = [pool_words(read.x, read.words, self.pooling, self.num_directions) for read in sentences]
        return self(_compare(*pooled))  # (B, num_labels)


class LinearSpans(SpanHead):
    """`w . [p_t; q; p_t * q]` for the begin and for the end of an answer, `q` the mean of the question's words."""

    @strict
    @dataclass(kw_only=True)
    class Settings(HeadSettings):
        """
        Args:
            no_answer: score that the passage has no answer too: `w . [p; q; p * q]`, `p` the mean of its words.
        """

        places = ("input",)

        no_answer: bool = False

    def __init__(self, config: ElmoConfig, settings: Any, sizes: Any):
        super().__init__()
        self.linear = nn.Linear(3 * sizes.input, 2)
        self.no_answer = nn.Linear(3 * sizes.input, 1) if settings.no_answer else None

    def spans(self, question: Any, passage: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        q = pool_words(question.x, question.words)  # (B, size)
        p, beside = passage.x, q[:, None].expand_as(passage.x)
        start, end = self.linear(torch.cat([p, beside, p * beside], -1)).unbind(-1)  # each (B, T)
        none = None
        if self.no_answer is not None:
            whole = pool_words(passage.x, passage.words)
            none = self.no_answer(torch.cat([whole, q, whole * q], -1)).squeeze(-1)
        return start, end, none


def pool_words(x: torch.Tensor, words: torch.Tensor, pooling: str = "mean", num_directions: int = 2) -> torch.Tensor:
    """One vector for each sentence.

    Args:
        x: (B, T, size), a vector for each position, the forward half first.
        words: (B, T), 1 at the words: neither at padding nor at `<S>` and `</S>`.
        pooling: `"mean"` of the words, `"max"` of each dimension, or `"first_last"`: the forward half of the last
            word, which has read the whole sentence, and the backward half of the first.
        num_directions: 1 if `x` is all forward.

    Returns:
        (B, size); zeros for a sentence without words.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import pool_words
    >>> x, words = torch.arange(6.0).view(1, 3, 2), torch.tensor([[1, 1, 0]])
    >>> [pool_words(x, words, pooling).tolist() for pooling in ("mean", "max", "first_last")]
    [[[1.0, 2.0]], [[2.0, 3.0]], [[2.0, 1.0]]]

    ```
    """
    here = words.bool()[..., None]  # (B, T, 1)
    if pooling == "mean":
        return torch.where(here, x, 0.0).sum(1) / here.sum(1).clamp(min=1)
    if pooling == "max":
        # One more row, so that there is a maximum of no words too.
        lowest = F.pad(torch.where(here, x, -torch.inf), (0, 0, 0, 1), value=-torch.inf)  # (B, T + 1, size)
        return torch.where(here.any(1), lowest.amax(1), 0.0)
    if pooling == "first_last":
        first = here & (here.cumsum(1) == 1)
        last = here & (here.flip(1).cumsum(1).flip(1) == 1)
        ends = zip(x.chunk(num_directions, -1), (last, first), strict=False)
        return torch.cat([torch.where(end, half, 0.0).sum(1) for half, end in ends], -1)
    raise ValueError(f"`pooling` is {pooling!r}; accepted are 'mean', 'max' and 'first_last'.")


def _compare(u: torch.Tensor, v: torch.Tensor | None = None) -> torch.Tensor:
    """What the classifier reads: a sentence's vector, or two and how they differ."""
    return u if v is None else torch.cat([u, v, (u - v).abs(), u * v], -1)


__all__ = ["LinearSentences", "LinearSpans", "LinearTokens", "pool_words"]
