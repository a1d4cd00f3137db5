"""Encoders of sentences in the networks of tasks: recurrent layers, variational dropout, rows of words.

The networks read words only, moved to the left of their row: neither padding, on whichever side, nor `<S>` and `</S>`
changes anything.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import initialization as init

from elmo_hf.model.modeling_elmo_heads import HeadInput


def word_order(words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the words of each row are.

    Args:
        words: (B, T), True at words.

    Returns:
        (B, W), for W the most words of a row but at least 1: positions, words first in their order; and (B, W), which
        of them are words.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.encoders import word_order
    >>> index, mask = word_order(torch.tensor([[0, 1, 0, 1], [0, 0, 1, 0]]).bool())
    >>> index.tolist(), mask.tolist()
    ([[1, 3], [2, 0]], [[True, True], [True, False]])

    ```
    """
    most = max(int(words.sum(1).max()) if words.numel() else 0, 1)
    index = torch.argsort((~words).long(), dim=1, stable=True)[:, :most]
    return index, words.gather(1, index)


@dataclass
class Words:
    """The words of each row, moved to the left.

    Args:
        x: (B, W, size), zero where there is no word.
        mask: (B, W), True at words.
        output: (B, W, output_size), the mix for the output, or None.
        marks: (B, W), `token_type_ids`, or None.
        index: (B, W), the position of each word in its row.
        length: T, the length of a row.
    """

    x: torch.Tensor
    mask: torch.Tensor
    output: torch.Tensor | None
    marks: torch.Tensor | None
    index: torch.Tensor
    length: int

    def with_output(self, h: torch.Tensor) -> torch.Tensor:
        """`[h; ELMo]`, or `h` without ELMo at the output."""
        return h if self.output is None else torch.cat([h, self.output], -1)

    def scatter(self, x: torch.Tensor) -> torch.Tensor:
        """Vectors (B, W, n) of the words -> (B, T, n) at their positions, zeros elsewhere."""
        return scatter_rows(x, self.mask, self.index, self.length)


def only_words(sentence: HeadInput) -> Words:
    """The words of a sentence, without padding, `<S>` and `</S>`."""
    index, mask = word_order(sentence.words)
    output = None if sentence.output is None else gather_rows(sentence.output, index, mask)
    marks = None if sentence.marks is None else sentence.marks.gather(1, index) * mask
    return Words(gather_rows(sentence.x, index, mask), mask, output, marks, index, sentence.words.shape[1])


def gather_rows(x: torch.Tensor, index: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The vectors (B, W, size) of (B, T, size) at the positions of `word_order`, zeros where there is no word."""
    rows = x.gather(1, index[..., None].expand(-1, -1, x.shape[2]))
    return torch.where(mask[..., None], rows, torch.zeros_like(rows))


def scatter_rows(x: torch.Tensor, mask: torch.Tensor, index: torch.Tensor, length: int) -> torch.Tensor:
    """The vectors (B, W, size) back at their positions in (B, length, size), zeros elsewhere."""
    shown = torch.where(mask[..., None], x, torch.zeros_like(x))
    out = x.new_zeros(x.shape[0], length, x.shape[2])
    return out.scatter(1, index[..., None].expand(-1, -1, x.shape[2]), shown)


def reverse_words(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The vectors (B, W, size) with the words of each row from the last to the first; padding stays behind them.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.encoders import reverse_words
    >>> reverse_words(torch.tensor([[[1], [2], [0]]]), torch.tensor([[True, True, False]])).flatten().tolist()
    [2, 1, 0]

    ```
    """
    place, count = torch.arange(mask.shape[1], device=mask.device), mask.sum(1, keepdim=True)
    index = torch.where(place < count, count - 1 - place, place)  # (B, W)
    return x.gather(1, index[..., None].expand_as(x))


class VariationalDropout(nn.Module):
    """Dropout whose mask is drawn once for each row and dimension, and is the same at every word (Gal and Ghahramani
    2016).

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.encoders import VariationalDropout
    >>> x = VariationalDropout(0.5)(torch.ones(2, 7, 4))
    >>> bool((x == x[:, :1]).all())
    True

    ```
    """

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        if not self.training or not self.p:
            return x
        return x * nn.functional.dropout(torch.ones_like(x[:, :1]), self.p)


# Weights begin in the module that holds them: what is new beside a checkpoint is filled module by module.


class _Recurrent(nn.RNNBase):
    def initial_weights(self):
        for name, parameter in self.named_parameters():
            if "bias" in name:
                init.zeros_(parameter)
            elif "weight_hh" in name:
                init.orthogonal_(parameter)
            else:
                init.xavier_uniform_(parameter)


class _Lstm(_Recurrent, nn.LSTM):
    """An LSTM that knows its first weights."""


class _Gru(_Recurrent, nn.GRU):
    """A GRU that knows its first weights."""


class _Orthogonal(nn.Linear):
    """The gates of a highway LSTM, the second of which is to remember at first."""

    def initial_weights(self):
        init.orthogonal_(self.weight)
        if self.bias is not None:
            size = len(self.bias) // 6
            gates = torch.zeros(6, size)
            gates[1] = 1.0
            init.copy_(self.bias, gates.flatten())


class StackedBiLstm(nn.Module):
    """Layers of an LSTM (or GRU) in both directions, with variational dropout on what each layer reads.

    `h_t = [forward(x_1 ... x_t); backward(x_n ... x_t)]`, layer on layer.

    Args:
        input_size: size of the vectors that come in.
        size: size of one direction; the output has twice this.
        layers: number of layers.
        dropout: of each layer's input.
        cell: `"lstm"` or `"gru"`.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import StackedBiLstm
    >>> h = StackedBiLstm(4, 3, layers=2)(torch.zeros(2, 5, 4), torch.tensor([[1] * 5, [1] * 2 + [0] * 3]).bool())
    >>> tuple(h.shape), bool(h[1, 2:].any())
    ((2, 5, 6), False)

    ```
    """

    def __init__(self, input_size: int, size: int, layers: int = 1, dropout: float = 0.0, cell: str = "lstm"):
        super().__init__()
        kind = {"lstm": _Lstm, "gru": _Gru}[cell]
        sizes = [input_size, *[2 * size] * (layers - 1)]
        self.layers = nn.ModuleList(kind(before, size, batch_first=True, bidirectional=True) for before in sizes)
        self.dropout = VariationalDropout(dropout)
        self.output_size = 2 * size

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, W, input_size), words to the left, and which they are (B, W) -> (B, W, 2 * size), zero elsewhere."""
        for layer in self.layers:
            x = (_read_apart if x.device.type == "cpu" else _read_packed)(layer, self.dropout(x), mask)
        return torch.where(mask[..., None], x, torch.zeros_like(x))


def _read_packed(layer: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    # A row without words is read as one of a zero vector, and forgotten.
    lengths = mask.sum(1).clamp(min=1).cpu()
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=mask.shape[1])[0]


def _read_apart(layer: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The same of each direction by itself, behind whose words padding changes nothing: on a CPU two to four times as
    fast, since only what is not packed is read by oneDNN."""
    read: Any = torch.lstm if layer.mode == "LSTM" else torch.gru
    zeros = x.new_zeros(1, x.shape[0], layer.hidden_size)
    state = (zeros, zeros) if layer.mode == "LSTM" else zeros
    outputs = []
    for rows, weights in ((x, layer.all_weights[0]), (reverse_words(x, mask), layer.all_weights[1])):
        outputs.append(read(rows, state, weights, True, 1, 0.0, layer.training, False, True)[0])
    return torch.cat([outputs[0], reverse_words(outputs[1], mask)], -1)


class InterleavedHighwayLstm(nn.Module):
    """LSTM layers that read forward and backward by turns, each on the one before, with highways between them.

    One step of a layer (He et al. 2017), `m` a dropout mask that is the same at every word:

        i, f, o, r = sigmoid(W [x_t; h_(t-1)] + b)        c~ = tanh(W_c [x_t; h_(t-1)] + b_c)
        c_t = i * c~ + f * c_(t-1)                        h_t = m * (r * o * tanh(c_t) + (1 - r) * W_h x_t)

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf import InterleavedHighwayLstm
    >>> h = InterleavedHighwayLstm(4, 3, layers=2)(torch.zeros(1, 5, 4), torch.ones(1, 5).bool())
    >>> tuple(h.shape)
    (1, 5, 3)

    ```
    """

    def __init__(self, input_size: int, size: int, layers: int, dropout: float = 0.0):
        super().__init__()
        self.size, self.dropout, self.output_size = size, dropout, size
        sizes = [input_size, *[size] * (layers - 1)]
        self.inputs = nn.ModuleList(_Orthogonal(before, 6 * size) for before in sizes)
        self.recurrent = nn.ModuleList(_Orthogonal(size, 5 * size, bias=False) for _ in sizes)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, W, input_size) and which are words (B, W) -> (B, W, size), zero elsewhere."""
        for number, (layer, recurrent) in enumerate(zip(self.inputs, self.recurrent, strict=True)):
            # Words come first, whichever way they are read: what is computed behind them is forgotten.
            backward = number % 2 == 1
            h = self._layer(layer(reverse_words(x, mask) if backward else x), recurrent)
            x = reverse_words(h, mask) if backward else h
        return torch.where(mask[..., None], x, torch.zeros_like(x))

    def _layer(self, gates: torch.Tensor, recurrent: Any) -> torch.Tensor:
        size = self.size
        h = c = gates.new_zeros(gates.shape[0], size)
        mask = nn.functional.dropout(torch.ones_like(h), self.dropout) if self.training and self.dropout else None
        weight, outputs = recurrent.weight.t(), []
        # Taken apart at once: the gradient of one step's slice would be as large as all of them.
        read, passed_on = gates.split([5 * size, size], 2)
        for step_gates, direct in zip(read.unbind(1), passed_on.unbind(1), strict=True):
            sums = torch.addmm(step_gates, h, weight)  # (B, 5 * size)
            i, f, o, r = torch.sigmoid(sums[:, : 4 * size]).chunk(4, 1)
            c = torch.addcmul(f * c, i, torch.tanh(sums[:, 4 * size :]))
            h = torch.lerp(direct, o * torch.tanh(c), r)
            h = h if mask is None else h * mask
            outputs.append(h)
        return torch.stack(outputs, 1)


__all__ = [
    "InterleavedHighwayLstm",
    "StackedBiLstm",
    "VariationalDropout",
    "Words",
    "gather_rows",
    "only_words",
    "reverse_words",
    "scatter_rows",
    "word_order",
]
