"""The demonstration: what `elmo-hf demo` says, a line at a time, all of it computed while it is read."""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from elmo_hf.language_model.scorer import ElmoScorer

from . import senses, sentences
from .sense_test import Separation, separation
from .whitespace_reader import WhitespaceReader, cosines

# A word in a sentence; the same word in the same sense; and in another. Of the last a capital tells too much.
PAIRS = (
    (
        "She sat down to *play* the piano .",
        "He learned to *play* the guitar .",
        "The *play* ended and the actors bowed .",
    ),
    (
        "The *bank* raised its interest rates .",
        "My *bank* lost a lot of money .",
        "They camped on the *bank* of the river .",
    ),
    ("He *can* swim very well .", "We *can* stay here tonight .", "She opened a *can* of beans ."),
    ("I 'd like to eat an *apple* .", "She cut the *apple* in half .", "I like the products of *Apple* ."),
)
NEIGHBOURS_OF = ("The children *play* in the park .", "The *play* was written by a young poet .")
SUBSTITUTES_FOR = (
    "She opened the *door* and went out .",
    "I drink a cup of *coffee* every morning .",
    "My *mother* is a teacher .",
)
# The marked word does not belong; whether the model finds it is for the model to say.
ODD = (
    "She poured some milk into her *piano* and drank it .",
    "He put on his hat , his coat and his *river* .",
    "The king and the *window* ruled the country together .",
)
NUM_NEIGHBOURS, NUM_SUBSTITUTES = 5, 8
WIDTH = 80


class Marked(NamedTuple):
    """A sentence of words between spaces, and the place of one of them."""

    sentence: str
    place: int

    @property
    def word(self) -> str:
        return self.sentence.split()[self.place]

    def __str__(self) -> str:
        words = self.sentence.split()
        return " ".join([*words[: self.place], f"[{self.word}]", *words[self.place + 1 :]])

    @classmethod
    def of(cls, text: str) -> "Marked":
        """Reads `The *play* ended .`.

        >>> print(Marked.of("The *play* ended ."), Marked.of("The *play* ended .").place)
        The [play] ended . 1
        """
        words = text.split()
        (place,) = (number for number, word in enumerate(words) if re.fullmatch(r"\*.+\*", word))
        words[place] = words[place][1:-1]
        return cls(" ".join(words), place)


def demonstration(scorer: ElmoScorer) -> Iterator[str]:
    """Lines about a language model that reads English.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoScorer, ElmoTokenizer
    >>> from elmo_hf.bundled.demo import demonstration
    >>> words = ["<S>", "</S>", "<UNK>", *(f"word{number}" for number in range(20))]
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=4, cell_size=8, vocab_size=len(words))
    >>> lines = demonstration(ElmoScorer(ElmoForPreTraining(config), ElmoTokenizer(word_vocabulary=words)))
    >>> next(lines)
    '1. One word, two sentences: the cosine of its vectors, layer by layer'

    ```
    """
    reader = WhitespaceReader(scorer.model, scorer.tokenizer)
    parts: tuple[tuple[str, Callable[[], Iterator[str]]], ...] = (
        ("One word, two sentences: the cosine of its vectors, layer by layer", lambda: _pairs(reader)),
        (f"Nearest words in context, among {len(sentences()):,} sentences", lambda: _neighbours(reader)),
        ("Substitutes: what else could stand there; the word itself is not looked at", lambda: _substitutes(scorer)),
        ("What is odd? The word least expected from left and right together", lambda: _odd(scorer)),
        ("Hits and misses: are two of one sense closer than two of different senses?", lambda: _senses(reader)),
    )
    for number, (title, lines) in enumerate(parts, 1):
        yield f"{number}. {title}"
        yield ""
        yield from ("   " + line if line else "" for line in lines())
        yield ""


def _pairs(reader: WhitespaceReader) -> Iterator[str]:
    groups = [[Marked.of(text) for text in group] for group in PAIRS]
    read = iter(reader.read([one.sentence for group in groups for one in group]))
    for number, group in enumerate(groups):
        first, same, other = (next(read)[:, one.place] for one in group)  # (L + 1, 2P)
        found = [cosines(first, same), cosines(first, other)]
        verdict = "hit" if found[0][-1] > found[1][-1] else "miss"
        layers = "" if number else f"{'layer':>6}" + "".join(f"{layer:>6}" for layer in range(len(first)))
        yield f"{group[0]!s:<50}{layers}".rstrip()
        for label, one, values, end in zip(("same", "other"), group[1:], found, ("", f"  {verdict}"), strict=True):
            yield f"  {label:<6}{one!s:<48}" + "".join(f"{value:>6.2f}" for value in values) + end


def _neighbours(reader: WhitespaceReader) -> Iterator[str]:
    pool = sentences()
    words = [Marked(sentence, place) for sentence in pool for place in range(len(sentence.split()))]
    read = [layers[[0, -1]] for layers in reader.read(pool)]  # word vectors, and the top
    below, top = (np.concatenate([layers[number] for layers in read]) for number in (0, 1))
    queries = [Marked.of(text) for text in NEIGHBOURS_OF]
    vectors = [
        layers[:, one.place] for layers, one in zip(reader.read([q.sentence for q in queries]), queries, strict=True)
    ]
    scores = cosines(vectors[0][0], below)
    alike = dict.fromkeys(words[n].word for n in np.argsort(-scores) if words[n].word != queries[0].word)
    yield f"{queries[0].word!r} by its letters alone (layer 0): {', '.join(list(alike)[:NUM_NEIGHBOURS])}"
    for query, vector in zip(queries, vectors, strict=True):
        yield ""
        yield f"{query}"
        scores = cosines(vector[-1], top)
        for number in np.argsort(-scores)[:NUM_NEIGHBOURS]:
            yield f"  {scores[number]:.2f}  {_around(words[number])}"


def _around(one: Marked) -> str:
    """A sentence with its marked word, cut where it is too long for a line."""
    text, longest = str(one), WIDTH - 9
    begin = max(0, text.index("[") + len(one.word) // 2 - longest // 2)
    begin = max(0, min(begin, len(text) - longest))
    cut = text[begin : begin + longest]
    return ("..." + cut[3:] if begin else cut) if begin + longest >= len(text) else cut[: longest - 3] + "..."


def _substitutes(scorer: ElmoScorer) -> Iterator[str]:
    for one in map(Marked.of, SUBSTITUTES_FOR):
        found = scorer.substitutes([one.sentence.split()], [one.place], NUM_SUBSTITUTES, is_split_into_words=True)[0]
        yield f"{one}"
        yield "  " + ", ".join(f"{each.word} {math.exp(each.score):.0%}" for each in found)


def _odd(scorer: ElmoScorer) -> Iterator[str]:
    for one in map(Marked.of, ODD):
        score = scorer.score([one.sentence.split()], is_split_into_words=True)[0]
        bits, unknown = -score.both[1:-1] / math.log(2), score.unknown[1:-1]
        # Of a word that the vocabulary lacks the model only says how likely any such word is.
        found = int(np.where(unknown, -np.inf, bits).argmax())
        yield f"{Marked(one.sentence, found)!s:<60}{bits[found]:>5.1f} bits  {'hit' if found == one.place else 'miss'}"
        words = zip(one.sentence.split(), bits, unknown, strict=True)
        yield "  " + "  ".join(f"{word} {'?' if missing else f'{value:.0f}'}" for word, value, missing in words)


def _senses(reader: WhitespaceReader) -> Iterator[str]:
    tested = [separation(word, lines, reader) for word, lines in senses().items()]
    layers = len(tested[0].right)
    yield f"{'':<42}{'layer':>8}" + "".join(f"{number:>8}" for number in range(layers))
    for one in tested:
        names = f"{one.word}: {', '.join(one.vectors)}"
        yield f"{names:<50}" + "".join(f"{share:>8.0%}" for share in one.right / one.comparisons)
    total = sum_of(tested)
    yield f"{'all':<50}" + "".join(f"{share:>8.1%}" for share in total)


def sum_of(tested: list[Separation]) -> np.ndarray:
    """The share of all comparisons that are right, of each layer."""
    return sum(one.right for one in tested) / sum(one.comparisons for one in tested)
