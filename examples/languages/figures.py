"""Print the tables of tagging accuracies that learning_curve.py has measured, and draw the curves of all languages.

    python examples/languages/figures.py examples/languages/measured docs/images/languages.svg

Each file LANGUAGE-COLUMN.tsv in the folder holds the scores of one language.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

from learning_curve import CONDITIONS

NAMES = {
    "sme": "Northern Sámi",
    "ukr": "Ukrainian",
    "hun": "Hungarian",
    "slv": "Slovenian",
    "deu": "German",
    "eng": "English",
}
COLORS = dict(zip(CONDITIONS, ("#9a9a9a", "#41b6c4", "#225ea8", "#d95f0e"), strict=True))
Scores = dict[tuple[str, int], list[tuple[float, float, float]]]  # by condition and number of sentences


def read_scores(path: Path) -> Scores:
    """Reads the scores of one language: accuracy on all words, on unknown and on ambiguous ones."""
    scores = defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for condition, size, _, *values in csv.reader(file, "excel-tab"):
            scores[condition, int(size)].append(tuple(map(float, values)))
    return dict(scores)


def read_all(folder: Path, column: str) -> dict[str, Scores]:
    """Reads the scores of all languages that were measured, in the order of NAMES."""
    files = {code: folder / f"{code}-{column}.tsv" for code in NAMES}
    return {code: read_scores(file) for code, file in files.items() if file.exists()}


def table(languages: dict[str, Scores], number: int = 0) -> str:
    """Returns a table in Markdown; `number` 0 is the accuracy on all words, 1 on unknown and 2 on ambiguous ones."""
    lines = ["| language | sentences | " + " | ".join(CONDITIONS) + " | seeds |", "|---|---|" + "---|" * 5]
    for code, scores in languages.items():
        for size in sorted({size for _, size in scores}):
            cells, seeds = [], set()
            for condition in CONDITIONS:
                values = [100 * score[number] for score in scores.get((condition, size), [])]
                seeds.add(len(values))
                spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
                cells.append(f"{mean(values):.1f}{spread}" if values else "not run")
            least, most = min(seeds), max(seeds)
            cells.append(str(most) if least == most else f"{least}-{most}")
            lines.append(f"| {NAMES[code]} | {size:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(languages: dict[str, Scores], path: Path):
    """Draws a panel for each language: accuracy by the number of training sentences."""
    from matplotlib import pyplot

    pyplot.rcParams |= {"font.family": "sans-serif", "svg.hashsalt": "languages", "axes.spines.top": False}
    pyplot.rcParams |= {"axes.spines.right": False, "font.size": 9}
    columns = min(3, len(languages))
    rows = -(-len(languages) // columns)
    figure, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(3 * columns, 2.5 * rows + 0.4),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis in axes.flat[len(languages) :]:
        axis.set_axis_off()
    largest = max(size for scores in languages.values() for _, size in scores)
    ticks = [size for size in (100, 300, 1000, 3000, 10000) if size <= 1.5 * largest]
    for axis, (code, scores) in zip(axes.flat, languages.items(), strict=False):
        sizes = sorted({size for _, size in scores})
        for condition in CONDITIONS:
            points = [(size, scores[condition, size]) for size in sizes if (condition, size) in scores]
            means = [100 * mean(score[0] for score in values) for _, values in points]
            axis.plot([size for size, _ in points], means, "o-", ms=3.5, color=COLORS[condition], label=condition)
        axis.set_title(NAMES[code], fontsize=10)
        axis.set_xscale("log")
        axis.set_xticks(ticks, [f"{size:,}" for size in ticks])
        axis.minorticks_off()
        axis.grid(axis="y", color="#e0e0e0", lw=0.6)
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy of UPOS, %")
    for axis in axes[-1]:
        axis.set_xlabel("training sentences")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=4, loc="outside upper center", frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
    pyplot.close(figure)


def main(folder: str, picture: str):
    """Prints the tables and draws the picture."""
    for column in ("upos", "feats"):
        languages = read_all(Path(folder), column)
        if languages:
            print(f"{column}, all words\n\n{table(languages)}\n")
            print(f"{column}, words that the training sentences do not have\n\n{table(languages, 1)}\n")
            print(f"{column}, words with several labels in the treebank\n\n{table(languages, 2)}\n")
    draw(read_all(Path(folder), "upos"), Path(picture))


if __name__ == "__main__":
    main(*sys.argv[1:])
