"""Vocabularies: order, limits, coverage, agreement with a corpus, the perplexity of frequencies alone."""

import math

import pytest

from elmo_hf import ElmoTokenizer
from elmo_hf.pretraining import Corpus, agreement_with_counts, build_vocabulary, unigram_perplexity
from elmo_hf.pretraining.vocabulary import check_order, coverage, extend_vocabulary

LINES = ["the the the the cat cat cat", "sat sat on mat"]


@pytest.fixture
def corpus(tmp_path):
    return Corpus.write(LINES, tmp_path / "corpus", ElmoTokenizer("whitespace"))


def built(corpus, **limits):
    return build_vocabulary(corpus.words, corpus.counts.tolist(), **limits)


def test_by_frequency_specials_first(corpus):
    assert built(corpus) == ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "mat", "on"]
    assert built(corpus, min_count=2) == ["<S>", "</S>", "<UNK>", "the", "cat", "sat"]
    assert built(corpus, max_size=5) == ["<S>", "</S>", "<UNK>", "the", "cat"]
    with pytest.raises(ValueError, match="No word of the corpus .* --min-count"):
        built(corpus, min_count=5)


def test_specials_that_are_words_of_the_text_come_once(tmp_path):
    corpus = Corpus.write(["<S> x <UNK> x </S>"], tmp_path / "corpus", ElmoTokenizer("whitespace"))
    assert built(corpus) == ["<S>", "</S>", "<UNK>", "x"]


def test_extending_keeps_what_is_there(corpus):
    before = ["<S>", "mat", "</S>", "<UNK>", "other"]
    assert extend_vocabulary(before, corpus, 1, None) == [*before, "the", "cat", "sat", "on"]
    assert extend_vocabulary(before, corpus, 3, None) == [*before, "the", "cat"]
    assert extend_vocabulary(before, corpus, 1, 6) == [*before, "the"]
    assert extend_vocabulary(before, corpus, 99, None) == before


def test_coverage(corpus):
    text = coverage(["<S>", "</S>", "<UNK>", "the", "cat"], corpus)
    assert text == "5 lines; the corpus has 5 different words in 11, of which 63.64% are in the vocabulary"


def test_agreement_with_counts(tmp_path):
    lines = [" ".join([f"w{k:03}"] * (200 - k)) for k in range(200)]
    corpus = Corpus.write(lines, tmp_path / "corpus", ElmoTokenizer("whitespace"))
    vocabulary = built(corpus)
    assert agreement_with_counts(vocabulary, corpus) == pytest.approx(1)
    check_order(vocabulary, corpus)  # which warns of nothing
    reverse = vocabulary[:3] + vocabulary[:2:-1]
    assert agreement_with_counts(reverse, corpus) == pytest.approx(-1)
    with pytest.warns(UserWarning, match=r"rank correlation -1\.00 .* --num-sampled 0"):
        check_order(reverse, corpus)


def test_unigram_perplexity(corpus):
    vocabulary = ["<S>", "</S>", "<UNK>", "the", "cat"]
    tokenizer = ElmoTokenizer("whitespace", word_vocabulary=vocabulary)
    # Counts, one more each: </S> 3, <UNK> 5, the 5, cat 4; together 17.
    expected = math.exp(-(math.log(5 / 17) + math.log(5 / 17) + math.log(3 / 17)) / 3)
    assert unigram_perplexity(["the dog"], tokenizer, corpus) == pytest.approx(expected)
