"""Held-out perplexity against the plain statement, whatever the batch size, order and length."""

import math

import plain_training
import pytest
import torch
from small_models import small

from elmo_hf import ElmoForPreTraining, ElmoTokenizer
from elmo_hf.pretraining import evaluate

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
    found = evaluate(model, tokenizer, LINES)
    means = [total / count for total in totals]
    assert found.predictions == count
    assert found.forward == pytest.approx(math.exp(means[0]), rel=1e-5)
    assert found.average == pytest.approx(math.exp(sum(means) / len(means)), rel=1e-5)
    if config.bidirectional:
        assert found.backward == pytest.approx(math.exp(means[1]), rel=1e-5)


def test_order_and_batch_size_change_nothing_and_the_mode_stays():
    model, tokenizer = model_and_tokenizer()
    expected = evaluate(model, tokenizer, LINES)
    model.train()
    for lines, batch_size in ((LINES[::-1], 1), (LINES, 2)):
        found = evaluate(model, tokenizer, lines, batch_size)
        assert found.forward == pytest.approx(expected.forward, rel=1e-6)
        assert found.backward == pytest.approx(expected.backward, rel=1e-6)
    assert model.training


def test_no_text():
    with pytest.raises(ValueError, match="no text to evaluate on"):
        evaluate(*model_and_tokenizer(), ["", " "])
