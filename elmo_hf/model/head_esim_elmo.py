"""The ESIM head: Chen et al. 2017, *Enhanced LSTM for natural language inference*.

a = [biLSTM(premise); ELMo'], b = [biLSTM(hypothesis); ELMo']    a~, b~ = what each word finds in the other one
m = biLSTM(ReLU(W [a; a~; a - a~; a * a~]))    v = [mean; max] of both    y = W tanh(W' v)
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import nn

from .head_base_elmo import Read, SentenceHead
from .head_settings_elmo import HeadSettings
from .task_encoders_elmo import StackedBiLstm, VariationalDropout
from .task_layers_elmo import align, max_pool, mean_pool


class InferencePairs(SentenceHead):
    """Labels a pair of sentences whose words attend to each other."""

    reads_pairs = True

    @strict
    @dataclass(kw_only=True)
    class Settings(HeadSettings):
        """
        Args:
            size: of one direction of both biLSTMs, and of the layers between and above them.
            dropout: of what each layer reads.
        """

        presets: ClassVar[dict[str, dict[str, Any]]] = {"small": {"size": 64, "dropout": 0.3}}

        size: int = 300
        dropout: float | int = 0.5

    def __init__(self, config: Any, settings: Any, sizes: Any):
        super().__init__()
        size = settings.size
        self.encoder = StackedBiLstm(sizes.input, size)
        self.projection = nn.Linear(4 * (self.encoder.output_size + sizes.output), size)
        self.composition = StackedBiLstm(size, size)
        self.steady_dropout = VariationalDropout(settings.dropout)
        self.dropout = nn.Dropout(settings.dropout)
        self.hidden = nn.Linear(4 * self.composition.output_size, size)
        self.linear = nn.Linear(size, config.num_labels)

    def logits(self, *sentences: Read) -> torch.Tensor:
        both = [read.only_words() for read in sentences]
        a, b = (words.with_output(self.encoder(self.steady_dropout(words.x), words.kept)) for words in both)
        found = align(a, b, both[0].kept, both[1].kept)
        vectors = []
        for words, own, other in zip(both, (a, b), found, strict=True):
            enhanced = torch.cat([own, other, own - other, own * other], -1)
            m = torch.relu(self.projection(enhanced))  # (B, W, size)
            m = self.composition(self.steady_dropout(m), words.kept)
            vectors += [mean_pool(m, words.kept), max_pool(m, words.kept)]
        hidden = torch.tanh(self.hidden(self.dropout(torch.cat(vectors, -1))))
        return self.linear(self.dropout(hidden))  # (B, num_labels)


__all__ = ["InferencePairs"]
