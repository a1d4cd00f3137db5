"""The parts of the networks, each against its formula in NumPy, word by word."""

import numpy as np
import pytest
import torch

from elmo_hf import InterleavedHighwayLstm, StackedBiLstm, pool_words
from elmo_hf.tasks.encoders import VariationalDropout, gather_rows, scatter_rows, word_order
from elmo_hf.tasks.layers import (
    AttentivePooling,
    BiAttention,
    Maxout,
    SelfAttention,
    TrilinearSimilarity,
    align,
)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def array(tensor):
    return tensor.detach().double().numpy()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


LENGTHS = [5, 1, 0, 3]
KEPT = torch.arange(5)[None] < torch.tensor(LENGTHS)[:, None]


def filled(module):
    for parameter in module.parameters():
        parameter.data.normal_(0, 0.5)
    return module.eval()


def test_highway_layers_step_by_step():
    lstm, x = filled(InterleavedHighwayLstm(4, 3, layers=3)), torch.randn(4, 5, 4)
    found = array(lstm(x, KEPT))
    for row, length in enumerate(LENGTHS):
        values = array(x[row, :length])
        for number, (inputs, recurrent) in enumerate(zip(lstm.inputs, lstm.recurrent, strict=True)):
            w, b, u = array(inputs.weight), array(inputs.bias), array(recurrent.weight)
            h = c = np.zeros(3)
            out = np.zeros((length, 3))
            for t in list(range(length))[:: -1 if number % 2 else 1]:
                here, state = w @ values[t] + b, u @ h
                i, f, o, r = (sigmoid(here[k : k + 3] + state[k : k + 3]) for k in (0, 3, 6, 9))
                c = i * np.tanh(here[12:15] + state[12:15]) + f * c
                h = r * o * np.tanh(c) + (1 - r) * here[15:]
                out[t] = h
            values = out
        np.testing.assert_allclose(found[row, :length], values, atol=1e-5)
        assert not found[row, length:].any()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_stacked_layers_read_each_row_as_if_it_were_alone(cell):
    encoder, x = filled(StackedBiLstm(4, 3, layers=2, cell=cell)), torch.randn(4, 5, 4)
    found = encoder(x, KEPT)
    for row, length in enumerate(LENGTHS):
        assert not found[row, length:].any()
        if length:
            alone = x[row : row + 1, :length]
            for layer in encoder.layers:
                alone = layer(alone)[0]
            torch.testing.assert_close(found[row, :length], alone[0], atol=1e-6, rtol=0)


def test_variational_dropout_is_the_same_at_every_word():
    dropout, x = VariationalDropout(0.4), torch.ones(50, 7, 40)
    dropped = dropout(x)
    assert torch.equal(dropped, dropped[:, :1].expand_as(x))
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert dropped.mean().item() == pytest.approx(1, abs=0.1)
    assert torch.equal(dropout.eval()(x), x)


def test_alignment_and_attention_word_by_word():
    a, b = torch.randn(4, 5, 3), torch.randn(4, 3, 3)
    kept_b = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]]).bool()
    of_b, of_a = align(a, b, KEPT, kept_b)
    attention, own = filled(BiAttention(3)), filled(SelfAttention(3))
    both, alone = attention(a, b, KEPT, kept_b), own(a, KEPT)
    for row, length in enumerate(LENGTHS):
        words, others = array(a[row, :length]), array(b[row][kept_b[row]])
        for i, word in enumerate(words):
            np.testing.assert_allclose(array(of_b[row, i]), softmax(others @ word) @ others, atol=1e-5)
        if not length:
            assert not of_b[row].any() and not of_a[row].any()
            continue
        for j, other in enumerate(others):
            np.testing.assert_allclose(array(of_a[row, j]), softmax(words @ other) @ words, atol=1e-5)
        scores = similarity(attention.similarity, words, others)
        whole = softmax(scores.max(1)) @ words
        for i, word in enumerate(words):
            found = softmax(scores[i]) @ others
            expected = np.concatenate([word, found, word * found, whole * found])
            np.testing.assert_allclose(array(both[row, i]), expected, atol=1e-5)
        scores = similarity(own.similarity, words, words)
        for i, word in enumerate(words):
            rest = [j for j in range(length) if j != i]
            found = softmax(scores[i, rest]) @ words[rest] if rest else np.zeros(3)
            np.testing.assert_allclose(array(alone[row, i]), np.concatenate([word, found, word * found]), atol=1e-5)


def similarity(module: TrilinearSimilarity, a, b):
    of_a, of_b, of_both = array(module.of_a.weight)[0], array(module.of_b.weight)[0], array(module.of_both)
    return np.array([[of_a @ x + of_b @ y + (x * of_both) @ y for y in b] for x in a])


def test_pools_and_maxout():
    x, maxout, pool = torch.randn(4, 5, 3), filled(Maxout(3, 2, pieces=4)), filled(AttentivePooling(3))
    weight, bias = array(maxout.linear.weight).reshape(2, 4, 3), array(maxout.linear.bias).reshape(2, 4)
    np.testing.assert_allclose(
        array(maxout(x[0])), (array(x[0]) @ weight.swapaxes(1, 2) + bias[:, None]).max(2).T, atol=1e-6
    )

    def largest(x, words):
        return pool_words(x, words, "max")

    for row, length in enumerate(LENGTHS):
        words = array(x[row, :length])
        expected = [np.zeros(3)] * 3
        if length:
            share = softmax(words @ array(pool.score.weight)[0])
            expected = [words.max(0), words.mean(0), share @ words]
        for found, wanted in zip((largest, pool_words, pool), expected, strict=True):
            np.testing.assert_allclose(array(found(x, KEPT)[row]), wanted, atol=1e-6)


def test_words_go_to_the_left_and_back():
    x, words = torch.randn(3, 6, 2), torch.tensor([[0, 1, 1, 0, 1, 0], [0] * 6, [1] * 6]).bool()
    index, kept = word_order(words)
    left = gather_rows(x, index, kept)
    for row in range(3):
        assert torch.equal(left[row][kept[row]], x[row][words[row]]) and not left[row][~kept[row]].any()
    assert torch.equal(scatter_rows(left, kept, index, 6), torch.where(words[..., None], x, 0.0))
