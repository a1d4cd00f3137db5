"""The report of semantic change as one HTML file: a table, and for words in detail clusters, sentences, a plot."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .semantic_change import ChangeSeries, SemanticChange, WordChange

STYLE = """
:root { --text: #1a1a1a; --muted: #5c5c5c; --page: #ffffff; --panel: #f4f4f2; --line: #d9d9d4;
  --old: #0072b2; --new: #d55e00; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e3; --muted: #a3a39e; --page: #17181a; --panel: #222427; --line: #3a3d41;
    --old: #56b4e9; --new: #f0913f; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 66rem; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { margin-top: 2.5rem; }
h3 { margin: 2rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
.wide { overflow-x: auto; } .muted { color: var(--muted); font-size: .9rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--page); }
th { color: var(--muted); font-weight: 600; }
.word { display: flex; flex-wrap: wrap; gap: 1.5rem; } .word > div { flex: 1 1 24rem; min-width: 0; }
.word > figure { flex: 0 1 18rem; margin: 0; }
svg { width: 100%; height: auto; background: var(--panel); border-radius: 6px; }
.old { color: var(--old); } .new { color: var(--new); } circle.old { fill: var(--old); } path.new { fill: var(--new); }
.cluster { margin: .9rem 0; } .cluster p { margin: .2rem 0 .2rem 1rem; overflow-wrap: anywhere; }
.bar { display: inline-block; height: .7rem; border-radius: 2px; margin-right: .4rem; vertical-align: baseline; }
.bar.old { background: var(--old); } .bar.new { background: var(--new); }
mark { background: none; color: inherit; font-weight: 700; text-decoration: underline; text-underline-offset: 3px; }
"""
EXPLANATION = (
    "<b>APD</b> is the average cosine distance between a use in one corpus and a use in the other, <b>PRT</b> the "
    "cosine distance of the mean vectors, and <b>JSD</b> the Jensen-Shannon divergence of the shares of the clusters, "
    "in bits. <b>p</b> is the result of a permutation test of {measure}, and <b>q</b> the same corrected for the "
    "number of words (Benjamini-Hochberg). The <b>percentile</b> compares {measure} with the words of most similar "
    "frequency."
)
PLOT_WIDTH, PLOT_HEIGHT, MARGIN = 300, 220, 12


def change_report(change: "SemanticChange") -> str:
    """The report of two corpora."""
    old, new = map(html.escape, change.corpora)
    return _page(f"Semantic change: {old} and {new}", _section(change))


def series_report(series: "ChangeSeries") -> str:
    """The report of several corpora: the series of every word, and a section for each step."""
    heads, rows = series.table()
    parts = [_table(heads, rows)]
    for step in series.steps:
        parts.append(f"<h2>{html.escape(step.corpora[0])} and {html.escape(step.corpora[1])}</h2>\n{_section(step)}")
    return _page("Semantic change: " + ", ".join(map(html.escape, series.corpora)), "\n".join(parts))


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _section(change: "SemanticChange") -> str:
    old, new = map(html.escape, change.corpora)
    sizes = "{:,} and {:,}".format(*change.num_words)
    parts = [
        f'<p>{len(change.words):,} words in <span class="old">{old}</span> and <span class="new">{new}</span> '
        f"({sizes} words), ordered by {change.measure.upper()}.</p>",
        f'<p class="muted">{EXPLANATION.format(measure=change.measure.upper())}</p>',
        _table(*change.table()),
        *(_word(word, change.corpora) for word in change.words if word.clusters),
    ]
    if change.left_out:
        reasons = "; ".join(f"{html.escape(word)} ({html.escape(why)})" for word, why in change.left_out.items())
        parts.append(f'<p class="muted">Left out: {reasons}.</p>')
    return "\n".join(parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _word(word: "WordChange", corpora: Sequence[str]) -> str:
    values = ", ".join(f"{name.upper()} {value:.3f}" for name, value in word.values.items())
    left = [f'<p class="muted">{word.uses[0]} uses from each corpus; {values}; q {word.q:.4f}</p>']
    for side, name, substitutes in zip(("old", "new"), corpora, word.substitutes, strict=False):
        words = html.escape(", ".join(substitutes)) or "none"
        left.append(f'<p>Substitutes typical of <span class="{side}">{html.escape(name)}</span>: {words}</p>')
    for number, cluster in enumerate(word.clusters, 1):
        bars = " ".join(
            f'<span class="bar {side}" style="width:{max(6 * share, 0.05):.2f}rem"></span>{share:.0%}&ensp;'
            for side, share in zip(("old", "new"), cluster.shares, strict=True)
        )
        sentences = "".join(f"<p>{_marked(words, place)}</p>" for _, words, place in cluster.sentences)
        left.append(f'<div class="cluster"><b>Cluster {number}</b>&ensp;{bars}{sentences}</div>')
    return (
        f'<h3>{html.escape(word.word)}</h3>\n<div class="word"><div>{"".join(left)}</div>'
        f"<figure>{_scatter(word)}</figure></div>"
    )


def _marked(words: Sequence[str], place: int, width: int = 16) -> str:
    """The words around a use, which is emphasised."""
    start, stop = max(place - width, 0), place + width + 1
    before, after = html.escape(" ".join(words[start:place])), html.escape(" ".join(words[place + 1 : stop]))
    dots = ["… " if start else "", " …" if stop < len(words) else ""]
    return f"{dots[0]}{before} <mark>{html.escape(words[place])}</mark> {after}{dots[1]}"


def _scatter(word: "WordChange") -> str:
    """The uses in two principal components: circles for the old corpus, triangles for the new one."""
    points = word.points
    assert points is not None, "only words in detail are drawn"
    low, span = points.min(0), np.maximum(np.ptp(points, axis=0), 1e-9)
    room = np.array([PLOT_WIDTH, PLOT_HEIGHT]) - 2 * MARGIN
    places = MARGIN + (points - low) / span * room
    shapes = []
    for number, (x, y) in enumerate(places):
        if number < word.uses[0]:
            shapes.append(f'<circle class="old" cx="{x:.1f}" cy="{y:.1f}" r="3" fill-opacity=".6"/>')
        else:
            shapes.append(f'<path class="new" d="M{x:.1f} {y - 4:.1f}l3.5 6h-7z" fill-opacity=".6"/>')
    label = f"uses of {html.escape(word.word, quote=True)} in two principal components"
    return f'<svg viewBox="0 0 {PLOT_WIDTH} {PLOT_HEIGHT}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
