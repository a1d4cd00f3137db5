"""ElmoForPreTraining: the biLM with its softmax over words, for training it and for scoring text."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .checks_elmo import costs_nothing_to_look_at, whole_labels
from .configuration_elmo import ElmoConfig
from .int8_elmo import ElmoInt8Linear, dense_rows, dense_weight, is_quantized
from .lstm_elmo import States
from .modeling_elmo import ElmoModel, returns_states
from .pretrained_elmo import ElmoPreTrainedModel
from .sampled_softmax_elmo import draw_words, full_nll, log_expected_counts, sampled_nll


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """What ElmoForPreTraining returns.

    Args:
        loss: half the sum of the two directions' mean negative log likelihoods, when labels are given.
        forward_loss, backward_loss: those means; the exponential of one is that direction's perplexity.
        forward_logits, backward_logits: (B, T, vocab_size), on request only.
        past_states: the states after the last token, with `use_cache=True` or when states were handed in.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForPreTrainingOutput, ElmoTokenizer
    >>> words = ["<S>", "</S>", "<UNK>", "cats"]
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, vocab_size=len(words))
    >>> batch = ElmoTokenizer(word_vocabulary=words)("cats", return_tensors="pt")
    >>> output = ElmoForPreTraining(config)(**batch, labels=torch.tensor([[0, 3, 1]]))
    >>> isinstance(output, ElmoForPreTrainingOutput), output.forward_logits
    (True, None)
    >>> bool(torch.isclose(output.loss, (output.forward_loss + output.backward_loss) / 2))
    True

    ```
    """

    loss: torch.FloatTensor | None = None
    forward_loss: torch.FloatTensor | None = None
    backward_loss: torch.FloatTensor | None = None
    forward_logits: torch.FloatTensor | None = None
    backward_logits: torch.FloatTensor | None = None
    past_states: States | None = None


class ElmoTiedSoftmax(nn.Module):
    """A softmax whose weight is the embedding of the words that go in (`share_embedding_softmax`)."""

    def __init__(self, embedding: nn.Embedding):
        super().__init__()
        # In a tuple, so that the embedding stays the encoder's and is not saved twice.
        self._shared = (embedding,)
        self.bias = nn.Parameter(torch.zeros(embedding.num_embeddings - 1))

    @property
    def weight(self) -> torch.Tensor:
        return self._shared[0].weight[1:]  # row 0 is "no token"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class ElmoForPreTraining(ElmoPreTrainedModel):
    """The bidirectional language model: one softmax over `config.vocab_size` words serves both directions.

    In training, `config.num_sampled` words drawn for each direction stand for the whole vocabulary; in evaluation the
    softmax is always over all words. The mix of layers does not take part and does not train.

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

    accepts_loss_kwargs = True  # Trainer then hands num_items_in_batch in

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        if config.vocab_size < 1:
            raise ValueError("`vocab_size` is 0; ElmoForPreTraining predicts words and needs at least 1.")
        self.elmo = ElmoModel(config)
        if config.share_embedding_softmax:
            self.softmax = ElmoTiedSoftmax(self.elmo.token_encoder.embedding)
        else:
            self.softmax = nn.Linear(config.projection_size, config.vocab_size)
        self.sparse_gradients = False
        self.post_init()
        if config.int8_weights:
            self._quantize_softmax()
            self._apply_freezing()

    def quantize_modules(self):
        super().quantize_modules()
        self._quantize_softmax()

    def _quantize_softmax(self):
        if not self.config.share_embedding_softmax:
            self.softmax = ElmoInt8Linear(self.softmax)

    def get_output_embeddings(self) -> nn.Module:
        return self.softmax

    def use_sparse_gradients(self) -> list[str]:
        """Gradients of tables over the vocabulary name only the rows that a batch touches, where words are sampled.

        Not every optimizer takes these. Returns the names of the parameters that have them.
        """
        if self.config.num_sampled is None:
            return []
        self.sparse_gradients = True
        names = [] if self.config.share_embedding_softmax else ["softmax.weight"]
        if self.config.word_input:
            self.elmo.token_encoder.embedding.sparse = True
            names.append("elmo.token_encoder.embedding.weight")
        return names

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, ElmoTiedSoftmax):
            init.zeros_(module.bias)

    def _apply_freezing(self):
        super()._apply_freezing()
        self.elmo.scalar_mix.requires_grad_(False)
        if self.config.int8_weights:
            self.softmax.requires_grad_(False)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        backward_input_ids: torch.Tensor | None = None,
        backward_labels: torch.Tensor | None = None,
        past_states: States | None = None,
        return_logits: bool = False,
        labels_are_targets: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
        use_cache: bool | None = None,
        **keywords: Any,
    ) -> ElmoForPreTrainingOutput:
        """
        Args:
            input_ids, attention_mask, past_states, use_cache, keywords: as ElmoModel takes them.
            labels: (B, T), each position's own word as a line of the vocabulary from 0, -100 for none. Each
                direction's targets are made from them: the next word, and the word before. With
                `backward_input_ids`, the target of each position itself.
            backward_input_ids, backward_labels: what the backward direction reads and predicts, in the order in which
                it reads: a window of training text, of which each direction sees another part. Both directions have
                tokens at the same positions.
            return_logits: return (B, T, vocab_size) for each direction.
            labels_are_targets: `labels` are the targets also without `backward_input_ids`: a window for a model of
                one direction.
            num_items_in_batch: what the summed losses are divided by, in place of the number of targets.
        """
        self.check_keywords(
            keywords,
            input_ids=input_ids,
            attention_mask=attention_mask,
            labels=labels,
            backward_input_ids=backward_input_ids,
            backward_labels=backward_labels,
        )
        tokens, backward, mask = self._encode(input_ids, attention_mask, backward_input_ids)
        tops, states = self.top_layers(tokens, mask, backward, past_states, self.config.dropout)
        output = ElmoForPreTrainingOutput(past_states=states if returns_states(use_cache, past_states) else None)
        if labels is not None:
            if (backward is None) != (backward_labels is None):
                raise ValueError("backward_input_ids and backward_labels belong together; only one of them was given.")
            windows = labels_are_targets or backward is not None
            targets = self._targets(labels, backward_labels, mask, windows)
            self._set_losses(output, tops, targets, num_items_in_batch)
        if return_logits:
            logits = [self.softmax(top) for top in tops]
            output.forward_logits, output.backward_logits = logits if len(logits) == 2 else (logits[0], None)
        return output

    def top_layers(
        self,
        tokens: torch.Tensor,
        mask: torch.Tensor,
        backward_tokens: torch.Tensor | None = None,
        past_states: States | None = None,
        dropout: float = 0.0,
    ) -> tuple[tuple[torch.Tensor, ...], States]:
        """What the softmax sees, (B, T, P) of each direction, and the states after the last token.

        Args:
            tokens, mask: token vectors (B, T, P) and their mask, as `model.elmo.encode_tokens` gives them.
            backward_tokens: what the backward direction reads, in the order in which it reads; the top layer of that
                direction is then in the same order. Not given: `tokens`, from the last to the first.
            past_states: as ElmoModel takes them.
            dropout: acts in training only.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
        >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, vocab_size=5)
        >>> model = ElmoForPreTraining(config).eval()
        >>> tokens, mask = model.elmo.encode_tokens(ElmoTokenizer()("a b", return_tensors="pt")["input_ids"])
        >>> tops, states = model.top_layers(tokens, mask)
        >>> [tuple(top.shape) for top in tops], len(states)
        ([(1, 4, 8), (1, 4, 8)], 2)

        ```
        """
        self.elmo._check_states(past_states, tokens.shape[0])
        layers, states = self.elmo.bilm(
            tokens, mask, x_backward=backward_tokens, past_states=past_states, dropout=dropout
        )
        return F.dropout(layers[-1], dropout, self.training).chunk(self.config.num_directions, -1), states

    def _encode(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        backward_input_ids: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        """Token vectors (B, T, P) of the forward inputs, of the backward ones if there are any, and the mask."""
        if backward_input_ids is None:
            tokens, mask = self.elmo.encode_tokens(input_ids, attention_mask)
            return tokens, None, mask
        if not self.config.bidirectional:
            raise ValueError("backward_input_ids were given, but this model has no backward direction.")
        if backward_input_ids.shape != input_ids.shape:
            raise ValueError(
                f"backward_input_ids has the shape {tuple(backward_input_ids.shape)}; accepted is that of input_ids, "
                f"{tuple(input_ids.shape)}."
            )
        # One call, in which a word that both directions read is encoded once.
        length = input_ids.shape[1]
        mask = None if attention_mask is None else torch.cat([attention_mask] * 2, 1)
        tokens, mask = self.elmo.encode_tokens(torch.cat([input_ids, backward_input_ids], 1), mask)
        return tokens[:, :length], tokens[:, length:], mask[:, :length]

    def _targets(
        self, labels: torch.Tensor, backward_labels: torch.Tensor | None, mask: torch.Tensor, windows: bool
    ) -> list[torch.Tensor]:
        """What each direction predicts at each position, (B, T), -100 for nothing."""
        given = [labels] if backward_labels is None else [labels, backward_labels]
        if windows and len(given) != self.config.num_directions:
            raise ValueError("labels_are_targets=True needs backward_input_ids and backward_labels too in this model.")
        given = [torch.where(mask, self._checked_labels(one, mask), -100) for one in given]
        if windows:
            return given
        # Padding next to a sentence would be given the sentence's boundary to predict.
        return [torch.where(mask, _shift(given[0], step), -100) for step in (1, -1)[: self.config.num_directions]]

    def _checked_labels(self, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if labels.shape != mask.shape:
            raise ValueError(
                f"labels have the shape {tuple(labels.shape)}; accepted is one word per token, {tuple(mask.shape)}."
            )
        labels = whole_labels(labels)
        if not costs_nothing_to_look_at(labels):
            return labels
        size = self.config.vocab_size
        wrong = labels[mask & (labels != -100) & ((labels < 0) | (labels >= size))]
        if len(wrong):
            raise ValueError(
                f"labels hold {int(wrong[0])}; accepted are lines of the vocabulary from 0 to {size - 1}, and -100 "
                "for no word."
            )
        return labels

    def _set_losses(
        self,
        output: ElmoForPreTrainingOutput,
        tops: tuple[torch.Tensor, ...],
        targets: list[torch.Tensor],
        num_items_in_batch: torch.Tensor | int | None,
    ):
        chosen = [target != -100 for target in targets]
        rows = [top[some] for top, some in zip(tops, chosen, strict=True)]  # (N, P) of each direction
        words = [target[some] for target, some in zip(targets, chosen, strict=True)]  # (N,)
        if self.training and torch.is_grad_enabled() and self.config.int8_weights:
            raise ValueError(
                "A language model with weights in eight bits does not train; accepted is the model that it was before "
                "quantize(), or model.eval() to measure a loss."
            )
        if self.training and self.config.num_sampled is not None:
            sums = self._sampled(rows, words)
        else:
            weight, bias = dense_weight(self.softmax), self.softmax.bias
            sums = [full_nll(*one, weight, bias) for one in zip(rows, words, strict=True)]
        means = [one / max(len(some), 1) for one, some in zip(sums, words, strict=True)]
        output.forward_loss, output.backward_loss = means if len(means) == 2 else (means[0], None)
        output.loss = sum(means) / len(means)
        if num_items_in_batch is not None:
            output.loss = sum(sums) / len(sums) / num_items_in_batch

    def _sampled(self, rows: list[torch.Tensor], targets: list[torch.Tensor]) -> list[torch.Tensor]:
        """Sums of the sampled losses; of the softmax, only rows of targets and of words drawn are touched."""
        size, device = self.config.vocab_size, rows[0].device
        drawn = [draw_words(self.config.num_sampled, size) for _ in rows]
        words = [some.to(device) for some, _ in drawn]
        lines = torch.cat([*targets, *words])  # all that is needed, each line once
        lines, places = torch.unique(lines, return_inverse=True)
        weight, bias = self._softmax_rows(lines)  # (lines, P), (lines,)
        places = places.split([len(some) for some in (*targets, *words)])
        sums = []
        for number, (_, tries) in enumerate(drawn):
            pair = places[number], places[len(drawn) + number]
            corrections = [log_expected_counts(lines[some], size, tries) for some in pair]
            weights, biases = [weight[some] for some in pair], [bias[some] for some in pair]
            sums.append(sampled_nll(rows[number], targets[number], weights, biases, words[number], corrections))
        return sums

    def _softmax_rows(self, lines: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if is_quantized(self.softmax):
            return dense_rows(self.softmax, "weight", lines), self.softmax.bias[lines]
        table = self.softmax.weight
        if isinstance(self.softmax, ElmoTiedSoftmax):
            table = self.elmo.token_encoder.embedding.weight
        rows = F.embedding(lines + len(table) - self.config.vocab_size, table, sparse=self.sparse_gradients)
        return rows, F.embedding(lines, self.softmax.bias[:, None]).squeeze(1)


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
