"""Sentences remembered from epoch to epoch: what a frozen biLM makes of them does not change."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

from .configuration_elmo import PADDING_CHARACTER
from .fast_engine_elmo import engine_of, is_unseen
from .fast_fork_elmo import lock
from .fast_products_elmo import kept

# Of the config, what comes after the biLM; all else counts as what its layers depend on.
AFTER_THE_BILM = ("head", "mix", "id2label", "label2id", "architectures", "freeze_bilm", "custom_pipelines")


class SentenceCache:
    """The layers of the sentences that a frozen biLM has read.

    A mix, its dropout and all that trains come after it, so training on remembered sentences is training on the
    sentences. One cache may serve many models, as the runs of a search: a sentence is known by its characters and by
    the biLM's weights, and changed weights read it anew.

    Args:
        megabytes: what the layers may take in memory. When that is full, further sentences are read each time; those
            that are here stay, since epochs come round to them again.

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
            raise ValueError(f"The size of the cache is {megabytes} megabytes; accepted is a number above 0.")
        self.megabytes = megabytes
        self.clear()

    def clear(self):
        """Forgets all sentences."""
        self._layers: dict[bytes, torch.Tensor] = {}  # each (L + 1, tokens, hidden_size)
        self._room = self.megabytes * 2**20

    def __len__(self) -> int:
        return len(self._layers)

    # A copy of a model shares its cache; another process begins with an empty one.

    def __deepcopy__(self, memo: dict) -> "SentenceCache":
        return self

    def __reduce__(self) -> tuple:
        return SentenceCache, (self.megabytes,)

    def may_serve(self, model: Any, input_ids: torch.Tensor, mask: torch.Tensor) -> bool:
        """Whether an ElmoModel's biLM is frozen, and nothing but its weights and these ids decides on its layers.

        An adapter, a hook, a trace or a transform has to see the biLM at work.
        """
        if torch.compiler.is_compiling() or any(weight.requires_grad for weight in bilm_weights(model)):
            return False
        return is_unseen([*model.token_encoder.modules(), *model.bilm.modules()], [input_ids, mask])

    @torch.no_grad()
    def layers(self, model: Any, input_ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What a frozen ElmoModel's biLM makes of checked ids (B, T, ...) at the positions of a mask (B, T).

        Returns:
            L + 1 times (B, T, hidden_size), zeros where masked.
        """
        keys = self._keys(model, input_ids, mask)
        found = {key: self._layers.get(key) for key in keys}
        missing = [key for key, layers in found.items() if layers is None]
        if missing:
            rows = torch.tensor([keys.index(key) for key in missing], device=mask.device)
            here = mask[rows]
            # What is remembered serves whoever comes next, with or without autocast.
            with torch.autocast(mask.device.type, enabled=False):
                _, layers, _ = model.compute(input_ids[rows], None, here, None, True)
            flat = torch.stack([layer[here] for layer in layers])  # (L + 1, N, hidden_size)
            made = dict(zip(missing, flat.split(here.sum(1).tolist(), 1), strict=True))
            self._remember(made)
            found |= made
        flat = torch.cat([found[key] for key in keys], 1)
        padded = flat.new_zeros(len(flat), mask.numel(), flat.shape[2])
        padded[:, mask.flatten()] = flat
        return padded.unflatten(1, mask.shape).unbind()

    def _remember(self, made: dict[bytes, torch.Tensor]):
        with lock:
            for key, layers in made.items():
                size = layers.numel() * layers.element_size()
                if size <= self._room and key not in self._layers:
                    self._layers[key] = layers.clone()
                    self._room -= size

    def _keys(self, model: Any, input_ids: torch.Tensor, mask: torch.Tensor) -> list[bytes]:
        """Of each row what it is known by, wherever its padding is."""
        weights, here = self._fingerprint(model), mask.cpu()
        if input_ids.dim() == 3:
            # A row of characters says the same however much filling it has.
            missing = model.config.row_width - input_ids.shape[2]
            input_ids = F.pad(input_ids, (0, missing), value=PADDING_CHARACTER)
        rows = (row[tokens].numpy().tobytes() for row, tokens in zip(input_ids.cpu().int(), here, strict=True))
        return [hashlib.blake2b(row, key=weights, digest_size=20).digest() for row in rows]

    def _fingerprint(self, model: Any) -> bytes:
        """What tells the biLM of one model, on its device and by its engine, from that of another."""
        weights = tuple(bilm_weights(model))
        of_weights = kept(model, "fingerprint", weights, lambda: _digest(weights))
        settings = model.config.to_dict().items()
        settings = sorted((name, repr(value)) for name, value in settings if not name.startswith(AFTER_THE_BILM))
        text = repr((settings, weights[0].device, engine_of(model.bilm.engine)))
        return hashlib.blake2b(text.encode(), key=of_weights, digest_size=32).digest()


def _digest(weights: Iterable[torch.Tensor]) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for tensor in weights:
        numbers = tensor.detach().cpu().contiguous()
        digest.update(repr((numbers.shape, numbers.dtype)).encode())
        digest.update(numbers.flatten().view(torch.uint8).numpy())
    return digest.digest()


def bilm_weights(model: Any) -> Iterator[torch.Tensor]:
    """All that the layers of an ElmoModel depend on."""
    for module in (model.token_encoder, model.bilm):
        yield from itertools.chain(module.parameters(), module.buffers())


__all__ = ["SentenceCache"]
