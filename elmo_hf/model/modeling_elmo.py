"""ElmoModel: characters or words in, one vector per token and all layers out."""

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .character_cnn_elmo import ElmoCharacterEncoder, ElmoWordEmbedding
from .checks_elmo import check_one_input, check_states, costs_nothing_to_look_at
from .configuration_elmo import ElmoConfig
from .dictionary_encoder_elmo import ElmoDictionaryEncoder
from .dispatch_elmo import has_fast_way
from .lstm_elmo import ElmoBiLm, States
from .pretrained_elmo import ElmoPreTrainedModel
from .scalar_mix_elmo import ElmoScalarMix
from .sentence_cache_elmo import SentenceCache

# What `save_pretrained` hands to `push_to_hub`.
HUB_KEYWORDS = ("repo_id", "commit_message", "commit_description", "private", "revision", "create_pr", "tags")


@dataclass
class ElmoModelOutput(ModelOutput):
    """What ElmoModel returns.

    Args:
        last_hidden_state: the mix of all layers, (B, T, hidden_size); zeros at masked positions.
        hidden_states: on request, the layers themselves, the token vectors first: L + 1 times (B, T, hidden_size).
        past_states: with `use_cache=True`, or when states were handed in: the states after the last token, to hand to
            the next call that goes on with the text.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoModelOutput, ElmoTokenizer
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16))
    >>> output = model(**ElmoTokenizer()("It rains", return_tensors="pt"), use_cache=True)
    >>> isinstance(output, ElmoModelOutput), output.hidden_states, list(output)
    (True, None, ['last_hidden_state', 'past_states'])

    ```
    """

    last_hidden_state: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    past_states: States | None = None


class ElmoModel(ElmoPreTrainedModel):
    """The deep bidirectional language model and one learned mix of its layers.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8], [2, 8]], projection_size=8, cell_size=16)
    >>> model, tokenizer = ElmoModel(config), ElmoTokenizer()
    >>> batch = tokenizer(["A first sentence .", "Second"], padding=True, return_tensors="pt")
    >>> output = model(**batch, output_hidden_states=True)
    >>> tuple(output.last_hidden_state.shape), len(output.hidden_states)
    ((2, 6, 16), 3)

    ```
    """

    sentence_cache: SentenceCache | None = None

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.token_encoder = token_encoder(config)
        self.bilm = ElmoBiLm(config)
        self.scalar_mix = ElmoScalarMix(config.num_hidden_layers + 1, config.mix, config.mix_layer_norm, config.mix_l2)
        self.post_init()
        if config.int8_weights:
            self.quantize_modules()
            self._apply_freezing()

    def quantize_modules(self):
        if not self.config.word_input:
            self.token_encoder.quantize()
        for layers in self.bilm.directions:
            for layer in layers:
                layer.quantize()

    def get_input_embeddings(self) -> nn.Module:
        return self.token_encoder

    def set_input_embeddings(self, value: nn.Module):
        self.token_encoder = value

    def bilm_parts(self) -> dict[str, list[nn.Module]]:
        """The modules of each part that `freeze` knows."""
        layers = zip(*self.bilm.directions, strict=True)
        return dict(zip(self.config.bilm_parts, [[self.token_encoder], *map(list, layers)], strict=True))

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        past_states: States | None = None,
        output_hidden_states: bool | None = None,
        use_cache: bool | None = None,
        **keywords: Any,
    ) -> ElmoModelOutput:
        """
        Args:
            input_ids: characters (B, T, C), C up to `max_characters_per_token`, as ElmoTokenizer makes them; for
                word-input models ids (B, T), 0 for no token and k + 1 for line k of the vocabulary.
            attention_mask: (B, T), 0 at positions to pass over, wherever they are. Not given: where ids are not 0.
            inputs_embeds: token vectors (B, T, projection_size) in place of `input_ids`.
            past_states: `past_states` of an earlier output, to go on with its text. Not given: zeros.
            output_hidden_states: return all layers too.
            use_cache: return `past_states`. Not given: where `past_states` are handed in.
            keywords: what every model of transformers is called with, as `output_attentions`; an ELMo has none.
        """
        self.check_keywords(keywords, input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds)
        self._check_inputs(input_ids, attention_mask, inputs_embeds)
        mask = token_mask(input_ids, attention_mask, inputs_embeds)  # (B, T)
        self._check_states(past_states, mask.shape[0])
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        stateful = returns_states(use_cache, past_states)
        cache = self.sentence_cache if input_ids is not None and past_states is None and not stateful else None
        if cache is not None and cache.may_serve(self, input_ids, mask):
            layers = cache.layers(self, input_ids, mask)
            return ElmoModelOutput(
                last_hidden_state=self.mix(layers, mask, input_ids),
                hidden_states=layers if output_hidden_states else None,
            )
        mixed, hidden_states, states = self.compute(input_ids, inputs_embeds, mask, past_states, output_hidden_states)
        return ElmoModelOutput(
            last_hidden_state=mixed,
            hidden_states=hidden_states,
            past_states=states if stateful else None,
        )

    @has_fast_way("compute")
    def compute(
        self,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        mask: torch.Tensor,
        past_states: States | None,
        all_layers: bool,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...] | None, States]:
        """Checked inputs -> the mix, the layers if they are asked for, and the states after the text."""
        tokens = self._token_vectors(input_ids, inputs_embeds, mask)  # (B, T, P)
        layers, states = self.bilm(tokens, mask, past_states=past_states)
        hidden_states = (torch.cat([tokens] * self.config.num_directions, -1), *layers)  # L + 1 times (B, T, hidden)
        return self.mix(hidden_states, mask, input_ids), hidden_states if all_layers else None, states

    def mix(
        self, hidden_states: tuple[torch.Tensor, ...], mask: torch.Tensor, input_ids: torch.Tensor | None
    ) -> torch.Tensor:
        """Layers (B, T, hidden_size) -> what the model's own mix makes of them."""
        words = mask if self.scalar_mix.layer_norm is None else word_mask(self.config, mask, input_ids)
        return self.scalar_mix(hidden_states, mask, words)

    def sentence_vectors(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **keywords: Any
    ) -> torch.Tensor:
        """The mean (B, hidden_size) of the mix over each sentence's words, without `<S>` and `</S>`.

        This is what sentence-transformers calls. A sentence without words gets zeros.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
        >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16))
        >>> batch = ElmoTokenizer()(["A first sentence .", "Second"], padding=True, return_tensors="pt")
        >>> tuple(model.sentence_vectors(**batch).shape)
        (2, 16)

        ```
        """
        x = self(input_ids, attention_mask, **keywords).last_hidden_state
        return pool_words(x, word_mask(self.config, token_mask(input_ids, attention_mask), input_ids))

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, push_to_hub: bool = False, **kwargs: Any):
        """As in transformers, with a model card, and with what sentence-transformers needs to load the folder."""
        hub = {name: kwargs.pop(name) for name in HUB_KEYWORDS if name in kwargs} if push_to_hub else {}
        token = {"token": kwargs["token"]} if "token" in kwargs else {}
        super().save_pretrained(save_directory, *args, **kwargs)
        if kwargs.get("is_main_process", True) and os.path.isdir(save_directory):
            try:
                from elmo_hf.hub.sentence_transformers import write_sentence_transformers
            except ImportError:
                pass  # remote code without the package
            else:
                write_sentence_transformers(save_directory)
        if push_to_hub:
            repo_id = hub.pop("repo_id", None) or os.path.basename(os.path.normpath(save_directory))
            self.push_to_hub(repo_id, **token, **hub)

    def encode_tokens(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Checked inputs -> context-free token vectors (B, T, P), zero where masked, and the mask (B, T) as bool."""
        self._check_inputs(input_ids, attention_mask, inputs_embeds)
        mask = token_mask(input_ids, attention_mask, inputs_embeds)
        return self._token_vectors(input_ids, inputs_embeds, mask), mask

    def _token_vectors(
        self, input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, mask: torch.Tensor
    ) -> torch.Tensor:
        if inputs_embeds is None:
            return self.token_encoder(input_ids, mask)
        return torch.where(mask[..., None], inputs_embeds, 0.0)

    def _check_inputs(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
    ):
        check_one_input(input_ids, inputs_embeds)
        if inputs_embeds is not None:
            if inputs_embeds.dim() != 3 or inputs_embeds.shape[2] != self.config.projection_size:
                raise ValueError(
                    f"inputs_embeds has the shape {tuple(inputs_embeds.shape)}; accepted are token vectors "
                    f"(batch, tokens, {self.config.projection_size})."
                )
        else:
            self._check_input_ids(input_ids)
        given = input_ids if inputs_embeds is None else inputs_embeds
        if attention_mask is not None and attention_mask.shape != given.shape[:2]:
            raise ValueError(
                f"attention_mask has the shape {tuple(attention_mask.shape)}; accepted is one value per token, "
                f"{tuple(given.shape[:2])}."
            )

    def _check_input_ids(self, input_ids: torch.Tensor):
        if input_ids.is_floating_point() or input_ids.is_complex() or input_ids.dtype == torch.bool:
            raise TypeError(f"input_ids has the type {input_ids.dtype}; accepted are whole numbers, as torch.int64.")
        if self.config.word_input:
            if input_ids.dim() != 2:
                raise ValueError(
                    f"input_ids has the shape {tuple(input_ids.shape)}; this model reads word ids (batch, tokens)."
                )
            rows = self.config.vocab_size + 1
        else:
            width = self.config.row_width
            # What fills up a row of bytes is known; what fills up a row of a dictionary's ids, the dictionary says.
            least = 1 if self.config.dictionary is None else width
            if input_ids.dim() != 3 or not least <= input_ids.shape[2] <= width:
                raise ValueError(
                    f"input_ids has the shape {tuple(input_ids.shape)}; this model reads characters "
                    f"(batch, tokens, characters) with up to {width} characters a token. ElmoTokenizer makes them."
                )
            rows = self.config.row_ids
        if input_ids.numel() and costs_nothing_to_look_at(input_ids):
            lowest, highest = (int(value) for value in torch.aminmax(input_ids))
            if lowest < 0 or highest >= rows:
                wrong = lowest if lowest < 0 else highest
                raise ValueError(f"input_ids holds {wrong}; accepted are ids from 0 to {rows - 1}.")

    def _check_states(self, past_states: States | None, batch: int):
        if past_states is None:
            return
        check_states(past_states, self.bilm.forward_layers[0].bias)
        if len(past_states) != self.config.num_hidden_layers:
            raise ValueError(
                f"past_states has {len(past_states)} layers; this model has {self.config.num_hidden_layers}."
            )
        config = self.config
        for number, (h, c) in enumerate(past_states, 1):
            if h.shape[0] != batch or c.shape[0] != batch:
                raise ValueError(
                    f"past_states are of {h.shape[0]} texts, but this batch has {batch}: a state belongs to the text "
                    "in the same row. Hand on states with the same rows, or fit them with resize_states(states, n)."
                )
            accepted = [(batch, config.num_directions, size) for size in (config.projection_size, config.cell_size)]
            if [tuple(h.shape), tuple(c.shape)] != accepted:
                raise ValueError(
                    f"past_states of layer {number} have the shapes {tuple(h.shape)} and {tuple(c.shape)}; accepted "
                    f"are {accepted[0]} and {accepted[1]}."
                )


def returns_states(use_cache: bool | None, past_states: States | None) -> bool:
    """Whether a call gives states back: if asked to, or if it was given some and nothing else was said."""
    return past_states is not None if use_cache is None else use_cache


def token_encoder(config: ElmoConfig) -> nn.Module:
    """What makes token vectors of a model's input: of bytes, of ids from dictionaries, or of words."""
    if config.dictionary is not None:
        return ElmoDictionaryEncoder(config)
    return ElmoWordEmbedding(config) if config.word_input else ElmoCharacterEncoder(config)


def token_mask(
    input_ids: torch.Tensor | None = None,
    attention_mask: torch.Tensor | None = None,
    inputs_embeds: torch.Tensor | None = None,
) -> torch.Tensor:
    """Which positions (B, T) hold tokens: those of the attention mask, or else those whose ids are not all 0."""
    if attention_mask is not None:
        return attention_mask.bool()
    if inputs_embeds is not None:
        return torch.ones(inputs_embeds.shape[:2], dtype=torch.bool, device=inputs_embeds.device)
    return (input_ids > 0).any(-1) if input_ids.dim() == 3 else input_ids > 0


def word_mask(config: ElmoConfig, mask: torch.Tensor, input_ids: torch.Tensor | None = None) -> torch.Tensor:
    """Which positions of a mask (B, T) hold words: all but padding, `<S>` and `</S>`.

    Without `input_ids` (token vectors as input) the first and the last position of each row count as boundaries.
    """
    if input_ids is None:
        return _inner(mask)
    begin, end = config.boundary_ids
    marks = boundary_marks(config, input_ids)
    return mask & (marks != begin) & (marks != end)


def boundary_marks(config: ElmoConfig, input_ids: torch.Tensor) -> torch.Tensor:
    """The id (B, T) of each position that `config.boundary_ids` are compared with."""
    if config.word_input:
        return input_ids
    return input_ids[..., min(config.mark_position, input_ids.shape[-1] - 1)]


def strip_boundaries(x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes the first and the last unmasked position of each row away: `<S>` and `</S>` of a sentence.

    Args:
        x: (B, T, ...), for example vectors, one per input position.
        mask: (B, T), the attention mask; padding may be anywhere.

    Returns:
        (B, T - 2, ...) with what remains of each row in its order, moved to the left and filled with zeros, and the
        mask of that.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import strip_boundaries
    >>> x, mask = strip_boundaries(torch.arange(1, 9).view(2, 4), torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1]]))
    >>> x.tolist(), mask.tolist()
    ([[2, 3], [7, 0]], [[1, 1], [1, 0]])

    ```
    """
    inner = _inner(mask.bool())
    length = max(mask.shape[1] - 2, 0)
    first = torch.argsort((~inner).long(), dim=1, stable=True)[:, :length]  # (B, T - 2), inner positions first
    kept = inner.gather(1, first)
    index = first.reshape(first.shape + (1,) * (x.dim() - 2)).expand(*first.shape, *x.shape[2:])
    gathered = x.gather(1, index)
    shown = kept.reshape(kept.shape + (1,) * (x.dim() - 2))
    return torch.where(shown, gathered, torch.zeros_like(gathered)), kept.to(mask.dtype)


def pool_words(x: torch.Tensor, words: torch.Tensor, pooling: str = "mean", num_directions: int = 2) -> torch.Tensor:
    """Pools the vectors of each sentence's words into one vector.

    Args:
        x: (B, T, size), a vector for each position, the forward half first.
        words: (B, T), 1 at words, 0 at padding, `<S>` and `</S>`.
        pooling: `"mean"`, `"max"`, or `"first_last"`: the forward half of the last word, which has read the whole
            sentence, and the backward half of the first.
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
    mask = words.bool()[..., None]  # (B, T, 1)
    if pooling == "mean":
        return torch.where(mask, x, 0.0).sum(1) / mask.sum(1).clamp(min=1)
    if pooling == "max":
        # One more row, so that there is a maximum of no words too.
        rows = nn.functional.pad(torch.where(mask, x, -torch.inf), (0, 0, 0, 1), value=-torch.inf)  # (B, T + 1, size)
        return torch.where(mask.any(1), rows.amax(1), 0.0)
    if pooling == "first_last":
        first = mask & (mask.cumsum(1) == 1)
        last = mask & (mask.flip(1).cumsum(1).flip(1) == 1)
        ends = zip(x.chunk(num_directions, -1), (last, first), strict=False)
        return torch.cat([torch.where(end, half, 0.0).sum(1) for half, end in ends], -1)
    raise ValueError(f"Invalid `pooling`: {pooling!r}. Expected 'mean', 'max' or 'first_last'.")


def resize_states(states: States, batch: int) -> States:
    """Fits states to another batch size as the originals did: the first rows stay, further rows are zeros.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import resize_states
    >>> states = ((torch.ones(2, 1, 3), torch.ones(2, 1, 4)),)
    >>> [tuple(part.shape) for part in resize_states(states, 5)[0]]
    [(5, 1, 3), (5, 1, 4)]

    ```
    """

    def fit(part: torch.Tensor) -> torch.Tensor:
        missing = max(batch - part.shape[0], 0)
        return torch.cat([part[:batch], part.new_zeros(missing, *part.shape[1:])])

    return tuple((fit(h), fit(c)) for h, c in states)


def _inner(mask: torch.Tensor) -> torch.Tensor:
    """All unmasked positions of each row but its first and its last, (B, T)."""
    order = mask.long().cumsum(1)
    return mask & (order > 1) & (order < order[:, -1:])


ElmoModel.register_for_auto_class("AutoModel")

__all__ = [
    "ElmoModel",
    "ElmoModelOutput",
    "pool_words",
    "resize_states",
    "strip_boundaries",
]
