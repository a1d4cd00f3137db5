"""A word in its sentence among the words of a corpus, beside its neighbours without context."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .layer_reader import LayerReader
from .neighbour_index import NeighbourIndex
from .results import AnalysisResult, text_table
from .similarity import check_position, find_word, in_context

# Candidates for each neighbour: sentences are repeated in a corpus, and one may hold several of the nearest words.
CANDIDATES = 20
SHOWN_BESIDE = 40  # letters


@dataclass
class Neighbour:
    """One word of the corpus: its cosine, and where it stands."""

    cosine: float
    sentence: list[str]
    position: int

    @property
    def word(self) -> str:
        """The word itself."""
        return self.sentence[self.position]


@dataclass
class Neighbours(AnalysisResult):
    """The neighbours of one word.

    Args:
        sentence, position: the word that was asked for.
        layer: the layer that was compared.
        in_context: words of the corpus in their sentences, nearest first, a sentence no more than once.
        context_free: frequent words of the corpus that are nearest at layer 0, and their cosines.
    """

    sentence: list[str]
    position: int
    layer: int
    in_context: list[Neighbour]
    context_free: list[tuple[str, float]]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and the rows."""
        rows = [
            [neighbour.cosine, neighbour.word, in_context(neighbour.sentence, neighbour.position, SHOWN_BESIDE)]
            for neighbour in self.in_context
        ]
        return ["cosine", "word", f"in context, layer {self.layer}"], rows

    def __str__(self) -> str:
        free = text_table(["cosine", "word, without context"], [[score, word] for word, score in self.context_free])
        return f"{in_context(self.sentence, self.position)}\n\n{super().__str__()}\n\n{free}"

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {
            "sentence": self.sentence,
            "position": self.position,
            "layer": self.layer,
            "in_context": [
                {
                    "cosine": neighbour.cosine,
                    "word": neighbour.word,
                    "sentence": neighbour.sentence,
                    "position": neighbour.position,
                }
                for neighbour in self.in_context
            ],
            "context_free": [{"cosine": score, "word": word} for word, score in self.context_free],
        }

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        from . import plots

        contexts = [
            (in_context(neighbour.sentence, neighbour.position, 14), neighbour.cosine) for neighbour in self.in_context
        ]
        title = in_context(self.sentence, self.position, SHOWN_BESIDE)
        panels = [(f"in context, layer {self.layer}", contexts), ("without context", self.context_free)]
        plots.dots(path, panels, "cosine", title)


def neighbours(
    index: NeighbourIndex,
    reader: LayerReader,
    sentence: str | Sequence[str],
    word: str | None = None,
    position: int | None = None,
    k: int = 10,
    other_words: bool = False,
) -> Neighbours:
    """The neighbours of a word in its sentence, by an index that was made with the same model.

    Args:
        word: stands in the sentence; the first place is taken.
        position: in place of `word`, its position, from 0.
        k: how many neighbours of each kind.
        other_words: leave out the word itself in other sentences, whatever its case.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.analysis import LayerReader, NeighbourIndex, neighbours
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> reader = LayerReader(ElmoModel(config).eval(), ElmoTokenizer())
    >>> index = NeighbourIndex.build(tempfile.mkdtemp(), reader, ["The bank lends .", "We sat there ."])
    >>> result = neighbours(index, reader, "A bank .", "bank", k=2)
    >>> len(result.in_context), len(result.context_free)
    (2, 2)

    ```
    """
    if (word is None) == (position is None):
        raise ValueError("Invalid arguments. Expected either `word` or `position`.")
    words = reader.words(sentence)
    if word is not None:
        position = find_word(words, word)
    assert position is not None
    check_position(words, position)
    index.check_model(reader)
    layers = next(reader.read([words]))  # (L + 1, T, hidden)
    asked = words[position].casefold()
    nearest, seen, candidates = [], {tuple(words)}, k * CANDIDATES
    while True:
        cosines, numbers = index.nearest(layers[index.layer, position][None], candidates)
        for cosine, number in zip(cosines[0].tolist(), numbers[0], strict=True):
            number, place = map(int, index.places[number])
            other = index.sentence(number)
            if tuple(other) in seen or (other_words and other[place].casefold() == asked):
                continue
            seen.add(tuple(other))
            nearest.append(Neighbour(cosine, other, place))
        if len(nearest) >= k or candidates >= len(index):
            break
        # Too many of the nearest were left out: look further, from the start.
        nearest, seen, candidates = [], {tuple(words)}, candidates * 10
    free = [
        (other_word, score)
        for other_word, score in index.nearest_words(layers[0, position], k + 1)
        if other_word != words[position]
    ]
    return Neighbours(words, position, index.layer, nearest[:k], free[:k])
