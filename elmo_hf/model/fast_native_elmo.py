"""The loop of one LSTM layer by a small library in C, where somebody brings one: `set_native`.

Nothing here knows where it comes from. It is compared with the loop in Python when it is first needed, and not used
if it differs; the Python loop is what there is otherwise.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from .fast_cell_elmo import cell_, cell_backward_
from .fast_fork_elmo import lock
from .fast_lstm_elmo import LayerProducts, Packed, gate_bias, through_time
from .fast_packing_elmo import Packing
from .fast_products_elmo import PlainLinear, kept
from .fast_threads_elmo import side_by_side

if TYPE_CHECKING:
    from .lstm_elmo import ElmoLstmLayer

# Tokens whose input half of the gates is computed at once: as many as stay in a cache near the processor.
TOKENS_AT_ONCE = 48
# Share of oneDNN's time on one thread with AVX-512, for 1 / 8 / 64 texts: small size 0.4 / 0.6 / 0.8, medium 0.6 /
# 0.65 / 0.85, original 0.75 / 0.85 / 0.95. With more numbers in a weight than LARGE, and narrower vectors or more
# threads than the library takes (one for each direction), it is therefore for few texts at a time only.
LARGE, FEW_ROWS = 2**20, 2
WIDE, DIRECTIONS = 16, 2
# Numbers of the check; outputs and states are at most 3.
LARGEST_DIFFERENCE = 1e-5


class Native(Protocol):
    """What `set_native` takes. Pointers are those of float32 tensors, int32 for `sizes`; 0 stands for none."""

    name: str
    lanes: int  # numbers of a vector; a cell's size has to be a multiple

    def layer(
        self,
        projection: int,
        cell: int,
        of_input: int,
        bias: int,
        of_state: int,
        of_cell: int,
        cell_clip: float,
        projection_clip: float,
        steps: int,
        sizes: int,
        block: int,
        x: int,
        h: int,
        c: int,
        y: int,
        gates: int,
        m: int,
    ): ...

    def cell(self, rows: int, cell: int, cell_clip: float, gates: int, c: int, m: int): ...

    def cell_backward(
        self,
        rows: int,
        cell: int,
        cell_clip: float,
        gates: int,
        before: int,
        after: int,
        d_m: int,
        d_c: int,
        d_gates: int,
        m: int,
    ): ...


_find: Callable[[], Native | None] | None = None
_native: Native | None = None


def set_native(find: Callable[[], Native | None] | None):
    """Names a function that brings the library, or None; it is called when it is first needed."""
    global _find, _native
    _find, _native = find, None


def native() -> Native | None:
    """The library, if there is one and its numbers are those of the loop in Python."""
    global _find, _native
    if _find is not None:
        with lock:
            find, _find = _find, None
            found = None if find is None else find()
            if found is not None:
                difference = _largest_difference(found)
                if difference <= LARGEST_DIFFERENCE:
                    _native = found
                else:
                    warnings.warn(
                        f"The library {found.name} differs from the loop in Python by {difference:.1g}, so it is not "
                        "used. Vectors stay the same, computing takes longer.",
                        RuntimeWarning,
                        stacklevel=2,
                    )
    return _native


@dataclass
class NativeWeights:
    """A layer's weights as the library reads them: LANES units of the cell, or outputs, side by side."""

    of_input: torch.Tensor  # (H / LANES, P, 4, LANES)
    bias: torch.Tensor  # (4H,)
    of_state: torch.Tensor  # (H / LANES, P, 4, LANES)
    of_cell: torch.Tensor | None  # (P / (4 LANES), rounded up, H, 4, LANES)

    @classmethod
    def of(cls, weights: Sequence[torch.Tensor | None], lanes: int) -> "NativeWeights":
        """Weights of input, state, bias, and projection or None."""
        of_input, of_state, bias, of_cell = (None if one is None else one.detach() for one in weights)
        gates = [w.view(4, -1, lanes, w.shape[1]).permute(1, 3, 0, 2).contiguous() for w in (of_input, of_state)]
        if of_cell is not None:
            size, cell = of_cell.shape
            of_cell = torch.cat([of_cell, of_cell.new_zeros(-size % (4 * lanes), cell)])
            of_cell = of_cell.view(-1, 4, lanes, cell).permute(0, 3, 1, 2).contiguous()
        return cls(gates[0], gate_bias(bias), gates[1], of_cell)


def most_texts(layer: "ElmoLstmLayer") -> int | None:
    """Up to how many texts at a time the library is faster than oneDNN's products; None: any number."""
    if layer.weight_input.numel() <= LARGE:
        return None
    wins = native().lanes >= WIDE and torch.get_num_threads() <= DIRECTIONS
    return None if wins else FEW_ROWS


def native_can(layer: "ElmoLstmLayer", x: torch.Tensor, rows: int = 1) -> bool:
    """Whether the library computes this layer for so many texts, without gradients."""
    if x.device.type != "cpu" or x.dtype != torch.float32 or layer.quantized:
        return False
    found = native()
    if found is None or layer.bias.shape[0] % (4 * found.lanes):
        return False
    most = most_texts(layer)
    return most is None or rows <= most


def run_layers(
    layers: Sequence["ElmoLstmLayer"], packing: Packing, given: Sequence[Packed]
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """As `run_layer` for the same layer of each direction; these run side by side where threads are allowed."""
    if not packing.sizes:
        return [(torch.zeros_like(x), h.clone(), c.clone()) for x, h, c in given]
    calls, results = [], []
    for layer, (x, h, c) in zip(layers, given, strict=True):
        names = ["weight_input", "weight_recurrent", "bias", *(["weight_projection"] if layer.projected else [])]
        weights = [getattr(layer, name) for name in names]
        arranged = kept(
            layer,
            f"native {native().lanes}",
            tuple(weights),
            lambda weights=weights: NativeWeights.of([*weights, None][:4], native().lanes),
        )
        call, result = _call(native(), arranged, (layer.cell_clip, layer.projection_clip), packing, x, h, c)
        calls.append(call)
        results.append(result)
    side_by_side(calls)
    return results


@dataclass
class NativeCell:
    """One step of the cell in one pass over memory, as `cell_` and `cell_backward_`; for training."""

    library: Native

    @classmethod
    def of(cls, c: torch.Tensor) -> "NativeCell | None":
        """For cells of this size, if there is a library for them. They are float32 whatever the weights are."""
        if c.device.type != "cpu" or c.dtype == torch.float64:
            return None
        found = native()
        return None if found is None or c.shape[1] % found.lanes else cls(found)

    def forward(self, gates: torch.Tensor, c: torch.Tensor, bound: float | None) -> torch.Tensor:
        if not (gates.is_contiguous() and c.is_contiguous()):
            return cell_(gates, c, bound)
        m = torch.empty_like(c)
        self.library.cell(*c.shape, _clip(bound), gates.data_ptr(), c.data_ptr(), m.data_ptr())
        return m

    def backward(
        self,
        d_gates: torch.Tensor,
        m: torch.Tensor,
        gates: torch.Tensor,
        before: torch.Tensor,
        after: torch.Tensor,
        d_m: torch.Tensor,
        d_c: torch.Tensor,
        bound: float | None,
    ):
        tensors = gates, before, after, d_m, d_c, d_gates, m
        if not all(one.is_contiguous() for one in tensors):
            return cell_backward_(d_gates, m, gates, before, after, d_m, d_c, bound)
        self.library.cell_backward(*d_c.shape, _clip(bound), *(one.data_ptr() for one in tensors))


def _clip(bound: float | None) -> float:
    return -1.0 if bound is None else float(bound)


def _call(
    library: Native,
    weights: NativeWeights,
    clips: tuple[float | None, float | None],
    packing: Packing,
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor,
) -> tuple[Callable[[], None], Packed]:
    """What fills the tensors that come with it: y (N, P) and the states after the text."""
    x = x.contiguous()
    h, c = (part.clone(memory_format=torch.contiguous_format) for part in (h, c))
    y, cell = torch.empty_like(x), c.shape[1]
    gates, m = x.new_empty(TOKENS_AT_ONCE, 4 * cell), x.new_empty(2, packing.sizes[0], cell + library.lanes)
    sizes = torch.tensor(packing.sizes, dtype=torch.int32)
    tensors = x, h, c, y, gates, m
    of_cell = 0 if weights.of_cell is None else weights.of_cell.data_ptr()
    clip, projection_clip = map(_clip, clips)

    def call():
        library.layer(
            x.shape[1],
            cell,
            weights.of_input.data_ptr(),
            weights.bias.data_ptr(),
            weights.of_state.data_ptr(),
            of_cell,
            clip,
            projection_clip,
            len(sizes),
            sizes.data_ptr(),
            TOKENS_AT_ONCE,
            *(tensor.data_ptr() for tensor in tensors),
        )

    return call, (y, h, c)


def _largest_difference(library: Native) -> float:
    """Between the library and the loop in Python, over small layers with and without projection and clips."""
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 0]] * 2).bool()
    packing, cell, largest = Packing.of(mask), 2 * library.lanes, 0.0
    for size, clips in ((cell - 3, (3.0, 0.5)), (2 * cell + 5, (0.3, None)), (cell, (None, 3.0))):
        projects = size != cell
        shapes = [(4 * cell, size), (4 * cell, size), (4 * cell,), (size, cell)]
        # Larger weights would multiply rounding errors from token to token.
        weights = [0.3 * _numbers(*shape) for shape in shapes[: 3 + projects]] + [None] * (not projects)
        x, h, c = (
            _numbers(rows, width)
            for rows, width in ((len(packing.positions), size), (len(mask), size), (len(mask), cell))
        )
        with torch.no_grad():
            products = LayerProducts.of(_RowByRow, weights, clips[0], clips[1] if projects else None)
            expected = through_time(products, packing, x, h, c)
            arranged = NativeWeights.of(weights, library.lanes)
            call, found = _call(library, arranged, (clips[0], clips[1] if projects else None), packing, x, h, c)
            call()
        for one, other in zip(found, expected, strict=True):
            largest = max(largest, float((one - other).abs().nan_to_num(torch.inf).max()))
    return max(largest, _largest_difference_of_cells(library))


def _largest_difference_of_cells(library: Native) -> float:
    """The same for one step of the cell and of its backward pass."""
    rows, size, ways, largest = 3, 2 * library.lanes, (NativeCell(library), None), 0.0
    for bound in (None, 0.5):
        results = []
        for way in ways:
            forward, backward = (cell_, cell_backward_) if way is None else (way.forward, way.backward)
            gates, before = 3 * _numbers(rows, 4 * size), _numbers(rows, size)
            after, d_m, d_c = before.clone(), _numbers(2 * rows, size)[rows:], _numbers(3 * rows, size)[2 * rows :]
            m, d_gates, m_again = forward(gates, after, bound), torch.empty(rows, 4 * size), torch.empty(rows, size)
            backward(d_gates, m_again, gates, before, after, d_m, d_c, bound)
            results.append(torch.cat([gates, after, m, d_gates, d_c, m_again], 1))
        largest = max(largest, float((results[0] - results[1]).abs().nan_to_num(torch.inf).max()))
    return largest


class _RowByRow(PlainLinear):
    """Products without any library's threads: hundreds of small ones, each of which would wait for both processors
    of a busy machine, make the first sentence come seconds later.
    """

    def __call__(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        y = torch.stack([(self.weight * row).sum(1) for row in x])
        return y if bias is None else y + bias

    def add_to(self, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return other + self(x)

    def clipped(self, x: torch.Tensor, bound: float | None) -> torch.Tensor:
        return self(x) if bound is None else self(x).clamp_(-bound, bound)


def _numbers(*shape: int) -> torch.Tensor:
    """Between -1 and 1 in no order, without drawing any: other people's random numbers stay what they are."""
    k = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64)
    return (k * k * 0.6180339887498949 % 2 - 1).view(shape).float()
