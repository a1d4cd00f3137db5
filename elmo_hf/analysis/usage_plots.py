"""Plots of the uses of words: two principal components with the shares of clusters, and series over corpora."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .plots import COLOURS, MARKERS, new_figure, save


def plot_uses(path: str | os.PathLike, words: Sequence[Any], corpora: Sequence[str]):
    """A row for each word: its uses in two principal components by corpus, and the shares of its clusters.

    Args:
        path: of a .png, .svg or .pdf file.
        words: with `word`, `points` (N, 2), the corpora in order, and `clusters`.
        corpora: the names of the corpora.
    """
    if not words:
        raise ValueError("There is no word with details to plot. Expected `details` (--details) of at least 1.")
    figure = new_figure(3.2 * len(words) + 0.3)
    axes = figure.subplots(len(words), 2, squeeze=False, width_ratios=(3, 2))
    for row, (word, (scatter, shares)) in enumerate(zip(words, axes, strict=True)):
        _scatter(scatter, word, corpora)
        _cluster_shares(shares, word, corpora, legend=row == 0)
    save(figure, path)


def _scatter(axis: Any, word: Any, corpora: Sequence[str]):
    parts = np.array_split(word.points, len(corpora))
    for number, (name, points) in enumerate(zip(corpora, parts, strict=True)):
        axis.scatter(
            *points.T, s=14, alpha=0.6, color=COLOURS[number], marker=MARKERS[number], label=name, linewidths=0
        )
    _label_components(axis, word.word)


def _label_components(axis: Any, word: str):
    axis.set_title(f"uses of {word!r}".replace("$", r"\$"), fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_xlabel("first principal component", fontsize=8)
    axis.set_ylabel("second", fontsize=8)


def _label_clusters(axis: Any, count: int):
    axis.set_yticks(range(count), [f"cluster {number}" for number in range(1, count + 1)])
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.set_xlabel("% of uses", fontsize=8)


def _cluster_shares(axis: Any, word: Any, corpora: Sequence[str], legend: bool):
    height = 0.8 / len(corpora)
    for number, name in enumerate(corpora):
        values = [100 * cluster.shares[number] for cluster in word.clusters]
        places = np.arange(len(values)) + (number - (len(corpora) - 1) / 2) * height
        axis.barh(places, values, height, color=COLOURS[number], label=name)
    _label_clusters(axis, len(word.clusters))
    if legend and len(corpora) > 1:
        axis.legend(loc="lower right", fontsize=8)


def plot_series(
    path: str | os.PathLike, series: Mapping[str, Sequence[float | None]], corpora: Sequence[str], measure: str
):
    """A line for each word: its change from each corpus to the next."""
    figure = new_figure(4.5)
    axis = figure.subplots()
    places = range(len(corpora) - 1)
    for number, (word, values) in enumerate(series.items()):
        numbers = [np.nan if value is None else value for value in values]
        look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        axis.plot(places, numbers, label=word, linestyle="--" if number >= len(COLOURS) else "-", **look)
    axis.set_xticks(places, [f"{old} to {new}" for old, new in zip(corpora, corpora[1:], strict=False)])
    axis.set_ylabel(measure)
    axis.grid(alpha=0.3)
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, fontsize=9)
    save(figure, path)


def plot_clusters(path: str | os.PathLike, words: Sequence[Any]):
    """A row for each word: its uses in two principal components by cluster, and the shares of the clusters.

    Args:
        path: of a .png, .svg or .pdf file.
        words: with `word`, `points` (N, 2), `labels` (N,) and `clusters`.
    """
    figure = new_figure(3.2 * len(words) + 0.3)
    axes = figure.subplots(len(words), 2, squeeze=False, width_ratios=(3, 2))
    for word, (scatter, shares) in zip(words, axes, strict=True):
        for number in range(len(word.clusters)):
            look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
            scatter.scatter(*word.points[word.labels == number].T, s=14, alpha=0.6, linewidths=0, **look)
        _label_components(scatter, word.word)
        values = [100 * cluster.shares[0] for cluster in word.clusters]
        colours = [COLOURS[number % len(COLOURS)] for number in range(len(values))]
        shares.barh(range(len(values)), values, color=colours)
        _label_clusters(shares, len(values))
    save(figure, path)
