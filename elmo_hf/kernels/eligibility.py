"""Whether a kernel may serve a call: it uses only the values of tensors, so nothing may observe the operations."""

from collections.abc import Iterable

import torch
from torch import nn
from torch.autograd import forward_ad


def is_eager(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether nothing but autograd observes operations on these tensors.

    Tensor subclasses (fake, distributed), tracing, function transforms, forward-mode derivatives and dispatch modes
    have to see each operation.
    """
    if torch.jit.is_tracing() or torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack():
        return False
    if forward_ad._current_level >= 0:
        return False
    return all(type(tensor) in (torch.Tensor, nn.Parameter) for tensor in tensors if tensor is not None)


def is_observed(modules: Iterable[nn.Module]) -> bool:
    """Whether hooks, adapters or other classes observe or change what modules compute.

    What an adapter adds can be switched on and off while all weights stay the same, so nothing cached may stand for
    it. The class of the first module tells where the model's own classes are defined. A replica of DataParallel has no
    parameters whose values could be compared.
    """
    modules, hooks = list(modules), nn.modules.module
    if getattr(modules[0], "_is_replica", False):
        return True
    if hooks._global_forward_hooks or hooks._global_forward_pre_hooks:
        return True
    own = type(modules[0]).__module__
    return any(
        module._forward_hooks
        or module._forward_pre_hooks
        or "forward" in vars(module)
        or not (type(module).__module__ == own or type(module).__module__.startswith("torch.nn.modules."))
        for module in modules
    )


def needs_gradients(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether autograd records operations on these tensors."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors if tensor is not None)


def share_type_and_device(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether all tensors have one type and lie on one device."""
    kinds = {(tensor.dtype, tensor.device) for tensor in tensors if tensor is not None}
    return len(kinds) <= 1
