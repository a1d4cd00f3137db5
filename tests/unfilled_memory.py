"""Memory that nobody filled, made to show.

`torch.empty` gives what was there before: often zeros, so that a place which is never written passes a test by luck.
With torch's own `use_deterministic_algorithms` it would be filled too, but then other operators would run than in use.
"""

import functools

import torch


def fill_what_is_made_empty(module):
    """Lets the functions of torch that give unfilled memory fill it: with NaN, or the largest whole number."""
    with torch.device("cpu"):  # the list of what obeys `with torch.device(...)` is made at its first use
        torch.empty(0)
    for owner, name in (
        (module, "empty"),
        (module, "empty_like"),
        (module.Tensor, "new_empty"),
    ):
        setattr(owner, name, _filling(getattr(owner, name)))


def _filling(make):
    @functools.wraps(make)
    def made(*args, **kwargs):
        tensor = make(*args, **kwargs)
        with torch.no_grad():
            if tensor.is_floating_point() or tensor.is_complex():
                return tensor.fill_(float("nan"))
            return tensor.fill_(True if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max)

    return made
