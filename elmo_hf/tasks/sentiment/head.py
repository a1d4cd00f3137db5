"""The BCN head: the biattentive classification network of McCann et al. 2017, as AllenNLP runs it with ELMo.

h = biLSTM(ReLU(W x))     a_i = sum_j softmax_j(h_i . h_j) h_j     g = biLSTM([h; h - a; h * a])
pooled = [max; mean; attentive pooling] of [g; ELMo']     y = W Maxout(Maxout(pooled))
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import nn

from elmo_hf.model.modeling_elmo import pool_words
from elmo_hf.model.modeling_elmo_heads import ElmoHead, HeadInput
from elmo_hf.tasks.encoders import StackedBiLstm, only_words
from elmo_hf.tasks.layers import AttentivePooling, Maxout, align
from elmo_hf.tasks.settings import NetworkSettings


class BiattentiveClassifier(ElmoHead):
    """Labels a sentence that attends to itself."""

    @strict
    @dataclass(kw_only=True)
    class Settings(NetworkSettings):
        """
        Args:
            size: of the first layer and of one direction of both biLSTMs.
            maxout_size: of the first maxout layer; the second has half of it.
            dropout: before each layer.
        """

        presets: ClassVar[dict[str, dict[str, Any]]] = {"small": {"size": 64, "maxout_size": 128, "dropout": 0.3}}

        size: int = 300
        maxout_size: int = 600
        dropout: float | int = 0.3

    def __init__(self, config: Any, settings: Any, input_size: int, output_size: int):
        super().__init__()
        size, dropout = settings.size, settings.dropout
        self.first = nn.Linear(input_size, size)
        self.dropout = nn.Dropout(dropout)
        self.encoder = StackedBiLstm(size, size)
        self.integrator = StackedBiLstm(3 * self.encoder.output_size, size)
        pooled = self.integrator.output_size + output_size
        self.pool = AttentivePooling(pooled)
        half = max(settings.maxout_size // 2, 1)
        self.maxout = nn.ModuleList([Maxout(3 * pooled, settings.maxout_size), Maxout(settings.maxout_size, half)])
        self.linear = nn.Linear(half, config.num_labels)

    def logits(self, *sentences: HeadInput) -> torch.Tensor:
        """Scores of the labels."""
        words = only_words(sentences[0])
        h = self.encoder(self.dropout(torch.relu(self.first(words.x))), words.mask)  # (B, W, 2 * size)
        a, _ = align(h, h, words.mask, words.mask)
        g = self.integrator(self.dropout(torch.cat([h, h - a, h * a], -1)), words.mask)
        g = words.with_output(g)
        x = torch.cat([pool_words(g, words.mask, "max"), pool_words(g, words.mask), self.pool(g, words.mask)], -1)
        for layer in self.maxout:
            x = layer(self.dropout(x))
        return self.linear(self.dropout(x))  # (B, num_labels)


__all__ = ["BiattentiveClassifier"]
