"""The task classes: what they share, ElmoForTokenClassification and ElmoForSequenceClassification.

The networks on top, `config.head`, are in files of their own, head_*_elmo.py.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import IS_REMOTE_COPY, ElmoConfig
from .head_base_elmo import HeadSizes, Read
from .head_settings_elmo import head_dict, read_head
from .hub_elmo import row_of
from .modeling_elmo import ElmoModel, boundary_marks, token_mask, word_mask
from .pipeline_elmo import register_pipelines
from .pretrained_elmo import ElmoPreTrainedModel
from .scalar_mix_elmo import ElmoScalarMix
from .task_layers_elmo import nll


class WordVectors(nn.Module):
    """A table of word vectors: row 0 for no word, row 1 for a word that has none, then one for each word.

    Zeros until [`~ElmoTaskModel.set_word_vectors`].
    """

    def __init__(self, words: int, size: int):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(words + 2, size))

    def initial_weights(self):
        init.zeros_(self.table)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(ids, self.table)


class ElmoTaskModel(ElmoPreTrainedModel):
    """What every task class shares: a biLM that is frozen unless asked otherwise, the vectors that go into the head
    and join what it gives out, the head that `config.head` names, and the loss.
    """

    freezes_by_default = True
    # The Trainer hands `num_items_in_batch` to forward.
    accepts_loss_kwargs = True

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        name, head_class, settings = read_head(config.head, row_of(type(self)).name)
        config.head, self.head_settings = head_dict(name, settings), settings
        self.elmo = ElmoModel(config)
        self.dropout = nn.Dropout(config.mix_dropout)
        sizes = HeadSizes(config.hidden_size if "input" in settings.elmo_at else 0)
        self.word_vectors = None
        if settings.word_vectors is not None:
            self.word_vectors = WordVectors(*settings.word_vectors)
            sizes.input += settings.word_vectors[1]
        if "output" in settings.elmo_at:
            dropout, l2 = settings.output_mix_dropout, settings.output_mix_l2
            self.output_mix = ElmoScalarMix(
                config.num_hidden_layers + 1, config.mix, config.mix_layer_norm, config.mix_l2 if l2 is None else l2
            )
            self.output_dropout = nn.Dropout(config.mix_dropout if dropout is None else dropout)
            sizes.output = config.hidden_size
        self.classifier = head_class(config, settings, sizes)

    @property
    def reads_pairs(self) -> bool:
        """Whether the head compares two sentences in place of reading one."""
        return self.classifier.reads_pairs

    # -- word vectors

    @torch.no_grad()
    def set_word_vectors(self, vectors: Any):
        """Fills the table of word vectors: a row for each word, in the order of the tokenizer's `vector_words`.

        Args:
            vectors: (words, size), an array or a tensor.
        """
        vectors = torch.as_tensor(vectors)
        accepted = self.head_settings.word_vectors
        if accepted is None or list(vectors.shape) != accepted:
            raise ValueError(
                f"The word vectors have the shape {tuple(vectors.shape)}; accepted is what the head's `word_vectors` "
                f"says, {accepted}."
            )
        self.word_vectors.table[2:] = vectors.to(self.word_vectors.table)

    def _apply_freezing(self):
        super()._apply_freezing()
        if self.word_vectors is not None:
            self.word_vectors.table.requires_grad_(self.head_settings.tune_word_vectors)

    def _check_word_vectors(self, ids: torch.Tensor | None, mask: torch.Tensor):
        words = self.head_settings.word_vectors[0]
        if ids is None:
            raise ValueError(
                f"This model reads vectors of {words} words too, but `word_vector_ids` is missing: a tokenizer that "
                "was given `vector_words` returns it."
            )
        if ids.shape != mask.shape:
            raise ValueError(f"word_vector_ids has the shape {tuple(ids.shape)}; accepted is {tuple(mask.shape)}.")
        if ids.device.type == "cpu" and not torch.compiler.is_compiling():
            if ids.numel() and (int(ids.max()) > words + 1 or int(ids.min()) < 0):
                raise ValueError(f"word_vector_ids holds {int(ids.max())}; accepted are ids from 0 to {words + 1}.")
            if not self.word_vectors.table[2:].any():
                raise ValueError(
                    "The table of word vectors is empty: model.set_word_vectors(vectors) fills it, once, and "
                    "save_pretrained keeps it."
                )

    # -- what the head reads

    def read(
        self,
        rows: torch.Tensor,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        word_vector_ids: torch.Tensor | None,
        marks: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        **keywords: Any,
    ) -> tuple[Read, tuple[torch.Tensor, ...] | None]:
        """The sentences that `rows` (B, T) shows, as a head reads them, and on request the biLM's layers."""
        settings, words = self.head_settings, word_mask(self.config, rows, input_ids)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        parts, at_output, layers = [], None, None
        if self.word_vectors is not None:
            self._check_word_vectors(word_vector_ids, rows)
            parts.append(self.word_vectors(word_vector_ids * words))
        if settings.elmo_at or output_hidden_states:
            # One pass of the biLM, whatever is made of its layers.
            output = self.elmo(input_ids, rows, inputs_embeds, output_hidden_states=True, **keywords)
            layers = output.hidden_states
            if "input" in settings.elmo_at:
                parts.append(self.dropout(output.last_hidden_state))
            if "output" in settings.elmo_at:
                at_output = self.output_dropout(self.output_mix(layers, rows, words))
        x = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
        return Read(x, rows, words, at_output, marks), layers if output_hidden_states else None

    def read_sentences(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        word_vector_ids: torch.Tensor | None,
        **keywords: Any,
    ) -> tuple[list[Read], tuple[torch.Tensor, ...] | None]:
        """Each sentence of the rows, read apart and from a fresh state: one, or the two of a pair."""
        mask = token_mask(input_ids, attention_mask, inputs_embeds)  # (B, T)
        segments = self._segments(mask, input_ids, token_type_ids)
        count = len(segments)
        tensors = (None if x is None else torch.cat([x] * count) for x in (input_ids, inputs_embeds, word_vector_ids))
        # Each sentence is a row of its own, in which the other one is padding: no state gets across.
        read, layers = self.read(torch.cat(segments), *tensors, **keywords)
        outputs = [None] * count if read.output is None else read.output.chunk(count)
        parts = zip(read.x.chunk(count), segments, read.words.chunk(count), outputs, strict=True)
        if layers is not None:
            # Where one sentence is, the other's row is zero.
            layers = tuple(sum(layer.chunk(count)) for layer in layers)  # L + 1 times (B, T, hidden)
        return [Read(*part) for part in parts], layers

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

    # -- the loss

    def mix_penalty(self) -> torch.Tensor | float:
        """The penalties of the mixes that the head reads, its own and that of the biLM."""
        places = {"input": "elmo.scalar_mix", "output": "output_mix"}
        return sum(self.get_submodule(places[place]).penalty() for place in self.head_settings.elmo_at)

    def task_loss(
        self, losses: torch.Tensor, num_items_in_batch: torch.Tensor | int | None, count: int | None = None
    ) -> torch.Tensor:
        """The sum of `losses` for each of `count` labels, by default as many as losses, and the penalty of the mixes.

        `num_items_in_batch` counts the labels of all the batches that make one step. Each of these batches then
        gives its share, of the penalty too, and the shares add up to what one large batch would give.
        """
        count = losses.numel() if count is None else count
        items = max(count, 1) if num_items_in_batch is None else num_items_in_batch
        if isinstance(items, torch.Tensor):
            items = items.to(losses.device)
        return (losses.sum() + count * self.mix_penalty()) / items

    def check_classes(self, labels: torch.Tensor):
        """Raises for a class that the model does not have."""
        if labels.device.type == "cpu" and labels.numel() and not torch.compiler.is_compiling():
            wrong = labels[(labels != -100) & ((labels < 0) | (labels >= self.num_labels))]
            if len(wrong):
                raise ValueError(
                    f"labels holds {int(wrong[0])}; accepted are 0 to {self.num_labels - 1}, and -100 for none."
                )


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
        token_type_ids: torch.Tensor | None = None,
        word_vector_ids: torch.Tensor | None = None,
        **keywords: Any,
    ) -> TokenClassifierOutput:
        """
        Args:
            input_ids, attention_mask, inputs_embeds, output_hidden_states, keywords: as ElmoModel takes them.
            labels: (B, T), a label for each position, from 0; -100 where there is none, as at `<S>`, `</S>` and
                padding.
            num_items_in_batch: labels in all the batches of one step, when gradients are accumulated.
            token_type_ids: (B, T), 1 at the predicate, which only the head `"srl"` reads.
            word_vector_ids: (B, T), rows of the table of word vectors, if the head has one.
        """
        self.check_keywords(
            keywords,
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            labels=labels,
        )
        mask = token_mask(input_ids, attention_mask, inputs_embeds)
        read, hidden_states = self.read(
            mask,
            input_ids,
            inputs_embeds,
            word_vector_ids,
            token_type_ids,
            output_hidden_states=output_hidden_states,
            **keywords,
        )
        logits = self.classifier.logits(read)  # (B, T, num_labels)
        loss = None
        if labels is not None:
            if labels.shape != logits.shape[:2]:
                raise ValueError(
                    f"labels has the shape {tuple(labels.shape)}; accepted is one label for each input position, "
                    f"{tuple(logits.shape[:2])}, -100 at <S>, </S> and padding."
                )
            self.check_classes(labels)
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

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
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
        self.check_keywords(
            keywords,
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            inputs_embeds=inputs_embeds,
            labels=labels,
        )
        sentences, hidden_states = self.read_sentences(
            input_ids,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            word_vector_ids,
            output_hidden_states=output_hidden_states,
            **keywords,
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
            self.check_classes(labels)
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

__all__ = ["ElmoForSequenceClassification", "ElmoForTokenClassification", "ElmoTaskModel"]
