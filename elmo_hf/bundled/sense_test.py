"""Do vectors tell the senses of a word apart? Two of one sense should be closer than two of different senses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .whitespace_reader import WhitespaceReader, cosines


@dataclass(frozen=True)
class Separation:
    """How the senses of one word come apart.

    Args:
        word: the word.
        vectors: of each sense (sentences, layers, size).
        right: of each layer, comparisons in which two of one sense are closer.
        comparisons: how many there are: every vector with every other of its sense against every one of the others.
    """

    word: str
    vectors: dict[str, np.ndarray]
    right: np.ndarray
    comparisons: int


def separation(word: str, sentences: Mapping[str, Sequence[str]], reader: WhitespaceReader) -> Separation:
    """Reads the sentences of each sense, in which the word stands once, and makes all comparisons.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.bundled.whitespace_reader import WhitespaceReader
    >>> from elmo_hf.bundled.sense_test import separation
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=4, cell_size=8))
    >>> found = separation("can", {"may": ["I can go", "we can stay"], "tin": ["a can", "the can"]},
    ...     WhitespaceReader(model, ElmoTokenizer()))
    >>> found.comparisons, len(found.right)
    (8, 3)

    ```
    """
    vectors = {}
    for sense, lines in sentences.items():
        places = [place_of(word, line) for line in lines]
        read = reader.read(lines)
        vectors[sense] = np.stack([layers[:, place] for layers, place in zip(read, places, strict=True)])
    right, comparisons = 0, 0
    for sense, own in vectors.items():
        others = np.concatenate([each for name, each in vectors.items() if name != sense])
        for number, anchor in enumerate(own):
            same = cosines(anchor, np.delete(own, number, 0))  # (S - 1, L + 1)
            different = cosines(anchor, others)
            # The margin: at layer 0 all vectors of a word are one, and rounding would decide.
            right = right + (same[:, None] > different[None] + 1e-6).sum((0, 1))
            comparisons += len(same) * len(different)
    return Separation(word, vectors, right, comparisons)


def place_of(word: str, sentence: str) -> int:
    """Which word of the sentence it is; raises where it stands there not once.

    Example:

    ```python
    >>> from elmo_hf.bundled.sense_test import place_of
    >>> place_of("play", "They play chess .")
    1

    ```
    """
    words = sentence.split()
    if words.count(word) != 1:
        raise ValueError(f"{word!r} stands {words.count(word)} times in {sentence!r}; accepted is once.")
    return words.index(word)
