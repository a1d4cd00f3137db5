"""Surprisal: how many bits each word takes given what stands left of it, right of it, and on both sides."""

import html
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo_hf.language_model.probabilities import log_probabilities
from elmo_hf.language_model.scorer import ElmoScorer
from elmo_hf.model.tokenization_elmo import UNK

from .results import AnalysisResult

# Light to dark; black is legible on the first four, white on the last two. Told apart without seeing colours.
SHADES = ((255, 255, 255), (254, 237, 200), (253, 208, 140), (252, 165, 85), (190, 75, 10), (110, 35, 0))
BITS_OF_SHADES = (4, 7, 10, 13, 16)


@dataclass
class WordSurprisal(AnalysisResult):
    """The words of one sentence and how many bits each takes: minus the binary logarithm of its probability.

    Args:
        words: the words.
        left: bits given all words before it.
        right: bits given all words after it; None if the model only reads forward.
        both: bits given both: the product of both probabilities, normalised over the vocabulary.
        unknown: which words the vocabulary does not have; they are counted as `<UNK>`.
    """

    words: list[str]
    left: np.ndarray
    right: np.ndarray | None
    both: np.ndarray | None
    unknown: np.ndarray

    @property
    def sides(self) -> dict[str, np.ndarray]:
        """What there is of left, right and both."""
        named = {"left": self.left, "right": self.right, "both": self.both}
        return {name: values for name, values in named.items() if values is not None}

    @property
    def shown(self) -> np.ndarray:
        """What colours show: both sides, or the only one."""
        return self.left if self.both is None else self.both

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and the rows."""
        columns = [values.tolist() for values in self.sides.values()]
        notes = ["not in the vocabulary" if unknown else "" for unknown in self.unknown]
        rows = [list(row) for row in zip(self.words, *columns, notes, strict=True)]
        return ["word", *(f"{name}, bits" for name in self.sides), ""], rows

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        bits = {name: values.tolist() for name, values in self.sides.items()}
        return {"words": self.words, **bits, "unknown": self.unknown.tolist()}

    def coloured(self) -> str:
        """The sentence for a terminal with 24-bit colours, the darker the less expected."""
        parts = []
        for word, bits in zip(self.words, self.shown, strict=True):
            shade = _shade(bits)
            letters = 15 if _is_dark(shade) else 16
            parts.append(f"\x1b[38;5;{letters}m\x1b[48;2;{';'.join(map(str, SHADES[shade]))}m{word}\x1b[0m")
        return " ".join(parts)

    def to_html(self) -> str:
        """The sentence as a paragraph of HTML; the numbers stand in each word's title."""
        spans = []
        for number, word in enumerate(self.words):
            shade = _shade(self.shown[number])
            title = ", ".join(f"{name} {values[number]:.1f}" for name, values in self.sides.items()) + " bits"
            if self.unknown[number]:
                title += ", not in the vocabulary"
            spans.append(f'<span style="{_style(shade)}" title="{title}">{html.escape(word)}</span>')
        return f"<p>{' '.join(spans)}</p>"

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        from . import plots

        plots.word_strips(path, self.words, self.sides, "bits")


def word_surprisal(scorer: ElmoScorer, sentences: Iterable[str | Sequence[str]]) -> Iterator[WordSurprisal]:
    """How expected each word is, for any number of sentences, strings or lists of words, in their order.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoScorer, ElmoTokenizer
    >>> from elmo_hf.analysis import word_surprisal
    >>> words = ["<S>", "</S>", "<UNK>", "cats", "sleep"]
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, vocab_size=len(words))
    >>> scorer = ElmoScorer(ElmoForPreTraining(config), ElmoTokenizer(word_vocabulary=words))
    >>> result = list(word_surprisal(scorer, ["cats purr"]))[0]
    >>> result.words, result.both.shape, result.unknown.tolist()
    (['cats', 'purr'], (2,), [False, True])

    ```
    """
    for ahead in scorer.ahead(sentences):
        yield from _surprisal_of_batch(scorer, ahead)


def _surprisal_of_batch(scorer: ElmoScorer, sentences: list[list[str]]) -> list[WordSurprisal]:
    results: list[Any] = [None] * len(sentences)
    line_of_unknown = scorer.tokenizer.word_lines[UNK]
    for numbers, lines, _, tops in scorer.read(sentences):
        for row, number in enumerate(numbers):
            count = len(sentences[number])
            words = lines[row, 1 : 1 + count]
            # Word p is token p + 1: forward has read up to token p, backward down to token p + 2.
            tops_beside = [top[row, start : start + count] for top, start in zip(tops, (0, 2), strict=False)]
            bits = -log_probabilities(scorer.model, tops_beside, words).cpu().numpy() / math.log(2)
            both, left, right = bits.T if len(tops) == 2 else (None, bits[:, 0], None)
            results[number] = WordSurprisal(sentences[number], left, right, both, (words == line_of_unknown).numpy())
    return results


def _shade(bits: float) -> int:
    return int(np.searchsorted(BITS_OF_SHADES, bits))


def _style(shade: int) -> str:
    return f"background:rgb{SHADES[shade]};color:{'#fff' if _is_dark(shade) else '#000'};padding:0 3px"


def _is_dark(shade: int) -> bool:
    return shade >= len(SHADES) - 2


@dataclass
class TextSurprisal(AnalysisResult):
    """The sentences of a text: on a terminal in colours, and as a page of HTML.

    Args:
        sentences: what `word_surprisal` gives.
    """

    sentences: list[WordSurprisal]

    def __str__(self) -> str:
        # Colours are for people: not in files, and not where they were asked to stay away.
        is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        blocks = (
            f"{sentence.coloured()}\n\n{sentence}" if is_coloured else str(sentence) for sentence in self.sentences
        )
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {"sentences": [sentence.to_dict() for sentence in self.sentences]}

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        if len(self.sentences) != 1:
            raise ValueError(f"The text has {len(self.sentences)} sentences. Expected one for a plot.")
        self.sentences[0].plot(path)

    @staticmethod
    def legend() -> str:
        """What the colours mean, in HTML."""
        keys = [f"up to {bits} bits" for bits in BITS_OF_SHADES] + ["more"]
        return " ".join(f'<span style="{_style(shade)}">{key}</span>' for shade, key in enumerate(keys))

    def to_html(self, title: str = "Surprisal") -> str:
        """A page of sentences, and what their colours mean."""
        legend = self.legend()
        body = "\n".join(sentence.to_html() for sentence in self.sentences)
        title = html.escape(title)
        return (
            f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
            f'<body style="font-family:sans-serif;line-height:1.8;max-width:50em;margin:1em auto;padding:0 1em">\n'
            f"<h1>{title}</h1>\n<p>{legend}</p>\n{body}\n</body></html>\n"
        )
