"""Checkpoints of a head alone: everything but the biLM, with the name and the fingerprint of the biLM it belongs to.

`model.save_pretrained(folder, head_only=True)` writes one, in place of a second copy of a frozen biLM. Its config.json
has a field `base_model`: the name is a bundled model, a path relative to the checkpoint (it begins with a dot), or a
repository on the Hub. `from_pretrained` loads the biLM from there and compares the fingerprint. Models that are loaded
from checkpoints with one fingerprint share the weights of their biLM in memory until one of them is unfrozen.
"""

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch

from elmo_hf.hub.model_names import BUNDLED, bundled_folder, bundled_names
from elmo_hf.vector_settings import vector_settings

BILM_PREFIXES = ("token_encoder.", "bilm.")
# Options of from_pretrained that hold for the base too; its revision is its own.
HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "proxies", "token")


class SharedWeights:
    """The weights of a biLM, alive as long as a model that uses them.

    Args:
        tensors: the weights by their names in an ElmoModel.
        digest: of these tensors, in their own type.
    """

    def __init__(self, tensors: dict[str, torch.Tensor], digest: str):
        self.tensors, self.digest = tensors, digest

    # A copy of a model has weights of its own, and so has another process.

    def __deepcopy__(self, memo: dict) -> "SharedWeights":
        return SharedWeights({}, "")

    def __reduce__(self) -> tuple:
        return SharedWeights, ({}, "")


_shared: WeakValueDictionary[tuple[str, torch.dtype], SharedWeights] = WeakValueDictionary()
_lock = threading.Lock()


def bilm_weights(model: Any) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a model's biLM, by their names in an ElmoModel."""
    return {name: value for name, value in model.base_model.state_dict().items() if name.startswith(BILM_PREFIXES)}


def bilm_fingerprint(model: Any) -> str:
    """The fingerprint of a model's biLM: a hash of its weights, as float32, and of the settings that change layers.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel
    >>> from elmo_hf.hub.head_checkpoints import bilm_fingerprint
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16))
    >>> before = bilm_fingerprint(model)
    >>> _ = model.bilm.forward_layers[0].bias.data.add_(1)
    >>> before.split(":")[0], before == bilm_fingerprint(model)
    ('sha256', False)

    ```
    """
    settings = vector_settings(model.config, mix=False)
    if not model.config.word_input:
        del settings["vocab_size"]  # of the softmax
    text = json.dumps(settings, sort_keys=True)
    return "sha256:" + _digest(bilm_weights(model), text, torch.float32)


def _digest(tensors: dict[str, torch.Tensor], text: str = "", dtype: torch.dtype | None = None) -> str:
    """The SHA-256 of tensors by name; floating-point tensors are converted to `dtype` first."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        if dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(dtype)
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def head_weights(model: Any) -> dict[str, torch.Tensor]:
    """The weights that a checkpoint of a head alone holds: all but those of the biLM."""
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    return {
        name: value
        for name, value in model.state_dict().items()
        if not (name.startswith(prefix) and name.removeprefix(prefix).startswith(BILM_PREFIXES))
    }


def describe_base(model: Any, folder: str | os.PathLike, base: str | os.PathLike | None = None) -> dict[str, str]:
    """The field `base_model` of a checkpoint of a head alone that is saved in `folder`.

    Args:
        model: the model.
        folder: where the checkpoint is saved.
        base: a bundled model, a folder, or a repository on the Hub. Default: what the model was loaded from.

    Raises:
        ValueError: if the biLM of the base is not that of the model.
    """
    name = os.fspath(base or getattr(model, "_base_name", None) or model.config._name_or_path or "")
    if not name:
        raise ValueError(
            "Missing `base`: this model was not loaded from a checkpoint. Expected the name of one with the same "
            'biLM: save_pretrained(folder, head_only=True, base="...").'
        )
    fingerprint = bilm_fingerprint(model)
    if os.path.isdir(name):
        name = _portable_name(name, folder)
    if _load_base(name, folder).fingerprint != fingerprint:
        raise ValueError(
            f"The biLM of this model is not that of its base, {name}: it was trained, or the base has changed. "
            "Expected the same weights and settings. Save the whole model: save_pretrained(folder)."
        )
    return {"name": name, "fingerprint": fingerprint}


def _portable_name(path: str, folder: str | os.PathLike) -> str:
    """The name of a bundled model, or the path relative to the checkpoint."""
    real = os.path.realpath(path)
    if Path(real).parent == BUNDLED and Path(real).name in bundled_names():
        return Path(real).name
    try:
        relative = os.path.relpath(real, os.path.realpath(folder))
    except ValueError:  # another drive
        return real
    return relative if relative.startswith(".") else os.path.join(".", relative)


class _Base:
    """A base that was loaded: its biLM's weights and their fingerprint."""

    def __init__(self, model: Any):
        self.weights, self.fingerprint = bilm_weights(model), bilm_fingerprint(model)


def _load_base(name: str, folder: Any, **options: Any) -> _Base:
    from elmo_hf.model.modeling_elmo import ElmoModel

    return _Base(ElmoModel.from_pretrained(_resolve_base(name, folder), dtype=torch.float32, **options))


def _resolve_base(name: str, folder: Any) -> str:
    """The folder or repository of a base; a relative path begins at the checkpoint's folder."""
    if name in bundled_names():
        return bundled_folder(name)
    if name.startswith("."):
        path = os.path.normpath(os.path.join(folder, name))
        if not os.path.isdir(path):
            raise OSError(
                f"{folder} holds a head alone. Its biLM is that of {name}, and there is no folder {path}. Expected "
                "the base beside it, as when it was saved."
            )
        return path
    return name


def prepare_save(model: Any, folder: str | os.PathLike, base: Any, push_to_hub: bool) -> dict[str, Any]:
    """Sets `config.base_model` for a save; returns the arguments of transformers' `save_pretrained`."""
    if push_to_hub:
        raise ValueError("Invalid `push_to_hub` with `head_only`. Upload the folder: `hf upload REPO FOLDER`.")
    model.config.base_model = describe_base(model, folder, base)
    return {"state_dict": head_weights(model)}


def attach_bilm(model: Any, folder: Any, options: dict[str, Any]):
    """Fills the biLM of a model that was loaded from a checkpoint of a head alone: `model.config.base_model` names it.

    Args:
        model: the model; its head is loaded.
        folder: the folder or repository of the checkpoint.
        options: the options of `from_pretrained`.
    """
    base = model.config.__dict__.pop("base_model")
    is_valid = isinstance(base, dict) and all(isinstance(base.get(key), str) for key in ("name", "fingerprint"))
    if not is_valid:
        raise ValueError(
            f"Invalid `base_model` in the config.json of {folder}: {base!r}. Expected a name and a fingerprint."
        )
    name, fingerprint = base["name"], base["fingerprint"]
    dtype = next(parameter.dtype for parameter in model.parameters())
    shared = _find_shared(fingerprint, dtype)
    if shared is None:
        known = {key: options[key] for key in HUB_OPTIONS if options.get(key) is not None}
        loaded = _load_base(name, folder, **known)
        if loaded.fingerprint != fingerprint:
            raise ValueError(
                f"{folder} holds a head alone, trained on another biLM than that of {name}: the fingerprints "
                f"{fingerprint[:19]}... and {loaded.fingerprint[:19]}... differ. Expected the base as it was when "
                "the head was saved."
            )
        weights = {
            key: value.to(dtype) if value.is_floating_point() else value for key, value in loaded.weights.items()
        }
        with _lock:
            shared = _shared[fingerprint, dtype] = SharedWeights(weights, _digest(weights))
    _assign(model, shared.tensors)
    model._shared_bilm, model._base_name = shared, _resolve_base(name, folder)


def _find_shared(fingerprint: str, dtype: torch.dtype) -> SharedWeights | None:
    """The weights of a living model, unless somebody has changed them in place."""
    with _lock:
        shared = _shared.get((fingerprint, dtype))
    return shared if shared is not None and _digest(shared.tensors) == shared.digest else None


@torch.no_grad()
def _assign(model: Any, tensors: dict[str, torch.Tensor]):
    """Makes tensors the weights of a model's biLM, without a copy where device and type are the same."""
    own = dict(model.base_model.named_parameters()) | dict(model.base_model.named_buffers())
    for name, tensor in tensors.items():
        own[name].data = tensor.to(own[name].device)


def unshare(model: Any):
    """Gives a model a copy of the weights that it shares; called before a part of its biLM trains."""
    if getattr(model, "_shared_bilm", None) is not None:
        _assign(model, {name: tensor.clone() for name, tensor in bilm_weights(model).items()})
        model._shared_bilm = None


__all__ = [
    "SharedWeights",
    "attach_bilm",
    "bilm_fingerprint",
    "bilm_weights",
    "describe_base",
    "head_weights",
    "prepare_save",
    "unshare",
]
