"""Drawing with matplotlib: 800 pixels wide, colours that colour-blind people tell apart."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Of Okabe and Ito, the dark ones; each line has a marker of its own too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "osD^vPX"
# From light yellow to dark blue: every step differs in lightness, for colour-blind people and in print.
COLOUR_MAP = "YlGnBu"
WIDTH = 8.0  # inches
DOTS = 100  # an inch
SUFFIXES = (".png", ".svg", ".pdf")
WORDS_A_STRIP = 14
LONGEST_LABEL = 32
# More cannot be read in a picture, and would take minutes to draw.
MOST_WORDS = 300


def new_figure(height: float) -> Any:
    """An empty figure, as wide as all of them; it belongs to no window and to no other figure."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Plots are drawn with matplotlib, which is not installed: pip install 'elmo-hf[analysis]'."
        ) from error
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def check_plot(path: str | os.PathLike):
    """Raises unless it can be drawn to this path, which is better known before an hour of work."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} is not the name of a plot. Expected a name that ends in {', '.join(SUFFIXES)}.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"There is no folder {path.parent} to draw {path.name} in.")
    new_figure(1)


def save(figure: Any, path: str | os.PathLike):
    """Writes a figure; equal figures give equal files."""
    check_plot(path)
    # Without the date, so that the same numbers make the same file.
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(path).suffix.lower())
    figure.savefig(path, metadata=metadata)


def _check_length(words: int):
    if words > MOST_WORDS:
        raise ValueError(f"{words:,} words are too many for a plot. Expected at most {MOST_WORDS}.")


def heat_maps(
    path: str | os.PathLike,
    panels: Sequence[tuple[str, np.ndarray]],
    rows: Sequence[str],
    columns: Sequence[str],
    row_title: str,
    column_title: str,
    colour_title: str,
    limits: tuple[float, float],
):
    """Tables of numbers side by side, one colour scale for all; the numbers are written where there is room."""
    _check_length(max(len(rows), len(columns)))
    rows, columns = _shortened(rows), _shortened(columns)
    # Room for the labels on the left and below, in inches; what is left is shared by the columns.
    left, below = 0.085 * max(map(len, rows)) + 0.4, 0.4
    turned = len(columns) * len(panels) * max(map(len, columns)) * 0.085 > WIDTH - left - 1.2
    if turned:
        below += 0.085 * max(map(len, columns))
    cell = min((WIDTH - left - 1.4) / (len(columns) * len(panels)), 0.7)
    height = max(len(rows) * min(max(cell, 0.24), 0.42) + below + 0.7, 1.8)
    figure = new_figure(height)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    font = 9 if cell > 0.42 else 7
    written = cell > 0.26
    for axis, (title, values) in zip(axes, panels, strict=True):
        image = axis.imshow(values, cmap=COLOUR_MAP, vmin=limits[0], vmax=limits[1], aspect="auto")
        axis.set_title(title, fontsize=11)
        axis.set_xticks(range(len(columns)), columns, rotation=90 if turned else 0, fontsize=9)
        axis.set_xlabel(column_title)
        axis.set_yticks(range(len(rows)), rows, fontsize=9)
        if written:
            _write_numbers(axis, values, limits, font)
    axes[0].set_ylabel(row_title)
    figure.colorbar(image, ax=list(axes), label=colour_title, fraction=0.05, pad=0.02)
    save(figure, path)


def word_strips(path: str | os.PathLike, words: Sequence[str], values: Mapping[str, np.ndarray], colour_title: str):
    """A sentence as strips of words, a row of colours for each kind of value."""
    if not words:
        raise ValueError("The sentence has no words to draw. Expected at least one.")
    _check_length(len(words))
    strips = [range(start, min(start + WORDS_A_STRIP, len(words))) for start in range(0, len(words), WORDS_A_STRIP)]
    longest = min(max(map(len, words)), LONGEST_LABEL)
    figure = new_figure(len(strips) * (0.3 * len(values) + 0.09 * longest + 0.35) + 0.3)
    high = max(max(float(row.max()) for row in values.values()), 1.0)
    axes = figure.subplots(len(strips), 1, squeeze=False)[:, 0]
    for axis, strip in zip(axes, strips, strict=True):
        table = np.full((len(values), min(WORDS_A_STRIP, len(words))), np.nan)
        table[:, : len(strip)] = [row[strip.start : strip.stop] for row in values.values()]
        image = axis.imshow(table, cmap=COLOUR_MAP, vmin=0, vmax=high, aspect="auto")
        axis.set_xticks(range(len(strip)), _shortened(words[strip.start : strip.stop]), rotation=90, fontsize=9)
        axis.set_yticks(range(len(values)), list(values), fontsize=9)
        _write_numbers(axis, table, (0, high), 8, "{:.1f}")
        for side in axis.spines.values():
            side.set_visible(False)
    figure.colorbar(image, ax=list(axes), label=colour_title, fraction=0.05, pad=0.02)
    save(figure, path)


def dots(
    path: str | os.PathLike, panels: Sequence[tuple[str, Sequence[tuple[str, float]]]], axis_title: str, title: str
):
    """Labelled dots from the top down, groups side by side, on an axis that begins near the smallest value."""
    longest = max(len(named) for _, named in panels)
    figure = new_figure(0.3 * max(longest, 1) + 1.3)
    figure.suptitle(_shortened([title], 90)[0], fontsize=11)
    widths = [max([len(label) for label, _ in named] + [10]) for _, named in panels]
    everything = [value for _, named in panels for _, value in named] or [0.0, 1.0]
    margin = max(0.1 * (max(everything) - min(everything)), 0.01)
    axes = figure.subplots(1, len(panels), squeeze=False, sharex=True)[0]
    for axis, (head, named), width in zip(axes, panels, widths, strict=True):
        values = [value for _, value in named]
        axis.plot(values, range(len(values)), linestyle="", marker="o", markersize=7, color=COLOURS[0])
        axis.set_yticks(range(len(values)), _shortened([label for label, _ in named]), fontsize=9 if width < 30 else 8)
        axis.set_ylim(longest - 0.5, -0.5)
        axis.set_xlim(min(everything) - margin, max(everything) + 3 * margin)
        axis.set_title(head, fontsize=10)
        axis.set_xlabel(axis_title)
        axis.grid(alpha=0.3)
        for place, value in enumerate(values):
            axis.text(value + margin / 2, place, f"{value:.2f}", va="center", fontsize=8)
    save(figure, path)


def points(path: str | os.PathLike, names: Sequence[str], groups: Mapping[str, Sequence[float]], axis_title: str):
    """Numbers of the same things by several measures: a row for each thing, a marker for each measure."""
    figure = new_figure(0.36 * len(names) + 1.2)
    axis = figure.subplots()
    for number, (name, values) in enumerate(groups.items()):
        look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        # Markers of equal values stand above each other, and not one on the other.
        places = np.arange(len(names)) + (number - (len(groups) - 1) / 2) * min(0.14, 0.7 / len(groups))
        axis.plot(values, places, linestyle="", markersize=6, label=name, **look)
    axis.set_yticks(range(len(names)), _shortened(names), fontsize=10)
    axis.invert_yaxis()
    axis.set_xlabel(axis_title)
    axis.grid(axis="x", alpha=0.3)
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, fontsize=9)
    save(figure, path)


def curves(path: str | os.PathLike, lines: Mapping[str, Mapping[float, Sequence[float]]], x_title: str, y_title: str):
    """Lines through the means of several numbers at each place of a logarithmic axis; bars from least to greatest."""
    figure = new_figure(4.5)
    axis = figure.subplots()
    for number, (name, values) in enumerate(lines.items()):
        look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        means = np.array([np.mean(numbers) for numbers in values.values()])
        low, high = (np.array([end(numbers) for numbers in values.values()]) for end in (min, max))
        axis.errorbar(list(values), means, np.stack([means - low, high - means]), label=name, capsize=3, **look)
    axis.set_xscale("log")
    ticks = _apart(sorted({place for values in lines.values() for place in values}))
    axis.set_xticks(ticks, [f"{tick:.2g}" if tick < 10 else f"{tick:.0f}" for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlabel(x_title)
    axis.set_ylabel(_shortened([y_title])[0])
    axis.grid(alpha=0.3)
    axis.legend(loc="best", fontsize=10)
    save(figure, path)


def _apart(ticks: Sequence[float]) -> list[float]:
    """The positive numbers whose labels do not overlap on a logarithmic axis, the last among them."""
    least = 0.06 * np.log(ticks[-1] / ticks[0])
    labelled = [ticks[-1]]
    for tick in reversed(ticks[:-1]):
        if np.log(labelled[-1] / tick) >= least:
            labelled.append(tick)
    return labelled[::-1]


def _write_numbers(axis: Any, values: np.ndarray, limits: tuple[float, float], font: int, form: str = "{:.2f}"):
    low, high = limits
    for row, column in np.ndindex(values.shape):
        value = values[row, column]
        if not np.isnan(value):
            # The upper half of the colours is dark.
            colour = "white" if value - low > 0.55 * (high - low) else "black"
            axis.text(column, row, form.format(value), ha="center", va="center", color=colour, fontsize=font)


def _shortened(labels: Sequence[str], longest: int = LONGEST_LABEL) -> list[str]:
    # A dollar would begin a formula.
    cut = (label if len(label) <= longest else label[: longest - 3] + "..." for label in labels)
    return [label.replace("$", r"\$") for label in cut]
