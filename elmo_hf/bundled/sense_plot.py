"""A picture of words with two senses: how alike their vectors are within a sense and across senses, at every layer."""

import os
from itertools import combinations, product
from typing import Any

import numpy as np

from . import senses
from .sense_test import Separation, separation
from .whitespace_reader import WhitespaceReader, cosines

SAME, OTHER = "#0072B2", "#D55E00"  # colours of Okabe and Ito, for colour-blind readers


def plot_senses(reader: WhitespaceReader, path: str | os.PathLike):
    """Draws all words of the sense test, a panel for each layer.

    Args:
        reader: reads the sentences.
        path: a file, .png or .svg.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError(
            "A picture needs matplotlib, which is not installed: pip install 'elmo-hf[analysis]'."
        ) from None
    tested = [separation(word, lines, reader) for word, lines in senses().items()]
    means = np.array([mean_cosines(result) for result in tested])  # (words, 2, L + 1)
    places = -np.arange(len(tested))
    figure = Figure(figsize=(9.6, 1 + 0.32 * len(tested)), dpi=100, layout="constrained")
    panels: Any = figure.subplots(1, means.shape[-1], sharex=True, sharey=True)
    for layer, axes in enumerate(panels):
        same, other = means[..., layer].T
        axes.hlines(places, other, same, color="#999999", linewidth=2, zorder=1)
        axes.scatter(same, places, c=SAME, s=60, label="two sentences, one sense", zorder=3)
        axes.scatter(other, places, c=OTHER, s=60, marker="^", label="two senses", zorder=2)
        axes.set_title(f"layer {layer}: " + ("letters only" if layer == 0 else "in context"), fontsize=11)
        axes.grid(axis="x", color="#e5e5e5")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        axes.set_xlabel("mean cosine")
    panels[0].set_yticks(places, [f"{result.word} ({' / '.join(result.vectors)})" for result in tested])
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(path)


def mean_cosines(result: Separation) -> np.ndarray:
    """(2, layers): the mean cosine of two vectors of one sense, and of two of different senses.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.bundled.sense_plot import mean_cosines
    >>> from elmo_hf.bundled.sense_test import Separation
    >>> up, right = np.array([[[0.0, 1.0]], [[0.0, 2.0]]]), np.array([[[1.0, 0.0]], [[1.0, 0.0]]])
    >>> mean_cosines(Separation("bank", {"money": up, "river": right}, np.array([8]), 8)).tolist()
    [[1.0], [0.0]]

    ```
    """
    groups = list(result.vectors.values())
    same = [cosines(a, b) for group in groups for a, b in combinations(group, 2)]
    other = [cosines(a, b) for first, second in combinations(groups, 2) for a, b in product(first, second)]
    return np.stack([np.mean(same, 0), np.mean(other, 0)])
