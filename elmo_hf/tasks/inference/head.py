"""The ESIM head: Chen et al. 2017, *Enhanced LSTM for natural language inference*.

a = [biLSTM(premise); ELMo'], b = [biLSTM(hypothesis); ELMo']    a~, b~ = what each word finds in the other one
m = biLSTM(ReLU(W [a; a~; a - a~; a * a~]))    v = [mean; max] of both    y = W tanh(W' v)
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import nn

from elmo_hf.model.modeling_elmo import pool_words
from elmo_hf.model.modeling_elmo_heads import ElmoHead, HeadInput
from elmo_hf.tasks.encoders import StackedBiLstm, VariationalDropout, only_words
from elmo_hf.tasks.layers import align
from elmo_hf.tasks.settings import NetworkSettings


class InferencePairs(ElmoHead):
    """Labels a pair of sentences whose words attend to each other."""

    reads_pairs = True

    @strict
    @dataclass(kw_only=True)
    class Settings(NetworkSettings):
        """
        Args:
            size: of one direction of both biLSTMs, and of the layers between and above them.
            dropout: of what each layer reads.
        """

        presets: ClassVar[dict[str, dict[str, Any]]] = {"small": {"size": 64, "dropout": 0.3}}

        size: int = 300
        dropout: float | int = 0.5

    def __init__(self, config: Any, settings: Any, input_size: int, output_size: int):
        super().__init__()
        size = settings.size
        self.encoder = StackedBiLstm(input_size, size)
        self.projection = nn.Linear(4 * (self.encoder.output_size + output_size), size)
        self.composition = StackedBiLstm(size, size)
        self.steady_dropout = VariationalDropout(settings.dropout)
        self.dropout = nn.Dropout(settings.dropout)
        self.hidden = nn.Linear(4 * self.composition.output_size, size)
        self.linear = nn.Linear(size, config.num_labels)

    def logits(self, *sentences: HeadInput) -> torch.Tensor:
        """Scores of the labels."""
        both = [only_words(sentence) for sentence in sentences]
        a, b = (words.with_output(self.encoder(self.steady_dropout(words.x), words.mask)) for words in both)
        attended = align(a, b, both[0].mask, both[1].mask)
        vectors = []
        for words, own, other in zip(both, (a, b), attended, strict=True):
            enhanced = torch.cat([own, other, own - other, own * other], -1)
            m = torch.relu(self.projection(enhanced))  # (B, W, size)
            m = self.composition(self.steady_dropout(m), words.mask)
            vectors += [pool_words(m, words.mask), pool_words(m, words.mask, "max")]
        hidden = torch.tanh(self.hidden(self.dropout(torch.cat(vectors, -1))))
        return self.linear(self.dropout(hidden))  # (B, num_labels)


__all__ = ["InferencePairs"]
