"""How much each layer counts in the mixes of fine-tuned models."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import elmo_hf
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.text.inputs import check_is_list

from .results import AnalysisResult, layer_names


@dataclass
class MixWeights(AnalysisResult):
    """The mixes of one model or of several.

    Args:
        names: of each mix, with its model's where there are several.
        weights: of each mix, one for each layer; they add up to 1.
        gammas: what each mix is multiplied by.
    """

    names: list[str]
    weights: list[list[float]]
    gammas: list[float]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and the rows."""
        rows = zip(self.names, self._rows().tolist(), self.gammas, strict=True)
        layers = layer_names(max(map(len, self.weights)))
        cells = [[name, *(None if np.isnan(x) else x for x in row), gamma] for name, row, gamma in rows]
        return ["mix", *layers, "gamma"], cells

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        rows = zip(self.names, self.weights, self.gammas, strict=True)
        return {"mixes": [{"name": name, "weights": row, "gamma": gamma} for name, row, gamma in rows]}

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        from . import plots

        rows = self._rows()
        columns = layer_names(rows.shape[1])
        plots.heat_maps(
            path,
            [("", rows)],
            self.names,
            columns,
            "mix",
            "",
            "weight",
            (float(rows.min()), max(float(rows.max()), float(rows.min()) + 0.01)),
        )

    def _rows(self) -> np.ndarray:
        """A row for each mix; models of fewer layers end with NaN."""
        table = np.full((len(self.weights), max(map(len, self.weights))), np.nan)
        for row, weights in zip(table, self.weights, strict=True):
            row[: len(weights)] = weights
        return table


def mix_weights(models: Sequence[Any]) -> MixWeights:
    """The layer weights of every mix in models.

    Args:
        models: loaded models, folders, or repositories of the Hub.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForTokenClassification
    >>> from elmo_hf.analysis import mix_weights
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> print(mix_weights([ElmoForTokenClassification(config)]))
    mix              layer 0  layer 1  layer 2  gamma
    elmo.scalar_mix     0.33     0.33     0.33   1.00

    ```
    """
    check_is_list(models, "models", "a list of models or of their names")
    if not models:
        raise ValueError("No model was given. Expected at least one.")
    mixes = MixWeights([], [], [])
    for number, model in enumerate(models):
        named = isinstance(model, (str, os.PathLike))
        loaded = _load(model) if named else model
        prefix = f"{Path(model).name if named else number + 1}: " if len(models) > 1 else ""
        modules = dict(loaded.named_modules())
        for name, weights in loaded.layer_weights().items():
            mixes.names.append(prefix + name)
            mixes.weights.append(weights.detach().tolist())
            gamma = modules[name].gamma  # only a learned mix has one
            mixes.gammas.append(1.0 if gamma is None else float(gamma.detach()))
    return mixes


def _load(name: str | os.PathLike) -> Any:
    architectures = ElmoConfig.from_pretrained(name).architectures or ["ElmoModel"]
    model_class = getattr(elmo_hf, architectures[0], None)
    if model_class is None:
        raise ValueError(f"{name} holds a {architectures[0]}. Expected a model of this package.")
    return model_class.from_pretrained(name)
