"""Perplexity against the formulas in NumPy, against the original's way of filling streams, and its counts."""

import math

import numpy as np
import pytest
import torch
from golden_files import GOLDEN
from golden_language_model import GoldenLanguageModel
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoScorer, ElmoTokenizer, perplexity
from elmo_hf.language_model.streams import fill_streams

PROPERTY = settings(deadline=None, max_examples=100, derandomize=True)


@pytest.fixture(scope="module", params=["plain", "word-input", "three-layers-no-skip"])
def language_model(request, tmp_path_factory):
    return GoldenLanguageModel(GOLDEN[request.param], tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def loaded(language_model):
    scorer = ElmoScorer.from_pretrained(language_model.folder)
    return scorer.model, scorer.tokenizer


def model_of(vocabulary, **options):
    torch.manual_seed(0)
    config = ElmoConfig(
        character_cnn_filters=[[1, 6]], projection_size=6, cell_size=8, vocab_size=len(vocabulary), **options
    )
    return ElmoForPreTraining(config), ElmoTokenizer(splitting="whitespace", word_vocabulary=vocabulary)


def rows_as_the_original_fills_them(sentences, streams, window):
    """Windows of (input, target) of one direction: a list of arrays (streams, window, 2).

    The original keeps for each row what is left of its sentence. A row copies from it, and asks for the next sentence
    when no pair is left; when there is none, the window is thrown away.
    """
    waiting, rest, windows = iter(sentences), [[] for _ in range(streams)], []
    while True:
        filled = np.zeros((streams, window, 2), dtype=int)
        for row in range(streams):
            position = 0
            while position < window:
                if len(rest[row]) <= 1:
                    rest[row] = next(waiting, None)
                    if rest[row] is None:
                        return windows
                count = min(len(rest[row]) - 1, window - position)
                for _ in range(count):
                    filled[row, position] = rest[row][0], rest[row][1]
                    rest[row] = rest[row][1:]
                    position += 1
        windows.append(filled)


@PROPERTY
@given(st.lists(st.integers(0, 6), max_size=20), st.integers(1, 4), st.integers(1, 5))
def test_streams_are_filled_as_the_original_fills_them(lengths, streams, window):
    numbers = iter(range(2, 1000))
    sentences = [[0, *(next(numbers) for _ in range(length)), 1] for length in lengths]  # <S> words </S>
    reversed_sentences = [sentence[::-1] for sentence in sentences]
    pairs = [
        (np.array([one[:-1], other[:-1]]), np.array([one[1:], other[1:]]))
        for one, other in zip(sentences, reversed_sentences, strict=True)
    ]
    found = [np.stack(both, -1) for both in fill_streams(pairs, streams, window)]
    for direction, texts in enumerate((sentences, reversed_sentences)):
        expected = rows_as_the_original_fills_them(texts, streams, window)
        assert len(found) == len(expected)
        assert all((one[:, direction] == other).all() for one, other in zip(found, expected, strict=True))


# -- the numbers


def test_by_sentence_it_is_the_loss_of_the_formulas(language_model, loaded):
    sentences = language_model.checkpoint.sentences
    result = perplexity(*loaded, sentences, batch_size=4)
    scores = [language_model.scores(sentence) for sentence in sentences]
    tokens = sum(len(sentence) + 1 for sentence in sentences)
    forward, backward = (-sum(score[direction].sum() for score in scores) / tokens for direction in (0, 1))
    assert result.forward.loss == pytest.approx(forward, abs=1e-5)
    assert result.backward.loss == pytest.approx(backward, abs=1e-5)
    assert result.perplexity == pytest.approx(math.exp((forward + backward) / 2), rel=1e-5)
    assert result.dropped == 0 and result.forward.tokens == result.backward.tokens == tokens


def test_it_is_the_sum_of_the_scores_of_words(loaded):
    sentences = ["The cat sat on the mat .", "I do like apples !", "a"]
    scores = ElmoScorer(*loaded).score(sentences)
    result = perplexity(*loaded, sentences)
    assert -sum(score.forward.sum() for score in scores) == pytest.approx(result.forward.nll, abs=1e-5)
    assert -sum(score.backward.sum() for score in scores) == pytest.approx(result.backward.nll, abs=1e-5)
    tokens = sum(len(score.tokens) - 1 for score in scores)
    assert -sum(score.both.sum() for score in scores) / tokens == pytest.approx(result.loss, abs=1e-5)


@pytest.mark.parametrize("streams, window", [(1, 1), (3, 1), (3, 4), (2, 20)])
def test_in_streams_it_is_the_loss_of_the_formulas_with_carried_state(language_model, loaded, streams, window):
    sentences = language_model.checkpoint.sentences
    result = perplexity(*loaded, sentences, streams=streams, window=window)
    bilm, total, tokens = language_model.bilm, [], 0
    for direction in (0, 1):
        words, numbered = [], []  # of all sentences in reading order, and each sentence as places in it
        for sentence in sentences:
            text = ["<S>", *sentence, "</S>"][:: -1 if direction else 1]
            numbered.append(list(range(len(words), len(words) + len(text))))
            words += text
        nll, tokens = 0.0, 0
        states = [[bilm.zero_state()[direction]] for _ in range(streams)]
        for filled in rows_as_the_original_fills_them(numbered, streams, window):
            for row in range(streams):
                vectors = [
                    bilm.token_vector(language_model.checkpoint.rows([words[place]])[1]) for place, _ in filled[row]
                ]
                # The reference turns the backward direction round; a window is already in reading order.
                order = slice(None, None, -1) if direction else slice(None)
                layers, final = bilm.run_direction(direction, vectors[order], states[row][-1])
                states[row].append(final)
                distribution = language_model.log_softmax(layers[-1][order])
                targets = [language_model.line(words[place]) for _, place in filled[row]]
                nll -= distribution[np.arange(window), targets].sum()
                tokens += window
        total.append(nll / tokens)
    assert [result.forward.loss, result.backward.loss] == pytest.approx(total, abs=1e-5)
    assert result.forward.tokens == result.backward.tokens == tokens
    assert result.dropped == sum(len(sentence) + 1 for sentence in sentences) - tokens


def test_one_sentence_in_one_stream_is_the_sentence_by_itself(loaded):
    by_itself, stream = (perplexity(*loaded, ["The cat sat ."], **how) for how in ({}, {"streams": 1}))
    assert stream.dropped == 0 and stream.forward.tokens == by_itself.forward.tokens == 5
    assert stream.loss == pytest.approx(by_itself.loss, abs=1e-6)
    assert stream.perplexity_per_byte == pytest.approx(by_itself.perplexity_per_byte, abs=1e-6)


def test_state_is_carried_only_in_streams(loaded):
    sentences = ["The cat sat on the mat ."] * 6
    one, six = (perplexity(*loaded, sentences[:n]) for n in (1, 6))
    assert one.loss == pytest.approx(six.loss, abs=1e-6)
    assert abs(perplexity(*loaded, sentences, streams=2).loss - one.loss) > 1e-4


# -- the counts


@pytest.mark.parametrize("streams", [None, 1])
def test_counts(streams):
    model, tokenizer = model_of(["<S>", "</S>", "<UNK>", "é", "cats"])
    text = [" cats  é \t purr ", "", "  ", "purr", "東京 cats"]
    result = perplexity(model, tokenizer, text, streams=streams)
    assert (result.sentences, result.dropped) == (3, 0)
    for direction in result.directions:
        assert (direction.words, direction.tokens, direction.unknown) == (6, 9, 3)
        assert direction.unknown_rate == 0.5
        assert direction.bytes == sum(len(line.strip().encode()) + 1 for line in text if line.strip())
        assert direction.perplexity == pytest.approx(math.exp(direction.nll / 9))
        assert direction.perplexity_per_byte == pytest.approx(math.exp(direction.nll / direction.bytes))
    assert "6 words, 50.00% of them out of vocabulary, and 3 sentence boundaries" in str(result)


def test_what_does_not_fill_all_streams_is_dropped_and_counted():
    model, tokenizer = model_of(["<S>", "</S>", "<UNK>", "a"])
    result = perplexity(model, tokenizer, ["a a a", "a", "a a"], streams=2, window=2)  # 4 + 2 + 3 tokens
    assert (result.sentences, result.forward.tokens, result.backward.tokens, result.dropped) == (3, 8, 8, 1)
    assert "2 streams, windows of 2; at the end 1 tokens dropped" in str(result)


def test_a_model_that_only_reads_forward():
    model, tokenizer = model_of(["<S>", "</S>", "<UNK>", "a"], bidirectional=False)
    for streams in (None, 1):
        result = perplexity(model, tokenizer, ["a a", "b"], streams=streams)
        assert result.backward is None and result.loss == result.forward.loss
        assert "backward" not in str(result) and "average" not in str(result)


def test_words_that_are_split_already_may_be_given():
    model, tokenizer = model_of(["<S>", "</S>", "<UNK>", "New York", "b"])
    assert perplexity(model, tokenizer, [["New York", "b"], []]).forward == (
        perplexity(model, tokenizer, [["New York", "b"]]).forward
    )


# -- what cannot be measured, in a sentence


@pytest.mark.parametrize(
    "text, options, message",
    [
        ([], {}, "The text has no words"),
        (["", "  "], {"streams": 2}, "The text has no words"),
        (["a b"], {"streams": 4}, "has 3 tokens in 1 sentences, too little to fill 4 streams of 1 once"),
        (["a"], {"window": 3}, "Invalid `window`: 3 without `streams`"),
        (["a"], {"streams": 0}, "Invalid `streams`: 0"),
        (["a"], {"streams": 2, "window": 0}, "Invalid `window`: 0"),
        (["a"], {"streams": 2, "batch_size": 3}, "Invalid `batch_size`: 3 with `streams` 2"),
    ],
)
def test_mistakes_are_explained(text, options, message):
    model, tokenizer = model_of(["<S>", "</S>", "<UNK>", "a"])
    with pytest.raises(ValueError, match=message):
        perplexity(model, tokenizer, text, **options)


def test_a_string_in_place_of_a_list_is_refused(lm_folder):
    scorer = ElmoScorer.from_pretrained(lm_folder)
    with pytest.raises(ValueError, match=r"Invalid `sentences`: the string 'The cat'. Expected a list"):
        perplexity(scorer.model, scorer.tokenizer, "The cat")
