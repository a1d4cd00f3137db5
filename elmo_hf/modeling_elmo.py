"""ElmoModel: characters or words in, one vector per token and all layers out; and how layers are mixed."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .character_cnn_elmo import ElmoCharacterEncoder, ElmoHighway, ElmoWordEmbedding
from .configuration_elmo import ElmoConfig, check_mix
from .engine_elmo import check_engine, describe
from .lstm_elmo import ElmoBiLm, ElmoLstmLayer, States
from .model_card_elmo import put_card_on_hub, write_card
from .packed_linear_elmo import forget


@dataclass
class ElmoModelOutput(ModelOutput):
    """What ElmoModel returns.

    Args:
        last_hidden_state: the mix of all layers, (B, T, hidden_size); zeros at masked positions.
        hidden_states: on request, the layers themselves, the token vectors first: L + 1 times (B, T, hidden_size).
        past_states: the states after the last token, to hand to the next call that goes on with the text.
    """

    last_hidden_state: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    past_states: States | None = None


class ElmoScalarMix(nn.Module):
    """`gamma * sum_j softmax(weight)_j * layer_j`, or a mix that does not learn.

    Args:
        num_layers: number of layers that come in, the token vectors included.
        mode: `"learned"`, `"average"`, `"top"`, a layer's number, or a list of fixed weights.
        layer_norm: None, `"sentence"` (mean and variance over a sentence's own words) or `"batch"` (over all words
            of the batch, as the original does: a vector then depends on its batch mates).
        l2: factor of the penalty `sum(weight ** 2)`, see [`~ElmoScalarMix.penalty`].

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import ElmoScalarMix
    >>> mix = ElmoScalarMix(num_layers=3)
    >>> layers = [torch.full((1, 2, 4), float(number)) for number in range(3)]
    >>> mix(layers)[0, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> mix.layer_weights()
    tensor([0.3333, 0.3333, 0.3333])

    ```
    """

    def __init__(
        self,
        num_layers: int,
        mode: str | int | Sequence[float] = "learned",
        layer_norm: str | None = None,
        l2: float = 0.0,
    ):
        super().__init__()
        check_mix(mode, num_layers)
        self.num_layers, self.mode, self.layer_norm, self.l2 = num_layers, mode, layer_norm, l2
        learned = mode == "learned"
        self.weight = nn.Parameter(torch.zeros(num_layers)) if learned else None
        self.gamma = nn.Parameter(torch.ones(1)) if learned else None

    def layer_weights(self) -> torch.Tensor:
        """What each layer counts, on the CPU and without gradient: the softmax of `weight`, or the fixed weights."""
        if self.weight is not None:
            return self.weight.detach().float().softmax(0).cpu()
        return torch.tensor(self._fixed_weights())

    def penalty(self) -> torch.Tensor | float:
        """`l2 * sum(weight ** 2)`, which a task adds to its loss; 0 when nothing is learned or `l2` is 0."""
        return self.l2 * self.weight.square().sum() if self.weight is not None and self.l2 else 0.0

    def forward(
        self,
        hidden_states: Sequence[torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        word_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Layers (B, T, size) -> their mix (B, T, size), zero where `attention_mask` (B, T) is.

        `word_mask` names the positions whose mean and variance the layer norm takes: `attention_mask` without the
        sentence boundaries. Not given, all of `attention_mask` count.
        """
        if len(hidden_states) != self.num_layers:
            raise ValueError(f"This mix is for {self.num_layers} layers, but {len(hidden_states)} were given.")
        if attention_mask is None:
            attention_mask = torch.ones(hidden_states[0].shape[:2], device=hidden_states[0].device)
        mask = attention_mask.bool()
        if self.layer_norm is None and _is_mostly_padding(mask):
            rows = mask.flatten().nonzero().squeeze(1)  # (N,)
            mixed = self._mix([layer.flatten(0, 1)[rows] for layer in hidden_states])
            padded = mixed.new_zeros(mask.numel(), mixed.shape[-1])
            padded[rows] = mixed
            return padded.unflatten(0, mask.shape)
        layers = list(hidden_states)
        if self.layer_norm is not None:
            words = mask if word_mask is None else word_mask.bool()
            layers = [self._normalise(layer, words) for layer in layers]
        return torch.where(mask[..., None], self._mix(layers), 0.0)

    def _mix(self, layers: Sequence[torch.Tensor]) -> torch.Tensor:
        if self.weight is not None:
            weights = self.weight.float().softmax(0).to(layers[0].dtype).unbind()
        else:
            weights = self._fixed_weights()
        mixed = sum(weight * layer for weight, layer in zip(weights, layers, strict=True) if _is_used(weight))
        return mixed if self.gamma is None else self.gamma.to(mixed.dtype) * mixed

    def _fixed_weights(self) -> list[float]:
        if self.mode == "average":
            return [1 / self.num_layers] * self.num_layers
        if isinstance(self.mode, (str, int)):
            chosen = self.num_layers - 1 if self.mode == "top" else self.mode
            return [float(number == chosen) for number in range(self.num_layers)]
        return [float(weight) for weight in self.mode]

    def _normalise(self, layer: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        over = (0, 1, 2) if self.layer_norm == "batch" else (1, 2)
        x, here = layer.float(), words[..., None]  # (B, T, size), (B, T, 1)
        count = (here.sum(over, keepdim=True) * x.shape[-1]).clamp(min=1)
        mean = torch.where(here, x, 0.0).sum(over, keepdim=True) / count
        variance = torch.where(here, x - mean, 0.0).square().sum(over, keepdim=True) / count
        return ((x - mean) / torch.sqrt(variance + 1e-12)).to(layer.dtype)

    def extra_repr(self) -> str:
        return f"num_layers={self.num_layers}, mode={self.mode!r}, layer_norm={self.layer_norm!r}, l2={self.l2}"


class ElmoPreTrainedModel(PreTrainedModel):
    """What every ELMo class shares: initial weights, freezing, saving with a model card."""

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoLstmLayer"]
    # A mix that does not learn has no parameters: a checkpoint of a learned one still loads.
    _keys_to_ignore_on_load_unexpected = [r"scalar_mix\.(weight|gamma)$"]
    # What `config.freeze_bilm=None` means for this class.
    freezes_by_default = False

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        # The distributions that the original draws from.
        if isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -1.0, 1.0)
            if not getattr(module.weight, "_is_hf_initialized", False):
                module.weight[0].zero_()
        elif isinstance(module, nn.Conv1d):
            if self.config.character_cnn_activation == "relu":
                init.uniform_(module.weight, -0.05, 0.05)
            else:
                init.normal_(module.weight, 0.0, 1 / math.sqrt(module.kernel_size[0] * module.in_channels))
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, 0.0, 1 / math.sqrt(module.in_features))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, ElmoHighway):
            init.constant_(module.carry.bias, -2.0)
        elif isinstance(module, ElmoLstmLayer) and not module.quantized:
            bound = math.sqrt(6 / (2 * self.config.projection_size + 4 * self.config.cell_size))
            init.uniform_(module.weight_input, -bound, bound)
            init.uniform_(module.weight_recurrent, -bound, bound)
            init.zeros_(module.bias)
            if module.weight_projection is not None:
                bound = math.sqrt(6 / (self.config.projection_size + self.config.cell_size))
                init.uniform_(module.weight_projection, -bound, bound)
        elif isinstance(module, ElmoScalarMix) and module.weight is not None:
            init.zeros_(module.weight)
            init.ones_(module.gamma)

    # -- freezing

    def post_init(self):
        super().post_init()
        self._apply_freezing()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any):
        """As in transformers; `freeze_bilm=True`, `False` or a list of parts sets what trains."""
        loaded = super().from_pretrained(*args, **kwargs)
        # Loading makes every parameter trainable again.
        (loaded[0] if isinstance(loaded, tuple) else loaded)._apply_freezing()
        return loaded

    def freeze(self, parts: bool | Sequence[str] = True):
        """Freezes the whole biLM (True), nothing (False), or the named parts only; saved with the model.

        A frozen part gets no gradient and stays in evaluation mode after `.train()`. The mix and everything above
        the biLM keep training.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoModel
        >>> config = ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)
        >>> model = ElmoModel(config)
        >>> model.freeze(["token_encoder", "layer_1"])
        >>> sorted({name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad})
        ['bilm', 'scalar_mix']

        ```
        """
        self.config.freeze_bilm = parts if isinstance(parts, bool) else list(parts)
        self.config.validate_architecture()
        self._apply_freezing()

    def _frozen_parts(self) -> list[str]:
        chosen = self.freezes_by_default if self.config.freeze_bilm is None else self.config.freeze_bilm
        return (self.config.bilm_parts if chosen else []) if isinstance(chosen, bool) else chosen

    def _apply_freezing(self):
        frozen = self._frozen_parts()
        for part, modules in self.base_model.bilm_parts().items():
            for module in modules:
                module.requires_grad_(part not in frozen)
        self.train(self.training)

    def train(self, mode: bool = True):
        super().train(mode)
        parts = self.base_model.bilm_parts()
        for part in self._frozen_parts():
            for module in parts[part]:
                module.eval()
        return self

    # -- how it is computed

    def set_engine(self, name: str):
        """Chooses how this model computes: `"packed"`, `"reference"`, or `"auto"` for what ELMO_HF_ENGINE says.

        All give the same vectors and gradients. A choice of this process: it is not saved. A changed weight is
        noticed; only single numbers set through `weight.data` may not be, unless `model.eval()` follows.
        Gradients of gradients need the reference.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoModel
        >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8))
        >>> model.set_engine("reference")
        >>> model.engine
        'reference: the plain loop over time, every token encoded.'

        ```
        """
        self.base_model.bilm.engine = self.base_model.token_encoder.engine = check_engine(name)

    @property
    def engine(self) -> str:
        """One sentence on how this model computes at this moment."""
        base = self.base_model
        return describe(base.bilm.engine, next(base.bilm.parameters()), getattr(base.token_encoder, "cached_words", 0))

    def cache_words(self, number: int):
        """Remembers the vectors of up to `number` words from batch to batch; 0, as in the beginning, remembers none.

        Exact: a changed weight drops them. They are used only where no gradient flows into the token encoder, and
        are not saved. A million words of a model with vectors of 512 take 2 GB.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoModel
        >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)).eval()
        >>> model.cache_words(200_000)

        ```
        """
        if number < 0:
            raise ValueError(f"The number of words to remember is {number}; accepted is a whole number from 0.")
        encoder = self.base_model.token_encoder
        encoder.cached_words = number
        forget(encoder)

    def quantize(self):
        """Puts the large weights of the biLM into eight bits, for good, and freezes it; for inference on a CPU.

        The config remembers it, so that `save_pretrained` writes and `from_pretrained` reads the small weights.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoModel
        >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)).eval()
        >>> model.quantize()
        >>> model.bilm.forward_layers[0].weight_input_int8.dtype
        torch.int8

        ```
        """
        if self.config.int8_weights:
            return
        self.base_model.quantize_modules()
        self.config.int8_weights = True
        self.freeze()

    # -- what a user asks of any ELMo

    def layer_weights(self) -> dict[str, torch.Tensor]:
        """The weights of every mix in the model by its name, token vectors first."""
        return {name: mix.layer_weights() for name, mix in self.named_modules() if isinstance(mix, ElmoScalarMix)}

    def resize_token_embeddings(self, *args: Any, **kwargs: Any):
        raise ValueError(
            "An ELMo has no table of tokens to resize: it builds vectors from the characters of any word "
            "(or, with word_input, from the fixed vocabulary that it was trained with)."
        )

    # -- saving

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any):
        """As in transformers, and writes a model card (README.md) unless the folder has one."""
        if kwargs.get("push_to_hub"):
            repo_id = kwargs.get("repo_id") or os.path.basename(os.path.normpath(save_directory))
            put_card_on_hub(self, repo_id, token=kwargs.get("token"), private=kwargs.get("private"))
        super().save_pretrained(save_directory, *args, **kwargs)
        if kwargs.get("is_main_process", True):
            write_card(self, save_directory)

    def push_to_hub(self, repo_id: str, **kwargs: Any) -> Any:
        """As in transformers; a repository without a model card gets one."""
        put_card_on_hub(self, repo_id, token=kwargs.get("token"), private=kwargs.get("private"))
        return super().push_to_hub(repo_id, **kwargs)


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

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.token_encoder = ElmoWordEmbedding(config) if config.word_input else ElmoCharacterEncoder(config)
        self.bilm = ElmoBiLm(config)
        self.scalar_mix = ElmoScalarMix(config.num_hidden_layers + 1, config.mix, config.mix_layer_norm, config.mix_l2)
        self.post_init()
        if config.int8_weights:
            self.quantize_modules()
            self._apply_freezing()

    def quantize_modules(self):
        """Changes the weights to eight bits, but not the config."""
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
    ) -> ElmoModelOutput:
        """
        Args:
            input_ids: characters (B, T, C), C up to `max_characters_per_token`, as ElmoTokenizer makes them; for
                word-input models ids (B, T), 0 for no token and k + 1 for line k of the vocabulary.
            attention_mask: (B, T), 0 at positions to pass over, wherever they are. Not given: where ids are not 0.
            inputs_embeds: token vectors (B, T, projection_size) in place of `input_ids`.
            past_states: `past_states` of an earlier output, to go on with its text. Not given: zeros.
            output_hidden_states: return all layers too.
        """
        tokens, mask = self.encode_tokens(input_ids, attention_mask, inputs_embeds)  # (B, T, P), (B, T)
        self._check_states(past_states, tokens.shape[0])
        layers, states = self.bilm(tokens, mask, past_states=past_states)
        hidden_states = (torch.cat([tokens] * self.config.num_directions, -1), *layers)  # L + 1 times (B, T, hidden)
        words = mask if self.scalar_mix.layer_norm is None else word_mask(self.config, mask, input_ids)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        return ElmoModelOutput(
            last_hidden_state=self.scalar_mix(hidden_states, mask, words),
            hidden_states=hidden_states if output_hidden_states else None,
            past_states=states,
        )

    def encode_tokens(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Checked inputs -> context-free token vectors (B, T, P), zero where masked, and the mask (B, T) as bool."""
        self._check_inputs(input_ids, attention_mask, inputs_embeds)
        if attention_mask is not None:
            mask = attention_mask.bool()
        elif inputs_embeds is not None:
            mask = torch.ones(inputs_embeds.shape[:2], dtype=torch.bool, device=inputs_embeds.device)
        else:
            mask = (input_ids > 0).any(-1) if input_ids.dim() == 3 else input_ids > 0
        if inputs_embeds is None:
            return self.token_encoder(input_ids, mask), mask
        return torch.where(mask[..., None], inputs_embeds, 0.0), mask

    def _check_inputs(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
    ):
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("ElmoModel takes either input_ids or inputs_embeds: exactly one of the two.")
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
            width = self.config.max_characters_per_token
            if input_ids.dim() != 3 or not 1 <= input_ids.shape[2] <= width:
                raise ValueError(
                    f"input_ids has the shape {tuple(input_ids.shape)}; this model reads characters "
                    f"(batch, tokens, characters) with up to {width} characters a token. ElmoTokenizer makes them."
                )
            rows = self.config.character_vocab_size
        # Elsewhere than on the CPU the look would wait for the device at every call.
        if input_ids.device.type == "cpu" and input_ids.numel() and not torch.compiler.is_compiling():
            lowest, highest = (int(value) for value in torch.aminmax(input_ids))
            if lowest < 0 or highest >= rows:
                wrong = lowest if lowest < 0 else highest
                raise ValueError(f"input_ids holds {wrong}; accepted are ids from 0 to {rows - 1}.")

    def _check_states(self, past_states: States | None, batch: int):
        if past_states is None:
            return
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


def word_mask(config: ElmoConfig, mask: torch.Tensor, input_ids: torch.Tensor | None = None) -> torch.Tensor:
    """Which positions of a mask (B, T) hold words: all but padding, `<S>` and `</S>`.

    Without `input_ids` (token vectors as input) the first and the last position of each row count as boundaries.
    """
    if input_ids is None:
        order = mask.cumsum(1)
        return mask & (order > 1) & (order < order[:, -1:])
    marks = input_ids if config.word_input else input_ids[..., 1] if input_ids.shape[-1] > 1 else input_ids[..., 0]
    begin, end = config.boundary_ids
    return mask & (marks != begin) & (marks != end)


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
    order = mask.bool().long().cumsum(1)
    inner = mask.bool() & (order > 1) & (order < order[:, -1:])
    length = max(mask.shape[1] - 2, 0)
    first = torch.argsort((~inner).long(), dim=1, stable=True)[:, :length]  # (B, T - 2), inner positions first
    kept = inner.gather(1, first)
    index = first.reshape(first.shape + (1,) * (x.dim() - 2)).expand(*first.shape, *x.shape[2:])
    gathered = x.gather(1, index)
    shown = kept.reshape(kept.shape + (1,) * (x.dim() - 2))
    return torch.where(shown, gathered, torch.zeros_like(gathered)), kept.to(mask.dtype)


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


def _is_mostly_padding(mask: torch.Tensor) -> bool:
    # Elsewhere than on the CPU the look would wait for the device.
    if mask.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    return 2 * int(mask.sum()) < mask.numel()


def _is_used(weight: torch.Tensor | float) -> bool:
    # A fixed weight of 0 leaves the layer out, so that nothing flows back into it.
    return isinstance(weight, torch.Tensor) or weight != 0.0


ElmoModel.register_for_auto_class("AutoModel")

__all__ = [
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoPreTrainedModel",
    "ElmoScalarMix",
    "resize_states",
    "strip_boundaries",
]
