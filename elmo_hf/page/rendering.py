"""HTML of the page: words as buttons, tables, a heat map, labels in colours. Every word is escaped."""

from collections.abc import Sequence
from html import escape

import numpy as np

from elmo_hf.analysis import WordSurprisal
from elmo_hf.analysis.surprisal import TextSurprisal
from elmo_hf.tasks.annotation.annotator import Annotation
from elmo_hf.tasks.annotation.formats import html_paragraph

from .page_models import WordView

MAX_WORD_CHARACTERS = 30
# Cells of the heat map go from white to dark blue: black text on the light half, white text on the dark one.
LIGHT, DARK = np.array([255, 255, 255]), np.array([8, 48, 107])

STYLE = """
.gradio-container { max-width: 76rem !important; margin: 0 auto !important; }
.elmo { --text: #16181a; --muted: #5a6068; --card: #ffffff; --line: #d7dbe0; --accent: #08306b; --on-accent: #ffffff; }
.dark .elmo { --text: #e7e9ec; --muted: #a4abb3; --card: #1d2126; --line: #3b424a; --accent: #8ec5f0;
  --on-accent: #10151a; }
.elmo { color: var(--text); overflow-wrap: anywhere; }
.elmo p, .elmo h2, .elmo h3, .elmo th, .elmo td, .elmo strong { color: var(--text); }
.elmo h2 { margin: 18px 0 4px; font-size: 1.15em; font-weight: 600; }
.elmo h3 { margin: 0 0 8px; font-size: 1em; font-weight: 600; }
.elmo .muted { color: var(--muted); font-size: .92em; margin: 2px 0 10px; }
.elmo .words { display: flex; flex-wrap: wrap; gap: 6px; margin: 6px 0 12px; padding: 0; }
.elmo button { font: inherit; padding: 6px 10px; min-height: 36px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--card); color: var(--text); cursor: pointer; }
.elmo button:hover { border-color: var(--accent); }
.elmo button[aria-pressed="true"] { background: var(--accent); color: var(--on-accent); }
.elmo button:focus-visible { outline: 3px solid #d55e00; outline-offset: 1px; }
.elmo .cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 14px; }
.elmo .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px;
  min-width: 0; margin: 0 0 14px; }
.elmo .cards .card { margin: 0; }
.elmo .wide { overflow-x: auto; contain: inline-size; }
.elmo table { border-collapse: collapse; width: auto; margin: 0; font-size: .92em; border: 0 !important; }
.elmo tr { border: 0 !important; }
.elmo th, .elmo td { padding: 3px 9px 3px 0; border: 0; border-bottom: 1px solid var(--line); text-align: left;
  font-weight: normal; vertical-align: top; }
.elmo td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.elmo thead th { color: var(--muted); white-space: nowrap; }
.elmo table.heat th, .elmo table.heat td { white-space: nowrap; padding: 4px 7px; border: 1px solid var(--line); }
.elmo table.heat th[scope="row"] { position: sticky; left: 0; background: var(--card); }
.elmo .surprise p { line-height: 2; } .elmo .surprise span { border-radius: 3px; }
.elmo .labels p { line-height: 2.4; margin: 0 0 8px; }
.elmo mark { color: #111; background: hsl(var(--hue) 75% 85%); border-radius: 4px; padding: 3px 5px; }
.elmo mark small { font-size: .72em; font-weight: 600; margin-left: 5px; color: #333; }
.elmo ruby { margin-right: 3px; } .elmo rt { font-size: .62em; color: var(--muted); }
.elmo [role="alert"] { border-left: 4px solid #d55e00; padding: 8px 12px; }
"""
INTRODUCTION = """# What ELMo sees

ELMo reads a sentence in both directions and gives every word a vector that depends on the words around it. Write one
or more sentences, press *Read*, and choose a word: the page shows how surprising each word is, which words would fit
in its place, and where similar uses are."""
LABELS_INTRODUCTION = """A tagger is a small network on top of the same vectors. It labels each word of your sentences:
people, places and organisations, or parts of speech."""


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
    return f'<div class="elmo"><h2>Choose a word</h2>{"".join(rows)}</div>'


def surprisal_html(results: Sequence[WordSurprisal] | None) -> str:
    """The sentences in colours, each word's bits in its title, and what the colours mean."""
    if results is None:
        return _note("This model has no softmax over words, so it cannot say how expected words are.")
    sentences = "".join(result.to_html() for result in results)
    return (
        '<div class="elmo"><h2>Surprisal</h2><p class="muted">Bits that each word takes, given the words on both '
        f'sides: the darker, the less expected.</p><div class="card surprise"><p>{TextSurprisal.legend()}</p>'
        f"{sentences}</div></div>"
    )


def error_html(text: str) -> str:
    """A message for the visitor."""
    return f'<div class="elmo"><p role="alert">{escape(text)}</p></div>'


def _note(text: str) -> str:
    return f'<div class="elmo"><p class="muted">{escape(text)}</p></div>'


def view_html(split: Sequence[Sequence[str]], number: int, place: int, view: WordView) -> str:
    """Everything about one word: substitutes, similar words of the other sentences, neighbours, a heat map."""
    words, cards = split[number], []
    if view.substitutes is not None:
        rows = [[f"{100 * np.exp(substitute.score):.1f}%", _word(substitute.word)] for substitute in view.substitutes]
        cards.append(_card("Words that would fit here", ["share", "word"], rows))
    cards += [_cosines(other, others, values) for other, others, values in view.cosines]
    rows = [[f"{score:.2f}", _context(sentence, at)] for score, sentence, at in view.neighbours]
    cards.append(_card("Nearest words in context (top layer)", ["cosine", "use in a corpus"], rows))
    rows = [[f"{score:.2f}", _word(word)] for word, score in view.context_free]
    cards.append(_card("Nearest words without context (layer 0)", ["cosine", "word"], rows))
    hint = "" if view.cosines else '<p class="muted">Write a second sentence to compare this word with others.</p>'
    return (
        f'<div class="elmo"><h2>“{_word(words[place])}” in sentence {number + 1}</h2>{hint}'
        f'<div class="cards">{"".join(cards)}</div>{_heat_map(words, view.heat, number)}</div>'
    )


def labels_html(annotations: Sequence[Annotation]) -> str:
    """The sentences with the labels of a tagger: spans in colours, other labels above their words."""
    paragraphs = "".join(html_paragraph(annotation, number) for number, annotation in enumerate(annotations))
    has_labels = any(tag != "O" for annotation in annotations for tags in annotation.tags.values() for tag in tags)
    note = "" if has_labels else '<p class="muted">The tagger found nothing to label.</p>'
    return f'<div class="elmo"><div class="card labels">{paragraphs}{note}</div></div>'


def _cosines(other: int, words: Sequence[str], values: np.ndarray) -> str:
    """The words of another sentence that are nearest at the top layer, and their cosines by layer."""
    best = np.argsort(-values[-1], kind="stable")[:4]
    rows = [[_word(words[index]), *(f"{value:.2f}" for value in values[:, index])] for index in best]
    heads = ["word", *(f"layer {layer}" for layer in range(len(values)))]
    return _card(f"Cosines with words of sentence {other + 1}", heads, rows)


def _heat_map(words: Sequence[str], heat: tuple[int, list[str], np.ndarray], number: int) -> str:
    other, others, values = heat
    head = "".join(f'<th scope="col">{_word(word)}</th>' for word in others)
    rows = []
    for word, line in zip(words, values[-1], strict=True):
        cells = "".join(f'<td class="number" style="{_colour(value)}">{value:.2f}</td>' for value in line)
        rows.append(f'<tr><th scope="row">{_word(word)}</th>{cells}</tr>')
    title = f"All words of sentence {number + 1} beside sentence {other + 1}: cosine at the top layer"
    return (
        f'<h2>{title}</h2><div class="wide" tabindex="0" role="region" aria-label="{title}"><table class="heat">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _card(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a title; cells are HTML already."""
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="card"><h3>{title}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></div>"
    )


def _context(words: Sequence[str], place: int) -> str:
    before, after = " ".join(words[max(place - 8, 0) : place]), " ".join(words[place + 1 : place + 9])
    return f"{escape(before)} <strong>{_word(words[place])}</strong> {escape(after)}"


def _word(word: str) -> str:
    return escape(word if len(word) <= MAX_WORD_CHARACTERS else word[: MAX_WORD_CHARACTERS - 3] + "...")


def _colour(value: float) -> str:
    share = min(max(float(value), 0.0), 1.0)
    red, green, blue = (LIGHT + share * (DARK - LIGHT)).round().astype(int)
    return f"background:rgb({red},{green},{blue});color:{'#fff' if share > 0.65 else '#000'}"
