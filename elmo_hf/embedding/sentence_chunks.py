"""Chunks of sentences: what is read ahead at a time, and what one shard of a store holds.

Where a chunk ends depends on the sentences only: everybody who reads the same text gets the same chunks.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from elmo_hf.text.inputs import Sentence

# What is read ahead, and what one shard of a store holds, at most (but for a single longer sentence).
CHUNK_SENTENCES = 1000
CHUNK_CHARACTERS = 2**16
# So many shards of a store are smaller than the others, each larger than the one before: a short text is work for
# several processes too.
SMALLER_CHUNKS = 4


@dataclass(frozen=True)
class Chunk:
    """Sentences that follow each other: the chunk's number, that of its first sentence, and they themselves."""

    number: int
    first: int
    sentences: list[Sentence]

    def digest(self) -> str:
        """Tells other sentences, or the same ones split otherwise, apart from these."""
        digest = hashlib.blake2b(digest_size=16)
        for sentence in self.sentences:
            pieces = [sentence] if isinstance(sentence, str) else sentence
            lengths = " ".join(map(str, map(len, pieces)))
            text = f"{isinstance(sentence, str):d} {lengths}\n{''.join(pieces)}"
            digest.update(text.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def chunks(
    sentences: Iterable[Sentence],
    most_sentences: int = CHUNK_SENTENCES,
    most_characters: int = CHUNK_CHARACTERS,
    together: int = 1,
    rising: int = 1,
) -> Iterator[Chunk]:
    """Cuts a stream of sentences into chunks.

    Args:
        most_sentences: a chunk ends with so many sentences,
        most_characters: or before the sentence whose characters would be too many.
        together: sentences are taken in groups of so many, which no chunk divides.
        rising: the first chunk has room for this part of most_characters, the second for twice as many, and so on.

    Example:

    ```python
    >>> from elmo_hf.embedding.sentence_chunks import chunks
    >>> [chunk.sentences for chunk in chunks(["a b", "c", "d", "e"], most_sentences=2)]
    [['a b', 'c'], ['d', 'e']]

    ```
    """
    held: list[Sentence] = []
    number, first, characters = 0, 0, 0
    for group in _groups(sentences, together):
        size = sum(map(_characters, group))
        room = most_characters * min(number + 1, rising) // rising
        if held and (len(held) + len(group) > most_sentences or characters + size > room):
            yield Chunk(number, first, held)
            number, first, held, characters = number + 1, first + len(held), [], 0
        held += group
        characters += size
    if held:
        yield Chunk(number, first, held)


def _groups(sentences: Iterable[Sentence], size: int) -> Iterator[list[Sentence]]:
    group: list[Any] = []
    for sentence in sentences:
        if not _is_sentence(sentence):
            raise ValueError(f"Invalid sentence: {sentence!r:.80}. Expected a string or a list of words.")
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
