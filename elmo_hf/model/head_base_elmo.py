"""What a head is: what it reads, and what it is asked for."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .head_settings_elmo import HeadSettings
from .task_encoders_elmo import gather_rows, spread_rows, word_order
from .task_layers_elmo import nll


@dataclass
class HeadSizes:
    """Sizes of the vectors that a head reads: of each token coming in, and of what joins the network's output."""

    input: int
    output: int = 0


@dataclass
class Words:
    """The words of a sentence alone, moved to the left of their row.

    Args:
        x: (B, W, size), zero where there is no word.
        kept: (B, W), where there is one.
        output: (B, W, output size), None without ELMo at the output.
        marks: (B, W), `token_type_ids` if there are any.
        index: (B, W), where in the row each word was.
        length: T, the length of a row.
    """

    x: torch.Tensor
    kept: torch.Tensor
    output: torch.Tensor | None
    marks: torch.Tensor | None
    index: torch.Tensor
    length: int

    def with_output(self, h: torch.Tensor) -> torch.Tensor:
        """`[h; ELMo]`, or `h` alone without ELMo at the output."""
        return h if self.output is None else torch.cat([h, self.output], -1)

    def spread(self, x: torch.Tensor) -> torch.Tensor:
        """Vectors (B, W, n) of the words -> (B, T, n) at their positions, zeros elsewhere."""
        return spread_rows(x, self.kept, self.index, self.length)


@dataclass
class Read:
    """One sentence of each row, as a head reads it.

    Args:
        x: (B, T, size), a vector for each position, dropout done.
        mask: (B, T), True at the tokens of this sentence.
        words: (B, T), True at its words: neither padding nor `<S>` and `</S>`.
        output: (B, T, output size), the mix that joins what the network gives out, if the settings ask for one.
        marks: (B, T), `token_type_ids` where they were given and do not part a pair.
    """

    x: torch.Tensor
    mask: torch.Tensor
    words: torch.Tensor
    output: torch.Tensor | None = None
    marks: torch.Tensor | None = None

    def only_words(self) -> Words:
        index, kept = word_order(self.words)
        output = None if self.output is None else gather_rows(self.output, index, kept)
        marks = None if self.marks is None else self.marks.gather(1, index) * kept
        return Words(gather_rows(self.x, index, kept), kept, output, marks, index, self.words.shape[1])


class TokenHead(nn.Module):
    """A head that labels tokens: `logits`, and where labels depend on each other `losses` and `decoded` too."""

    Settings: Any = HeadSettings
    reads_pairs = False

    def logits(self, read: Read) -> torch.Tensor:
        """(B, T, num_labels)."""
        raise NotImplementedError

    def losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The losses that are summed up; labels (B, T) are -100 where there is none."""
        return nll(logits, labels)

    def decoded(self, logits: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """What a model in evaluation mode returns: the largest of each position is its label."""
        return logits


class SentenceHead(nn.Module):
    """A head that labels sentences, or pairs of them: `logits` of one `Read` for each sentence."""

    Settings: Any = HeadSettings
    reads_pairs = False

    def logits(self, *sentences: Read) -> torch.Tensor:
        """(B, num_labels)."""
        raise NotImplementedError


class SpanHead(nn.Module):
    """A head that finds the answer to a question in a passage: `spans` of both."""

    Settings: Any = HeadSettings
    reads_pairs = True

    def spans(self, question: Read, passage: Read) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Scores (B, T) of beginning and of ending at each position, and (B,) of there being no answer, or None."""
        raise NotImplementedError


__all__ = ["HeadSizes", "Read", "SentenceHead", "SpanHead", "TokenHead", "Words"]
