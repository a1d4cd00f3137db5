"""The precision of training: float32, or mixed precision with products in bfloat16."""

from collections.abc import Callable
from typing import Any

# Kernels are imported in functions, because they import torch: the help of the command line needs PRECISIONS only.
PRECISIONS = ("auto", "float32", "bf16")


def choose_precision(wanted: str, facts: dict[str, Any], device_type: str, say: Callable[[str], Any]) -> str:
    """Returns `"float32"` or `"bf16"`.

    `auto` is what a run was begun with, and for a new run bf16 where it is known to be faster: with the kernels, on
    processors with units for it.

    Args:
        wanted: one of PRECISIONS.
        facts: those of the checkpoint to resume from, or empty.
        device_type: what the model is trained on.
        say: called with a sentence where bf16 was asked for in vain.

    Example:

    ```python
    >>> from elmo_hf.pretraining.precision import choose_precision
    >>> choose_precision("auto", {"precision": "float32"}, "cpu", print)
    'float32'

    ```
    """
    from elmo_hf.kernels import KERNELS
    from elmo_hf.kernels.mixed_precision import has_bfloat16_units

    before = facts.get("precision")
    if wanted == "auto":
        is_faster = device_type == "cpu" and KERNELS and has_bfloat16_units()
        wanted = before or ("bf16" if is_faster else "float32")
    problem = _problem(device_type) if wanted == "bf16" else None
    if problem is None:
        return wanted
    if before == "bf16":
        say(f"precision: the run was begun in bf16 and continues in float32: {problem}")
        return "bf16"  # what the run is resumed as elsewhere; the kernels compute in float32
    say(f"precision: float32, not bf16: {problem}")
    return "float32"


def _problem(device_type: str) -> str | None:
    """Why bf16 would not be faster on a device; None if it is."""
    from elmo_hf.kernels import KERNELS
    from elmo_hf.kernels.mixed_precision import has_bfloat16_units

    if device_type != "cpu":
        return "on this device the training kernels compute in float32" if KERNELS else None
    return None if has_bfloat16_units() else "this processor has neither AVX-512 BF16 nor AMX"
