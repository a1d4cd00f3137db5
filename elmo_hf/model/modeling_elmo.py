"""ElmoModel: a character encoder, a deep bidirectional LSTM over packed tokens, and a scalar mix of its layers.

The functions of tensors in this file (`character_features`, `linear`, `lstm_layer`) say what is computed, in plain
differentiable torch. Where the package elmo_hf is installed, `run_kernel` may compute the same faster. Modules hold
the parameters, always run, and read their weights as attributes.

Shapes: B texts of up to T tokens, N tokens without padding, U distinct words, C characters of a word, F character
features, P the projection size, H the cell size, L layers, D directions.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import ModelOutput, logging
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import (
    PADDING_CHARACTER,
    ElmoConfig,
    call_package,
    check_mix,
    foreign_pipelines,
    kernel_table,
    package_attribute,
    resolve_name,
)

logger = logging.get_logger(__name__)

# One pair per layer: h (B, D, P) and c (B, D, H).
States = tuple[tuple[Tensor, Tensor], ...]

INTEGER_TYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
# Keywords that generic code passes to any model.
ATTENTION_KEYWORDS = ("output_attentions", "position_ids", "head_mask")
IGNORED_KEYWORDS = (*ATTENTION_KEYWORDS, "token_type_ids", "use_cache", "num_items_in_batch")
# Words whose convolutions are computed at once, and weights that are dequantized at once: bounds of memory.
WORDS_AT_ONCE = 512
WEIGHTS_AT_ONCE = 2**24


def run_kernel(function: Callable, *arguments: Any) -> Any:
    """Calls the kernel for a plain function, or the function itself if there is none or if it declines."""
    kernel = None if torch.compiler.is_compiling() else kernel_table().get(function.__name__)
    result = NotImplemented if kernel is None else kernel(function, *arguments)
    return function(*arguments) if result is NotImplemented else result


class QuantizedWeight(NamedTuple):
    """A weight (rows, columns) in eight bits, with a scale for each row."""

    values: Tensor
    scale: Tensor


Weight = Tensor | QuantizedWeight


def dequantize(weight: Weight | None) -> Tensor | None:
    """The weight as floats."""
    if isinstance(weight, QuantizedWeight):
        return weight.values.to(weight.scale.dtype) * weight.scale[:, None]
    return weight


def quantize_weight(module: nn.Module, name: str):
    """Replaces a parameter by the buffers `<name>_int8` (rows, columns) and `<name>_scale` (rows,)."""
    weight = getattr(module, name).detach()
    scale = weight.float().abs().amax(1).clamp(min=1e-12) / 127
    setattr(module, name, None)
    module.register_buffer(f"{name}_int8", (weight.float() / scale[:, None]).round().clamp(-127, 127).to(torch.int8))
    module.register_buffer(f"{name}_scale", scale)


def stored_weight(module: nn.Module, name: str = "weight") -> Weight | None:
    """A module's weight, as floats or in eight bits."""
    if hasattr(module, f"{name}_int8"):
        return QuantizedWeight(getattr(module, f"{name}_int8"), getattr(module, f"{name}_scale"))
    return getattr(module, name)


def linear(x: Tensor, weight: Weight, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias`; of a quantized weight, only a part exists as floats at any time."""
    if not isinstance(weight, QuantizedWeight):
        return F.linear(x, weight, bias)
    rows = max(WEIGHTS_AT_ONCE // weight.values.shape[1], 1)
    parts = [QuantizedWeight(*part) for part in zip(weight.values.split(rows), weight.scale.split(rows), strict=True)]
    product = torch.cat([F.linear(x, dequantize(part)) for part in parts], -1)
    return product if bias is None else product + bias


class ElmoLinear(nn.Linear):
    """A linear layer that a kernel may compute."""

    large_weights: ClassVar[tuple[str, ...]] = ("weight",)

    def forward(self, x: Tensor) -> Tensor:
        return run_kernel(linear, x, stored_weight(self), self.bias)


@dataclass
class Packing:
    """The order of the tokens of a padded batch (B, T) without its padding: step by step, longest text first.

    Args:
        rows: (B,), the texts by descending number of tokens; `inverse_rows` puts them back.
        positions: (N,), which of the B * T positions each packed token has, in the forward direction.
        reverse: (N,), the packed tokens in the order of the backward direction; its own inverse.
        batch_sizes: how many texts have a token at each step.
        shape: (B, T).
        mask: (N, 1), which packed tokens exist; only in an exported graph, where every position is packed.
    """

    rows: Tensor
    inverse_rows: Tensor
    positions: Tensor
    reverse: Tensor
    batch_sizes: list[int]
    shape: tuple[int, int]
    mask: Tensor | None = None

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, ...) -> (N, ...)."""
        return x.flatten(0, 1).index_select(0, self.positions)

    def unpack(self, x: Tensor) -> Tensor:
        """(N, ...) -> (B, T, ...), zero where there is no token."""
        if self.mask is not None:
            x = torch.where(self.mask, x, 0.0)
        padded = x.new_zeros(self.shape[0] * self.shape[1], *x.shape[1:])
        return padded.index_copy(0, self.positions, x).unflatten(0, self.shape)

    def to_forward_order(self, directions: Sequence[Tensor], is_reversed: bool = True) -> Tensor:
        """(N, P) of each direction in its own order -> (N, D * P) in the order of the forward direction."""
        if len(directions) == 1:
            return directions[0]
        forward, backward = directions
        return torch.cat([forward, backward.index_select(0, self.reverse) if is_reversed else backward], -1)


def pack_tokens(mask: Tensor) -> Packing:
    """The packing of a mask (B, T), True where there is a token, at any position of a row."""
    batch, length = mask.shape
    if torch.compiler.is_exporting():
        return _pack_all_positions(mask)
    if batch == 1:  # nothing to sort
        tokens = mask[0].nonzero().squeeze(1)
        rows, count = tokens.new_zeros(1), len(tokens)
        reverse = torch.arange(count - 1, -1, -1, device=mask.device)
        return Packing(rows, rows, tokens, reverse, [1] * count, (1, length))
    lengths = mask.sum(1)
    rows = lengths.argsort(descending=True, stable=True)
    inverse_rows = rows.argsort()
    tokens = mask.flatten().nonzero().squeeze(1)  # (N,), text by text
    text = tokens // max(length, 1)
    step = (mask.cumsum(1) - 1).flatten()[tokens]
    counts = step.bincount()
    starts = counts.cumsum(0) - counts  # the first packed token of each step
    place = starts[step] + inverse_rows[text]  # of each token in the packed order
    backward_place = starts[lengths[text] - 1 - step] + inverse_rows[text]
    positions, reverse = torch.empty_like(tokens), torch.empty_like(tokens)
    positions[place] = tokens
    reverse[backward_place] = place
    try:
        batch_sizes = counts.tolist()
    except RuntimeError:  # torch 2.8, inside of a transform of torch.func
        batch_sizes = [int(count) for count in counts]
    return Packing(rows, inverse_rows, positions, reverse, batch_sizes, (batch, length))


def _pack_all_positions(mask: Tensor) -> Packing:
    # The number of tokens of a mask is not known while a graph is exported: all positions are packed and masked.
    batch, length = mask.shape
    rows = torch.arange(batch, device=mask.device)
    positions = torch.arange(batch * length, device=mask.device).view(batch, length).t()  # (T, B)
    reverse = torch.arange(batch * length, device=mask.device).view(length, batch).flip(0)
    present = mask.t().reshape(-1, 1)
    return Packing(rows, rows, positions.flatten(), reverse.flatten(), [batch] * length, (batch, length), present)


def distinct_rows(ids: Tensor) -> tuple[Tensor, Tensor]:
    """ids (N, C) -> the distinct rows (U, C), and the number of each row among them (N,)."""
    if torch.compiler.is_exporting() or not len(ids):
        return ids, torch.arange(len(ids), device=ids.device)
    return ids.unique(dim=0, return_inverse=True)


def trim_characters(rows: Tensor, filter_width: int, full_width: int) -> Tensor:
    """Rows (U, C) with as many characters as the longest word needs for the same maxima as at the full width.

    All windows that lie in the padding behind a word are equal: one of each filter, the widest included, is enough.
    """
    width = full_width
    if not torch.compiler.is_exporting() and rows.numel():
        longest = int(((rows != PADDING_CHARACTER).any(0) * torch.arange(1, rows.shape[1] + 1).to(rows.device)).max())
        width = min(full_width, longest + filter_width)
    return F.pad(rows, (0, width - rows.shape[1]), value=PADDING_CHARACTER)  # a negative number of columns cuts


def character_features(
    rows: Tensor, embedding: Tensor, filters: Sequence[tuple[Tensor, Tensor]], activation: str, padding: int | None
) -> Tensor:
    """The maximum of each character filter over the positions of a word.

    Args:
        rows: (U, C), ids of characters.
        embedding: (V, E), vectors of characters.
        filters: weight (n, E, width) and bias (n,) of the convolutions of each width.
        activation: `"relu"` or `"tanh"`, applied after the maximum.
        padding: the id that fills rows behind a word; None if padding is a character like any other.

    Returns:
        (U, F).
    """
    features = []
    for part in rows.split(WORDS_AT_ONCE):
        characters = F.embedding(part, embedding).transpose(1, 2)  # (U, E, C)
        features.append(torch.cat([F.conv1d(characters, weight, bias).amax(-1) for weight, bias in filters], -1))
    x = torch.cat(features)
    return torch.relu(x) if activation == "relu" else torch.tanh(x)


class ElmoConvolution(nn.Module):
    """Weight and bias of the character filters of one width; calling it with the characters returns them."""

    def __init__(self, channels: int, filters: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(filters, channels, width))
        self.bias = nn.Parameter(torch.empty(filters))

    def forward(self, characters: Tensor) -> tuple[Tensor, Tensor]:
        return self.weight, self.bias


def highway(x: Tensor, transformed: Tensor, carried: Tensor) -> Tensor:
    """`s * relu(transformed) + (1 - s) * x` with the gate `s = sigmoid(carried)`."""
    return torch.lerp(x, torch.relu(transformed), torch.sigmoid(carried))


class ElmoHighway(nn.Module):
    """`y = s * relu(transform(x)) + (1 - s) * x` with the gate `s = sigmoid(carry(x))`."""

    def __init__(self, size: int):
        super().__init__()
        self.carry = ElmoLinear(size, size)
        self.carry.initial_bias = -2.0  # an untrained highway mostly carries its input
        self.transform = ElmoLinear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        return run_kernel(highway, x, self.transform(x), self.carry(x))


class ElmoCharacterEncoder(nn.Module):
    """Context-free vectors of tokens: convolutions over characters, highways, a projection.

    With `config.dictionary` characters are those of a list, and an embedding of whole words may stand beside them or
    in their place, as in ELMoForManyLangs.
    """

    word_cache: Any = None  # see ElmoPreTrainedModel.cache_words

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.config = config
        self.activation = config.character_cnn_activation
        sizes = config.dictionary or {"characters": config.character_vocab_size - 1, "words": 0, "word_dim": 0}
        channels, self.embedding, self.word_embedding = config.character_embedding_dim, None, None
        if config.dictionary is None:
            # The order of parameters is that of older versions: states of optimizers go by it.
            self.embedding = nn.Embedding(config.character_vocab_size, channels, padding_idx=0)
        self.convolutions, self.highways, size = nn.ModuleList(), nn.ModuleList(), sizes["word_dim"]
        if sizes["words"]:
            self.word_embedding = nn.Embedding(sizes["words"] + 1, sizes["word_dim"], padding_idx=0)
        if sizes["characters"]:
            features = config.token_filters
            if self.embedding is None:
                self.embedding = nn.Embedding(sizes["characters"] + 1, channels, padding_idx=0)
            self.convolutions.extend(ElmoConvolution(channels, n, width) for width, n in config.character_cnn_filters)
            self.highways.extend(ElmoHighway(features) for _ in range(config.num_highway_layers))
            size += features
        needs_projection = config.dictionary is not None or size != config.projection_size
        self.projection = ElmoLinear(size, config.projection_size) if needs_projection else None

    def forward(self, ids: Tensor) -> Tensor:
        """ids (..., C) -> (..., P), each distinct word encoded once."""
        words, numbers = run_kernel(distinct_rows, ids.flatten(0, -2))
        vectors = self.encode(words) if self.word_cache is None else self.word_cache(self, words)
        return vectors.index_select(0, numbers).unflatten(0, ids.shape[:-1])

    def encode(self, words: Tensor) -> Tensor:
        """Rows (U, C) of characters, behind the id of the word if there is a dictionary of words -> (U, P)."""
        parts = []
        if self.word_embedding is not None:
            parts.append(self.word_embedding(words[:, 0]))
            words = words[:, 1:]
        if self.embedding is not None:
            padding = PADDING_CHARACTER if self.config.dictionary is None else None
            if padding is not None:
                filter_width = max(width for width, _ in self.config.character_cnn_filters)
                words = trim_characters(words, filter_width, self.config.max_characters_per_token)
            characters = self.embedding(torch.arange(self.embedding.num_embeddings, device=words.device))  # (V, E)
            filters = [convolution(characters.detach()) for convolution in self.convolutions]
            x = run_kernel(character_features, words, characters, filters, self.activation, padding)
            for highway in self.highways:
                x = highway(x)
            parts.append(x)
        x = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
        return x if self.projection is None else self.projection(x)


class ElmoWordEmbedding(nn.Module):
    """Word ids (...,), 0 for no token and k + 1 for line k of the vocabulary -> token vectors (..., P)."""

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size + 1, config.projection_size, padding_idx=0)

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding(ids)


def dropout(x: Tensor, probability: float, trains: bool) -> Tensor:
    """Dropout of the language model."""
    return F.dropout(x, probability, trains)


class LstmWeights(NamedTuple):
    """The weights of one layer of one direction. Gates are in the order input, candidate, forget, output."""

    input: Weight  # (4H, P)
    recurrent: Weight  # (4H, P)
    bias: Tensor  # (4H,)
    projection: Weight | None  # (P, H); None where H == P


def lstm_layer(
    inputs: Sequence[Tensor],
    hs: Sequence[Tensor],
    cs: Sequence[Tensor],
    weights: Sequence[tuple],
    batch_sizes: list[int],
    cell_clip: float | None,
    projection_clip: float | None,
    mask: Tensor | None = None,
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """One LSTM layer of all directions through time, with both clips inside of the recurrence.

    Args:
        inputs: (N, P) for each direction, packed in the order in which it reads.
        hs, cs: the initial states (B, P) and (B, H) for each direction, of the texts in packed order.
        weights: the fields of LstmWeights for each direction.
        batch_sizes: how many texts have a token at each step.
        cell_clip, projection_clip: bounds, or None.
        mask: (N, 1), where the state changes, in the order of the first direction; see Packing.

    Returns:
        For each direction the outputs (N, P) and the states after the last token of each text.
    """
    results = []
    for direction, (x, h, c, w) in enumerate(zip(inputs, hs, cs, weights, strict=True)):
        w = LstmWeights(*(dequantize(part) if isinstance(part, QuantizedWeight) else part for part in w))
        masks = [None] * len(batch_sizes) if mask is None else mask.split(batch_sizes)[:: -1 if direction else 1]
        outputs, ended = [], []
        for gates, present in zip(F.linear(x, w.input, w.bias).split(batch_sizes), masks, strict=True):
            running = len(gates)
            if running < len(h):  # the shorter texts end here
                ended.append((h[running:], c[running:]))
                h, c = h[:running], c[:running]
            new_h, new_c = lstm_step(gates, h, c, w, cell_clip, projection_clip)
            if present is not None:
                new_c = torch.where(present, new_c, c)
            outputs.append(new_h)
            h, c = (new_h if present is None else torch.where(present, new_h, h)), new_c
        h, c = (torch.cat(part) for part in zip((h, c), *reversed(ended), strict=True))
        results.append((torch.cat(outputs) if outputs else x, h, c))
    outputs, hs, cs = (list(part) for part in zip(*results, strict=True))
    return outputs, hs, cs


def lstm_step(
    gates: Tensor, h: Tensor, c: Tensor, weights: LstmWeights, cell_clip: float | None, projection_clip: float | None
) -> tuple[Tensor, Tensor]:
    """One token of n texts: the input's share of the gates (n, 4H), h (n, P), c (n, H) -> the new h and c.

    The cell is computed in float32 at least, whatever the type of the weights.
    """
    wide = torch.promote_types(c.dtype, torch.float32)
    i, j, f, o = (gates + F.linear(h, weights.recurrent)).to(wide).chunk(4, -1)
    # A forget bias of 1 is part of the original cell, not of its stored bias.
    new_c = torch.sigmoid(f + 1) * c.to(wide) + torch.sigmoid(i) * torch.tanh(j)
    if cell_clip is not None:
        new_c = new_c.clamp(-cell_clip, cell_clip)
    new_h = (torch.sigmoid(o) * torch.tanh(new_c)).to(h.dtype)
    if weights.projection is not None:
        new_h = F.linear(new_h, weights.projection).to(h.dtype)
        new_h = new_h if projection_clip is None else new_h.clamp(-projection_clip, projection_clip)
    return new_h, new_c.to(c.dtype)


class ElmoLstmWeights(nn.Module):
    """The weights of one layer of one direction; calling it with the layer's input, which hooks see, returns them."""

    large_weights: ClassVar[tuple[str, ...]] = ("weight_input", "weight_recurrent", "weight_projection")

    def __init__(self, config: ElmoConfig):
        super().__init__()
        projection, cell = config.projection_size, config.cell_size
        self.weight_input = nn.Parameter(torch.empty(4 * cell, projection))
        self.weight_recurrent = nn.Parameter(torch.empty(4 * cell, projection))
        self.bias = nn.Parameter(torch.empty(4 * cell))
        # With H == P the original programs have neither a projection nor its clip.
        self.weight_projection = nn.Parameter(torch.empty(projection, cell)) if cell != projection else None

    def forward(self, x: Tensor) -> tuple[Weight, Weight, Tensor, Weight | None]:
        """The fields of LstmWeights, in a plain tuple, whose tensors backward hooks see."""
        matrices = [stored_weight(self, name) for name in self.large_weights]
        return *matrices[:2], self.bias, matrices[2]


class ElmoLstmLayer(GradientCheckpointingLayer):
    """One layer of all directions over packed tokens, without weights of its own."""

    def __init__(self, config: ElmoConfig, skip: bool):
        super().__init__()
        self.skip, self.cell_clip = skip, config.cell_clip
        self.projection_clip = config.projection_clip if config.cell_size != config.projection_size else None

    def forward(
        self, weights: list[tuple], batch_sizes: list[int], mask: Tensor | None, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        """The inputs (N, P), h (B, P) and c (B, H) of all directions, side by side -> the same after the layer.

        Checkpointing sees only tensors that are arguments by themselves.
        """
        count = len(weights)
        inputs, hs, cs = tensors[:count], tensors[count : 2 * count], tensors[2 * count :]
        outputs, hs, cs = run_kernel(
            lstm_layer, inputs, hs, cs, weights, batch_sizes, self.cell_clip, self.projection_clip, mask
        )
        if self.skip:
            outputs = [output + x for output, x in zip(outputs, inputs, strict=True)]
        return *outputs, *hs, *cs


class ElmoBiLm(nn.Module):
    """The layers of both directions, which share nothing but their input."""

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.config = config
        numbers = range(config.num_hidden_layers)
        self.layers = nn.ModuleList(ElmoLstmLayer(config, config.use_skip_connections and n > 0) for n in numbers)
        self.forward_layers = nn.ModuleList(ElmoLstmWeights(config) for _ in numbers)
        self.backward_layers = (
            nn.ModuleList(ElmoLstmWeights(config) for _ in numbers) if config.bidirectional else None
        )

    @property
    def directions(self) -> list[nn.ModuleList]:
        """The weights of each direction."""
        return [stack for stack in (self.forward_layers, self.backward_layers) if stack is not None]

    def initial_states(self, batch: int, like: Tensor) -> States:
        """Zeros, which is where every text begins unless states are given."""
        config, directions = self.config, 2 if self.config.bidirectional else 1
        h = like.new_zeros(batch, directions, config.projection_size)
        c = like.new_zeros(batch, directions, config.cell_size)
        return tuple((h, c) for _ in range(config.num_hidden_layers))

    def forward(
        self, inputs: list[Tensor], packing: Packing, past_states: States | None = None, probability: float = 0.0
    ) -> tuple[list[list[Tensor]], States]:
        """Token vectors (N, P) of each direction in its own order -> the outputs of each layer, and the last states.

        Dropout acts on the input of every layer that is in training mode.
        """
        if past_states is None:
            past_states = self.initial_states(packing.shape[0], inputs[0])
        outputs, states = [], []
        both = [stack for stack in (self.forward_layers, self.backward_layers) if stack is not None]
        for layer, stacks, (h, c) in zip(self.layers, zip(*both, strict=True), past_states, strict=True):
            if probability:
                inputs = [run_kernel(dropout, x, probability, layer.training) for x in inputs]
            weights = [stack(x.detach()) for stack, x in zip(stacks, inputs, strict=True)]
            hs, cs = (part.index_select(0, packing.rows).unbind(1) for part in (h, c))
            results = layer(weights, packing.batch_sizes, packing.mask, *inputs, *hs, *cs)
            count = len(stacks)
            inputs, hs, cs = results[:count], results[count : 2 * count], results[2 * count :]
            outputs.append(list(inputs))
            states.append(tuple(torch.stack(part, 1).index_select(0, packing.inverse_rows) for part in (hs, cs)))
        return outputs, tuple(states)


class ElmoScalarMix(nn.Module):
    """`gamma * sum_j softmax(weight)_j * layer_j`, or a mix that does not learn.

    Args:
        num_layers: number of layers, the token vectors included.
        mode: `"learned"`, `"average"`, `"top"`, a layer index, or a list of fixed weights.
        layer_norm: None, `"sentence"` (mean and variance over the words of a sentence) or `"batch"` (over all words
            of the batch, as in the original: a vector then depends on the other texts).
        l2: factor of the penalty `sum(weight ** 2)`, see [`~ElmoScalarMix.penalty`].
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

    def layer_weights(self) -> Tensor:
        """The share of each layer, on the CPU and without gradient: the softmax of `weight`, or the fixed weights."""
        if self.weight is not None:
            return self.weight.detach().float().softmax(0).cpu()
        return torch.tensor(self._fixed_weights())

    def penalty(self) -> Tensor | float:
        """`l2 * sum(weight ** 2)`, which a task adds to its loss; 0 if nothing is learned or `l2` is 0."""
        return self.l2 * self.weight.square().sum() if self.weight is not None and self.l2 else 0.0

    def forward(
        self, hidden_states: Sequence[Tensor], attention_mask: Tensor | None = None, word_mask: Tensor | None = None
    ) -> Tensor:
        """Layers (B, T, size) -> their mix (B, T, size), zero where `attention_mask` (B, T) is 0.

        `word_mask` names the positions whose mean and variance the layer norm uses: `attention_mask` without the
        sentence boundaries. By default all positions of `attention_mask` count. Without layer norm and mask the
        layers may have any shape.
        """
        if len(hidden_states) != self.num_layers:
            raise ValueError(f"Invalid number of layers: {len(hidden_states)}. Expected {self.num_layers}.")
        layers = list(hidden_states)
        if self.layer_norm is not None:
            words = attention_mask if word_mask is None else word_mask
            words = torch.ones_like(layers[0][..., 0]) if words is None else words
            layers = [self._normalize(layer, words.bool()) for layer in layers]
        if self.weight is None:
            # A fixed weight of 0 leaves the layer out, so that no gradient flows into it.
            pairs = zip(self._fixed_weights(), layers, strict=True)
            mixed = sum(weight * layer for weight, layer in pairs if weight)
        else:
            weights = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32)).softmax(0) * self.gamma
            mixed = sum(w * layer for w, layer in zip(weights.to(layers[0].dtype).unbind(), layers, strict=True))
        return mixed if attention_mask is None else torch.where(attention_mask.bool()[..., None], mixed, 0.0)

    def _fixed_weights(self) -> list[float]:
        if self.mode == "average":
            return [1 / self.num_layers] * self.num_layers
        if isinstance(self.mode, (str, int)):
            index = self.num_layers - 1 if self.mode == "top" else self.mode
            return [float(number == index) for number in range(self.num_layers)]
        return [float(weight) for weight in self.mode]

    def _normalize(self, layer: Tensor, words: Tensor) -> Tensor:
        dims = (0, 1, 2) if self.layer_norm == "batch" else (1, 2)
        x = layer.to(torch.promote_types(layer.dtype, torch.float32))  # (B, T, size)
        words = words[..., None]
        count = (words.sum(dims, keepdim=True) * x.shape[-1]).clamp(min=1)
        mean = torch.where(words, x, 0.0).sum(dims, keepdim=True) / count
        variance = torch.where(words, x - mean, 0.0).square().sum(dims, keepdim=True) / count
        return ((x - mean) / torch.sqrt(variance + 1e-12)).to(layer.dtype)


def can_inspect(x: Tensor) -> bool:
    """Whether checks may look at values: on other devices each look would wait, and a compiler cannot follow it."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def check_types(inputs: dict[str, Any]):
    """Raises TypeError unless each input that is not None is a tensor of the type that its name asks for."""
    for name, value in inputs.items():
        if value is None:
            continue
        if not isinstance(value, Tensor):
            raise TypeError(
                f"Invalid type of `{name}`: {type(value).__name__}. Expected a tensor, as "
                "tokenizer(..., return_tensors='pt') returns."
            )
        is_id = name.endswith("input_ids")
        if is_id or name in ("token_type_ids", "word_vector_ids", "backward_labels"):
            # Ids of characters go up to 261, which eight bits cannot hold.
            allowed = INTEGER_TYPES[2:] if is_id else INTEGER_TYPES
            if value.dtype not in allowed:
                raise TypeError(f"Invalid type of `{name}`: {value.dtype}. Expected integers such as torch.int64.")
        elif value.is_complex() or (name == "inputs_embeds" and not value.is_floating_point()):
            raise TypeError(f"Invalid type of `{name}`: {value.dtype}. Expected real numbers such as torch.float32.")


def check_inputs(config: ElmoConfig, input_ids: Any = None, inputs_embeds: Any = None, **per_token: Any):
    """Raises unless exactly one of ids and token vectors is given, of the right shape, and the rest fits them."""
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("Invalid inputs: expected either input_ids or inputs_embeds, exactly one of the two.")
    check_types({"input_ids": input_ids, "inputs_embeds": inputs_embeds, **per_token})
    name, x = ("input_ids", input_ids) if inputs_embeds is None else ("inputs_embeds", inputs_embeds)
    if inputs_embeds is not None:
        fits = x.dim() == 3 and x.shape[2] == config.projection_size
        expected = f"token vectors (batch, tokens, {config.projection_size})"
    elif config.word_input:
        fits, expected = x.dim() == 2, "word ids (batch, tokens), as ElmoTokenizer makes them"
    else:
        width = config.max_characters_per_token if config.dictionary is None else config.row_width
        # Rows of bytes may be narrower, since their padding is known; a dictionary has a padding of its own.
        fits = x.dim() == 3 and (1 if config.dictionary is None else width) <= x.shape[2] <= width
        expected = f"(batch, tokens, characters) with up to {width} characters a token, as ElmoTokenizer makes them"
    if not fits:
        raise ValueError(f"Invalid shape of `{name}`: {tuple(x.shape)}. Expected {expected}.")
    for other, value in per_token.items():
        if value is not None and value.shape != x.shape[:2]:
            raise ValueError(
                f"Invalid shape of `{other}`: {tuple(value.shape)}. Expected a value per token, {tuple(x.shape[:2])}."
            )
    if inputs_embeds is None and x.numel() and can_inspect(x):
        rows = config.vocab_size + 1 if config.word_input else config.character_vocab_size
        rows = rows if config.dictionary is None else config.row_ids
        lowest, highest = (int(value) for value in torch.aminmax(x))
        if lowest < 0 or highest >= rows:
            wrong = lowest if lowest < 0 else highest
            raise ValueError(f"Invalid id in `input_ids`: {wrong}. Expected ids from 0 to {rows - 1}.")


def check_labels(labels: Tensor, num_labels: int, mask: Tensor | None = None) -> Tensor:
    """The labels as torch.int64; raises unless all are classes from 0 to below `num_labels`, or -100 for none.

    Smaller integers may not hold -100, or would index as a mask.
    """
    if labels.dtype not in INTEGER_TYPES:
        raise TypeError(f"Invalid type of `labels`: {labels.dtype}. Expected integers such as torch.int64.")
    labels = labels.long()
    if can_inspect(labels):
        wrong = (labels != -100) & ((labels < 0) | (labels >= num_labels))
        wrong = labels[wrong if mask is None else wrong & mask]
        if len(wrong):
            raise ValueError(
                f"Invalid label in `labels`: {int(wrong[0])}. Expected 0 to {num_labels - 1}, and -100 for none."
            )
    return labels


def check_states(config: ElmoConfig, past_states: Any, batch: int, like: Tensor):
    """Raises unless the states are those of this model for a batch of this size."""
    try:
        actual = [(tuple(part.shape), part.dtype, part.device) for h, c in past_states for part in (h, c)]
    except (TypeError, ValueError, AttributeError):
        raise TypeError(
            f"Invalid type of `past_states`: {type(past_states).__name__}. Expected `past_states` of an earlier "
            "output: for each layer a pair (h, c) of tensors."
        ) from None
    sizes = [config.projection_size, config.cell_size] * config.num_hidden_layers
    expected = [((batch, config.num_directions, size), like.dtype, like.device) for size in sizes]
    autocast = torch.is_autocast_enabled(like.device.type)
    for number, (state, required) in enumerate(zip(actual, expected, strict=False)):
        if state[0] != required[0] or state[2] != required[2] or (state[1] != required[1] and not autocast):
            raise ValueError(
                f"Invalid `past_states` of layer {number // 2 + 1}: {state[0]} in {state[1]} on {state[2]}. Expected "
                f"{required[0]} in {required[1]} on {required[2]}, with a row for each text of the batch; "
                "resize_states(states, n) fits them to another number of texts."
            )
    if len(actual) != len(expected):
        raise ValueError(f"Invalid `past_states`: {len(actual) // 2} layers. Expected {config.num_hidden_layers}.")


class CheckpointError(ValueError, RuntimeError):
    """Weights that do not fit the model; transformers raises RuntimeError for them."""


def _weights_of(name: Any) -> str:
    """The file of the weights where it is known, for example `The weights in DIR/model.safetensors`."""
    files = sorted(Path(name).glob("*.safetensors")) if isinstance(name, (str, os.PathLike)) else []
    return f"The weights in {files[0]}" if len(files) == 1 else f"The weights of {name}"


class ElmoPreTrainedModel(PreTrainedModel):
    """What every ELMo class shares: initial weights, freezing, quantization, loading and saving."""

    config: ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoBiLm"]
    # A mix that does not learn has no parameters, and a model without softmax does not miss one.
    _keys_to_ignore_on_load_unexpected = [r"scalar_mix\.(weight|gamma)$", r"^softmax\."]
    # What `config.freeze_bilm=None` means for this class.
    freezes_by_default = False
    # `custom_pipelines` of a saved config.
    saved_pipelines: ClassVar[dict[str, dict[str, Any]]] = {}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        # The distributions of the original program.
        config = self.config
        if hasattr(module, "initial_weights"):
            module.initial_weights()
        elif isinstance(module, nn.Embedding):
            bound = math.sqrt(6 / (module.num_embeddings - 1 + module.embedding_dim)) if config.word_input else 1.0
            init.uniform_(module.weight, -bound, bound)
            if not getattr(module.weight, "_is_hf_initialized", False):
                module.weight[0].zero_()
        elif isinstance(module, ElmoConvolution):
            _, channels, width = module.weight.shape
            if config.character_cnn_activation == "relu":
                init.uniform_(module.weight, -0.05, 0.05)
            else:
                init.normal_(module.weight, 0.0, 1 / math.sqrt(width * channels))
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear) and module.weight is not None:
            init.normal_(module.weight, 0.0, 1 / math.sqrt(module.in_features))
            if module.bias is not None:
                init.constant_(module.bias, getattr(module, "initial_bias", 0.0))
        elif isinstance(module, ElmoLstmWeights) and module.weight_input is not None:
            bound = math.sqrt(6 / (2 * config.projection_size + 4 * config.cell_size))
            init.uniform_(module.weight_input, -bound, bound)
            init.uniform_(module.weight_recurrent, -bound, bound)
            init.zeros_(module.bias)
            if module.weight_projection is not None:
                bound = math.sqrt(6 / (config.projection_size + config.cell_size))
                init.uniform_(module.weight_projection, -bound, bound)
        elif isinstance(module, ElmoScalarMix) and module.weight is not None:
            init.zeros_(module.weight)
            init.ones_(module.gamma)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Self:
        """As in transformers; `freeze_bilm=True`, `False` or a list of parts sets what trains.

        Weights of the biLM that are missing, damaged or of other shapes than config.json says are an error, unless
        `output_loading_info=True` asks for a report, or `ignore_mismatched_sizes=True` allows other shapes.
        """
        wants_report = kwargs.pop("output_loading_info", False)
        allowed = kwargs.pop("ignore_mismatched_sizes", False)
        if pretrained_model_name_or_path is not None:
            pretrained_model_name_or_path = resolve_name(pretrained_model_name_or_path, kwargs)
        try:
            model, report = super().from_pretrained(
                pretrained_model_name_or_path, *args, output_loading_info=True, ignore_mismatched_sizes=True, **kwargs
            )
        except SafetensorError as error:
            weights = _weights_of(pretrained_model_name_or_path)
            raise OSError(f"{weights} are damaged and cannot be read: {error}.") from error
        call_package("hub.consistency", "check_weight_types", pretrained_model_name_or_path, kwargs)
        call_package("hub.saved_heads", "replace_other_head", model, pretrained_model_name_or_path, report, kwargs)
        if getattr(model.config, "base_model", None):
            attach_bilm = package_attribute(
                "hub.head_checkpoints", "attach_bilm", "A checkpoint of a head alone needs"
            )
            attach_bilm(model, pretrained_model_name_or_path, kwargs)
        # Without the weights of a biLM a model would compute with random numbers; a head or a mix may be new.
        needed, prefix = ("token_encoder.", "bilm.", "softmax.weight_int8"), f"{cls.base_model_prefix}."
        lists = (report["missing_keys"], report["unexpected_keys"])
        missing, unexpected = (sorted(k for k in keys if k.removeprefix(prefix).startswith(needed)) for keys in lists)
        mismatched = sorted((key, list(shape), list(expected)) for key, shape, expected in report["mismatched_keys"])
        problems, option = [], "`output_loading_info=True` returns a report instead"
        if mismatched and not allowed:
            problems = [f"{key} has the shape {a}, but the model expects {b}" for key, a, b in mismatched]
            option = "`ignore_mismatched_sizes=True` initializes such weights anew"
        elif not wants_report:
            problems = [f"{key} is missing" for key in missing]
            problems += [f"{key} is not part of such a model" for key in unexpected]
            loaded = ((key, p) for key, p in model.named_parameters() if can_inspect(p))
            problems += [f"{key} is NaN or infinite" for key, p in loaded if not p.sum(dtype=torch.float64).isfinite()]
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            weights = _weights_of(pretrained_model_name_or_path)
            expected = f"Expected both files as they were saved together ({option})"
            raise CheckpointError(f"{weights} do not fit config.json: {problems[0]}{more}. {expected}.")
        model._apply_freezing()  # loading makes every parameter trainable
        return (model, report) if wants_report else model

    def post_init(self):
        """Quantizes and freezes what the config says."""
        super().post_init()
        if self.config.int8_weights:
            self._quantize_weights()
        if getattr(self.config, "base_model", None):
            self._keys_to_ignore_on_load_missing.add(r"(^|\.)(token_encoder|bilm)\.")  # loaded from the base
        self._apply_freezing()

    def freeze(self, parts: bool | Sequence[str] = True):
        """Freezes the whole biLM (True), nothing (False), or the named parts only; saved with the model.

        A frozen part gets no gradient and stays in evaluation mode after `.train()`. The mix and everything above
        the biLM keep training.
        """
        self.config.freeze_bilm = parts if isinstance(parts, bool) else list(parts)
        self.config.validate_architecture()
        self._apply_freezing()

    def _frozen_parts(self) -> list[str]:
        chosen = self.freezes_by_default if self.config.freeze_bilm is None else self.config.freeze_bilm
        return (self.config.bilm_parts if chosen else []) if isinstance(chosen, bool) else chosen

    def _apply_freezing(self):
        frozen = self._frozen_parts()
        if getattr(self, "_shared_bilm", None) is not None and set(self.config.bilm_parts) - set(frozen):
            package_attribute("hub.head_checkpoints", "unshare")(self)
        for part, modules in self.base_model.bilm_parts().items():
            for module in modules:
                module.requires_grad_(part not in frozen)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """As in PyTorch; frozen parts stay in evaluation mode."""
        super().train(mode)
        parts = self.base_model.bilm_parts()
        for part in self._frozen_parts():
            for module in parts[part]:
                module.eval()
        return self

    def parameter_groups(self, lr: float, bilm_lr: float | None = None) -> list[dict[str, Any]]:
        """Parameter groups for an optimizer: the biLM with a learning rate of its own, all the rest with `lr`.

        Frozen parameters are left out; biases and mixes get no weight decay. Without `bilm_lr` all have `lr`.
        """
        modules = [module for part in self.base_model.bilm_parts().values() for module in part]
        bilm = {id(parameter) for module in modules for parameter in module.parameters()}
        groups = {}
        for parameter in self.parameters():
            if parameter.requires_grad:
                part, rate = ("biLM", bilm_lr) if id(parameter) in bilm else ("head", lr)
                name, decay = (part, {}) if parameter.dim() > 1 else (f"{part}, undecayed", {"weight_decay": 0.0})
                group = groups.setdefault(
                    name, {"name": name, "params": [], "lr": lr if rate is None else rate, **decay}
                )
                group["params"].append(parameter)
        return [groups[name] for name in sorted(groups)]

    def quantize(self):
        """Stores the large weights in eight bits, for good, and freezes the biLM; for inference on a CPU.

        The softmax of a language model is quantized too, and nothing of it trains any more; a head still does. The
        config remembers it, so that `save_pretrained` writes and `from_pretrained` reads the small weights.
        """
        if not self.config.int8_weights:
            self.config.int8_weights = True
            self._quantize_weights()
            self.freeze()

    def _quantize_weights(self):
        for module in self.modules():
            for name in getattr(module, "large_weights", ()):
                if getattr(module, name, None) is not None:
                    quantize_weight(module, name)

    def cache_words(self, number: int | None = None, megabytes: float | None = None):
        """Caches the vectors of words, see `elmo_hf.kernels.cache_words`; needs the package elmo_hf."""
        package_attribute("kernels", "cache_words", "Caches need")(self, number, megabytes)

    def cache_sentences(self, cache: Any):
        """Caches the layers of sentences, see `elmo_hf.kernels.cache_sentences`; needs the package elmo_hf."""
        package_attribute("kernels", "cache_sentences", "Caches need")(self, cache)

    def layer_weights(self) -> dict[str, Tensor]:
        """The weights of every mix in the model by its name, token vectors first."""
        return {name: mix.layer_weights() for name, mix in self.named_modules() if isinstance(mix, ElmoScalarMix)}

    def resize_token_embeddings(self, *args: Any, **kwargs: Any):
        """Raises: there is no table of tokens."""
        raise ValueError(
            "An ELMo has no token embeddings to resize: it builds vectors from the characters of any word (or, with "
            "word_input, from the fixed vocabulary that it was trained with)."
        )

    def check_keywords(self, keywords: dict[str, Any], **inputs: Any):
        """Raises TypeError for keywords that no `forward` knows, and for inputs of a wrong type.

        Keywords of attention models are ignored.
        """
        check_types(inputs)
        for name, value in keywords.items():
            if name not in IGNORED_KEYWORDS:
                raise TypeError(f"{type(self).__name__}.forward() got an unexpected keyword argument {name!r}.")
            if value is not None and value is not False and name in ATTENTION_KEYWORDS:
                logger.warning_once(f"`{name}` is ignored: an ELMo has no attention and no positions.")

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, push_to_hub: bool = False, **kwargs: Any):
        """As in transformers; with the package elmo_hf installed, it also writes a model card unless there is one.

        With `head_only=True` everything but the biLM is saved, and the name and the fingerprint of the checkpoint
        that the biLM is loaded from: `base`, a folder or a repository. Default: what this model was loaded from.
        """
        if kwargs.pop("head_only", False):
            base = kwargs.pop("base", None)
            prepare_save = package_attribute("hub.head_checkpoints", "prepare_save")
            kwargs |= prepare_save(self, save_directory, base, push_to_hub)
        hub_names = ("repo_id", "commit_message", "commit_description", "private", "revision", "create_pr", "tags")
        hub_arguments = {name: kwargs.pop(name) for name in hub_names if name in kwargs} if push_to_hub else {}
        foreign = foreign_pipelines(getattr(self.config, "custom_pipelines", None))
        self.config.custom_pipelines = {**foreign, **self.saved_pipelines}
        try:
            super().save_pretrained(save_directory, *args, **kwargs)
        finally:
            self.config.custom_pipelines = foreign
            self.config.__dict__.pop("base_model", None)
        if kwargs.get("is_main_process", True) and os.path.isdir(save_directory):
            call_package("hub.files", "write_files_beside", self, save_directory)
        if push_to_hub:
            repo_id = hub_arguments.pop("repo_id", None) or os.path.basename(os.path.normpath(save_directory))
            self.push_to_hub(repo_id, token=kwargs.get("token"), **hub_arguments)

    def push_to_hub(self, repo_id: str, **kwargs: Any) -> Any:
        """As in transformers; with the package elmo_hf installed, a repository without a model card gets one."""
        arguments = {"token": kwargs.get("token"), "private": kwargs.get("private")}
        call_package("hub.model_card", "create_repo_with_card", self, repo_id, **arguments)
        return super().push_to_hub(repo_id, **kwargs)


@dataclass
class ElmoModelOutput(ModelOutput):
    """What ElmoModel returns.

    Args:
        last_hidden_state: the mix of all layers, (B, T, hidden_size); zeros at masked positions.
        hidden_states: with `output_hidden_states=True` the layers, the token vectors first: L + 1 times
            (B, T, hidden_size).
        past_states: with `use_cache=True`, or when states were passed: the states after the last token, to be passed
            to the next call with the continuation of the text.
    """

    last_hidden_state: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    past_states: States | None = None


class ElmoModel(ElmoPreTrainedModel):
    """The deep bidirectional language model and one learned mix of its layers."""

    sentence_cache: Any = None  # see ElmoPreTrainedModel.cache_sentences

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.token_encoder = ElmoWordEmbedding(config) if config.word_input else ElmoCharacterEncoder(config)
        self.bilm = ElmoBiLm(config)
        self.scalar_mix = ElmoScalarMix(config.num_hidden_layers + 1, config.mix, config.mix_layer_norm, config.mix_l2)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The token encoder."""
        return self.token_encoder

    def set_input_embeddings(self, value: nn.Module):
        """Replaces the token encoder."""
        self.token_encoder = value

    def bilm_parts(self) -> dict[str, list[nn.Module]]:
        """The modules of each part that `freeze` knows."""
        layers = map(list, zip(self.bilm.layers, *self.bilm.directions, strict=True))
        return dict(zip(self.config.bilm_parts, [[self.token_encoder], *layers], strict=True))

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_states: States | None = None,
        output_hidden_states: bool | None = None,
        use_cache: bool | None = None,
        **keywords: Any,
    ) -> ElmoModelOutput:
        """
        Args:
            input_ids: characters (B, T, C), C up to `max_characters_per_token`, as ElmoTokenizer makes them; for
                word-input models ids (B, T), 0 for no token and k + 1 for line k of the vocabulary.
            attention_mask: (B, T), 0 at masked positions, wherever they are. By default 0 where all ids are 0.
            inputs_embeds: token vectors (B, T, projection_size) in place of `input_ids`.
            past_states: `past_states` of an earlier output, to continue its text. By default zeros.
            output_hidden_states: return all layers too.
            use_cache: return `past_states`. By default if `past_states` are passed.
            keywords: keywords of other models of transformers, such as `output_attentions`, which are ignored.
        """
        if keywords:
            self.check_keywords(keywords)
        check_inputs(self.config, input_ids, inputs_embeds, attention_mask=attention_mask)
        mask = token_mask(input_ids, attention_mask, inputs_embeds)  # (B, T)
        if past_states is not None:
            check_states(self.config, past_states, len(mask), self.bilm.forward_layers[0].bias)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        returns_states = past_states is not None if use_cache is None else use_cache
        cache = self.sentence_cache if input_ids is not None and past_states is None and not returns_states else None
        states, packing = None, None
        if cache is None:
            layers, packing, states = self.run_layers(input_ids, inputs_embeds, mask, past_states)
            if output_hidden_states or self.scalar_mix.layer_norm is not None:
                layers = [packing.unpack(layer) for layer in layers]
                packing = None
        else:
            layers = cache(self, input_ids, mask)
        # The mix is computed from the layers that are returned, or from packed ones, which is less work.
        mixed = self.mix(layers, mask, input_ids) if packing is None else packing.unpack(self.scalar_mix(layers))
        return ElmoModelOutput(
            last_hidden_state=mixed,
            hidden_states=tuple(layers) if output_hidden_states else None,
            past_states=states if returns_states else None,
        )

    @torch.compiler.disable
    def run_layers(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None, mask: Tensor, past_states: States | None
    ) -> tuple[list[Tensor], Packing, States]:
        """Checked inputs -> L + 1 layers of packed tokens (N, hidden_size), their packing, and the last states.

        Not compiled, because the loop over time would be compiled anew for every length.
        """
        packing = pack_tokens(mask)
        if inputs_embeds is None:
            tokens = self.token_encoder(packing.pack(input_ids))  # (N, P)
        else:
            tokens = packing.pack(inputs_embeds)
        inputs = [tokens, tokens.index_select(0, packing.reverse)] if self.config.bidirectional else [tokens]
        outputs, states = self.bilm(inputs, packing, past_states)
        token_layer = torch.cat([tokens] * len(inputs), -1)
        return [token_layer, *(packing.to_forward_order(output) for output in outputs)], packing, states

    def mix(self, layers: Sequence[Tensor], mask: Tensor, input_ids: Tensor | None) -> Tensor:
        """The model's own mix of layers (B, T, hidden_size)."""
        words = None if self.scalar_mix.layer_norm is None else word_mask(self.config, mask, input_ids)
        return self.scalar_mix(layers, mask, words)

    def sentence_vectors(self, input_ids: Tensor, attention_mask: Tensor | None = None, **keywords: Any) -> Tensor:
        """The mean (B, hidden_size) of the mix over the words of each sentence, without `<S>` and `</S>`.

        sentence-transformers calls this method. A sentence without words gets zeros.
        """
        x = self(input_ids, attention_mask, **keywords).last_hidden_state
        return pool_words(x, word_mask(self.config, token_mask(input_ids, attention_mask), input_ids))

    def encode_tokens(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The context-free token vectors (B, T, P) of a batch, zero where masked, and the mask (B, T) as bool."""
        check_inputs(self.config, input_ids, inputs_embeds, attention_mask=attention_mask)
        mask = token_mask(input_ids, attention_mask, inputs_embeds)
        packing = pack_tokens(mask)
        tokens = self.token_encoder(packing.pack(input_ids)) if inputs_embeds is None else packing.pack(inputs_embeds)
        return packing.unpack(tokens), mask


def token_mask(
    input_ids: Tensor | None = None, attention_mask: Tensor | None = None, inputs_embeds: Tensor | None = None
) -> Tensor:
    """Where there are tokens, (B, T): the attention mask, or else the positions whose ids are not all 0."""
    if attention_mask is not None:
        return attention_mask.bool()
    if inputs_embeds is not None:
        return torch.ones(inputs_embeds.shape[:2], dtype=torch.bool, device=inputs_embeds.device)
    return (input_ids > 0).any(-1) if input_ids.dim() == 3 else input_ids > 0


def word_mask(config: ElmoConfig, mask: Tensor, input_ids: Tensor | None = None) -> Tensor:
    """Where there are words, (B, T): all of a mask (B, T) but `<S>` and `</S>`.

    Without `input_ids` (token vectors as input) the first and the last position of each row count as boundaries.
    """
    if input_ids is None:
        return inner_mask(mask)
    begin, end = config.boundary_ids
    marks = boundary_marks(config, input_ids)
    return mask & (marks != begin) & (marks != end)


def boundary_marks(config: ElmoConfig, input_ids: Tensor) -> Tensor:
    """The id (B, T) of each position that is compared with `config.boundary_ids`."""
    return input_ids if config.word_input else input_ids[..., min(config.mark_position, input_ids.shape[-1] - 1)]


def pool_words(x: Tensor, words: Tensor, pooling: str = "mean", num_directions: int = 2) -> Tensor:
    """One vector for each sentence.

    Args:
        x: (B, T, size), a vector for each position, the forward half first.
        words: (B, T), 1 at words, 0 at padding, `<S>` and `</S>`.
        pooling: `"mean"` of the words, `"max"` of each dimension, or `"first_last"`: the forward half of the last
            word, which has read the whole sentence, and the backward half of the first.
        num_directions: 1 if `x` has no backward half.

    Returns:
        (B, size); zeros for a sentence without words.
    """
    mask = words.bool()[..., None]  # (B, T, 1)
    if pooling == "mean":
        return torch.where(mask, x, 0.0).sum(1) / mask.sum(1).clamp(min=1)
    if pooling == "max":
        # One more row, so that there is a maximum of no words too.
        lowest = F.pad(torch.where(mask, x, -torch.inf), (0, 0, 0, 1), value=-torch.inf)  # (B, T + 1, size)
        return torch.where(mask.any(1), lowest.amax(1), 0.0)
    if pooling == "first_last":
        first = mask & (mask.cumsum(1) == 1)
        last = mask & (mask.flip(1).cumsum(1).flip(1) == 1)
        ends = zip(x.chunk(num_directions, -1), (last, first), strict=False)
        return torch.cat([torch.where(end, half, 0.0).sum(1) for half, end in ends], -1)
    raise ValueError(f"Invalid `pooling`: {pooling!r}. Expected 'mean', 'max' or 'first_last'.")


def inner_mask(mask: Tensor) -> Tensor:
    """All unmasked positions of each row but its first and its last, (B, T)."""
    order = mask.long().cumsum(1)
    return mask & (order > 1) & (order < order[:, -1:])


ElmoModel.register_for_auto_class("AutoModel")

__all__ = ["ElmoModel", "ElmoModelOutput", "ElmoPreTrainedModel", "ElmoScalarMix", "pool_words"]
