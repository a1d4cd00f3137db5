"""The kernel for `character_features`: each word is computed on its own length, all filters in one product.

A convolution's window that lies wholly in the padding behind a word has the same value wherever it lies, so one such
window stands for all. E is the character dimension, F the number of filters, W the width of the widest.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from .eligibility import is_eager, needs_gradients, share_type_and_device
from .linear import multiply, plain_gradients, training_product, weight_gradient
from .mixed_precision import uses_bfloat16
from .native import library
from .native_features import NativeFilters, join_filters
from .onednn import in_few_shapes
from .prepared import can_fingerprint, prepared

# Windows of one product: its result, 4 MB in float32 at 2048 filters, should stay in the cache.
WINDOWS_AT_ONCE = 512


def character_features(
    plain: Callable,
    rows: torch.Tensor,
    embedding: torch.Tensor,
    filters: Sequence[tuple[torch.Tensor, torch.Tensor]],
    activation: str,
    padding: int | None,
) -> Any:
    """The kernel for `character_features`."""
    weights, biases = zip(*filters, strict=True)
    tensors = [embedding, *weights, *biases]
    if padding is None or not len(rows) or not is_eager([rows, *tensors]) or not share_type_and_device(tensors):
        return NotImplemented
    width = max(weight.shape[2] for weight in weights)
    # Up to the last character that is not padding; the id of padding may also occur inside a word.
    lengths = ((rows != padding) * torch.arange(1, rows.shape[1] + 1, device=rows.device)).amax(1)
    is_short = lengths <= rows.shape[1] - width
    arguments = embedding, weights, biases, activation, uses_bfloat16(tensors)
    with torch.autocast(rows.device.type, enabled=False):
        if is_short.all():
            return _features_of_short(rows, lengths, *arguments)
        # A word too long for a window of padding alone needs all of its windows, and no others.
        is_long = ~is_short
        long = plain(rows[is_long], embedding, filters, activation, padding)
        if is_long.all():
            return long
        short = _features_of_short(rows[is_short], lengths[is_short], *arguments)
        order = is_long.to(torch.uint8).argsort(stable=True)
        return torch.cat([short, long]).index_select(0, order.argsort())


def _features_of_short(
    rows: torch.Tensor,
    lengths: torch.Tensor,
    embedding: torch.Tensor,
    weights: Sequence[torch.Tensor],
    biases: Sequence[torch.Tensor],
    activation: str,
    mixed: bool,
) -> torch.Tensor:
    """Of words behind which there is a window of padding alone."""
    # In place, because a fresh result has memory for spare rows behind it.
    width, activate = max(weight.shape[2] for weight in weights), torch.relu_ if activation == "relu" else torch.tanh_
    tensors, native = [embedding, *weights, *biases], library()
    trains = needs_gradients(tensors)
    if not trains and native is not None and embedding.dtype == torch.float32 and can_fingerprint(tensors):
        with torch.no_grad():
            of_library = prepared("features", [*weights, *biases], lambda: NativeFilters(weights, biases, native))
            return activate(of_library(F.embedding(rows, embedding), lengths + 1))
    order = lengths.argsort(stable=True)
    windows = Windows(rows[order], lengths[order].tolist(), width)
    if trains:
        x = _StrongestWindows.apply(windows, mixed, embedding, join_filters(weights, width))
    else:
        with torch.no_grad():
            product = prepared("filters", weights, lambda: training_product(join_filters(weights, width)))
            x = strongest_windows(windows, embedding, product)
    return activate(x + torch.cat(list(biases))).index_select(0, order.argsort())


class Windows:
    """All windows of W characters that the words of a batch need, and their division into products.

    A word of n characters has the windows from 0 to n; the last is mere padding. `rows` are in the order of lengths.
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


def strongest_windows(windows: Windows, embedding: torch.Tensor, product: Callable) -> torch.Tensor:
    """For every word each filter's largest value, without its bias: (words, F)."""
    pieces = []
    for chunk, groups in windows.chunks():
        values = product(embedding[windows.characters[chunk]].flatten(1))  # (windows, F)
        pieces += [values[span].unflatten(0, (-1, count)).amax(1) for _, span, count in groups]
    return torch.cat(pieces)


def _strongest(values: torch.Tensor, span: slice, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest of each filter's values in `count` rows of `values` for each word, and its row; (words, F) both."""
    native = library() if values.device.type == "cpu" else None
    if native is None or values.dtype == torch.float64 or not values.is_contiguous():
        largest, which = values[span].unflatten(0, (-1, count)).max(1)
        first = torch.arange(span.start, span.stop, count, device=which.device)
        return largest, which.add_(first[:, None])
    # torch takes forty times as long for a maximum with its place as for a maximum.
    exact, words = values[span].float(), (span.stop - span.start) // count
    largest = exact.new_empty(words, values.shape[1])
    which = torch.empty(largest.shape, dtype=torch.int64)
    places = exact.data_ptr(), largest.data_ptr(), which.data_ptr()
    native.strongest(words, count, values.shape[1], span.start, *places)
    return largest.to(values.dtype), which


class _StrongestWindows(torch.autograd.Function):
    """`strongest_windows` with gradients, which flow through the windows that won and no others."""

    @staticmethod
    def forward(
        ctx: Any, windows: Windows, mixed: bool, embedding: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        ctx.windows, ctx.mixed = windows, mixed
        exact_embedding, exact_weight = embedding, weight
        if mixed:
            embedding, weight = embedding.bfloat16(), weight.bfloat16()
        product, pieces, winners = training_product(weight), [], []
        for chunk, groups in windows.chunks():
            values = product(embedding[windows.characters[chunk]].flatten(1))
            for _, span, count in groups:
                largest, which = _strongest(values, span, count)
                pieces.append(largest)
                winners.append(which)
        ctx.save_for_backward(exact_embedding, exact_weight, torch.cat(winners))
        return torch.cat(pieces).float() if mixed else torch.cat(pieces)

    @staticmethod
    def backward(ctx: Any, d_x: torch.Tensor) -> tuple[None, None, torch.Tensor | None, torch.Tensor | None]:
        embedding, weight, winners = ctx.saved_tensors
        windows, exact = ctx.windows, torch.promote_types(weight.dtype, torch.float32)
        if torch.is_grad_enabled():  # gradients that are differentiated again

            def plain(embedding: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
                return strongest_windows(windows, embedding, lambda x: F.linear(x, weight))

            return None, None, *plain_gradients(plain, (embedding, weight), ctx.needs_input_grad[2:], d_x)
        kind = d_x.dtype
        if ctx.mixed:
            d_x, embedding, weight = d_x.bfloat16(), embedding.bfloat16(), weight.bfloat16()
        d_embedding = torch.zeros_like(embedding, dtype=exact) if ctx.needs_input_grad[2] else None
        d_weight = torch.zeros_like(weight, dtype=exact) if ctx.needs_input_grad[3] else None
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
            d_embedding = d_embedding.to(kind)
        return None, None, d_embedding, None if d_weight is None else d_weight.to(kind)
