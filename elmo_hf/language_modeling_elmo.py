"""ElmoForPreTraining: the biLM with its softmax over words, for training it and for scoring text."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig
from .lstm_elmo import States
from .modeling_elmo import ElmoModel
from .pretrained_elmo import ElmoPreTrainedModel

# Positions whose logits exist at one time: 256 rows of a vocabulary of 800,000 words are 0.8 GB.
ROWS_AT_ONCE = 256


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """What ElmoForPreTraining returns.

    Args:
        loss: half the sum of the two directions' mean negative log likelihoods, when labels are given.
        forward_loss, backward_loss: those means; the exponential of one is that direction's perplexity.
        forward_logits, backward_logits: (B, T, vocab_size), on request only.
        past_states: the states after the last token.
    """

    loss: torch.FloatTensor | None = None
    forward_loss: torch.FloatTensor | None = None
    backward_loss: torch.FloatTensor | None = None
    forward_logits: torch.FloatTensor | None = None
    backward_logits: torch.FloatTensor | None = None
    past_states: States | None = None


class ElmoForPreTraining(ElmoPreTrainedModel):
    """The bidirectional language model: one softmax over `config.vocab_size` words serves both directions.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, vocab_size=5)
    >>> model = ElmoForPreTraining(config).eval()
    >>> batch = ElmoTokenizer()("a b", return_tensors="pt")
    >>> output = model(**batch, labels=torch.tensor([[0, 3, 4, 1]]))  # <S> a b </S> as lines of the vocabulary
    >>> output.loss == (output.forward_loss + output.backward_loss) / 2
    tensor(True)

    ```
    """

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        if config.vocab_size < 1:
            raise ValueError("`vocab_size` is 0; ElmoForPreTraining predicts words and needs at least 1.")
        self.elmo = ElmoModel(config)
        self.softmax = nn.Linear(config.projection_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.softmax

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        past_states: States | None = None,
        return_logits: bool = False,
    ) -> ElmoForPreTrainingOutput:
        """
        Args:
            input_ids, attention_mask, past_states: as ElmoModel takes them.
            labels: (B, T), each position's own word as a line of the vocabulary from 0, -100 for none. Each
                direction's targets are made from them: the next word, and the word before.
            return_logits: return (B, T, vocab_size) for each direction.
        """
        tokens, mask = self.elmo.encode_tokens(input_ids, attention_mask)
        dropout = self.config.dropout
        layers, states = self.elmo.bilm(tokens, mask, past_states=past_states, dropout=dropout)
        tops = F.dropout(layers[-1], dropout, self.training).chunk(self.config.num_directions, -1)  # each (B, T, P)
        output = ElmoForPreTrainingOutput(past_states=states)
        if labels is not None:
            own = torch.where(mask, labels, -100)
            losses = [self._loss(top, _shift(own, step)) for top, step in zip(tops, (1, -1), strict=False)]
            output.forward_loss, output.backward_loss = losses if len(losses) == 2 else (losses[0], None)
            output.loss = sum(losses) / len(losses)
        if return_logits:
            logits = [self.softmax(top) for top in tops]
            output.forward_logits, output.backward_logits = logits if len(logits) == 2 else (logits[0], None)
        return output

    def _loss(self, top: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean negative log likelihood; logits live for a few rows at a time and are computed again for gradients."""
        chosen = targets != -100
        rows, targets = top[chosen], targets[chosen]  # (N, P), (N,)
        total = top.new_zeros((), dtype=torch.float32)
        for some, wanted in zip(rows.split(ROWS_AT_ONCE), targets.split(ROWS_AT_ONCE), strict=True):
            total = total + checkpoint(self._summed_nll, some, wanted, use_reentrant=False)
        return total / max(len(targets), 1)

    def _summed_nll(self, rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.softmax(rows).float(), targets, reduction="sum")


def _shift(labels: torch.Tensor, step: int) -> torch.Tensor:
    """Label of the position `step` further, (B, T); -100 where there is none."""
    shifted = torch.full_like(labels, -100)
    if step > 0:
        shifted[:, :-step] = labels[:, step:]
    else:
        shifted[:, -step:] = labels[:, :step]
    return shifted


ElmoForPreTraining.register_for_auto_class("AutoModelForPreTraining")

__all__ = ["ElmoForPreTraining", "ElmoForPreTrainingOutput"]
