"""The task classes: what they share, ElmoForTokenClassification and ElmoForSequenceClassification.

The networks on top, `config.head`, are in files of their own, head_*_elmo.py.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig
from .head_settings_elmo import head_dict, read_head
from .hub_elmo import row_of
from .modeling_elmo import ElmoModel, boundary_marks, token_mask, word_mask
from .pretrained_elmo import ElmoPreTrainedModel
from .scalar_mix_elmo import ElmoScalarMix


@dataclass
class HeadSizes:
    """Sizes of the vectors that a head reads: of each token."""

    input: int


@dataclass
class Read:
    """One sentence of each row, as a head reads it.

    Args:
        x: (B, T, size), a vector for each position, dropout done.
        mask: (B, T), True at the tokens of this sentence.
        words: (B, T), True at its words: neither padding nor `<S>` and `</S>`.
    """

    x: torch.Tensor
    mask: torch.Tensor
    words: torch.Tensor


class ElmoTaskModel(ElmoPreTrainedModel):
    """What every task class shares: a biLM that is frozen unless asked otherwise, dropout after the mix, the head that
    `config.head` names, and the loss.
    """

    freezes_by_default = True
    # The Trainer hands `num_items_in_batch` to forward.
    accepts_loss_kwargs = True

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        name, head_class, self.head_settings = read_head(config.head, row_of(type(self)).name)
        config.head = head_dict(name, self.head_settings)
        self.elmo = ElmoModel(config)
        self.dropout = nn.Dropout(config.mix_dropout)
        self.classifier = head_class(config, self.head_settings, HeadSizes(config.hidden_size))

    def mix_penalty(self) -> torch.Tensor | float:
        """The penalties of all mixes in the model, its own and those of the head."""
        return sum(module.penalty() for module in self.modules() if isinstance(module, ElmoScalarMix))

    def task_loss(self, losses: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor:
        """The mean of `losses`, one for each label, and the penalty of the mixes.

        `num_items_in_batch` counts the labels of all the batches that make one step. Each of these batches then
        gives its share, of the penalty too, and the shares add up to what one large batch would give.
        """
        count = losses.numel()
        items = max(count, 1) if num_items_in_batch is None else num_items_in_batch
        if isinstance(items, torch.Tensor):
            items = items.to(losses.device)
        return (losses.sum() + count * self.mix_penalty()) / items


class ElmoForTokenClassification(ElmoTaskModel):
    """An ELMo that labels every token, as with parts of speech or entities: one linear layer on the mix, or the
    network that `config.head` names.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, num_labels=3)
    >>> model = ElmoForTokenClassification(config).eval()
    >>> batch = ElmoTokenizer()(["Obama visits Paris"], return_tensors="pt")
    >>> tuple(model(**batch).logits.shape)  # <S> and </S> have positions too
    (1, 5, 3)

    ```
    """

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **keywords: Any,
    ) -> TokenClassifierOutput:
        """
        Args:
            input_ids, attention_mask, inputs_embeds, output_hidden_states, keywords: as ElmoModel takes them.
            labels: (B, T), a label for each position, from 0; -100 where there is none, as at `<S>`, `</S>` and
                padding.
            num_items_in_batch: labels in all the batches of one step, when gradients are accumulated.
        """
        self.check_keywords(keywords)
        mask = token_mask(input_ids, attention_mask, inputs_embeds)
        output = self.elmo(
            input_ids, attention_mask, inputs_embeds, output_hidden_states=output_hidden_states, **keywords
        )
        words = word_mask(self.config, mask, input_ids)
        logits = self.classifier.logits(Read(self.dropout(output.last_hidden_state), mask, words))
        loss = None
        if labels is not None:
            if labels.shape != logits.shape[:2]:
                raise ValueError(
                    f"labels has the shape {tuple(labels.shape)}; accepted is one label for each input position, "
                    f"{tuple(logits.shape[:2])}, -100 at <S>, </S> and padding."
                )
            loss = self.task_loss(_class_losses(logits, labels), num_items_in_batch)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=output.hidden_states)


class ElmoForSequenceClassification(ElmoTaskModel):
    """An ELMo that labels a sentence, or two of them.

    The linear head pools a sentence's words (`head={"pooling": "max"}`); `<S>` and `</S>` do not count. The two
    sentences of a pair (`head={"sentence_pairs": True}`) are read apart, each from a fresh state, and compared as
    `[u; v; |u - v|; u * v]`.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoTokenizer
    >>> sizes = dict(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> model = ElmoForSequenceClassification(ElmoConfig(**sizes, head={"sentence_pairs": True}, num_labels=3)).eval()
    >>> batch = ElmoTokenizer()(["A man sleeps ."], ["Nobody sleeps ."], return_tensors="pt")
    >>> tuple(model(**batch).logits.shape)
    (1, 3)

    ```
    """

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.post_init()

    @property
    def reads_pairs(self) -> bool:
        """Whether the head compares two sentences in place of reading one."""
        return self.head_settings.sentence_pairs

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **keywords: Any,
    ) -> SequenceClassifierOutput:
        """
        Args:
            input_ids, attention_mask, inputs_embeds, output_hidden_states, keywords: as ElmoModel takes them. A pair
                is one row, `<S> a </S> <S> b </S>`.
            token_type_ids: (B, T), 0 in the first sentence and 1 in the second. Not given: the second sentence
                begins at the second `<S>`.
            labels: by `config.problem_type`, which transformers' rule sets if it is None: (B,) classes for
                `"single_label_classification"`, (B, num_labels) of 0 and 1 for `"multi_label_classification"`, (B,)
                or (B, num_labels) numbers for `"regression"`.
            num_items_in_batch: labels in all the batches of one step, when gradients are accumulated.
        """
        self.check_keywords(keywords)
        mask = token_mask(input_ids, attention_mask, inputs_embeds)  # (B, T)
        segments = self._segments(mask, input_ids, token_type_ids)
        count = len(segments)
        ids, vectors = (None if x is None else torch.cat([x] * count) for x in (input_ids, inputs_embeds))
        # Each sentence is a row of its own, in which the other one is padding: no state gets across.
        rows = torch.cat(segments)  # (sentences * B, T)
        output = self.elmo(ids, rows, vectors, output_hidden_states=output_hidden_states, **keywords)
        words = word_mask(self.config, rows, ids)
        parts = zip(self.dropout(output.last_hidden_state).chunk(count), segments, words.chunk(count), strict=True)
        logits = self.classifier.logits(*(Read(*part) for part in parts))  # (B, num_labels)
        loss = None if labels is None else self.task_loss(self._losses(logits, labels), num_items_in_batch)
        hidden_states = output.hidden_states
        if hidden_states is not None:
            # Where one sentence is, the other's row is zero.
            hidden_states = tuple(sum(layer.chunk(count)) for layer in hidden_states)  # L + 1 times (B, T, hidden)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=hidden_states)

    def _segments(
        self, mask: torch.Tensor, input_ids: torch.Tensor | None, token_type_ids: torch.Tensor | None
    ) -> list[torch.Tensor]:
        """The mask (B, T) of each sentence: one, or two of a pair."""
        pairs = self.reads_pairs
        if token_type_ids is not None:
            second = mask & token_type_ids.bool()
        elif input_ids is None and not pairs:
            return [mask]
        elif input_ids is None:
            raise ValueError(
                "A pair given as inputs_embeds needs token_type_ids: 0 in its first sentence, 1 in its second."
            )
        else:
            begin, end = self.config.boundary_ids
            marks = torch.where(mask, boundary_marks(self.config, input_ids), 0)
            second = mask & ((marks == begin).cumsum(1) > 1)
            if not pairs:
                # In one sentence <S> may be a word; behind </S> it begins another one.
                second &= F.pad((marks[:, :-1] == end) & (marks[:, 1:] == begin), (1, 0)).cummax(1).values
        # Elsewhere than on the CPU the look would wait for the device at every call.
        if mask.device.type == "cpu" and not torch.compiler.is_compiling():
            wrong = (second.any(1) != pairs).nonzero().flatten().tolist()
            if wrong:
                found, wanted = ("one sentence", "two") if pairs else ("a pair of sentences", "one")
                raise ValueError(
                    f"Row {wrong[0]} holds {found}, but this model reads {wanted}, as its head says: "
                    "tokenizer(first, second) makes pairs, tokenizer(text) single sentences."
                )
        return [mask & ~second, second] if pairs else [mask]

    def _losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """A loss for each label."""
        if self.config.problem_type is None:
            whole = not labels.is_floating_point()
            several = "single_label_classification" if whole else "multi_label_classification"
            self.config.problem_type = "regression" if self.num_labels == 1 else several
        if self.config.problem_type == "single_label_classification":
            return _class_losses(logits, labels.view(-1))
        if labels.numel() != logits.numel():
            raise ValueError(
                f"labels has the shape {tuple(labels.shape)}; accepted for {self.config.problem_type} is "
                f"{tuple(logits.shape)}, a number for each sentence and label."
            )
        wanted = labels.to(torch.float32).view(logits.shape)
        loss = F.mse_loss if self.config.problem_type == "regression" else F.binary_cross_entropy_with_logits
        return loss(logits.float(), wanted, reduction="none")


def _class_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Negative log likelihoods of the labels (...) under logits (..., num_labels), those of -100 left out."""
    chosen = labels != -100
    return F.cross_entropy(logits[chosen].float(), labels[chosen], reduction="none")


ElmoForTokenClassification.register_for_auto_class("AutoModelForTokenClassification")
ElmoForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")

__all__ = ["ElmoForSequenceClassification", "ElmoForTokenClassification", "ElmoTaskModel", "HeadSizes", "Read"]
