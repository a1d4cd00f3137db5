"""Overlap between texts, found by shingles: runs of ten words that two texts share."""

from collections.abc import Iterable, Iterator

SHINGLE_LENGTH = 10  # words
SHORTEST_DUPLICATE = 6  # words; shorter sentences may be repeated
SHORTEST_HELD_OUT = 4  # words; a shorter sentence may be equal to a held-out one


def shingles(sentence: str) -> Iterator[int]:
    """Hashes of all runs of ten words of a sentence; valid within one process.

    >>> len(list(shingles("a b c d e f g h i j k")))
    2
    """
    words = sentence.split()
    for start in range(len(words) - SHINGLE_LENGTH + 1):
        yield hash(tuple(words[start : start + SHINGLE_LENGTH]))


class HeldOutText:
    """Sentences that training text must not overlap with.

    >>> held_out = HeldOutText(["One two three four five six seven eight nine ten ."])
    >>> held_out.overlaps("He counts : One two three four five six seven eight nine ten")
    True
    >>> held_out.overlaps("One two three .")
    False
    """

    def __init__(self, sentences: Iterable[str] = ()):
        self.sentences: set[str] = set()
        self.shingles: set[int] = set()
        self.add(sentences)

    def add(self, sentences: Iterable[str]):
        """Adds sentences."""
        for sentence in sentences:
            if len(sentence.split()) >= SHORTEST_HELD_OUT:
                self.sentences.add(" ".join(sentence.split()))
            self.shingles.update(shingles(sentence))

    def overlaps(self, sentence: str) -> bool:
        """Whether the sentence is one of these, or shares ten words in a row with one of them."""
        return sentence in self.sentences or any(key in self.shingles for key in shingles(sentence))


def without_overlap(held_out: Iterable[str], training: Iterable[str]) -> Iterator[str]:
    """The held-out sentences that share no shingle with any training sentence.

    >>> list(without_overlap(["a b c d e f g h i j .", "k l m n"], ["so a b c d e f g h i j"]))
    ['k l m n']
    """
    held_out = list(held_out)
    candidates = {key for sentence in held_out for key in shingles(sentence)}
    shared = {key for sentence in training for key in shingles(sentence) if key in candidates}
    return (sentence for sentence in held_out if not any(key in shared for key in shingles(sentence)))
