"""ElmoTaskModel: what every task class shares. What goes into the head, what joins what comes out of it, the loss."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedConfig
from transformers import initialization as init

from .checks_elmo import check_one_input, check_tensors, costs_nothing_to_look_at
from .configuration_elmo import ElmoConfig
from .head_base_elmo import HeadSizes, Read
from .head_settings_elmo import head_dict, read_head
from .hub_elmo import row_of
from .modeling_elmo import ElmoModel, boundary_marks, token_mask, word_mask
from .pretrained_elmo import ElmoPreTrainedModel
from .scalar_mix_elmo import ElmoScalarMix


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


# What is not the biLM's in a checkpoint.
OF_A_HEAD = ("classifier.", "output_mix.", "word_vectors.")


class ElmoTaskModel(ElmoPreTrainedModel):
    """What every task class shares: a biLM that is frozen unless asked otherwise, the vectors that go into the head
    and join what it gives out, the head that `config.head` names, and the loss.
    """

    freezes_by_default = True
    # The Trainer hands `num_items_in_batch` to forward.
    accepts_loss_kwargs = True
    # Whether `token_type_ids`, or a second `<S>`, part a row into two sentences, each read from a fresh state.
    parts_rows = False

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
        self.post_init()

    @staticmethod
    def _finalize_model_loading(model: Any, load_config: Any, loading_info: Any) -> Any:
        commit = getattr(model.config, "_commit_hash", None)
        if _other_type(model.config.head, _saved_head(load_config, commit)):
            # Weights of two heads may have the same name: those that were loaded are none of this one's.
            own = {name: weight for name, weight in model.named_parameters() if name.startswith(OF_A_HEAD)}
            for weight in own.values():
                weight._is_hf_initialized = False
            loading_info.missing_keys |= own.keys()
            loading_info.mismatched_keys = {one for one in loading_info.mismatched_keys if one[0] not in own}
        return ElmoPreTrainedModel._finalize_model_loading(model, load_config, loading_info)

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

    def _check_word_vectors(self, ids: torch.Tensor | None):
        words = self.head_settings.word_vectors[0]
        if ids is None:
            raise ValueError(
                f"This model reads vectors of {words} words too, but `word_vector_ids` is missing: a tokenizer that "
                "was given `vector_words` returns it."
            )
        if costs_nothing_to_look_at(ids):
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
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        word_vector_ids: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        **keywords: Any,
    ) -> tuple[list[Read], tuple[torch.Tensor, ...] | None]:
        """What the head reads, checked: each row as one sentence, or the two of a pair; and the layers on request."""
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "inputs_embeds": inputs_embeds,
            "token_type_ids": token_type_ids,
            "word_vector_ids": word_vector_ids,
        }
        check_one_input(input_ids, inputs_embeds)
        check_tensors(inputs, self.config.word_input)
        mask = token_mask(input_ids, attention_mask, inputs_embeds)  # (B, T)
        segments, marks = [mask], token_type_ids
        if self.parts_rows:
            segments, marks = self._segments(mask, input_ids, token_type_ids), None
        count = len(segments)
        tensors = (None if x is None else torch.cat([x] * count) for x in (input_ids, inputs_embeds, word_vector_ids))
        # Each sentence is a row of its own, in which the other one is padding: no state gets across.
        read, layers = self._read(torch.cat(segments), *tensors, output_hidden_states, **keywords)
        outputs = [None] * count if read.output is None else read.output.chunk(count)
        parts = zip(read.x.chunk(count), segments, read.words.chunk(count), outputs, strict=True)
        if layers is not None:
            # Where one sentence is, the other's row is zero.
            layers = tuple(sum(layer.chunk(count)) for layer in layers)  # L + 1 times (B, T, hidden)
        return [Read(*part, marks) for part in parts], layers

    def _read(
        self,
        rows: torch.Tensor,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        word_vector_ids: torch.Tensor | None,
        output_hidden_states: bool | None,
        **keywords: Any,
    ) -> tuple[Read, tuple[torch.Tensor, ...] | None]:
        """The sentences that `rows` (B, T) shows, and on request the biLM's layers."""
        settings, words = self.head_settings, word_mask(self.config, rows, input_ids)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        parts, at_output, layers = [], None, None
        if self.word_vectors is not None:
            self._check_word_vectors(word_vector_ids)
            parts.append(self.word_vectors(word_vector_ids * words))
        elif word_vector_ids is not None:
            raise ValueError(
                "word_vector_ids came, but this model has no word vectors: head={..., 'word_vectors': [words, size]} "
                "and model.set_word_vectors(vectors) give it some; a tokenizer without `vector_words` returns no ids."
            )
        if settings.elmo_at or output_hidden_states:
            # One pass of the biLM, whatever is made of its layers.
            output = self.elmo(input_ids, rows, inputs_embeds, output_hidden_states=True, **keywords)
            layers = output.hidden_states
            if "input" in settings.elmo_at:
                parts.append(self.dropout(output.last_hidden_state))
            if "output" in settings.elmo_at:
                at_output = self.output_dropout(self.output_mix(layers, rows, words))
        x = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
        return Read(x, rows, words, at_output), layers if output_hidden_states else None

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
        if costs_nothing_to_look_at(mask):
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


def _saved_head(load_config: Any, commit: str | None) -> str | dict | None:
    """`head` of the config.json that lies beside the weights."""
    name, where = load_config.pretrained_model_name_or_path, load_config.download_kwargs or {}
    if name is None:
        return None
    try:
        return PreTrainedConfig.get_config_dict(name, _commit_hash=commit, **where)[0].get("head")
    except (OSError, ValueError):
        return None  # weights without a config


def _other_type(asked: str | dict, saved: str | dict | None) -> bool:
    asked, saved = (head.get("type") if isinstance(head, dict) else head for head in (asked, saved))
    return None not in (asked, saved) and asked != saved


__all__ = ["ElmoTaskModel", "WordVectors"]
