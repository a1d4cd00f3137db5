"""Vocabularies of the softmax: built from counts, sorted by frequency, compared with a corpus."""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from elmo_hf.model.tokenization_elmo import BOS, EOS, UNK, ElmoTokenizer
from elmo_hf.pretraining.corpus import BEGIN, MARKS, Corpus

SPECIALS = (BOS, EOS, UNK)
# A vocabulary whose order agrees less than this with the corpus's counts is not sorted by frequency.
LEAST_AGREEMENT = 0.3


def build_vocabulary(
    words: Iterable[str], counts: Iterable[int], min_count: int = 1, max_size: int | None = None
) -> list[str]:
    """Returns `<S> </S> <UNK>` and words by falling frequency; words of equal counts are in alphabetical order.

    Args:
        words, counts: each word and its count.
        min_count: minimum count of a word.
        max_size: maximum number of lines, special words included.

    Example:

    ```python
    >>> from elmo_hf.pretraining import build_vocabulary
    >>> build_vocabulary(["b", "the", "a"], [2, 9, 2], max_size=5)
    ['<S>', '</S>', '<UNK>', 'the', 'a']

    ```
    """
    taken = sorted(
        (-count, word)
        for word, count in zip(words, counts, strict=True)
        if count >= min_count and word not in SPECIALS + MARKS
    )
    vocabulary = [*SPECIALS, *(word for _, word in taken)][:max_size]
    if len(vocabulary) <= len(SPECIALS):
        raise ValueError(
            f"No word of the corpus occurs {min_count} times or more"
            f"{'' if max_size is None else f', or a vocabulary of {max_size} lines is too small'}. Expected a "
            "lower --min-count or a higher --max-size. If the words look wrong, `elmo-hf splitting` shows others."
        )
    return vocabulary


def extend_vocabulary(vocabulary: Sequence[str], corpus: Corpus, min_count: int, max_size: int | None) -> list[str]:
    """Appends words of the corpus to the vocabulary, the most frequent first."""
    known = set(vocabulary)
    words, counts = corpus.words, corpus.counts.tolist()
    try:
        corpus_words = build_vocabulary(words, counts, min_count)[len(SPECIALS) :]
    except ValueError:
        corpus_words = []
    new_words = [word for word in corpus_words if word not in known]
    return [*vocabulary, *new_words][: max(max_size or 2**62, len(vocabulary))]


def line_counts(vocabulary: Sequence[str], corpus: Corpus) -> np.ndarray:
    """Counts each line of the vocabulary in the corpus; `<UNK>` stands for all other words."""
    lines = {word: line for line, word in enumerate(vocabulary)}
    counts = np.zeros(len(vocabulary), np.int64)
    places = np.array([lines.get(word, lines[UNK]) for word in corpus.words], np.int64)
    np.add.at(counts, places[BEGIN:], corpus.counts[BEGIN:])
    return counts


def coverage(vocabulary: Sequence[str], corpus: Corpus) -> str:
    """Describes in a sentence how much of the corpus the vocabulary covers."""
    counts = line_counts(vocabulary, corpus)
    known = corpus.num_words - int(counts[list(vocabulary).index(UNK)])
    return (
        f"{len(vocabulary):,} lines; the corpus has {len(corpus.counts) - len(MARKS):,} different words in "
        f"{corpus.num_words:,}, of which {known / corpus.num_words:.2%} are in the vocabulary"
    )


def held_out_coverage(sentences: Sequence[Sequence[str]], min_count: int) -> float:
    """Returns the share of the words in every second sentence that occur `min_count` times in the other sentences.

    Example:

    ```python
    >>> from elmo_hf.pretraining.vocabulary import held_out_coverage
    >>> held_out_coverage([["a", "b"], ["a", "c"], ["a"], ["b"]], min_count=1)
    0.6666666666666666

    ```
    """
    counts = Counter(word for sentence in sentences[::2] for word in sentence)
    held_out = [word for sentence in sentences[1::2] for word in sentence]
    return sum(counts[word] >= min_count for word in held_out) / max(len(held_out), 1)


def agreement_with_counts(vocabulary: Sequence[str], corpus: Corpus) -> float:
    """Computes the rank correlation, -1 to 1, of the lines with the counts of the words that the corpus has.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoTokenizer
    >>> from elmo_hf.pretraining import Corpus, agreement_with_counts
    >>> corpus = Corpus.write(["a a a b b c"], tempfile.mkdtemp() + "/corpus", ElmoTokenizer("whitespace"))
    >>> [round(agreement_with_counts(["<S>", "</S>", "<UNK>", *words], corpus), 2) for words in ("abc", "bac", "cba")]
    [1.0, 0.5, -1.0]

    ```
    """
    counts = line_counts(vocabulary, corpus)
    lines = np.array([n for n, word in enumerate(vocabulary) if word not in SPECIALS and counts[n]], np.int64)
    if len(lines) < 3:
        return 1.0
    _, places, sizes = np.unique(-counts[lines], return_inverse=True, return_counts=True)
    ranks = (sizes.cumsum() - (sizes - 1) / 2)[places]  # equal counts share the mean of their ranks
    if len(sizes) == 1:
        return 1.0  # any order agrees
    return float(np.corrcoef(np.arange(len(lines)), ranks)[0, 1])


def check_order(vocabulary: Sequence[str], corpus: Corpus):
    """Warns if the vocabulary is not sorted by frequency, as the sampled softmax assumes."""
    agreement = agreement_with_counts(vocabulary, corpus)
    if agreement < LEAST_AGREEMENT:
        warnings.warn(
            f"The vocabulary is in another order than the corpus's counts (rank correlation {agreement:.2f} over the "
            "words that both have; 1 is the same order). The sampled softmax takes early lines for frequent words: "
            "sort the vocabulary by frequency, or train with --num-sampled 0.",
            stacklevel=2,
        )


def unigram_perplexity(lines: Sequence[str] | Sequence[list[str]], tokenizer: ElmoTokenizer, corpus: Corpus) -> float:
    """Computes the perplexity of a text under the word frequencies of the corpus, the baseline of a language model.

    Lines are text, or lists of words. A sentence's words and one boundary count, as for a direction of the biLM.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoTokenizer
    >>> from elmo_hf.pretraining import Corpus, unigram_perplexity
    >>> tokenizer = ElmoTokenizer("whitespace", word_vocabulary=["<S>", "</S>", "<UNK>", "a", "b"])
    >>> corpus = Corpus.write(["a a b a", "a b"], tempfile.mkdtemp() + "/corpus", tokenizer)
    >>> [round(unigram_perplexity([line], tokenizer, corpus), 2) for line in ("a", "b b")]
    [3.1, 4.0]

    ```
    """
    counts = line_counts(tokenizer.word_vocabulary or [], corpus) + 1.0  # so that nothing is impossible
    word_lines = tokenizer.word_lines
    counts[word_lines[BOS]] = 0.0  # each direction predicts one of the two boundaries
    logs = np.log(np.maximum(counts, 1e-300)) - math.log(counts.sum())
    total, number = 0.0, 0
    texts: list[Any] = list(lines)
    split = tokenizer.split(texts) if isinstance(texts[0], str) else texts
    for words in split:
        total -= sum(logs[word_lines.get(word, word_lines[UNK])] for word in words) + logs[word_lines[EOS]]
        number += len(words) + 1
    return math.exp(total / number)
