"""The biLSTM-CRF head: entities as in Lample et al. 2016 and Peters et al. 2017.

h = biLSTM([word vectors; ELMo])        e_t = W [h_t; ELMo'_t] + b        y = argmax of a linear-chain CRF over e
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import nn

from elmo_hf.model.modeling_elmo_heads import ElmoHead, HeadInput
from elmo_hf.tasks.encoders import StackedBiLstm, VariationalDropout, only_words
from elmo_hf.tasks.settings import NetworkSettings
from elmo_hf.tasks.tagging.crf import LinearChainCrf


class BiLstmCrf(ElmoHead):
    """Two biLSTM layers and a linear-chain CRF. The loss is the CRF's, over the words that have a label.

    In evaluation mode the logits say for each position and label how much worse the best sequence through it is than
    the best of all: an argmax is the CRF's decoding, which keeps the rules of BIO and BIOES.
    """

    @strict
    @dataclass(kw_only=True)
    class Settings(NetworkSettings):
        """
        Args:
            size: of one direction of the biLSTM.
            layers: of the biLSTM.
            dropout: of what each layer reads and of its output.
        """

        presets: ClassVar[dict[str, dict[str, Any]]] = {"small": {"size": 64, "layers": 1, "dropout": 0.3}}

        size: int = 200
        layers: int = 2
        dropout: float | int = 0.5

    def __init__(self, config: Any, settings: Any, input_size: int, output_size: int):
        super().__init__()
        self.encoder = StackedBiLstm(input_size, settings.size, settings.layers, settings.dropout)
        self.dropout = VariationalDropout(settings.dropout)
        self.linear = nn.Linear(self.encoder.output_size + output_size, config.num_labels)
        names = [config.id2label[number] for number in range(config.num_labels)]
        self.crf = LinearChainCrf(config.num_labels, names)

    def logits(self, sentence: HeadInput) -> torch.Tensor:
        """Scores of the labels."""
        words = only_words(sentence)
        h = self.dropout(self.encoder(words.x, words.mask))  # (B, W, 2 * size)
        return words.scatter(self.linear(words.with_output(h)))  # (B, T, num_labels)

    def losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of each label."""
        return -self.crf.log_likelihood(logits, labels, labels != -100)

    def decode(self, logits: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """The scores of the decoded labels."""
        return self.crf.best_scores(logits, words)


__all__ = ["BiLstmCrf"]
