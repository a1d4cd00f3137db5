"""Which way a model computes: the plain reference, or packed batches. The one place that decides."""

import os
from collections.abc import Iterable

import torch
from torch import nn

from .fast_products_elmo import onednn_can

ENGINES = ("auto", "reference", "packed")
VARIABLE = "ELMO_HF_ENGINE"


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


def packs(asked: str, modules: Iterable[nn.Module], kinds: tuple[type, ...], tensors: Iterable[torch.Tensor]) -> bool:
    """Whether modules may be computed in packed batches, without being called one by one.

    Whatever has to see a module at work gets the reference: hooks, parts of other kinds than `kinds` (adapters,
    parametrizations), tensors that are more than their numbers, compiling, tracing and function transforms.
    """
    if engine_of(asked) == "reference" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    if torch._C._are_functorch_transforms_active():
        return False
    return all(map(_is_plain, tensors)) and all(type(module) in kinds and _is_untouched(module) for module in modules)


def describe(asked: str, weight: torch.Tensor, cached_words: int = 0) -> str:
    """One sentence on how a model computes at this moment."""
    if engine_of(asked) == "reference":
        return "reference: the plain loop over time, every token encoded."
    way = "oneDNN with pre-packed weights" if onednn_can(weight.device, weight.dtype) else "torch"
    threads = f" and {torch.get_num_threads()} threads" if weight.device.type == "cpu" else ""
    words = f", up to {cached_words:,} words remembered" if cached_words else ""
    type_name = str(weight.dtype).removeprefix("torch.")
    return f"packed: no work on padding, distinct words once, {type_name} on {weight.device} by {way}{threads}{words}."


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, nn.Parameter) and not tensor.is_meta


def _is_untouched(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return (
        not any(hooks)
        and "forward" not in vars(module)
        and all(_is_plain(parameter) for parameter in module._parameters.values() if parameter is not None)
    )


def _after_fork():
    # OpenMP's threads do not come along into a forked process, which would wait for them for ever.
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
