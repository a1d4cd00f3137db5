"""ElmoForTokenClassification and ElmoForSequenceClassification: labels for tokens, for sentences, for pairs of them.

The networks on top, `config.head`, are in files of their own, head_*_elmo.py.
"""

from typing import Any

import torch
from torch.nn import functional as F
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from .checks_elmo import check_labels
from .configuration_elmo import IS_REMOTE_COPY
from .pipeline_elmo import register_pipelines
from .task_layers_elmo import nll
from .task_model_elmo import ElmoTaskModel


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
        word_vector_ids: torch.Tensor | None = None,
        **keywords: Any,
    ) -> TokenClassifierOutput:
        """
        Args:
            input_ids, attention_mask, inputs_embeds, output_hidden_states, keywords: as ElmoModel takes them.
            token_type_ids: (B, T), 1 at the predicate, which only the head `"srl"` reads.
            labels: (B, T), a label for each position, from 0; -100 where there is none, as at `<S>`, `</S>` and
                padding.
            num_items_in_batch: labels in all the batches of one step, when gradients are accumulated.
            word_vector_ids: (B, T), rows of the table of word vectors, if the head has one.
        """
        self.check_keywords(keywords, labels=labels)
        (read,), hidden_states = self.read(
            input_ids, attention_mask, inputs_embeds, token_type_ids, word_vector_ids, output_hidden_states, **keywords
        )
        logits = self.classifier.logits(read)  # (B, T, num_labels)
        loss = None
        if labels is not None:
            if labels.shape != logits.shape[:2]:
                raise ValueError(
                    f"labels has the shape {tuple(labels.shape)}; accepted is one label for each input position, "
                    f"{tuple(logits.shape[:2])}, -100 at <S>, </S> and padding."
                )
            labels = check_labels(labels, self.num_labels)
            losses = self.classifier.losses(logits, labels)
            loss = self.task_loss(losses, num_items_in_batch, count=int((labels != -100).sum()))
        if not self.training:
            logits = self.classifier.decoded(logits, read.words)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=hidden_states)


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

    parts_rows = True

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
        word_vector_ids: torch.Tensor | None = None,
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
            word_vector_ids: (B, T), rows of the table of word vectors, if the head has one.
        """
        self.check_keywords(keywords, labels=labels)
        sentences, hidden_states = self.read(
            input_ids, attention_mask, inputs_embeds, token_type_ids, word_vector_ids, output_hidden_states, **keywords
        )
        logits = self.classifier.logits(*sentences)  # (B, num_labels)
        loss = None if labels is None else self.task_loss(self._losses(logits, labels), num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=hidden_states)

    def _losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """A loss for each label."""
        if self.config.problem_type is None:
            whole = not labels.is_floating_point()
            several = "single_label_classification" if whole else "multi_label_classification"
            self.config.problem_type = "regression" if self.num_labels == 1 else several
        if self.config.problem_type == "single_label_classification":
            if labels.numel() != len(logits):
                raise ValueError(
                    f"labels has the shape {tuple(labels.shape)}; accepted is one class for each of the "
                    f"{len(logits)} sentences."
                )
            return nll(logits, labels.reshape(-1))
        if labels.numel() != logits.numel():
            raise ValueError(
                f"labels has the shape {tuple(labels.shape)}; accepted for {self.config.problem_type} is "
                f"{tuple(logits.shape)}, a number for each sentence and label."
            )
        wanted = labels.to(torch.float32).view(logits.shape)
        loss = F.mse_loss if self.config.problem_type == "regression" else F.binary_cross_entropy_with_logits
        return loss(logits.float(), wanted, reduction="none")


ElmoForTokenClassification.register_for_auto_class("AutoModelForTokenClassification")
ElmoForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
if IS_REMOTE_COPY:
    # A model in memory is no repository whose config could name its pipeline.
    register_pipelines()

__all__ = ["ElmoForSequenceClassification", "ElmoForTokenClassification"]
