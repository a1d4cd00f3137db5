"""Detection of reads of uninitialised memory: in tests, `torch.empty` returns NaN.

Uninitialised memory often holds zeros, so that an element which is never written can pass a test by luck. The setting
`torch.use_deterministic_algorithms` fills memory too, but it also selects other operators than users run.
"""

import functools

import torch


def poison_uninitialized_memory(module):
    """Patches torch's functions that return uninitialised memory: they fill it with NaN or the largest integer."""
    with torch.device("cpu"):  # torch lists the functions that obey `with torch.device(...)` at the first use
        torch.empty(0)
    for owner, name in (
        (module, "empty"),
        (module, "empty_like"),
        (module.Tensor, "new_empty"),
    ):
        setattr(owner, name, _poisoned(getattr(owner, name)))


def _poisoned(make):
    @functools.wraps(make)
    def made(*args, **kwargs):
        tensor = make(*args, **kwargs)
        with torch.no_grad():
            if tensor.is_floating_point() or tensor.is_complex():
                return tensor.fill_(float("nan"))
            return tensor.fill_(True if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max)

    return made
