"""What a model is called with: tensors of the right kind, or a sentence about what was found."""

from typing import Any

import torch

WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
# What must be whole numbers, and what has one number for each position.
IDS = ("input_ids", "backward_input_ids", "token_type_ids", "word_vector_ids", "backward_labels")
BY_POSITION = ("attention_mask", "token_type_ids", "word_vector_ids")


def check_tensors(inputs: dict[str, Any], word_input: bool):
    """Raises unless each input that is not None is a tensor of the kind that its name takes."""
    given = {name: value for name, value in inputs.items() if value is not None}
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"{name} is a {type(value).__name__}; accepted is a tensor, as tokenizer(..., return_tensors='pt') "
                "gives."
            )
        small = name.endswith("input_ids") and value.dtype in (torch.uint8, torch.int8)  # characters go up to 261
        if name in IDS and value.dtype not in WHOLE or small:
            raise TypeError(f"{name} has the type {value.dtype}; accepted are whole numbers, as torch.int64.")
        if value.is_complex():
            raise TypeError(f"{name} has the type {value.dtype}; accepted are real numbers.")
        if name == "inputs_embeds" and not value.is_floating_point():
            raise TypeError(f"inputs_embeds has the type {value.dtype}; accepted are token vectors, as torch.float32.")
    first = next((given[name] for name in ("input_ids", "inputs_embeds") if name in given), None)
    if first is None:
        return
    ids = "input_ids" in given
    if first.dim() != (2 if ids and word_input else 3) or not first.shape[-1] and first.dim() == 3:
        wanted = "token vectors (batch, tokens, size)"
        if ids:
            wanted = "word ids (batch, tokens)" if word_input else "characters (batch, tokens, characters)"
        name = "input_ids" if ids else "inputs_embeds"
        raise ValueError(
            f"{name} has the shape {tuple(first.shape)}; this model reads {wanted}, as ElmoTokenizer makes them."
        )
    for name in BY_POSITION:
        if name in given and given[name].shape != first.shape[:2]:
            raise ValueError(
                f"{name} has the shape {tuple(given[name].shape)}; accepted is one value per token, "
                f"{tuple(first.shape[:2])}."
            )


def costs_nothing_to_look_at(x: torch.Tensor) -> bool:
    """Whether checks may look at the numbers: elsewhere than on the CPU each would wait for the device, at every call,
    and a compiler cannot follow it.
    """
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def check_one_input(input_ids: Any, inputs_embeds: Any):
    """Raises unless a model is given either ids or token vectors."""
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("An ELMo takes either input_ids or inputs_embeds: exactly one of the two.")


def whole_labels(labels: torch.Tensor) -> torch.Tensor:
    """Labels as torch.int64: other whole numbers may hold no -100, or be masks where they should index."""
    if labels.dtype not in WHOLE:
        raise TypeError(f"labels has the type {labels.dtype}; accepted are whole numbers, as torch.int64.")
    return labels.long()


def check_labels(labels: torch.Tensor, num_labels: int) -> torch.Tensor:
    """The labels as torch.int64; raises unless all are classes from 0 to below `num_labels`, or -100 for none."""
    labels = whole_labels(labels)
    if costs_nothing_to_look_at(labels):
        wrong = labels[(labels != -100) & ((labels < 0) | (labels >= num_labels))]
        if wrong.numel():
            raise ValueError(
                f"labels holds {int(wrong[0])}; accepted are classes from 0 to {num_labels - 1}, and -100 for none."
            )
    return labels


def check_states(past_states: Any, like: torch.Tensor):
    """Raises unless the states are pairs of tensors on the device and of the type of the model's weights."""
    pairs = isinstance(past_states, (tuple, list)) and all(
        isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(part, torch.Tensor) for part in pair)
        for pair in past_states
    )
    if not pairs:
        raise TypeError(
            f"past_states is a {type(past_states).__name__} that no model gave out; accepted is `past_states` of an "
            "earlier output: for each layer a pair (h, c) of tensors."
        )
    mixed = torch.is_autocast_enabled(like.device.type)
    for part in (part for pair in past_states for part in pair):
        if part.device != like.device or (part.dtype != like.dtype and not mixed):
            raise ValueError(
                f"past_states are {part.dtype} on {part.device}; accepted is {like.dtype} on {like.device}, as the "
                "model's weights."
            )


__all__ = [
    "check_labels",
    "check_one_input",
    "check_states",
    "check_tensors",
    "costs_nothing_to_look_at",
    "whole_labels",
]
