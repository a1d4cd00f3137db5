"""The sense test: two occurrences of a word in one sense should be closer than two in different senses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .whitespace_reader import WhitespaceReader, cosines


@dataclass(frozen=True)
class Separation:
    """The result of the sense test for a word.

    Args:
        word: the word.
        vectors: of each sense (sentences, layers, size).
        right: the number of right comparisons, of each layer.
        comparisons: the number of comparisons: each vector with each other of its sense, against all of other senses.
    """

    word: str
    vectors: dict[str, np.ndarray]
    right: np.ndarray
    comparisons: int


def separation(word: str, sentences: Mapping[str, Sequence[str]], reader: WhitespaceReader) -> Separation:
    """Reads the sentences of each sense, which hold the word once, and makes all comparisons.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.bundled.whitespace_reader import WhitespaceReader
    >>> from elmo_hf.bundled.sense_test import separation
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=4, cell_size=8))
    >>> result = separation("can", {"may": ["I can go", "we can stay"], "tin": ["a can", "the can"]},
    ...     WhitespaceReader(model, ElmoTokenizer()))
    >>> result.comparisons, len(result.right)
    (8, 3)

    ```
    """
    vectors = {}
    for sense, lines in sentences.items():
        positions = [position_of(word, line) for line in lines]
        sentences_layers = reader.read(lines)
        vectors[sense] = np.stack(
            [layers[:, position] for layers, position in zip(sentences_layers, positions, strict=True)]
        )
    right, comparisons = np.zeros((), dtype=np.int64), 0
    for sense, occurrences in vectors.items():
        others = np.concatenate([group for name, group in vectors.items() if name != sense])
        for number, anchor in enumerate(occurrences):
            same = cosines(anchor, np.delete(occurrences, number, 0))  # (S - 1, L + 1)
            different = cosines(anchor, others)
            # The margin: at layer 0 all vectors of a word are equal, and rounding would decide.
            right = right + (same[:, None] > different[None] + 1e-6).sum((0, 1))
            comparisons += len(same) * len(different)
    return Separation(word, vectors, right, comparisons)


def position_of(word: str, sentence: str) -> int:
    """The position of a word in a sentence of words between spaces. The sentence must hold it once.

    Example:

    ```python
    >>> from elmo_hf.bundled.sense_test import position_of
    >>> position_of("play", "They play chess .")
    1

    ```
    """
    words = sentence.split()
    if words.count(word) != 1:
        raise ValueError(
            f"Invalid `sentence`: {sentence!r}. Expected the word {word!r} once; it occurs {words.count(word)} times."
        )
    return words.index(word)
