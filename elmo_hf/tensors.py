"""Functions of padded batches and of states, for programs that call a model themselves."""

import torch
from torch import Tensor

from elmo_hf.model.modeling_elmo import States, inner_mask


def strip_boundaries(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Removes the first and the last unmasked position of each row: `<S>` and `</S>` of a sentence.

    Args:
        x: (B, T, ...), for example vectors, one per input position.
        mask: (B, T), the attention mask; padding may be anywhere.

    Returns:
        (B, T - 2, ...) with the rest of each row in its order, moved to the left and padded with zeros, and its mask.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import strip_boundaries
    >>> x, mask = strip_boundaries(torch.arange(1, 9).view(2, 4), torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1]]))
    >>> x.tolist(), mask.tolist()
    ([[2, 3], [7, 0]], [[1, 1], [1, 0]])

    ```
    """
    inner = inner_mask(mask.bool())
    length = max(mask.shape[1] - 2, 0)
    order = torch.argsort((~inner).long(), dim=1, stable=True)[:, :length]  # (B, T - 2), inner positions first
    is_inner = inner.gather(1, order)
    extra = (1,) * (x.dim() - 2)
    gathered = x.gather(1, order.reshape(order.shape + extra).expand(*order.shape, *x.shape[2:]))
    visible = is_inner.reshape(is_inner.shape + extra)
    return torch.where(visible, gathered, torch.zeros_like(gathered)), is_inner.to(mask.dtype)


def resize_states(states: States, batch: int) -> States:
    """Fits states to another batch size as the original program does: the first rows stay, further rows are zeros.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import resize_states
    >>> states = ((torch.ones(2, 1, 3), torch.ones(2, 1, 4)),)
    >>> [tuple(part.shape) for part in resize_states(states, 5)[0]]
    [(5, 1, 3), (5, 1, 4)]

    ```
    """

    def fit(part: Tensor) -> Tensor:
        missing = max(batch - part.shape[0], 0)
        return torch.cat([part[:batch], part.new_zeros(missing, *part.shape[1:])])

    return tuple((fit(h), fit(c)) for h, c in states)


__all__ = ["resize_states", "strip_boundaries"]
