"""Sentences in runs that are worked on as one: a window of what is read ahead, which in a store is a part.

Where a window ends follows from the sentences alone, so that whoever reads the same text finds the same windows.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from elmo_hf.text.inputs import Sentence

# What is read ahead, and what one part of a store holds, at most (but for a single longer sentence).
WINDOW_SENTENCES = 1000
WINDOW_CHARACTERS = 2**16
# So many parts of a store are smaller than the others, each larger than the one before: a short text is work for
# several processes too.
RISING_PARTS = 4


@dataclass(frozen=True)
class Window:
    """Sentences that follow each other: the window's number, that of its first sentence, and they themselves."""

    number: int
    first: int
    sentences: list[Sentence]

    def digest(self) -> str:
        """Tells other sentences, or the same ones split otherwise, apart from these."""
        found = hashlib.blake2b(digest_size=16)
        for sentence in self.sentences:
            pieces = [sentence] if isinstance(sentence, str) else sentence
            lengths = " ".join(map(str, map(len, pieces)))
            text = f"{isinstance(sentence, str):d} {lengths}\n{''.join(pieces)}"
            found.update(text.encode("utf-8", "surrogatepass"))
        return found.hexdigest()


def windows(
    sentences: Iterable[Sentence],
    most_sentences: int = WINDOW_SENTENCES,
    most_characters: int = WINDOW_CHARACTERS,
    together: int = 1,
    rising: int = 1,
) -> Iterator[Window]:
    """Cuts a stream of sentences into windows.

    Args:
        most_sentences: a window ends with so many sentences,
        most_characters: or before the sentence whose characters would be too many.
        together: sentences are taken in groups of so many, which no window divides.
        rising: the first window has room for this part of most_characters, the second for twice as many, and so on.

    Example:

    ```python
    >>> from elmo_hf.embedding.windows import windows
    >>> [window.sentences for window in windows(["a b", "c", "d", "e"], most_sentences=2)]
    [['a b', 'c'], ['d', 'e']]

    ```
    """
    number, first, held, characters = 0, 0, [], 0
    for group in _groups(sentences, together):
        size = sum(map(_characters, group))
        room = most_characters * min(number + 1, rising) // rising
        if held and (len(held) + len(group) > most_sentences or characters + size > room):
            yield Window(number, first, held)
            number, first, held, characters = number + 1, first + len(held), [], 0
        held += group
        characters += size
    if held:
        yield Window(number, first, held)


def _groups(sentences: Iterable[Sentence], size: int) -> Iterator[list[Sentence]]:
    group: list[Any] = []
    for sentence in sentences:
        if not _is_sentence(sentence):
            raise ValueError(f"A sentence is {sentence!r:.80}; accepted are strings and lists of words.")
        group.append(sentence)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _is_sentence(sentence: Any) -> bool:
    if isinstance(sentence, str):
        return True
    if not isinstance(sentence, (list, tuple)):
        return False
    try:
        "".join(sentence)  # all words at once: a look at each would take as long as cutting the text into words
    except TypeError:
        return False
    return True


def _characters(sentence: Sentence) -> int:
    return len(sentence) + 1 if isinstance(sentence, str) else sum(map(len, sentence)) + len(sentence) + 1
