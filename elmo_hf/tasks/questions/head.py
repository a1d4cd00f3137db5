"""The BiDAF head: Clark and Gardner 2017, *Simple and effective multi-paragraph reading comprehension*.

p = [biGRU(passage); ELMo'], q = [biGRU(question); ELMo']    x = ReLU(W BiAttention(p, q))
x = x + ReLU(W' SelfAttention(biGRU(x)))    s = biGRU(x)    start = w . s    end = w' . biGRU([x; s])
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import nn

from elmo_hf.model.modeling_elmo_heads import ElmoHead, HeadInput
from elmo_hf.tasks.encoders import StackedBiLstm, VariationalDropout, only_words
from elmo_hf.tasks.layers import AttentivePooling, BiAttention, SelfAttention, feed_forward
from elmo_hf.tasks.settings import NetworkSettings


class BidafSpans(ElmoHead):
    """Where in a passage the answer to a question begins and ends; with `no_answer` also that it has none."""

    reads_pairs = True

    @strict
    @dataclass(kw_only=True)
    class Settings(NetworkSettings):
        """
        Args:
            size: of one direction of every GRU; the layers between have twice this.
            dropout: of what each layer reads, the same at every word.
            no_answer: score that the passage has no answer, as SQuAD 2 asks for.
        """

        presets: ClassVar[dict[str, dict[str, Any]]] = {"small": {"size": 32}}

        size: int = 100
        dropout: float | int = 0.2
        no_answer: bool = False

    def __init__(self, config: Any, settings: Any, input_size: int, output_size: int):
        super().__init__()
        size, width = settings.size, 2 * settings.size

        def gru(input_size: int) -> StackedBiLstm:
            return StackedBiLstm(input_size, size, cell="gru", dropout=settings.dropout)

        self.encoder = gru(input_size)
        encoded = self.encoder.output_size + output_size
        self.attention, self.after_attention = BiAttention(encoded), nn.Linear(4 * encoded, width)
        self.before_self, self.self_attention = gru(width), SelfAttention(width)
        self.after_self = nn.Linear(3 * width, width)
        self.dropout = VariationalDropout(settings.dropout)
        self.start_encoder, self.end_encoder = gru(width), gru(2 * width)
        self.start, self.end = nn.Linear(width, 1), nn.Linear(width, 1)
        self.no_answer = None
        if settings.no_answer:
            self.pool = AttentivePooling(2 * width)
            self.no_answer = feed_forward(2 * width, width, 1, 0.0, 1)

    def spans(self, question: HeadInput, passage: HeadInput) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Scores of the beginning and the end of an answer, and of no answer or None."""
        q, p = only_words(question), only_words(passage)
        encoded_q, encoded_p = (words.with_output(self.encoder(words.x, words.mask)) for words in (q, p))
        x = self.attention(self.dropout(encoded_p), self.dropout(encoded_q), p.mask, q.mask)
        x = torch.relu(self.after_attention(x))  # (B, W, 2 * size)
        own = self.self_attention(self.dropout(self.before_self(x, p.mask)), p.mask)
        x = x + torch.relu(self.after_self(own))
        first = self.start_encoder(x, p.mask)
        last = self.end_encoder(torch.cat([x, first], -1), p.mask)
        none = None
        if self.no_answer is not None:
            both = torch.cat([first, last], -1)
            none = self.no_answer(self.pool(both, p.mask)).squeeze(-1)  # (B,)
        starts, ends = p.scatter(self.start(self.dropout(first))), p.scatter(self.end(self.dropout(last)))
        return starts.squeeze(-1), ends.squeeze(-1), none


__all__ = ["BidafSpans"]
