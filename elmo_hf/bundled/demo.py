"""The demonstration, `elmo-hf demo`: lines of text, computed while they are printed."""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from elmo_hf.language_model.scorer import ElmoScorer

from . import senses, sentences
from .sense_test import Separation, separation
from .whitespace_reader import WhitespaceReader, cosines

# A word in a sentence; in the same sense; in another sense. The capital letter of the last one makes it easy.
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
# The marked word does not fit; the demonstration shows which word the model finds.
ODD = (
    "She poured some milk into her *piano* and drank it .",
    "He put on his hat , his coat and his *river* .",
    "The king and the *window* ruled the country together .",
)
NUM_NEIGHBOURS, NUM_SUBSTITUTES = 5, 8
WIDTH = 80


class MarkedSentence(NamedTuple):
    """A sentence of words between spaces, and the position of one of them."""

    sentence: str
    position: int

    @property
    def word(self) -> str:
        """The marked word."""
        return self.sentence.split()[self.position]

    def __str__(self) -> str:
        words = self.sentence.split()
        return " ".join([*words[: self.position], f"[{self.word}]", *words[self.position + 1 :]])

    @classmethod
    def parse(cls, text: str) -> "MarkedSentence":
        """Reads a sentence with one word between asterisks.

        Example:

        ```python
        >>> from elmo_hf.bundled.demo import MarkedSentence
        >>> print(MarkedSentence.parse("The *play* ended ."))
        The [play] ended .

        ```
        """
        words = text.split()
        (position,) = (number for number, word in enumerate(words) if re.fullmatch(r"\*.+\*", word))
        words[position] = words[position][1:-1]
        return cls(" ".join(words), position)


def demonstration(scorer: ElmoScorer, taggers: bool = False) -> Iterator[str]:
    """Lines about a language model that reads English.

    Args:
        scorer: the language model.
        taggers: show the taggers that come with the package, too.

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
    parts: list[tuple[str, Callable[[], Iterator[str]]]] = [
        ("One word, two sentences: the cosine of its vectors, layer by layer", lambda: _pairs(reader)),
        (f"Nearest words in context, among {len(sentences()):,} sentences", lambda: _neighbours(reader)),
        ("Substitutes: the words that fit in its place; the word itself is not read", lambda: _substitutes(scorer)),
        ("The odd word: the least likely one, given the words on both sides", lambda: _odd(scorer)),
        ("Senses: are two of one sense closer than two of different senses?", lambda: _senses(reader)),
    ]
    if taggers:
        from .tagger_demo import tagged_lines

        parts.append(("Taggers: english-pos and english-ner, small heads on the frozen model", tagged_lines))
    for number, (title, lines) in enumerate(parts, 1):
        yield f"{number}. {title}"
        yield ""
        yield from ("   " + line if line else "" for line in lines())
        yield ""


def _pairs(reader: WhitespaceReader) -> Iterator[str]:
    groups = [[MarkedSentence.parse(text) for text in group] for group in PAIRS]
    layers_of_sentences = iter(reader.read([marked.sentence for group in groups for marked in group]))
    for number, group in enumerate(groups):
        first, same, other = (next(layers_of_sentences)[:, marked.position] for marked in group)  # (L + 1, 2P)
        by_layer = [cosines(first, same), cosines(first, other)]
        verdict = "hit" if by_layer[0][-1] > by_layer[1][-1] else "miss"
        header = "" if number else f"{'layer':>6}" + "".join(f"{layer:>6}" for layer in range(len(first)))
        yield f"{group[0]!s:<50}{header}".rstrip()
        for label, marked, values, end in zip(
            ("same", "other"), group[1:], by_layer, ("", f"  {verdict}"), strict=True
        ):
            yield f"  {label:<6}{marked!s:<48}" + "".join(f"{value:>6.2f}" for value in values) + end


def _neighbours(reader: WhitespaceReader) -> Iterator[str]:
    pool = sentences()
    words = [MarkedSentence(sentence, position) for sentence in pool for position in range(len(sentence.split()))]
    vectors = [layers[[0, -1]] for layers in reader.read(pool)]  # token vectors, and the top
    bottom, top = (np.concatenate([layers[number] for layers in vectors]) for number in (0, 1))
    queries = [MarkedSentence.parse(text) for text in NEIGHBOURS_OF]
    read = reader.read([query.sentence for query in queries])
    query_vectors = [layers[:, query.position] for layers, query in zip(read, queries, strict=True)]
    scores = cosines(query_vectors[0][0], bottom)
    similar = dict.fromkeys(words[n].word for n in np.argsort(-scores) if words[n].word != queries[0].word)
    yield f"{queries[0].word!r} by its letters alone (layer 0): {', '.join(list(similar)[:NUM_NEIGHBOURS])}"
    for query, vector in zip(queries, query_vectors, strict=True):
        yield ""
        yield f"{query}"
        scores = cosines(vector[-1], top)
        for number in np.argsort(-scores)[:NUM_NEIGHBOURS]:
            yield f"  {scores[number]:.2f}  {_excerpt(words[number])}"


def _excerpt(marked: MarkedSentence) -> str:
    """A sentence with its marked word, shortened to a line."""
    text, longest = str(marked), WIDTH - 9
    begin = max(0, text.index("[") + len(marked.word) // 2 - longest // 2)
    begin = max(0, min(begin, len(text) - longest))
    cut = text[begin : begin + longest]
    return ("..." + cut[3:] if begin else cut) if begin + longest >= len(text) else cut[: longest - 3] + "..."


def _substitutes(scorer: ElmoScorer) -> Iterator[str]:
    for marked in map(MarkedSentence.parse, SUBSTITUTES_FOR):
        words = marked.sentence.split()
        candidates = scorer.substitutes([words], [marked.position], NUM_SUBSTITUTES, is_split_into_words=True)[0]
        yield f"{marked}"
        yield "  " + ", ".join(f"{candidate.word} {math.exp(candidate.score):.0%}" for candidate in candidates)


def _odd(scorer: ElmoScorer) -> Iterator[str]:
    for marked in map(MarkedSentence.parse, ODD):
        words = marked.sentence.split()
        score = scorer.score([words], is_split_into_words=True)[0]
        bits, unknown = -score.both[1:-1] / math.log(2), score.unknown[1:-1]
        # The probability of <UNK> says nothing about one word that is out of vocabulary.
        odd = int(np.where(unknown, -np.inf, bits).argmax())
        verdict = "hit" if odd == marked.position else "miss"
        yield f"{MarkedSentence(marked.sentence, odd)!s:<60}{bits[odd]:>5.1f} bits  {verdict}"
        rows = zip(words, bits, unknown, strict=True)
        yield "  " + "  ".join(f"{word} {'?' if is_unknown else f'{value:.0f}'}" for word, value, is_unknown in rows)


def _senses(reader: WhitespaceReader) -> Iterator[str]:
    tested = [separation(word, lines, reader) for word, lines in senses().items()]
    layers = len(tested[0].right)
    yield f"{'':<42}{'layer':>8}" + "".join(f"{number:>8}" for number in range(layers))
    for result in tested:
        names = f"{result.word}: {', '.join(result.vectors)}"
        yield f"{names:<50}" + "".join(f"{share:>8.0%}" for share in result.right / result.comparisons)
    yield f"{'all':<50}" + "".join(f"{share:>8.1%}" for share in total_share(tested))


def total_share(tested: list[Separation]) -> np.ndarray:
    """The share of all comparisons that are right, of each layer."""
    return np.sum([result.right for result in tested], 0) / sum(result.comparisons for result in tested)


__all__ = ["MarkedSentence", "demonstration", "total_share"]
