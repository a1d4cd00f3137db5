"""Weights that PyTorch saved, and the parts of AllenNLP's code that several programs share."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from elmo_hf.model.configuration_elmo import ElmoConfig

from ..sources import SourceError
from ..torch_file import DTYPES, TorchFile
from .entries import Entry, Form


class TorchWeights:
    """A state dictionary as a source of weights; nothing in the file is run.

    Args:
        path: the file.
        where: its name in messages; default: its path.
    """

    def __init__(self, path: Path, where: str | None = None):
        self._file = TorchFile(path, where)
        self.where = self._file.where

    def names(self) -> list[str]:
        """The names of all tensors."""
        return list(self._file.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self._file.tensors[name].shape

    def dtype(self, name: str) -> np.dtype:
        """The type of a tensor as it is read; bfloat16 is read as float32."""
        dtype = self._file.tensors[name].dtype
        return np.dtype("<f4" if dtype == "BFloat16" else DTYPES[dtype])

    def read(self, name: str) -> np.ndarray:
        """A copy of the values of a tensor."""
        return self._file.read(name)

    def dimensions(self, name: str, number: int) -> tuple[int, ...]:
        """The shape of a tensor that must be there and have so many dimensions."""
        if name not in self._file.tensors:
            raise SourceError(f"{self.where} does not hold {name}. Expected it in every such model.")
        shape = self.shape(name)
        if len(shape) != number:
            raise SourceError(f"{self.where}: {name} has the shape {shape}; expected {number} dimensions.")
        return shape

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors


def _swapped(x: np.ndarray) -> np.ndarray:
    """Gates in the order input, forget, candidate, output <-> input, candidate, forget, output."""
    i, f, j, o = np.split(x, 4)
    return np.concatenate([i, j, f, o])


def _bias(x: np.ndarray, forget: float) -> np.ndarray:
    x = x.copy()
    x[2 * len(x) // 4 : 3 * len(x) // 4] += np.float32(forget)
    return x


# (4H, P). AllenNLP's cell adds no 1 to the forget gate at run time: it is in the bias.
GATES = Form(lambda x: (_swapped(x),), _swapped)
GATE_BIAS = Form(lambda x: (_bias(_swapped(x), -1.0),), lambda x: _swapped(_bias(x, 1.0)))
# (2F, F): the transformation, then a gate that is open where ours is closed
HIGHWAY = Form(
    lambda x: (x[: len(x) // 2], -x[len(x) // 2 :]), lambda transform, carry: np.concatenate([transform, -carry])
)
# The file has row 0, which means "no token".
ZERO_ROW_INCLUDED = Form(lambda x: (np.concatenate([np.zeros_like(x[:1]), x[1:]]),), lambda x: x)


def lstm_entries(config: ElmoConfig, prefix: str) -> list[Entry]:
    """The layers of AllenNLP's ElmoLstm, which ELMoForManyLangs uses too."""
    size, cell, entries = config.projection_size, config.cell_size, []
    for layer in range(config.num_hidden_layers):
        for direction in ("forward", "backward"):
            name, ours = f"{prefix}{direction}_layer_{layer}.", f"bilm.{direction}_layers.{layer}."
            entries += [
                Entry(f"{name}input_linearity.weight", (4 * cell, size), (f"{ours}weight_input",), GATES),
                Entry(f"{name}state_linearity.weight", (4 * cell, size), (f"{ours}weight_recurrent",), GATES),
                Entry(f"{name}state_linearity.bias", (4 * cell,), (f"{ours}bias",), GATE_BIAS),
                Entry(f"{name}state_projection.weight", (size, cell), (f"{ours}weight_projection",)),
            ]
    return entries


def lstm_sizes(weights: TorchWeights, prefix: str) -> dict[str, int]:
    """The options of such layers, from their shapes."""
    gates, projection = weights.dimensions(f"{prefix}forward_layer_0.input_linearity.weight", 2)
    layers = count(weights, lambda number: f"{prefix}forward_layer_{number}.input_linearity.weight")
    if gates // 4 == projection:
        raise SourceError(
            f"{weights.where}: cells and projection both have the size {projection}, with a projection between "
            "them. Expected none between equal sizes."
        )
    return {"dim": gates // 4, "projection_dim": projection, "n_layers": layers}


def count(weights: TorchWeights, name: Callable[[int], str]) -> int:
    """How many of `name(0)`, `name(1)`, ... there are."""
    number = 0
    while name(number) in weights:
        number += 1
    return number
