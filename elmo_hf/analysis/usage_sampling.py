"""Samples of the uses of words in a corpus: one pass, seeded reservoir sampling, bounded memory."""

import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol

from elmo_hf.text.files import numbered_lines
from elmo_hf.text.inputs import Sentence

# Sentences that are split into words at a time.
SENTENCES_AT_ONCE = 1000
# A longer sentence is cut to this many words around the use, which bounds the memory of a sample.
MAX_SENTENCE_WORDS = 256
# Words above this frequency are function words for the most part.
MAX_PER_MILLION = 1000.0


class Use(NamedTuple):
    """An occurrence of a word in a sentence of a corpus."""

    sentence_number: int
    words: Sequence[str]
    position: int


@dataclass(frozen=True)
class Target:
    """A word to look for, with its forms.

    A form in lower case also matches capitalised and in capitals; any other form matches as written.

    Args:
        name: how results call the word.
        forms: its spellings.
    """

    name: str
    forms: tuple[str, ...]

    def spellings(self) -> set[str]:
        """Every spelling that counts as a use."""
        lowered = [form for form in self.forms if form == form.lower()]
        return {*self.forms, *(form.capitalize() for form in lowered), *(form.upper() for form in lowered)}


@dataclass
class UsageSample:
    """The sampled uses of target words in one corpus.

    Args:
        name: of the corpus.
        num_words: words of the corpus.
        num_sentences: sentences of the corpus.
        counts: how often each target occurs, by name.
        uses: the sampled uses of each target in random order, by name.
    """

    name: str
    num_words: int = 0
    num_sentences: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    uses: dict[str, list[Use]] = field(default_factory=dict)

    def per_million(self, name: str) -> float:
        """Occurrences of a target per million words."""
        return 1e6 * self.counts[name] / max(self.num_words, 1)


class Splitter(Protocol):
    """What splits sentences into words, such as `ElmoEmbedder.words`."""

    def __call__(self, sentences: Sequence[Sentence], /) -> list[list[str]]:
        """The words of each sentence."""


def read_targets(path: str | os.PathLike) -> list[Target]:
    """Reads a file with one target word per line, its forms separated by commas.

    Args:
        path: lines such as `plane,planes`; the first form is the word's name.

    Raises:
        ValueError: the file names no word, or one form belongs to two words.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.analysis import read_targets
    >>> path = pathlib.Path(tempfile.mkdtemp(), "words.txt")
    >>> _ = path.write_text("plane,planes\\ncell\\n")
    >>> [target.forms for target in read_targets(path)]
    [('plane', 'planes'), ('cell',)]

    ```
    """
    targets = []
    for number, line in numbered_lines(path):
        forms = tuple(dict.fromkeys(form.strip() for form in line.split(",") if form.strip()))
        if any(len(form.split()) > 1 for form in forms):
            raise ValueError(f"{path}, line {number}: a form of {line!r:.80} has a space. Expected single words.")
        if forms:
            targets.append(Target(forms[0], forms))
    if not targets:
        raise ValueError(f"{path} names no word. Expected a word per line, with its forms separated by commas.")
    return targets


def spelling_table(targets: Iterable[Target]) -> dict[str, str]:
    """The name of the target that each spelling belongs to.

    Raises:
        ValueError: a spelling belongs to two targets.
    """
    table: dict[str, str] = {}
    for target in targets:
        for spelling in target.spellings():
            if table.setdefault(spelling, target.name) != target.name:
                raise ValueError(f"{spelling!r} is a form of both {table[spelling]!r} and {target.name!r}.")
    return table


def split_sentences(sentences: Iterable[Sentence], split: Splitter | None = None) -> Iterator[list[str]]:
    """The words of each sentence; strings are split by `split`, or at white space without it."""
    iterator = iter(sentences)
    while batch := list(islice(iterator, SENTENCES_AT_ONCE)):
        if split is not None and any(isinstance(sentence, str) for sentence in batch):
            yield from split(batch)
        else:
            yield from (sentence.split() if isinstance(sentence, str) else list(sentence) for sentence in batch)


def count_words(sentences: Iterable[Sequence[str]], progress: Callable[[int], None] | None = None) -> Counter[str]:
    """How often each word occurs, in lower case; only words of letters.

    Args:
        sentences: lists of words.
        progress: called with the number of words of each sentence.
    """
    counts: Counter[str] = Counter()
    for words in sentences:
        counts.update(words)
        if progress is not None:
            progress(len(words))
    lowered: Counter[str] = Counter()
    for word, count in counts.items():
        if word.isalpha():
            lowered[word.lower()] += count
    return lowered


def frequent_targets(
    counts: Sequence[Mapping[str, int]], min_uses: int, top: int, max_per_million: float = MAX_PER_MILLION
) -> list[Target]:
    """The most frequent words that every corpus has often enough.

    Args:
        counts: of the words of each corpus, see `count_words`.
        min_uses: occurrences that a word needs in each corpus.
        top: how many words; the most frequent in the corpus where they are rarer come first.
        max_per_million: more frequent words, which are mostly function words, are left out.
    """
    totals = [max(sum(of_corpus.values()), 1) for of_corpus in counts]
    shared = set.intersection(*(set(of_corpus) for of_corpus in counts))
    lowest = {}
    for word in shared:
        numbers = [of_corpus[word] for of_corpus in counts]
        rates = [1e6 * number / total for number, total in zip(numbers, totals, strict=True)]
        if min(numbers) >= min_uses and max(rates) <= max_per_million:
            lowest[word] = min(rates)
    return [Target(word, (word,)) for word in sorted(lowest, key=lambda word: (-lowest[word], word))[:top]]


def sample_uses(
    sentences: Iterable[Sequence[str]],
    targets: Iterable[Target],
    uses: int = 200,
    seed: int = 0,
    name: str = "corpus",
    progress: Callable[[int], None] | None = None,
) -> UsageSample:
    """Draws uses of target words by reservoir sampling: every use of a word is equally likely to be drawn.

    Args:
        sentences: lists of words.
        targets: the words to look for.
        uses: how many of each word at most.
        seed: of the random numbers; each word has its own, so that the choice of other words changes nothing.
        name: of the corpus.
        progress: called with the number of words of each sentence.

    Example:

    ```python
    >>> from elmo_hf.analysis import Target, sample_uses
    >>> corpus = [["a", "plane", "lands"], ["Planes", "fly"], ["no", "such", "word"]]
    >>> sample = sample_uses(corpus, [Target("plane", ("plane", "planes"))])
    >>> sample.counts["plane"], sorted(use.position for use in sample.uses["plane"])
    (2, [0, 1])

    ```
    """
    table = spelling_table(targets)
    sample = UsageSample(name, uses={target: [] for target in table.values()})
    generators: dict[str, random.Random] = {}
    spellings = table.keys()
    for number, words in enumerate(sentences):
        sample.num_sentences += 1
        sample.num_words += len(words)
        if progress is not None:
            progress(len(words))
        if spellings.isdisjoint(words):
            continue
        words = [*map(sys.intern, words)]  # most of the memory of a sample would be copies of frequent words
        for position, word in enumerate(words):
            target = table.get(word)
            if target is None:
                continue
            sample.counts[target] += 1
            drawn = sample.uses[target]
            if len(drawn) < uses:
                drawn.append(_use(number, words, position))
                continue
            if target not in generators:
                generators[target] = random.Random(f"{seed} {target}")
            slot = generators[target].randrange(sample.counts[target])
            if slot < uses:
                drawn[slot] = _use(number, words, position)
    # A reservoir is not in random order: early occurrences stand in front.
    for target, drawn in sample.uses.items():
        random.Random(f"{seed} {target} order").shuffle(drawn)
    return sample


def _use(number: int, words: Sequence[str], position: int) -> Use:
    if len(words) <= MAX_SENTENCE_WORDS:
        return Use(number, words, position)
    start = min(max(position - MAX_SENTENCE_WORDS // 2, 0), len(words) - MAX_SENTENCE_WORDS)
    return Use(number, words[start : start + MAX_SENTENCE_WORDS], position - start)


def trim_to_same_size(samples: Sequence[UsageSample]):
    """Keeps, in place, as many uses of each word as the corpus with the fewest has; a sample is in random order."""
    for name in samples[0].uses:
        size = min(len(sample.uses[name]) for sample in samples)
        for sample in samples:
            del sample.uses[name][size:]


__all__ = ["Target", "UsageSample", "Use", "count_words", "frequent_targets", "read_targets", "sample_uses"]
