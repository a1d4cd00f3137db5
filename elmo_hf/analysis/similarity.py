"""How alike words are in their sentences, layer by layer."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from elmo_hf.text.files import excerpt

from .layer_reader import LayerReader, cosines
from .results import AnalysisResult, layer_names


@dataclass
class WordSimilarity(AnalysisResult):
    """One word in several sentences.

    Args:
        sentences: the words of each sentence.
        positions: where the word stands in each.
        cosines: (L + 1, sentences, sentences).
    """

    sentences: list[list[str]]
    positions: list[int]
    cosines: np.ndarray

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and the rows."""
        rows = [
            [f"{first + 1} and {second + 1}", *(float(layer[first, second]) for layer in self.cosines)]
            for first, second in combinations(range(len(self.sentences)), 2)
        ]
        return ["sentences", *layer_names(len(self.cosines))], rows

    def __str__(self) -> str:
        marked = (in_context(*pair) for pair in zip(self.sentences, self.positions, strict=True))
        return "\n".join([*(f"{number}  {text}" for number, text in enumerate(marked, 1)), "", super().__str__()])

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {"sentences": self.sentences, "positions": self.positions, "cosines": self.cosines.tolist()}

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        from . import plots

        numbers = [str(number) for number in range(1, len(self.sentences) + 1)]
        labels = [
            f"{number}  {in_context(words, place, 10)}"
            for number, words, place in zip(numbers, self.sentences, self.positions, strict=True)
        ]
        panels = list(zip(layer_names(len(self.cosines)), self.cosines, strict=True))
        plots.heat_maps(path, panels, labels, numbers, "", "sentence", "cosine", _limits(self.cosines))


@dataclass
class SentenceSimilarity(AnalysisResult):
    """All words of two sentences.

    Args:
        first, second: the words of the sentences.
        cosines: (L + 1, words of the first, words of the second).
        layer: the one that is printed and drawn.
    """

    first: list[str]
    second: list[str]
    cosines: np.ndarray
    layer: int

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and the rows."""
        rows = zip(self.first, self.cosines[self.layer].tolist(), strict=True)
        return [layer_names(self.layer + 1)[-1], *self.second], [[word, *values] for word, values in rows]

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {
            "first": self.first,
            "second": self.second,
            "layer": self.layer,
            "cosines": self.cosines.tolist(),
        }

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        from . import plots

        shown = self.cosines[self.layer]
        panels = [(layer_names(self.layer + 1)[-1], shown)]
        plots.heat_maps(
            path, panels, self.first, self.second, "first sentence", "second sentence", "cosine", _limits(shown)
        )


def word_similarity(
    reader: LayerReader,
    sentences: Sequence[str | Sequence[str]],
    word: str | None = None,
    positions: Sequence[int] | None = None,
) -> WordSimilarity:
    """How alike one word's vectors are in several sentences.

    Args:
        sentences: two or more, strings or lists of words.
        word: stands in every sentence; its first place in each is taken. Small and capital letters are one if it does
            not stand there as written.
        positions: in place of `word` a position in each sentence, from 0, which lets the words differ.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.analysis import LayerReader, word_similarity
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> reader = LayerReader(ElmoModel(config).eval(), ElmoTokenizer())
    >>> result = word_similarity(reader, ["The bank lends .", "We sat on the bank ."], "bank")
    >>> result.positions, result.cosines.shape, round(float(result.cosines[0, 0, 1]), 4)  # layer 0 sees no context
    ([1, 4], (3, 2, 2), 1.0)

    ```
    """
    if len(sentences) < 2:
        raise ValueError(f"{len(sentences)} sentences were given. Expected two or more.")
    if (word is None) == (positions is None):
        raise ValueError("Invalid arguments. Expected either `word` or `positions`.")
    split = [reader.words(sentence) for sentence in sentences]
    if word is not None:
        positions = [find_word(words, word) for words in split]
    assert positions is not None
    if len(positions) != len(split):
        raise ValueError(f"There are {len(positions)} positions for {len(split)} sentences. Expected one for each.")
    for words, place in zip(split, positions, strict=True):
        check_position(words, place)
    vectors = [layers[:, place] for layers, place in zip(reader.read(split), positions, strict=True)]
    stacked = np.stack(vectors, 1)  # (L + 1, sentences, hidden)
    return WordSimilarity(split, list(positions), cosines(stacked, stacked))


def sentence_similarity(
    reader: LayerReader, first: str | Sequence[str], second: str | Sequence[str], layer: int = -1
) -> SentenceSimilarity:
    """How alike every word of one sentence is to every word of another.

    Args:
        layer: the one that is printed and drawn, from 0, or from -1 for the top; all are computed.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.analysis import LayerReader, sentence_similarity
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> reader = LayerReader(ElmoModel(config).eval(), ElmoTokenizer())
    >>> sentence_similarity(reader, "The bank lends .", "A river").cosines.shape
    (3, 4, 2)

    ```
    """
    first_words, second_words = reader.words(first), reader.words(second)
    if not first_words or not second_words:
        raise ValueError("One of the two sentences has no words. Expected two with at least one word each.")
    layer = chosen_layer(layer, reader.num_layers)
    first_vectors, second_vectors = reader.read([first_words, second_words])
    return SentenceSimilarity(first_words, second_words, cosines(first_vectors, second_vectors), layer)


def chosen_layer(layer: int, number: int) -> int:
    """A layer's number from 0, given one that may count from the end."""
    if not -number <= layer < number:
        raise ValueError(f"Invalid `layer`: {layer}. Expected 0 to {number - 1}, or -1 for the top.")
    return layer % number


def find_word(words: Sequence[str], word: str) -> int:
    """The first place of a word in a sentence, as written or else without regard to case."""
    for form in (str, str.casefold):
        places = [place for place, other in enumerate(words) if form(other) == form(word)]
        if places:
            return places[0]
    where = repr(excerpt(" ".join(words)))
    raise ValueError(f"{excerpt(word)!r} is not among the words of {where}. Expected a word of every sentence.")


def check_position(words: Sequence[str], place: int):
    """Raises ValueError for a position that a sentence does not have."""
    if not 0 <= place < len(words):
        raise ValueError(
            f"There is no position {place} in {excerpt(' '.join(words))!r}. Expected 0 to {len(words) - 1}."
            if words
            else "The sentence has no words. Expected at least one."
        )


def in_context(words: Sequence[str], place: int, width: int | None = None) -> str:
    """The sentence with the word in brackets; with `width` only so many letters on either side.

    Example:

    ```python
    >>> from elmo_hf.analysis.similarity import in_context
    >>> in_context("We sat on the bank of the river .".split(), 4, 10)
    '... on the [bank] of the ...'

    ```
    """
    before, after = " ".join(words[:place]), " ".join(words[place + 1 :])
    if width is not None and len(before) > width:
        before = "... " + before[-width:].partition(" ")[2]
    if width is not None and len(after) > width:
        after = after[:width].rpartition(" ")[0] + " ..."
    return " ".join(part for part in (before.strip(), f"[{words[place]}]", after.strip()) if part)


def _limits(values: np.ndarray) -> tuple[float, float]:
    """Colours begin at 0, or below if there are negative cosines."""
    return min(0.0, float(values.min())), 1.0
