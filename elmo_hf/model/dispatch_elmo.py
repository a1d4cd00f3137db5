"""Where what is computed meets what computes it fast.

modeling_elmo, character_cnn_elmo, lstm_elmo and scalar_mix_elmo say what is computed, and know nothing of the fast
ways but `has_fast_way`.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .fast_fork_elmo import settle
from .fast_ways_elmo import WAYS


def has_fast_way(name: str) -> Callable[[Callable], Callable]:
    """Marks a method with a faster way to the same result: the function of this name in fast_ways_elmo.

    That function takes what the method takes, and says NotImplemented where the method itself has to be seen at work.
    """
    way = WAYS[name]

    def mark(plain: Callable) -> Callable:
        @functools.wraps(plain)
        def method(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                # A compiler would unroll the loop over time, anew for each shape, in a minute; an export has to.
                whole = torch.compiler.is_exporting()
                return plain(self, *args, **kwargs) if whole else _uncompiled(method, self, *args, **kwargs)
            settle()
            result = way(self, *args, **kwargs)
            return plain(self, *args, **kwargs) if result is NotImplemented else result

        return method

    return mark


@torch.compiler.disable(recursive=True, reason="compiling ELMo's loop over time takes a minute for every new shape")
def _uncompiled(method: Callable, *args: Any, **kwargs: Any) -> Any:
    return method(*args, **kwargs)
