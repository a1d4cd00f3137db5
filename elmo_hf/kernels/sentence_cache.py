"""Sentences cached from epoch to epoch: what a frozen biLM computes for them does not change."""

import hashlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional as F

from elmo_hf.vector_settings import vector_settings

from .eligibility import is_observed
from .prepared import identity_of

PADDING_CHARACTER = 261  # fills a row of characters behind a word


class SentenceCache:
    """The layers of the sentences that a frozen biLM has read.

    A mix, its dropout and all that trains come after it, so training on cached sentences is training on the
    sentences. One cache may serve many models, as the runs of a search do: the key of a sentence is a hash of its
    characters and of the biLM's weights, and changed weights compute it anew. On a GPU, and without the native
    library, which hashes weights, sentences are cached inside of `constant_weights` only.

    Args:
        megabytes: of memory for the layers. When the cache is full, further sentences are computed each time; those
            that are in it stay, since epochs come round to them again.

    Attributes:
        is_full: whether a sentence did not fit.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer, SentenceCache
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, freeze_bilm=True)
    >>> model, cache = ElmoModel(config), SentenceCache(megabytes=500)
    >>> model.cache_sentences(cache)
    >>> output = model(**ElmoTokenizer()(["It rains .", "It rains ."], return_tensors="pt"))
    >>> len(cache)
    1

    ```
    """

    def __init__(self, megabytes: float = 1000):
        if not megabytes > 0:
            raise ValueError(f"Invalid `megabytes`: {megabytes}. Expected a number above 0.")
        self.megabytes, self._lock = megabytes, threading.Lock()
        self.clear()

    def clear(self):
        """Empties the cache."""
        self._layers: dict[bytes, torch.Tensor] = {}  # each (L + 1, tokens, hidden_size)
        self._room = self.megabytes * 2**20
        self.is_full = False

    def freeze(self):
        """Caches no further sentences; those that are cached stay."""
        self._room = 0

    def __len__(self) -> int:
        return len(self._layers)

    # A copy of a model shares its cache; another process begins with an empty one.

    def __deepcopy__(self, memo: dict) -> "SentenceCache":
        return self

    def __reduce__(self) -> tuple:
        return SentenceCache, (self.megabytes,)

    def __call__(self, model: Any, input_ids: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
        """The layers of an ElmoModel for checked ids (B, T, ...) and their mask (B, T).

        Returns:
            L + 1 times (B, T, hidden_size), zeros where masked.
        """
        weights, modules = list(_bilm_weights(model)), [*model.token_encoder.modules(), *model.bilm.modules()]
        trains = any(weight.requires_grad for weight in weights)
        identity = None if trains or is_observed(modules) else identity_of(weights)
        if identity is None:
            layers, packing, _ = model.run_layers(input_ids, None, mask, None)
            return [packing.unpack(layer) for layer in layers]
        with torch.no_grad():
            return self._cached_layers(model, weights, identity, input_ids, mask)

    def _cached_layers(
        self,
        model: Any,
        weights: list[torch.Tensor],
        identity: tuple,
        input_ids: torch.Tensor,
        mask: torch.Tensor,
    ) -> list[torch.Tensor]:
        keys = _keys_of(model, weights, identity, input_ids, mask)
        layers = {key: self._layers.get(key) for key in keys}
        missing = [key for key, value in layers.items() if value is None]
        if missing:
            rows = torch.tensor([keys.index(key) for key in missing], device=mask.device)
            missing_mask = mask[rows]
            # What is cached serves later calls with or without autocast.
            with torch.autocast(mask.device.type, enabled=False):
                packed, packing, _ = model.run_layers(input_ids[rows], None, missing_mask, None)
            flat = torch.stack([packing.unpack(layer)[missing_mask] for layer in packed])  # (L + 1, N, hidden_size)
            computed = dict(zip(missing, flat.split(missing_mask.sum(1).tolist(), 1), strict=True))
            self._insert(computed)
            layers |= computed
        flat = torch.cat([layers[key] for key in keys], 1)
        padded = flat.new_zeros(len(flat), mask.numel(), flat.shape[2])
        padded[:, mask.flatten()] = flat
        return list(padded.unflatten(1, mask.shape).unbind())

    def _insert(self, computed: dict[bytes, torch.Tensor]):
        with self._lock:
            for key, layers in computed.items():
                size = layers.numel() * layers.element_size()
                if key in self._layers:
                    continue
                if size <= self._room:
                    self._layers[key] = layers.clone()
                    self._room -= size
                else:
                    self.is_full = True


def _keys_of(
    model: Any, weights: list[torch.Tensor], identity: tuple, input_ids: torch.Tensor, mask: torch.Tensor
) -> list[bytes]:
    """The key of each row, wherever its padding is."""
    config, layers = model.config, model.bilm.layers
    fields = sorted(vector_settings(config, mix=False).items())
    settings = [(layer.cell_clip, layer.projection_clip, layer.skip) for layer in layers]
    settings.append(getattr(model.token_encoder, "activation", None))
    shapes = [(weight.shape, weight.dtype) for weight in weights]
    classes = [id(type(module)) for part in (model.token_encoder, model.bilm) for module in part.modules()]
    text = repr((fields, settings, shapes, classes, identity))
    of_model = hashlib.blake2b(text.encode(), digest_size=32).digest()
    if input_ids.dim() == 3:
        # A row of characters means the same with more padding.
        input_ids = F.pad(input_ids, (0, config.row_width - input_ids.shape[2]), value=PADDING_CHARACTER)
    ids, present = input_ids.cpu().int(), mask.cpu()
    rows = (row[tokens].numpy().tobytes() for row, tokens in zip(ids, present, strict=True))
    return [hashlib.blake2b(row, key=of_model, digest_size=20).digest() for row in rows]


def _bilm_weights(model: Any) -> Iterator[torch.Tensor]:
    """All parameters and buffers that the layers of an ElmoModel depend on."""
    for module in (model.token_encoder, model.bilm):
        yield from itertools.chain(module.parameters(), module.buffers())


__all__ = ["SentenceCache"]
