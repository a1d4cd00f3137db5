"""ElmoForPreTraining: the bidirectional language model with its softmax over words, for training and for scoring."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from transformers import initialization as init
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig, package_attribute
from .modeling_elmo import (
    ElmoLinear,
    ElmoModel,
    ElmoPreTrainedModel,
    Packing,
    QuantizedWeight,
    States,
    check_inputs,
    check_labels,
    check_states,
    dequantize,
    dropout,
    linear,
    pack_tokens,
    run_kernel,
    stored_weight,
    token_mask,
)

# Logits that exist at once while a loss is computed.
LOGITS_AT_ONCE = 2**24


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """What ElmoForPreTraining returns.

    Args:
        loss: half the sum of the two directions' mean negative log likelihoods, if labels are given.
        forward_loss, backward_loss: those means; the exponential of one is the perplexity of that direction.
        forward_logits, backward_logits: (B, T, vocab_size), with `return_logits=True`.
        past_states: the states after the last token, with `use_cache=True` or when states were passed.
    """

    loss: torch.FloatTensor | None = None
    forward_loss: torch.FloatTensor | None = None
    backward_loss: torch.FloatTensor | None = None
    forward_logits: torch.FloatTensor | None = None
    backward_logits: torch.FloatTensor | None = None
    past_states: States | None = None


def softmax_nll(rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, own: Tensor | None = None) -> Tensor:
    """The sum of the negative log likelihoods of one target for each row.

    Args:
        rows: (N, P).
        weight, bias: (K, P) and (K,) of the candidates.
        targets: (N,), the candidate that is the target; with `own`, the candidate to leave out, or -1.
        own: (N,), the logits of the targets where these are no candidates (sampled softmax).
    """
    step = max(1, LOGITS_AT_ONCE // len(weight))
    if len(rows) <= step:
        return _softmax_nll(rows, weight, bias, targets, own)
    total = rows.new_zeros((), dtype=torch.float32)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        arguments = rows[part], weight, bias, targets[part], None if own is None else own[part]
        # The logits of a part are computed again in the backward pass.
        total = total + checkpoint(_softmax_nll, *arguments, use_reentrant=False)
    return total


def _softmax_nll(rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, own: Tensor | None) -> Tensor:
    logits = F.linear(rows, weight).float() + bias  # (N, K)
    if own is None:
        return F.cross_entropy(logits, targets, reduction="sum")
    logits = logits.masked_fill(torch.arange(len(weight), device=rows.device) == targets[:, None], -torch.inf)
    return (torch.logaddexp(logits.logsumexp(-1), own) - own).sum()


class ElmoSoftmax(ElmoLinear):
    """The softmax over the vocabulary: logits, or the loss of targets."""

    sparse_gradients = False

    def forward(
        self, x: Tensor | list[Tensor], targets: list[Tensor] | None = None, num_sampled: int | None = None
    ) -> Any:
        """Logits of `x`, or with `targets` the summed loss of each direction.

        Args:
            x: (..., P); with `targets` the rows (N, P) of each direction.
            targets: (N,) of each direction, lines of the vocabulary.
            num_sampled: negative samples of each direction, which need the package; None for the whole vocabulary.
        """
        if targets is None:
            return linear(x, stored_weight(self), self.bias)  # no kernel: products in eight bits would change scores
        if num_sampled is not None:
            sampled_losses = package_attribute("pretraining.sampled_softmax", "sampled_losses")
            if sampled_losses is not None:  # without the package, the exact loss
                return sampled_losses(self, x, targets, num_sampled)
        weight = dequantize(stored_weight(self))
        pairs = zip(x, targets, strict=True)
        # Autocast may have changed the type of the rows.
        return [run_kernel(softmax_nll, rows.to(weight.dtype), weight, self.bias, words) for rows, words in pairs]

    def rows(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        """The weight and bias of some lines of the vocabulary."""
        weight, bias = stored_weight(self), F.embedding(lines, self.bias[:, None]).squeeze(1)
        if isinstance(weight, QuantizedWeight):
            return dequantize(QuantizedWeight(weight.values[lines], weight.scale[lines])), bias
        return F.embedding(lines, weight, sparse=self.sparse_gradients), bias


class ElmoTiedSoftmax(ElmoSoftmax):
    """A softmax whose weight is the embedding of the input words (`share_embedding_softmax`)."""

    large_weights = ()  # the embedding is a table of floats

    def __init__(self, embedding: nn.Embedding):
        nn.Module.__init__(self)
        # In a tuple, so that the embedding belongs to the encoder alone and is not saved twice.
        self._shared = (embedding,)
        self.out_features = embedding.num_embeddings - 1
        self.bias = nn.Parameter(torch.zeros(self.out_features))

    @property
    def weight(self) -> Tensor:
        return self._shared[0].weight[1:]  # row 0 is "no token"

    def rows(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        weight = F.embedding(lines + 1, self._shared[0].weight, sparse=self.sparse_gradients)
        return weight, F.embedding(lines, self.bias[:, None]).squeeze(1)

    def initial_weights(self):
        init.zeros_(self.bias)


class ElmoForPreTraining(ElmoPreTrainedModel):
    """The bidirectional language model: one softmax over `config.vocab_size` words serves both directions.

    In training, `config.num_sampled` negative samples for each direction stand for the whole vocabulary; in
    evaluation the softmax is always over all words. The mix of layers takes no part and does not train.
    """

    accepts_loss_kwargs = True  # the Trainer then passes num_items_in_batch

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        if config.vocab_size < 1:
            raise ValueError("Invalid `vocab_size`: 0. Expected at least 1: ElmoForPreTraining predicts words.")
        self.elmo = ElmoModel(config)
        if config.share_embedding_softmax:
            self.softmax = ElmoTiedSoftmax(self.elmo.token_encoder.embedding)
        else:
            self.softmax = ElmoSoftmax(config.projection_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The softmax."""
        return self.softmax

    def _apply_freezing(self):
        super()._apply_freezing()
        self.elmo.scalar_mix.requires_grad_(False)
        if self.config.int8_weights:
            self.softmax.requires_grad_(False)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        backward_input_ids: Tensor | None = None,
        backward_labels: Tensor | None = None,
        past_states: States | None = None,
        return_logits: bool = False,
        labels_are_targets: bool = False,
        num_items_in_batch: Tensor | int | None = None,
        use_cache: bool | None = None,
        **keywords: Any,
    ) -> ElmoForPreTrainingOutput:
        """
        Args:
            input_ids, attention_mask, past_states, use_cache, keywords: as in ElmoModel.
            labels: (B, T), each position's own word as a line of the vocabulary from 0, -100 for none. The targets of
                each direction are made from them: the next word, and the word before. With `backward_input_ids`, the
                target of each position itself.
            backward_input_ids, backward_labels: what the backward direction reads and predicts, in the order in which
                it reads: a window of training text, of which each direction sees another part. Both directions have
                tokens at the same positions.
            return_logits: return (B, T, vocab_size) for each direction.
            labels_are_targets: `labels` are the targets also without `backward_input_ids`: a window for a model of
                one direction.
            num_items_in_batch: divisor of the summed losses, in place of the number of targets.
        """
        windows = {"backward_input_ids": backward_input_ids, "backward_labels": backward_labels}
        self.check_keywords(keywords, labels=labels, **windows)
        check_inputs(self.config, input_ids, attention_mask=attention_mask)
        if (backward_input_ids is None) != (backward_labels is None) and labels is not None:
            raise ValueError("Invalid inputs: expected backward_input_ids and backward_labels, both or neither.")
        mask = token_mask(input_ids, attention_mask)
        if backward_input_ids is not None:
            self._check_backward(input_ids, backward_input_ids)
        if past_states is not None:
            check_states(self.config, past_states, len(mask), self.elmo.bilm.forward_layers[0].bias)
        tops, packing, states = self._run(input_ids, backward_input_ids, mask, past_states)  # (N, P) each
        returns_states = past_states is not None if use_cache is None else use_cache
        output = ElmoForPreTrainingOutput(past_states=states if returns_states else None)
        is_window = backward_input_ids is not None
        if labels is not None:
            targets = self._targets(labels, backward_labels, mask, is_window or labels_are_targets)
            targets = [packing.pack(target) for target in targets]
            if not is_window and len(targets) == 2:
                targets[1] = targets[1].index_select(0, packing.reverse)
            self._set_losses(output, tops, targets, num_items_in_batch)
        if return_logits:
            logits = [self.softmax(top) for top in _unpack(tops, packing, is_reversed=not is_window)]
            output.forward_logits, output.backward_logits = logits if len(logits) == 2 else (logits[0], None)
        return output

    @torch.compiler.disable
    def _run(
        self, input_ids: Tensor, backward_input_ids: Tensor | None, mask: Tensor, past_states: States | None
    ) -> tuple[list[Tensor], Packing, States]:
        """The top layer (N, P) of each direction in its own order, the packing, and the last states."""
        packing = pack_tokens(mask)
        ids = packing.pack(input_ids)
        if backward_input_ids is None:
            tokens = self.elmo.token_encoder(ids)
            inputs = [tokens, tokens.index_select(0, packing.reverse)][: self.config.num_directions]
        else:
            # One call, in which a word that both directions read is encoded once.
            ids = torch.cat([ids, packing.pack(backward_input_ids)])
            inputs = list(self.elmo.token_encoder(ids).chunk(2))
        outputs, states = self.elmo.bilm(inputs, packing, past_states, self.config.dropout)
        tops = [run_kernel(dropout, top, self.config.dropout, self.training) for top in outputs[-1]]
        return tops, packing, states

    def _check_backward(self, input_ids: Tensor, backward_input_ids: Tensor):
        if not self.config.bidirectional:
            raise ValueError("Invalid `backward_input_ids`: this model has no backward direction. Expected None.")
        if backward_input_ids.shape != input_ids.shape:
            raise ValueError(
                f"Invalid shape of `backward_input_ids`: {tuple(backward_input_ids.shape)}. Expected that of "
                f"input_ids, {tuple(input_ids.shape)}."
            )
        check_inputs(self.config, backward_input_ids)

    def _targets(self, labels: Tensor, backward_labels: Tensor | None, mask: Tensor, is_window: bool) -> list[Tensor]:
        """What each direction predicts at each position, (B, T), -100 for nothing."""
        targets = [labels] if backward_labels is None else [labels, backward_labels]
        if is_window and len(targets) != self.config.num_directions:
            raise ValueError(
                "Invalid inputs: labels_are_targets=True of a model of two directions. Expected backward_input_ids "
                "and backward_labels too."
            )
        targets = [torch.where(mask, self._check_labels(target, mask), -100) for target in targets]
        if not is_window:
            # Padding next to a sentence would be given the boundary of the sentence to predict.
            steps = (1, -1)[: self.config.num_directions]
            targets = [torch.where(mask, _shift(targets[0], step), -100) for step in steps]
        return targets

    def _check_labels(self, labels: Tensor, mask: Tensor) -> Tensor:
        if labels.shape != mask.shape:
            raise ValueError(
                f"Invalid shape of `labels`: {tuple(labels.shape)}. Expected one word per token, {tuple(mask.shape)}."
            )
        return check_labels(labels, self.config.vocab_size, mask)

    def _set_losses(
        self,
        output: ElmoForPreTrainingOutput,
        tops: list[Tensor],
        targets: list[Tensor],
        num_items_in_batch: Tensor | int | None,
    ):
        trains = self.training and torch.is_grad_enabled()
        if trains and self.config.int8_weights:
            raise ValueError(
                "A quantized language model does not train. Expected the model before quantize(), or model.eval() to "
                "compute a loss."
            )
        chosen = [target != -100 for target in targets]
        rows = [top[subset] for top, subset in zip(tops, chosen, strict=True)]  # (N, P) of each direction
        words = [target[subset] for target, subset in zip(targets, chosen, strict=True)]  # (N,)
        sums = self.softmax(rows, words, self.config.num_sampled if self.training else None)
        means = [total / max(len(target), 1) for total, target in zip(sums, words, strict=True)]
        output.forward_loss, output.backward_loss = means if len(means) == 2 else (means[0], None)
        output.loss = sum(means) / len(means)
        if num_items_in_batch is not None:
            output.loss = sum(sums) / len(sums) / num_items_in_batch


def _unpack(directions: list[Tensor], packing: Packing, is_reversed: bool) -> list[Tensor]:
    """(N, P) of each direction in its own order -> (B, T, P)."""
    joined = packing.to_forward_order(directions, is_reversed)
    return list(packing.unpack(joined).chunk(len(directions), -1))


def _shift(labels: Tensor, step: int) -> Tensor:
    """The label of the position `step` further, (B, T); -100 where there is none."""
    shifted = torch.full_like(labels, -100)
    if step > 0:
        shifted[:, :-step] = labels[:, step:]
    else:
        shifted[:, -step:] = labels[:, :step]
    return shifted


ElmoForPreTraining.register_for_auto_class("AutoModelForPreTraining")

__all__ = ["ElmoForPreTraining", "ElmoForPreTrainingOutput"]
