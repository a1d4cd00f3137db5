"""The task heads: ElmoForTokenClassification and ElmoForSequenceClassification."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig
from .modeling_elmo import ElmoModel, boundary_marks, token_mask, word_mask
from .pretrained_elmo import ElmoPreTrainedModel
from .scalar_mix_elmo import ElmoScalarMix


def _pipelines(impl: str, model: str, *tasks: str) -> dict[str, dict]:
    return {task: {"impl": f"pipeline_elmo.{impl}", "pt": [model], "type": "text"} for task in tasks}


class ElmoTaskModel(ElmoPreTrainedModel):
    """What every head shares: a biLM that is frozen unless asked otherwise, dropout after the mix, and the loss."""

    freezes_by_default = True
    # The Trainer hands `num_items_in_batch` to forward.
    accepts_loss_kwargs = True

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.elmo = ElmoModel(config)
        self.dropout = nn.Dropout(config.mix_dropout)

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
    """An ELMo that labels every token: one linear layer on the mix, as for part-of-speech tags or entities.

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

    custom_pipelines = _pipelines(
        "ElmoTokenClassificationPipeline", "AutoModelForTokenClassification", "token-classification", "ner"
    )

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
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
        output = self.elmo(
            input_ids, attention_mask, inputs_embeds, output_hidden_states=output_hidden_states, **keywords
        )
        logits = self.classifier(self.dropout(output.last_hidden_state))  # (B, T, num_labels)
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
    """An ELMo that labels a sentence, or with `config.sentence_pairs` two of them.

    A sentence's vector is pooled over its words (`config.pooling`); `<S>` and `</S>` do not count. The two
    sentences of a pair are read apart, each from a fresh state, and compared as `[u; v; |u - v|; u * v]`.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoTokenizer
    >>> sizes = dict(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> model = ElmoForSequenceClassification(ElmoConfig(**sizes, sentence_pairs=True, num_labels=3)).eval()
    >>> batch = ElmoTokenizer()(["A man sleeps ."], ["Nobody sleeps ."], return_tensors="pt")
    >>> tuple(model(**batch).logits.shape)
    (1, 3)

    ```
    """

    custom_pipelines = _pipelines(
        "ElmoTextClassificationPipeline",
        "AutoModelForSequenceClassification",
        "text-classification",
        "sentiment-analysis",
    )

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size * (4 if config.sentence_pairs else 1), config.num_labels)
        self.post_init()

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
        pooled = pool_words(
            self.dropout(output.last_hidden_state), words, self.config.pooling, self.config.num_directions
        )
        logits = self.classifier(_compare(*pooled.chunk(count)))  # (B, num_labels)
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
        pairs = self.config.sentence_pairs
        if token_type_ids is not None:
            second = mask & token_type_ids.bool()
        elif not pairs:
            return [mask]
        elif input_ids is None:
            raise ValueError(
                "A pair given as inputs_embeds needs token_type_ids: 0 in its first sentence, 1 in its second."
            )
        else:
            begins = mask & (boundary_marks(self.config, input_ids) == self.config.boundary_ids[0])
            second = mask & (begins.cumsum(1) > 1)
        # Elsewhere than on the CPU the look would wait for the device at every call.
        if mask.device.type == "cpu" and not torch.compiler.is_compiling():
            wrong = (second.any(1) != pairs).nonzero().flatten().tolist()
            if wrong:
                found, wanted = ("one sentence", "two") if pairs else ("a pair of sentences", "one")
                raise ValueError(
                    f"Row {wrong[0]} holds {found}, but this model reads {wanted}: config.sentence_pairs is {pairs}. "
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


def pool_words(x: torch.Tensor, words: torch.Tensor, pooling: str = "mean", num_directions: int = 2) -> torch.Tensor:
    """One vector for each sentence.

    Args:
        x: (B, T, size), a vector for each position, the forward half first.
        words: (B, T), 1 at the words: neither at padding nor at `<S>` and `</S>`.
        pooling: `"mean"` of the words, `"max"` of each dimension, or `"first_last"`: the forward half of the last
            word, which has read the whole sentence, and the backward half of the first.
        num_directions: 1 if `x` is all forward.

    Returns:
        (B, size); zeros for a sentence without words.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import pool_words
    >>> x, words = torch.arange(6.0).view(1, 3, 2), torch.tensor([[1, 1, 0]])
    >>> [pool_words(x, words, pooling).tolist() for pooling in ("mean", "max", "first_last")]
    [[[1.0, 2.0]], [[2.0, 3.0]], [[2.0, 1.0]]]

    ```
    """
    here = words.bool()[..., None]  # (B, T, 1)
    if pooling == "mean":
        return torch.where(here, x, 0.0).sum(1) / here.sum(1).clamp(min=1)
    if pooling == "max":
        # One more row, so that there is a maximum of no words too.
        lowest = F.pad(torch.where(here, x, -torch.inf), (0, 0, 0, 1), value=-torch.inf)  # (B, T + 1, size)
        return torch.where(here.any(1), lowest.amax(1), 0.0)
    if pooling == "first_last":
        first = here & (here.cumsum(1) == 1)
        last = here & (here.flip(1).cumsum(1).flip(1) == 1)
        ends = zip(x.chunk(num_directions, -1), (last, first), strict=False)
        return torch.cat([torch.where(end, half, 0.0).sum(1) for half, end in ends], -1)
    raise ValueError(f"`pooling` is {pooling!r}; accepted are 'mean', 'max' and 'first_last'.")


def _compare(u: torch.Tensor, v: torch.Tensor | None = None) -> torch.Tensor:
    """What the classifier reads: a sentence's vector, or two and how they differ."""
    return u if v is None else torch.cat([u, v, (u - v).abs(), u * v], -1)


def _class_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Negative log likelihoods of the labels (...) under logits (..., num_labels), those of -100 left out."""
    chosen = labels != -100
    return F.cross_entropy(logits[chosen].float(), labels[chosen], reduction="none")


ElmoForTokenClassification.register_for_auto_class("AutoModelForTokenClassification")
ElmoForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")

__all__ = ["ElmoForSequenceClassification", "ElmoForTokenClassification", "ElmoTaskModel", "pool_words"]
