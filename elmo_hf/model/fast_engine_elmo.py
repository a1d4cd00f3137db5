"""Which way a model computes: the plain reference, or packed batches. The one place that decides."""

import os
from collections.abc import Iterable

import torch
from torch import nn

from .fast_native_elmo import most_texts, native, native_can
from .fast_operators_elmo import int8_can, is_plain, is_untouched, onednn_can, transforms_are_active

ENGINES = ("auto", "reference", "packed")
VARIABLE = "ELMO_HF_ENGINE"
# Modules of torch that are computed as parts of ours.
KNOWN = (nn.Embedding, nn.Conv1d, nn.ModuleList, nn.Linear)


def check_engine(name: str, where: str = "The engine") -> str:
    """The name, if it is one."""
    if name not in ENGINES:
        raise ValueError(f"{where} is {name!r}; accepted is one of {', '.join(map(repr, ENGINES))}.")
    return name


def engine_of(asked: str) -> str:
    """`"reference"` or `"packed"`: what was asked for, else what ELMO_HF_ENGINE says, else packed."""
    if asked == "auto":
        asked = check_engine(os.environ.get(VARIABLE) or "auto", f"The environment variable {VARIABLE}")
    return "packed" if asked == "auto" else asked


def packs(asked: str, modules: Iterable[nn.Module], tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether modules may be computed in packed batches, without being called one by one.

    Whatever has to see a module at work gets the reference.
    """
    return engine_of(asked) != "reference" and is_unseen(modules, tensors)


def is_unseen(modules: Iterable[nn.Module], tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether nobody has to see modules at work, and nobody changes what they compute.

    Hooks do, parts of other kinds (adapters, parametrizations), tensors that are more than their numbers, tracing and
    function transforms.
    """
    if torch.jit.is_tracing() or transforms_are_active():
        return False
    given = (tensor for tensor in tensors if tensor is not None)
    return all(map(is_plain, given)) and all(_is_known(module) and is_untouched(module) for module in modules)


def _is_known(module: nn.Module) -> bool:
    # A class says so for itself: what derives from it may compute something else.
    return type(module) in KNOWN or vars(type(module)).get("may_be_fused", False)


def describe(asked: str, bilm: nn.Module, bytes_of_words: int = 0) -> str:
    """One sentence on how a model computes at this moment."""
    if engine_of(asked) == "reference":
        return "reference: the plain loop over time, every token encoded."
    layer, weight = bilm.forward_layers[0], next(bilm.parameters())
    way = "oneDNN with pre-packed weights" if onednn_can(weight.device, weight.dtype) else "torch"
    type_name = str(weight.dtype).removeprefix("torch.")
    if layer.quantized:
        type_name = f"int8 weights, {type_name} between them,"
        way = "oneDNN in eight bits" if int8_can(weight.device) else f"{way}, as floats"
    elif native_can(layer, weight):
        most = most_texts(layer)
        way = f"{way} and {native().name}{'' if most is None else f' for up to {most} texts'}"
    threads = f" and {torch.get_num_threads()} threads" if weight.device.type == "cpu" else ""
    words = f", words remembered in up to {bytes_of_words / 2**20:,.3g} MB" if bytes_of_words else ""
    return f"packed: no work on padding, distinct words once, {type_name} on {weight.device} by {way}{threads}{words}."
