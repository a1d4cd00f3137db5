"""The fast way through a model: which tokens are there is worked out once, and only these are computed.

Each function takes what the method that it stands for takes, and returns what that returns, or NotImplemented. N is
the number of tokens of the batch. Between the parts a layer is the outputs (N, P) of each direction, in the order in
which that direction reads; padding comes back at the door.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from .fast_engine_elmo import packs
from .fast_lstm_elmo import Packed, run_layer
from .fast_lstm_training_elmo import run_layers_trained
from .fast_native_elmo import native_can, run_layers
from .fast_packing_elmo import Packing
from .fast_products_elmo import forget, kept
from .fast_word_cache_elmo import WordCache
from .fast_words_elmo import distinct_words, encode_words

if TYPE_CHECKING:
    from .character_cnn_elmo import ElmoCharacterEncoder, ElmoWordEmbedding
    from .lstm_elmo import ElmoBiLm, ElmoLstmLayer, States
    from .modeling_elmo import ElmoModel
    from .scalar_mix_elmo import ElmoScalarMix

Layers = list[Sequence[torch.Tensor]]


def compute(
    model: "ElmoModel",
    input_ids: torch.Tensor | None,
    inputs_embeds: torch.Tensor | None,
    mask: torch.Tensor,
    past_states: "States | None",
    all_layers: bool,
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...] | None, "States"]:
    """ElmoModel.compute."""
    encoder, bilm, mix = model.token_encoder, model.bilm, model.scalar_mix
    given = [input_ids, inputs_embeds, mask]
    if not packs(bilm.engine, [encoder, bilm, mix], given) or not _packs_bilm(bilm, inputs_embeds, past_states):
        return NotImplemented
    if inputs_embeds is None and not packs(encoder.engine, _parts(encoder), given):
        return NotImplemented
    with torch.autocast(mask.device.type, enabled=False):
        packing = Packing.of(mask)
        x = _encode_packed(encoder, input_ids, packing) if inputs_embeds is None else packing.pack(inputs_embeds)
        reverses = [False, True][: len(bilm.directions)]
        xs = [packing.turn(x) if reverse else x for reverse in reverses]
        layers, states = _run_stacks(bilm, packing, xs, past_states, 0.0)
        layers = [xs, *layers]
    if mix.layer_norm is None:
        mixed = [mix.weighted_sum(of_direction) for of_direction in zip(*layers, strict=True)]
        hidden_states = tuple(packing.unpack(layer, reverses) for layer in layers) if all_layers else None
        return packing.unpack(mixed, reverses), hidden_states, states
    hidden_states = tuple(packing.unpack(layer, reverses) for layer in layers)
    return model.mix(hidden_states, mask, input_ids), hidden_states if all_layers else None, states


# -- the token encoder


def encode(encoder: "ElmoCharacterEncoder", input_ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """ElmoCharacterEncoder.forward."""
    if not packs(encoder.engine, _parts(encoder), [input_ids, mask]):
        return NotImplemented
    shape = input_ids.shape[:2]
    rows = input_ids.flatten(0, 1)
    here = None if mask is None else mask.flatten().nonzero().squeeze(1)  # (N,)
    with torch.autocast(input_ids.device.type, enabled=False):
        vectors = _encode_rows(encoder, rows if here is None else rows[here])
    if here is None:
        return vectors.unflatten(0, shape)
    padded = vectors.new_zeros(len(rows), vectors.shape[1])
    padded[here] = vectors
    return padded.unflatten(0, shape)


def _parts(encoder: nn.Module) -> list[nn.Module]:
    return [module for module in encoder.modules() if module is not encoder]


def _encode_packed(
    encoder: "ElmoCharacterEncoder | ElmoWordEmbedding", input_ids: torch.Tensor, packing: Packing
) -> torch.Tensor:
    """Ids (B, T, ...) -> vectors (N, P) of the tokens that are there."""
    ids = packing.pack(input_ids)
    if hasattr(encoder, "encode_distinct"):
        return encoder.encode_distinct(ids)
    return encoder.embedding(ids) if ids.dim() == 1 else _encode_rows(encoder, ids)


def _encode_rows(encoder: "ElmoCharacterEncoder", rows: torch.Tensor) -> torch.Tensor:
    """Rows of characters (N, C) -> (N, P), each distinct word computed once."""
    words, numbers = distinct_words(rows)
    return _word_vectors(encoder, words, rows.device).index_select(0, numbers.to(rows.device))


def _word_vectors(encoder: "ElmoCharacterEncoder", words: list[bytes], device: torch.device) -> torch.Tensor:
    if _trains(encoder.parameters()):
        forget(encoder)
        return encode_words(encoder, words, device)
    with torch.no_grad():
        if not encoder.bytes_of_words:
            return encode_words(encoder, words, device)
        weights = (*encoder.parameters(), *encoder.buffers())
        size, dtype = encoder.config.projection_size, encoder.embedding.weight.dtype
        cache = kept(encoder, "words", weights, lambda: WordCache(encoder.bytes_of_words, size, dtype))
        return cache.vectors(words, lambda missing: encode_words(encoder, missing, device))


def _trains(tensors: Sequence[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


# -- the recurrence


def run_bilm(
    bilm: "ElmoBiLm",
    x_forward: torch.Tensor,
    mask: torch.Tensor,
    x_backward: torch.Tensor | None = None,
    past_states: "States | None" = None,
    dropout: float = 0.0,
) -> tuple[tuple[torch.Tensor, ...], "States"]:
    """ElmoBiLm.forward."""
    if not packs(bilm.engine, [], [x_forward, mask, x_backward]):
        return NotImplemented
    if not _packs_bilm(bilm, x_forward, past_states) or not _packs_bilm(bilm, x_backward, None):
        return NotImplemented
    directions = len(bilm.directions)
    with torch.autocast(mask.device.type, enabled=False):
        packing = Packing.of(mask)
        x, reverses = packing.pack(x_forward), [False, x_backward is None][:directions]
        xs = [x, packing.turn(x) if x_backward is None else packing.pack(x_backward)][:directions]
        layers, states = _run_stacks(bilm, packing, xs, past_states, dropout)
        return tuple(packing.unpack(layer, reverses) for layer in layers), states


def _packs_bilm(bilm: "ElmoBiLm", x: torch.Tensor | None, past_states: "States | None") -> bool:
    layers, weight = [*itertools.chain(*bilm.directions)], bilm.forward_layers[0].bias
    tensors = [*([] if x is None else [x]), *itertools.chain(*(past_states or []))]
    same_kind = all(tensor.dtype == weight.dtype and tensor.device == weight.device for tensor in tensors)
    return same_kind and packs(bilm.engine, layers, tensors)


def _run_stacks(
    bilm: "ElmoBiLm",
    packing: Packing,
    xs: Sequence[torch.Tensor],
    past_states: "States | None",
    dropout: float,
) -> tuple[Layers, "States"]:
    """Token vectors (N, P) as each direction reads them -> the layers above them, and the states after the text.

    Without gradients by torch's operators one direction after the other: each uses all threads in its products. The
    native loop takes one thread, and both run side by side; so they do in training, where steps are long enough.
    """
    if past_states is None:
        past_states = bilm.initial_states(packing.shape[0], xs[0])
    trains = _trains([*xs, *itertools.chain(*past_states), *bilm.parameters()])
    outputs, states = [], []
    for layers, state in zip(zip(*bilm.directions, strict=True), past_states, strict=True):
        xs = [F.dropout(x, dropout, layer.training) for layer, x in zip(layers, xs, strict=True)]
        hs, cs = (part.index_select(0, packing.rows).unbind(1) for part in state)
        given, rows = [*zip(xs, hs, cs, strict=True)], packing.shape[0]
        if not trains and all(native_can(layer, x, rows) for layer, x in zip(layers, xs, strict=True)):
            results = run_layers(layers, packing, given)
        elif trains:
            results = _run_trained(layers, packing, given)
        else:
            results = [run_layer(layer, packing, *one) for layer, one in zip(layers, given, strict=True)]
        xs = [y + x if layer.skip else y for layer, x, (y, _, _) in zip(layers, xs, results, strict=True)]
        outputs.append(xs)
        _, hs, cs = zip(*results, strict=True)
        states.append((packing.unsort(torch.stack(hs, 1)), packing.unsort(torch.stack(cs, 1))))
    return outputs, tuple(states)


def _run_trained(layers: Sequence["ElmoLstmLayer"], packing: Packing, given: Sequence[Packed]) -> Sequence[Packed]:
    for layer in layers:
        forget(layer)
    arguments = layers, packing, *itertools.chain(*given)
    if layers[0].gradient_checkpointing and layers[0].training:
        results = layers[0]._gradient_checkpointing_func(run_layers_trained, *arguments)
    else:
        results = run_layers_trained(*arguments)
    return [results[first : first + 3] for first in range(0, len(results), 3)]


# -- the mix


def mix_layers(
    mix: "ElmoScalarMix",
    hidden_states: Sequence[torch.Tensor],
    attention_mask: torch.Tensor | None = None,
    word_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """ElmoScalarMix.forward, where most of a batch is padding."""
    if attention_mask is None or mix.layer_norm is not None or len(hidden_states) != mix.num_layers:
        return NotImplemented
    # Elsewhere than on the CPU the look would wait for the device.
    if attention_mask.device.type != "cpu" or not packs(mix.engine, [], [attention_mask, *hidden_states]):
        return NotImplemented
    mask = attention_mask.bool()
    if 2 * int(mask.sum()) >= mask.numel():
        return NotImplemented
    rows = mask.flatten().nonzero().squeeze(1)  # (N,)
    mixed = mix.weighted_sum([layer.flatten(0, 1)[rows] for layer in hidden_states])
    padded = mixed.new_zeros(mask.numel(), mixed.shape[-1])
    padded[rows] = mixed
    return padded.unflatten(0, mask.shape)


WAYS: dict[str, Callable] = {"compute": compute, "encode": encode, "run_bilm": run_bilm, "mix_layers": mix_layers}
