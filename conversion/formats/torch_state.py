"""Weights that PyTorch saved, and the parts of AllenNLP's code that several programs share."""

import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from elmo_hf.model.configuration_elmo import ElmoConfig

from ..sources import SourceError
from .entries import Entry, Form


class TorchWeights:
    """A state dictionary, read without running anything that is in it."""

    def __init__(self, path: Path):
        self.where, self.path = str(path), path
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of old ways of saving, which stay readable
                state = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else "it is damaged"
            raise SourceError(
                f"{path} is refused: it holds more than weights, or is damaged; nothing of it was run ({reason})."
            ) from None
        except (
            AttributeError,
            EOFError,
            IndexError,
            KeyError,
            MemoryError,
            OSError,
            OverflowError,
            RuntimeError,
            TypeError,
            ValueError,
            zipfile.BadZipFile,
        ) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise SourceError(f"{path} is no state of PyTorch, or a damaged one ({reason}).") from None
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise SourceError(f"{path} holds a {type(state).__name__}; accepted is a dictionary of weights by name.")
        wrong = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
        if wrong:
            raise SourceError(f"{path}: {wrong[0]} is a {type(state[wrong[0]]).__name__}; accepted are tensors.")
        self.state = state

    def names(self) -> list[str]:
        return list(self.state)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.state[name].shape)

    def dtype(self, name: str) -> np.dtype:
        kind = self.state[name].dtype
        if kind == torch.bfloat16:
            return np.dtype("f4")
        return np.dtype(str(kind).removeprefix("torch.")) if kind in NUMBERS else np.dtype("O")

    def read(self, name: str) -> np.ndarray:
        value = self.state[name]
        return (value.float() if value.dtype == torch.bfloat16 else value).contiguous().numpy()

    def dimensions(self, name: str, number: int) -> tuple[int, ...]:
        """The shape of what must be there and have so many dimensions."""
        if name not in self.state:
            raise SourceError(f"{self.where} has no {name}, which every such model has.")
        shape = self.shape(name)
        if len(shape) != number:
            raise SourceError(f"{self.where}: {name} has the shape {shape}; expected are {number} dimensions.")
        return shape


NUMBERS = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)


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
# (2F, F): the transformation, then a gate that is open where ours is shut
HIGHWAY = Form(
    lambda x: (x[: len(x) // 2], -x[len(x) // 2 :]), lambda transform, carry: np.concatenate([transform, -carry])
)
# Row 0 is there, and means "no token".
ZERO_ROW_INCLUDED = Form(lambda x: (np.concatenate([np.zeros_like(x[:1]), x[1:]]),), lambda x: x)


def lstm_entries(config: ElmoConfig, prefix: str) -> list[Entry]:
    """The layers of AllenNLP's ElmoLstm, which ELMoForManyLangs has too."""
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
    """The options of such layers, by their shapes."""
    gates, projection = weights.dimensions(f"{prefix}forward_layer_0.input_linearity.weight", 2)
    layers = count(weights, lambda number: f"{prefix}forward_layer_{number}.input_linearity.weight")
    if gates // 4 == projection:
        raise SourceError(
            f"{weights.where}: cells and projection both have the size {projection}, with a projection between "
            "them; such a model is accepted only without one."
        )
    return {"dim": gates // 4, "projection_dim": projection, "n_layers": layers}


def count(weights: TorchWeights, name: Callable[[int], str]) -> int:
    """How many of `name(0)`, `name(1)`, ... there are."""
    number = 0
    while name(number) in weights.state:
        number += 1
    return number
