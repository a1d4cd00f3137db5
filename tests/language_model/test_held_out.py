"""Perplexity against the plain statement of training, whatever the batch size, order, length and mode."""

import math

import plain_training
import pytest
import torch
from small_models import small

from elmo_hf import ElmoForPreTraining, ElmoTokenizer, Perplexity, perplexity

WORDS = ["<S>", "</S>", "<UNK>", *"abcdef"]
LINES = ["a b c", "f", "", "b e e d a c unknown", "a"]


def model_and_tokenizer(**settings):
    settings = {"character_cnn_activation": "relu", "vocab_size": len(WORDS), "num_sampled": 3, **settings}
    model = small(ElmoForPreTraining, **settings)
    word_input = model.config.word_input
    return model, ElmoTokenizer("whitespace", word_vocabulary=WORDS, word_input=word_input)


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"bidirectional": False}, {"word_input": True}])
def test_against_the_plain_statement(settings):
    model, tokenizer = model_and_tokenizer(**settings)
    config, parameters = model.config, dict(model.named_parameters())
    totals, count = [0.0] * config.num_directions, 0
    for line in filter(None, LINES):
        batch = tokenizer(line, return_tensors="pt", return_lm_labels=True)
        ids, labels = batch["input_ids"][0], batch["labels"][0]
        count += len(labels) - 1
        for direction in range(config.num_directions):
            rows, targets = (ids, labels) if direction == 0 else (ids.flip(0), labels.flip(0))
            zero = [(torch.zeros(8), torch.zeros(16))] * 2
            vectors = [plain_training.token_vector(parameters, config, row) for row in rows[:-1]]
            tops, _ = plain_training.top_vectors(parameters, config, vectors, direction, zero)
            totals[direction] += float(plain_training.full_nll(parameters, config, tops, targets[1:]))
    found = perplexity(model, tokenizer, LINES)
    means = [total / count for total in totals]
    assert found.forward.tokens == count
    assert found.forward.perplexity == pytest.approx(math.exp(means[0]), rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(sum(means) / len(means)), rel=1e-5)
    if config.bidirectional:
        assert found.backward.perplexity == pytest.approx(math.exp(means[1]), rel=1e-5)


def test_order_and_batch_size_change_nothing_and_the_mode_stays():
    model, tokenizer = model_and_tokenizer()
    expected = perplexity(model, tokenizer, LINES)
    model.train()
    for lines, batch_size in ((LINES[::-1], 1), (LINES, 2)):
        found = perplexity(model, tokenizer, lines, batch_size=batch_size)
        assert found.forward.perplexity == pytest.approx(expected.forward.perplexity, rel=1e-6)
        assert found.backward.perplexity == pytest.approx(expected.backward.perplexity, rel=1e-6)
    assert model.training


def test_no_text():
    with pytest.raises(ValueError, match="no words: nothing to measure"):
        perplexity(*model_and_tokenizer(), ["", " "])


@pytest.mark.parametrize("bidirectional", [True, False])
def test_what_processes_counted_adds_up(bidirectional):
    model, tokenizer = model_and_tokenizer(bidirectional=bidirectional)
    whole = perplexity(model, tokenizer, LINES)
    parts = [perplexity(model, tokenizer, LINES[:2]), perplexity(model, tokenizer, LINES[2:])]
    sums = [sum(numbers) for numbers in zip(*(part.numbers() for part in parts), strict=True)]
    added = Perplexity.of_numbers(sums)
    assert added.forward.words == whole.forward.words and added.forward.unknown == whole.forward.unknown
    assert added.perplexity == pytest.approx(whole.perplexity, rel=1e-6)
    assert (added.backward is None) == (not bidirectional)
