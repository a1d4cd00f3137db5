"""Training in mixed precision on the processor: weights and sums in float32, products in bfloat16.

`torch.autocast("cpu", torch.bfloat16)` asks for it. Where the processor has no units for bfloat16, training stays in
float32, which is faster there.
"""

import functools
from collections.abc import Iterable

import torch

from . import onednn


@functools.cache
def has_bfloat16_units() -> bool:
    """Whether the processor has the units for bfloat16 that oneDNN uses: AVX-512 BF16 or AMX.

    With AVX-512 alone oneDNN has products in bfloat16 too, which take longer than those in float32.

    Example:

    ```python
    >>> from elmo_hf.kernels.mixed_precision import has_bfloat16_units
    >>> has_bfloat16_units() in (True, False)
    True

    ```
    """
    if not onednn.supports("cpu", torch.bfloat16):
        return False
    checks = [getattr(torch.cpu, f"_is_{units}_supported", None) for units in ("avx512_bf16", "amx_tile")]
    return any(check is not None and check() for check in checks)


def uses_bfloat16(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether autocast asks for products in bfloat16 of these tensors, and the processor has units for them."""
    if not torch.is_autocast_enabled("cpu") or torch.get_autocast_dtype("cpu") != torch.bfloat16:
        return False
    kinds = {(tensor.device.type, tensor.dtype) for tensor in tensors if tensor is not None}
    return kinds == {("cpu", torch.float32)} and has_bfloat16_units()
