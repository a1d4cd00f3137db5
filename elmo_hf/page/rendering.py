"""Numbers as HTML: every word is escaped, colours go from light to dark, and numbers stand in them."""

from collections.abc import Sequence
from html import escape

import numpy as np

from elmo_hf.analysis import WordSurprisal
from elmo_hf.analysis.surprisal import TextSurprisal

from .page_models import WordView

LONGEST_WORD = 30
# From white to dark blue: black is legible on the light half, white on the dark one.
LIGHT, DARK = np.array([255, 255, 255]), np.array([8, 48, 107])

STYLE = """
.elmo, .elmo * { color: #111; }
.elmo { background: #fff; padding: 8px; border-radius: 6px; overflow-wrap: anywhere; }
.elmo h3 { margin: 14px 0 6px; font-size: 1.05em; }
.elmo .words { display: flex; flex-wrap: wrap; gap: 6px; margin: 6px 0 12px; padding: 0; }
.elmo button { font: inherit; padding: 6px 9px; min-height: 36px; border: 1px solid #555; border-radius: 6px;
  background: #fff; cursor: pointer; }
.elmo button[aria-pressed="true"] { background: #08306b; color: #fff; }
.elmo button:focus-visible { outline: 3px solid #d55e00; outline-offset: 1px; }
.elmo .wide { overflow-x: auto; max-width: 100%; }
.elmo table { border-collapse: collapse; width: auto; }
.elmo th, .elmo td { padding: 3px 7px; border: 1px solid #ccc; text-align: left; font-weight: normal; }
.elmo td.number { text-align: right; font-variant-numeric: tabular-nums; }
.elmo thead th, .elmo caption { font-weight: bold; text-align: left; }
.elmo [role="alert"] { border-left: 4px solid #d55e00; padding: 8px 12px; }
"""


def words_html(split: Sequence[Sequence[str]], chosen: tuple[int, int] | None = None) -> str:
    """The sentences as rows of buttons."""
    rows = []
    for number, words in enumerate(split):
        buttons = "".join(
            f'<button type="button" data-place="{number}:{place}" '
            f'aria-pressed="{str((number, place) == chosen).lower()}">{_word(word)}</button>'
            for place, word in enumerate(words)
        )
        rows.append(f'<div class="words" role="group" aria-label="Sentence {number + 1}">{buttons}</div>')
    return f'<div class="elmo"><h3>Choose a word</h3>{"".join(rows)}</div>'


def surprisal_html(found: Sequence[WordSurprisal] | None) -> str:
    """The sentences in colours, each word's bits in its title, and what colours mean."""
    if found is None:
        return _note("This model has no softmax over words, so it cannot say how expected they are.")
    legend = TextSurprisal.legend()
    return (
        '<div class="elmo"><h3>Surprise: how many bits each word takes, given the words on both sides</h3>'
        f"<p>{legend}</p>{''.join(one.to_html() for one in found)}</div>"
    )


def error_html(text: str) -> str:
    return f'<div class="elmo"><p role="alert">{escape(text)}</p></div>'


def _note(text: str) -> str:
    return f'<div class="elmo"><p>{escape(text)}</p></div>'


def view_html(split: Sequence[Sequence[str]], number: int, place: int, view: WordView) -> str:
    """Everything about one word."""
    words = split[number]
    parts = [f"<h3>“{_word(words[place])}” in sentence {number + 1}</h3>"]
    parts += [_cosines(other, others, values) for other, others, values in view.cosines]
    if not view.cosines:
        parts.append("<p>Write a second sentence to compare this word with others.</p>")
    parts.append(_heat_map(words, view.heat, number))
    near = [[f"{score:.2f}", _context(sentence, at)] for score, sentence, at in view.neighbours]
    parts.append(_table("Nearest words of a corpus, in context (top layer)", ["cosine", "in context"], near))
    free = [[f"{score:.2f}", _word(word)] for word, score in view.context_free]
    parts.append(_table("Nearest words without context (layer 0)", ["cosine", "word"], free))
    if view.substitutes is not None:
        fit = [[f"{100 * np.exp(one.score):.1f} %", _word(one.word)] for one in view.substitutes]
        parts.append(_table("Words that would fit here", ["share", "word"], fit))
    return f'<div class="elmo">{"".join(parts)}</div>'


def _cosines(other: int, words: Sequence[str], values: np.ndarray) -> str:
    """The words of another sentence that are nearest at the top, and their cosines by layer."""
    best = np.argsort(-values[-1], kind="stable")[:4]
    rows = [[_word(words[one]), *(f"{value:.2f}" for value in values[:, one])] for one in best]
    heads = ["word", *(f"layer {layer}" for layer in range(len(values)))]
    return _table(f"Cosine by layer with words of sentence {other + 1}", heads, rows)


def _heat_map(words: Sequence[str], heat: tuple[int, list[str], np.ndarray], number: int) -> str:
    other, others, values = heat
    head = "".join(f'<th scope="col">{_word(word)}</th>' for word in others)
    rows = []
    for word, line in zip(words, values[-1], strict=True):
        cells = "".join(f'<td class="number" style="{_colour(value)}">{value:.2f}</td>' for value in line)
        rows.append(f'<tr><th scope="row">{_word(word)}</th>{cells}</tr>')
    title = f"All words of sentence {number + 1} beside sentence {other + 1}: cosine at the top layer"
    return (
        f'<h3>{title}</h3><div class="wide" tabindex="0" role="region" aria-label="{title}"><table class="heat">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already."""
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<h3>{title}</h3><div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _context(words: Sequence[str], place: int) -> str:
    before, after = " ".join(words[max(place - 8, 0) : place]), " ".join(words[place + 1 : place + 9])
    return f"{escape(before)} <strong>{_word(words[place])}</strong> {escape(after)}"


def _word(word: str) -> str:
    return escape(word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 3] + "...")


def _colour(value: float) -> str:
    share = min(max(float(value), 0.0), 1.0)
    red, green, blue = (LIGHT + share * (DARK - LIGHT)).round().astype(int)
    return f"background:rgb({red},{green},{blue});color:{'#fff' if share > 0.65 else '#000'}"
