"""Whether the library in C computes what the loop in Python computes; checked once, before it is first used."""

from functools import partial
from typing import Any

import torch

from .cell import cell_, cell_backward_
from .linear import PlainProduct, is_quantized
from .loop import LayerProducts, Packed, through_time
from .mixed_cell import plain_mixed_cell, plain_mixed_cell_backward, run_mixed_cell, run_mixed_cell_backward
from .native import Library
from .native.calls import HighwayCall
from .native_features import NativeFilters, join_filters
from .native_lstm import LayerTask, NativeCell
from .native_product import multiply_few_rows
from .native_weights import NativeWeights
from .steps import Steps


def difference_from_python(library: Library, kind: str) -> float:
    """Between the library and the loop in Python, over small layers with and without projection and clips.

    The largest difference in float32. Of the other kinds of products the mean, because a number halfway between two
    representable ones may be rounded either way.
    """
    lengths = [5, 5, 4, 4, 3, 3, 1, 1]
    batch_sizes = [sum(length > step for length in lengths) for step in range(lengths[0])]
    cell, differences = 2 * library.lanes, []
    for size, clips in ((cell - 3, (3.0, 0.5)), (2 * cell + 5, (0.3, None)), (cell, (None, None))):
        shapes = [(4 * cell, size), (4 * cell, size), (4 * cell,), *([] if size == cell else [(size, cell)])]
        # Larger weights would multiply rounding errors from token to token.
        weights = [*_in_kind([0.3 * _numbers(*shape) for shape in shapes], kind), *([None] if size == cell else [])]
        texts = len(lengths)
        x, h, c = _numbers(sum(lengths), size), _numbers(texts, size), _numbers(texts, cell)
        packed: Packed = (x.bfloat16(), h.bfloat16(), c.bfloat16()) if kind == "bfloat16" else (x, h, c)
        with torch.no_grad():
            exact_bias = [*weights[:2], weights[2].float(), weights[3]]
            products = LayerProducts.of_weights(_RowByRow, exact_bias, clips)
            expected = through_time(products, Steps.of(batch_sizes), *packed)
            task = LayerTask(library, packed, weights, batch_sizes, clips)
            library.run([task.call_with(NativeWeights.of(weights, library))])
        pairs = zip(task.results(), expected, strict=True)
        differences += [(actual.float() - other.float()).abs().nan_to_num(torch.inf) for actual, other in pairs]
    if kind != "float32":
        few_rows = _largest_difference_of_few_rows(library, torch.bfloat16) if kind == "bfloat16" else 0.0
        return max(few_rows, *(float(difference.mean()) for difference in differences))
    of_training = _largest_difference_of_cells(library), _largest_difference_of_mixed_cells(library)
    functions = _largest_difference_of_filters, _largest_difference_of_few_rows, _largest_difference_of_highway
    others = [function(library) for function in (*functions, _wrong_maxima)]
    return max(*(float(difference.max()) for difference in differences), *of_training, *others)


def _in_kind(weights: list[torch.Tensor], kind: str) -> list[Any]:
    """The weights of a layer as a model of this kind has them; the third is the bias."""
    if kind == "int8":
        scales = [weight.abs().amax(-1).div(127) for weight in weights]
        pairs = zip(weights, scales, strict=True)
        return [w if w.dim() == 1 else ((w / scale[:, None]).round().to(torch.int8), scale) for w, scale in pairs]
    return [weight.bfloat16() if kind == "bfloat16" else weight for weight in weights]


def _largest_difference_of_cells(library: Library) -> float:
    """The same for one step of the cell and of its backward pass."""
    rows, size, largest = 3, 2 * library.lanes, 0.0
    for bound in (None, 0.5):
        results = []
        for native in (NativeCell(library), None):
            forward, backward = (cell_, cell_backward_) if native is None else (native.forward, native.backward)
            gates, before = 3 * _numbers(rows, 4 * size), _numbers(rows, size)
            after, d_m, d_c = before.clone(), _numbers(2 * rows, size)[rows:], _numbers(3 * rows, size)[2 * rows :]
            m, d_gates, m_again = forward(gates, after, bound), torch.empty(rows, 4 * size), torch.empty(rows, size)
            backward(d_gates, m_again, gates, before, after, d_m, d_c, bound)
            results.append(torch.cat([gates, after, m, d_gates, d_c, m_again], 1))
        largest = max(largest, float((results[0] - results[1]).abs().nan_to_num(torch.inf).max()))
    return largest


def _largest_difference_of_mixed_cells(library: Library) -> float:
    """The same in mixed precision. Results in bfloat16 may be neighbours where a number lies between two."""
    rows, size, largest = 3, 2 * library.lanes, 0.0
    for bound in (None, 0.5):
        results = []
        for forward, backward in (
            (partial(run_mixed_cell, library), partial(run_mixed_cell_backward, library)),
            (plain_mixed_cell, plain_mixed_cell_backward),
        ):
            gates, bias, before = (3 * _numbers(rows, 4 * size)).bfloat16(), _numbers(4 * size), _numbers(rows, size)
            d_m, d_c = _numbers(2 * rows, size)[rows:].bfloat16(), _numbers(3 * rows, size)[2 * rows :].clone()
            after, d_bias = torch.empty(rows, size), torch.ones(4 * size)
            m, d_gates = torch.empty_like(d_m), torch.empty_like(gates)
            forward(gates, bias, before, after, m, bound)
            backward(gates, bias, before, after, d_m, d_c, d_gates, d_bias, bound)
            results.append((after, d_c, d_bias, m.float(), d_gates.float()))
        for number, (actual, expected) in enumerate(zip(*results, strict=True)):
            difference = (actual - expected).abs()
            if number >= 3:
                difference = (difference - expected.abs() / 128).clamp(min=0)
            largest = max(largest, float(difference.nan_to_num(torch.inf).max()))
    return largest


def _largest_difference_of_filters(library: Library) -> float:
    """The same for the maxima of character filters."""
    weights = [_numbers(library.lanes + 1, 5, 1), _numbers(4 * library.lanes, 5, 3)]
    biases, characters = [_numbers(len(weight)) for weight in weights], _numbers(9, 12, 5)
    counts = torch.arange(1, 10)
    actual = NativeFilters(weights, biases, library)(characters, counts)
    windows = characters.unfold(1, 3, 1).transpose(2, 3).flatten(2)  # (9, 10, 15)
    values = (windows[:, :, None] * join_filters(weights, 3)).sum(-1)  # (9, 10, filters)
    largest = [of_word[:count].amax(0) for of_word, count in zip(values, counts, strict=True)]
    return float((actual - torch.stack(largest) - torch.cat(biases)).abs().nan_to_num(torch.inf).max())


def _largest_difference_of_few_rows(library: Library, dtype: torch.dtype = torch.float32) -> float:
    """The same for products of a few rows. In bfloat16 results are rounded to it."""
    x, weight = _numbers(7, 18 * library.lanes).to(dtype), (_numbers(20, 18 * library.lanes) / 16).to(dtype)
    bias = _numbers(len(weight)).to(dtype)
    expected = _RowByRow(weight)(x, bias.float())
    difference = (multiply_few_rows(library, x, weight, bias).float() - expected).abs()
    if dtype == torch.bfloat16:
        difference = (difference - expected.abs() / 128).clamp(min=0)
    return float(difference.nan_to_num(torch.inf).max())


def _largest_difference_of_highway(library: Library) -> float:
    """The same for the gate of highways."""
    x, transformed, carried = 2 * _numbers(3, 3, 2 * library.lanes - 1)
    y = torch.empty_like(x)
    pointers = (part.data_ptr() for part in (x, transformed, carried, y))
    library.run([HighwayCall(x.shape[1], 0, len(x), *pointers)])
    expected = torch.lerp(x, torch.relu(transformed), torch.sigmoid(carried))
    return float((y - expected).abs().nan_to_num(torch.inf).max())


def _wrong_maxima(library: Library) -> float:
    """How many maxima of the library are others than torch's, or at other places."""
    words, count, filters = 3, 4, library.lanes + 3
    values = _numbers(words * count, filters)
    values[1::4] = values[3::4]  # of equal ones it is the first
    largest, which = torch.empty(words, filters), torch.empty(words, filters, dtype=torch.int64)
    library.strongest(words, count, filters, 0, values.data_ptr(), largest.data_ptr(), which.data_ptr())
    groups = values.view(words, count, filters)
    places = torch.where(groups == groups.amax(1, keepdim=True), torch.arange(count)[:, None], count).amin(1)
    expected = places + torch.arange(0, words * count, count)[:, None]
    return float(((largest != groups.amax(1)) | (which != expected)).sum())


class _RowByRow(PlainProduct):
    """Products without threads, of a weight in float32, bfloat16 or int8; sums are float32 in all of them.

    The check computes hundreds of small products. On a busy machine each would wait for all processors, which would
    delay the first sentence by seconds.
    """

    def __init__(self, weight: Any):
        super().__init__(weight[0] if is_quantized(weight) else weight)
        self.scale = weight[1] if is_quantized(weight) else None

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        scale = torch.ones(1) if self.scale is None else x.abs().amax(1, keepdim=True) / 127
        rows = x.float() if self.scale is None else (x / scale).round()
        y = torch.stack([(self.weight.float() * row).sum(1) for row in rows])
        y = y if self.scale is None else y * scale * self.scale
        return y if bias is None else y + bias

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return other + self(x)

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        y = self(x)
        if self.scale is not None:  # the cell's outputs are rounded twice: what the first product loses has its own
            scale = x.abs().amax(1, keepdim=True) / 127
            y += self(x - (x / scale).round() * scale)
        return (y if bound is None else y.clamp_(-bound, bound)).to(x.dtype)


def _numbers(*shape: int) -> torch.Tensor:
    """Pseudo-random numbers between -1 and 1 that do not change the state of any random generator."""
    k = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64)
    return (k * k * 0.6180339887498949 % 2 - 1).view(shape).float()
