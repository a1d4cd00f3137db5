"""The BCN head: the biattentive classification network of McCann et al. 2017, as AllenNLP runs it with ELMo.

h = biLSTM(ReLU(W x))     a_i = sum_j softmax_j(h_i . h_j) h_j     g = biLSTM([h; h - a; h * a])
pooled = [max; mean; attentive pooling] of [g; ELMo']     y = W Maxout(Maxout(pooled))
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import nn

from .head_base_elmo import Read, SentenceHead
from .head_settings_elmo import HeadSettings
from .task_encoders_elmo import StackedBiLstm
from .task_layers_elmo import AttentivePooling, Maxout, align, max_pool, mean_pool


class BiattentiveClassifier(SentenceHead):
    """Labels a sentence that attends to itself."""

    @strict
    @dataclass(kw_only=True)
    class Settings(HeadSettings):
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

    def __init__(self, config: Any, settings: Any, sizes: Any):
        super().__init__()
        size, dropout = settings.size, settings.dropout
        self.first = nn.Linear(sizes.input, size)
        self.dropout = nn.Dropout(dropout)
        self.encoder = StackedBiLstm(size, size)
        self.integrator = StackedBiLstm(3 * self.encoder.output_size, size)
        pooled = self.integrator.output_size + sizes.output
        self.pool = AttentivePooling(pooled)
        half = max(settings.maxout_size // 2, 1)
        self.maxout = nn.ModuleList([Maxout(3 * pooled, settings.maxout_size), Maxout(settings.maxout_size, half)])
        self.linear = nn.Linear(half, config.num_labels)

    def logits(self, *sentences: Read) -> torch.Tensor:
        words = sentences[0].only_words()
        h = self.encoder(self.dropout(torch.relu(self.first(words.x))), words.kept)  # (B, W, 2 * size)
        a, _ = align(h, h, words.kept, words.kept)
        g = self.integrator(self.dropout(torch.cat([h, h - a, h * a], -1)), words.kept)
        g = words.with_output(g)
        x = torch.cat([max_pool(g, words.kept), mean_pool(g, words.kept), self.pool(g, words.kept)], -1)
        for layer in self.maxout:
            x = layer(self.dropout(x))
        return self.linear(self.dropout(x))  # (B, num_labels)


__all__ = ["BiattentiveClassifier"]
