"""Data parallelism inside one process: each thread trains on some rows of the batch, and their gradients are added.

Nothing waits within a step: all of it, from characters to gradients, runs beside the other threads. Threads that share
each product instead wait for each other hundreds of times, and leave to one of them what torch does not divide.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmo_hf.kernels import KERNELS
from elmo_hf.kernels.random_streams import RandomStreams, random_streams
from elmo_hf.kernels.threads import run_torch_in_parallel
from elmo_hf.model.modeling_elmo import States

# A shard of fewer rows has too small products, and encodes too many words that the other shards encode as well.
ROWS_PER_SHARD = 16


class ShardResult(NamedTuple):
    """What one thread computes from its rows."""

    loss: Tensor
    gradients: tuple[Tensor | None, ...]  # of each trained parameter
    states: States
    losses: Tensor  # (2,), the mean loss of each direction, times the number of rows


def number_of_shards(rows: int) -> int:
    """Returns into how many shards a batch is divided: one for each thread, unless they would be too small.

    Without kernels there is one: torch's own dropout draws for all threads from one generator.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.pretraining.batch_shards import number_of_shards
    >>> number_of_shards(128) <= torch.get_num_threads(), number_of_shards(16)
    (True, 1)

    ```
    """
    return max(1, min(torch.get_num_threads(), rows // ROWS_PER_SHARD)) if KERNELS else 1


def split_rows(inputs: dict[str, Any], states: States | None, shards: int) -> list[tuple[dict[str, Any], Any]]:
    """Returns the inputs and the states of each shard: consecutive rows of a batch."""
    tensors = {name: value.tensor_split(shards) for name, value in inputs.items() if isinstance(value, Tensor)}
    parts = [{**inputs, **{name: split[shard] for name, split in tensors.items()}} for shard in range(shards)]
    if states is None:
        return [(part, None) for part in parts]
    layers = [[part.tensor_split(shards) for part in layer] for layer in states]
    return [
        (part, tuple(tuple(split[shard] for split in layer) for layer in layers)) for shard, part in enumerate(parts)
    ]


def join_states(states: Sequence[States]) -> States:
    """Returns the states of a batch from those of its shards.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.pretraining.batch_shards import join_states
    >>> state = ((torch.zeros(2, 1, 3), torch.ones(2, 1, 4)),)
    >>> [tuple(part.shape) for part in join_states([state, state])[0]]
    [(4, 1, 3), (4, 1, 4)]

    ```
    """
    layers = (zip(*layer, strict=True) for layer in zip(*states, strict=True))
    return tuple((torch.cat(h), torch.cat(c)) for h, c in layers)


def run_shards(
    compute: Callable[[dict[str, Any], States | None], tuple[Tensor, Any]],
    parameters: Sequence[Tensor],
    shards: Sequence[tuple[dict[str, Any], States | None]],
) -> list[ShardResult]:
    """Computes losses and gradients, each shard in a thread of its own.

    Args:
        compute: returns the loss of a shard's inputs and states, divided by the targets of the whole batch, and the
            output of the model.
        parameters: what gradients are computed of.
        shards: the inputs and the states of each.
    """
    # One number of torch's generator, whose state checkpoints hold, seeds all that a step draws.
    seed = int(torch.randint(2**62, ()))
    results: list[Any] = [None] * len(shards)

    def run(number: int):
        inputs, states = shards[number]
        with random_streams(RandomStreams.of(seed, number)):
            loss, output = compute(inputs, states)
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        backward = output.forward_loss if output.backward_loss is None else output.backward_loss
        means = torch.stack([output.forward_loss, backward]).detach().cpu()
        new_states = tuple((h.detach(), c.detach()) for h, c in output.past_states)
        results[number] = ShardResult(loss.detach(), gradients, new_states, means * len(inputs["input_ids"]))

    run_torch_in_parallel([partial(run, number) for number in range(len(shards))], gradients=True)
    return results


def add_gradients(parameters: Sequence[Tensor], results: Sequence[ShardResult]):
    """Adds the gradients of all shards to those of the parameters, always in the same order."""
    for number, parameter in enumerate(parameters):
        for gradient in (result.gradients[number] for result in results):
            if gradient is None:
                continue
            parameter.grad = gradient if parameter.grad is None else _sum(parameter.grad, gradient)


def _sum(first: Tensor, second: Tensor) -> Tensor:
    # In place where both are dense: neither is needed any more.
    return first + second if first.is_sparse or second.is_sparse else first.add_(second)
