"""The character encoder on distinct words, each on no more characters than it has.

A convolution's window that lies wholly in the filling after a word has the same value wherever it lies, so one such
window stands for all. D is the character dimension, F the sum of filters, W the width of the widest.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .configuration_elmo import PADDING_CHARACTER
from .fast_products_elmo import (
    Linear,
    in_few_shapes,
    linear_kept,
    linear_once,
    multiply,
    product_kept,
    trained_linear,
    weight_gradient,
)

if TYPE_CHECKING:
    from .character_cnn_elmo import ElmoCharacterEncoder

# Windows of one product: its result, 4 MB in float32 at 2048 filters, should stay in the cache.
WINDOWS_AT_ONCE = 512


def distinct_words(rows: torch.Tensor) -> tuple[list[bytes], torch.Tensor]:
    """Character rows (N, C) -> the distinct words, and each row's number among them (N,).

    A word is its characters in two bytes each, without the filling: equal however wide its row was.
    """
    codes = (rows.cpu().numpy() ^ PADDING_CHARACTER).astype("<i2")  # the filling becomes 0
    # NumPy takes trailing zeros off its byte strings.
    keys = np.ascontiguousarray(codes).view(f"S{2 * codes.shape[1]}").ravel().tolist() if len(codes) else []
    words: dict[bytes, int] = {}
    numbers = [words.setdefault(key, len(words)) for key in keys]
    return list(words), torch.tensor(numbers, dtype=torch.long)


def encode_words(encoder: "ElmoCharacterEncoder", words: list[bytes], device: torch.device) -> torch.Tensor:
    """Words of `distinct_words` -> (words, P), with gradients if they are enabled."""
    width = encoder.config.max_characters_per_token
    lengths = [(len(word) + 1) // 2 for word in words]
    order = sorted(range(len(words)), key=lengths.__getitem__)
    codes = np.frombuffer(b"".join(words[number].ljust(2 * width, b"\0") for number in order), "<i2")
    rows = torch.from_numpy(codes.reshape(-1, width).astype(np.int64) ^ PADDING_CHARACTER).to(device)
    lengths = [lengths[number] for number in order]
    short = sum(length <= width - widest(encoder) for length in lengths)
    pieces = [_encode_short(encoder, rows[:short], lengths[:short])] if short else []
    # A word that leaves no room for a window of mere filling needs all windows that there are, and no others.
    if short < len(words) or not words:
        pieces.append(encoder.encode(rows[short:]))
    back = torch.empty(len(order), dtype=torch.long)
    back[order] = torch.arange(len(order))
    return torch.cat(pieces)[back.to(device)]


def _encode_short(encoder: "ElmoCharacterEncoder", rows: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Words in the order of their lengths, which all leave room for a window of mere filling -> (words, P)."""
    weights, embedding = [conv.weight for conv in encoder.convolutions], encoder.embedding.weight
    steps = _steps_after_convolutions(encoder)
    if torch.is_grad_enabled():
        x = _StrongestWindows.apply(Windows(rows, lengths, widest(encoder)), embedding, _one_weight(weights))
        # Filled up here once, and not for each of the products that follow and their gradients.
        return steps(in_few_shapes(x))[: len(x)]
    product = linear_kept(encoder, "convolutions", *weights, join=_one_weight)
    return steps(strongest_windows(Windows(rows, lengths, widest(encoder)), embedding, product))


def widest(encoder: "ElmoCharacterEncoder") -> int:
    return max(width for width, _ in encoder.config.character_cnn_filters)


def _one_weight(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Weights (n, D, width) -> one for windows of the widest's characters, (F, W * D), zero where a filter ends."""
    width = max(weight.shape[2] for weight in weights)
    return torch.cat([F.pad(weight, (0, width - weight.shape[2])).transpose(1, 2).flatten(1) for weight in weights])


def _steps_after_convolutions(encoder: "ElmoCharacterEncoder") -> Callable[[torch.Tensor], torch.Tensor]:
    """(words, F), the strongest windows without bias -> (words, P)."""
    bias = torch.cat([conv.bias for conv in encoder.convolutions])
    highways = [_product(highway, highway.carry, highway.transform) for highway in encoder.highways]
    projection = None if encoder.projection is None else _product(encoder, encoder.projection)

    def run(x: torch.Tensor) -> torch.Tensor:
        x = encoder.activation(x + bias)
        for highway in highways:
            carry, transform = highway(x).chunk(2, -1)
            x = torch.lerp(x, torch.relu(transform), torch.sigmoid(carry))
        return x if projection is None else projection(x)

    return run


def _product(owner: nn.Module, *linears: nn.Linear) -> Callable[[torch.Tensor], torch.Tensor]:
    """The product by one linear layer, or by several side by side."""
    bias = torch.cat([linear.bias for linear in linears])
    if torch.is_grad_enabled():
        return lambda x: trained_linear(x, torch.cat([linear.weight for linear in linears]), bias)
    product = product_kept(owner, linears)
    return lambda x: product(x, bias)


class Windows:
    """All windows of W characters that the words of a batch need, and their division into products.

    A word of n characters has the windows from 0 to n; the last is mere filling. `rows` are in the order of lengths.
    """

    def __init__(self, rows: torch.Tensor, lengths: Sequence[int], width: int):
        counts = np.asarray(lengths) + 1
        starts = np.cumsum(counts) - counts
        row = np.repeat(np.arange(len(counts)), counts)
        first = torch.from_numpy(row * rows.shape[1] + np.arange(len(row)) - starts[row]).to(rows.device)
        at = first[:, None] + torch.arange(width, device=rows.device)
        self.characters = rows.flatten()[at]  # (windows, W)
        self.words = len(rows)
        self.counts, self.starts = counts.tolist(), [*starts.tolist(), len(row)]

    def chunks(self) -> Iterator[tuple[slice, list[tuple[slice, slice, int]]]]:
        """The windows of each product; in it (words, their windows from the chunk's start, windows of each word)."""
        first = 0
        while first < self.words:
            start, after = self.starts[first], first + 1
            while after < self.words and self.starts[after + 1] - start <= WINDOWS_AT_ONCE:
                after += 1
            groups = []
            for count, run in groupby(range(first, after), self.counts.__getitem__):
                numbers = list(run)
                low, high = numbers[0], numbers[-1] + 1
                groups.append((slice(low, high), slice(self.starts[low] - start, self.starts[high] - start), count))
            yield slice(start, self.starts[after]), groups
            first = after


def strongest_windows(windows: Windows, embedding: torch.Tensor, product: Linear) -> torch.Tensor:
    """For every word each filter's largest value, without its bias: (words, F)."""
    pieces = []
    for chunk, groups in windows.chunks():
        values = product(embedding[windows.characters[chunk]].flatten(1))  # (windows, F)
        pieces += [values[here].unflatten(0, (-1, count)).amax(1) for _, here, count in groups]
    return torch.cat(pieces)


class _StrongestWindows(torch.autograd.Function):
    """`strongest_windows` with gradients, which flow through the windows that won and no others."""

    @staticmethod
    def forward(ctx: Any, windows: Windows, embedding: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        product, pieces, winners = linear_once(weight), [], []
        for chunk, groups in windows.chunks():
            values = product(embedding[windows.characters[chunk]].flatten(1))
            for _, here, count in groups:
                largest, which = values[here].unflatten(0, (-1, count)).max(1)  # (words, F) both
                first = torch.arange(here.start, here.stop, count, device=which.device)
                pieces.append(largest)
                winners.append(which.add_(first[:, None]))
        ctx.windows = windows
        ctx.save_for_backward(embedding, weight, torch.cat(winners))
        return torch.cat(pieces)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_x: torch.Tensor) -> tuple[None, torch.Tensor | None, torch.Tensor | None]:
        embedding, weight, winners = ctx.saved_tensors
        windows, exact = ctx.windows, torch.promote_types(weight.dtype, torch.float32)
        d_embedding = torch.zeros_like(embedding, dtype=exact) if ctx.needs_input_grad[1] else None
        d_weight = torch.zeros_like(weight, dtype=exact) if ctx.needs_input_grad[2] else None
        for chunk, groups in windows.chunks():
            words = slice(groups[0][0].start, groups[-1][0].stop)
            d_values = in_few_shapes(d_x.new_zeros(chunk.stop - chunk.start, d_x.shape[1]))
            d_values.scatter_(0, winners[words], d_x[words])
            characters = windows.characters[chunk]
            if d_weight is not None:
                d_weight += weight_gradient(d_values, in_few_shapes(embedding[characters].flatten(1)))
            if d_embedding is not None:
                of_characters = multiply(d_values, weight.t())[: len(characters)].view(-1, embedding.shape[1])
                d_embedding.index_add_(0, characters.flatten(), of_characters.to(exact))
        if d_embedding is not None:
            d_embedding[0] = 0  # "no token" does not train
            d_embedding = d_embedding.to(embedding.dtype)
        return None, d_embedding, None if d_weight is None else d_weight.to(weight.dtype)
