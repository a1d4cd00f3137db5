"""Distinct words on as few characters as they have, against every token by itself on the full width."""

import contextlib
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from elmo_hf import ElmoConfig, ElmoTokenizer
from elmo_hf.kernels import kernels_disabled
from elmo_hf.model import modeling_elmo
from elmo_hf.model.modeling_elmo import ElmoCharacterEncoder, distinct_rows, run_kernel

VARIANTS = st.fixed_dictionaries(
    {
        "character_cnn_filters": st.sampled_from([[[1, 4]], [[1, 4], [3, 5]], [[5, 3], [2, 6]]]),
        "character_cnn_activation": st.sampled_from(["relu", "tanh"]),
        "num_highway_layers": st.integers(0, 2),
        "projection_size": st.sampled_from([4, 9]),
        "max_characters_per_token": st.sampled_from([7, 12, 50]),
    }
)


def encoder(dtype=torch.float64, **changes):
    made = ElmoCharacterEncoder(ElmoConfig(cell_size=16, **changes)).to(dtype)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def on_full_width(encoder, ids):
    """ids (N, C) -> (N, P), with all characters of every token."""
    missing = encoder.config.max_characters_per_token - ids.shape[1]
    x = encoder.embedding(F.pad(ids, (0, missing), value=261)).transpose(1, 2)  # id 0 has no gradient
    x = torch.cat([F.conv1d(x, first.weight, first.bias).amax(-1) for first in encoder.convolutions], -1)
    x = {"relu": torch.relu, "tanh": torch.tanh}[encoder.activation](x)
    for highway in encoder.highways:
        carry, transform = (F.linear(x, part.weight, part.bias) for part in (highway.carry, highway.transform))
        gate = torch.sigmoid(carry)
        x = gate * torch.relu(transform) + (1 - gate) * x
    return x if encoder.projection is None else F.linear(x, encoder.projection.weight, encoder.projection.bias)


def by_plain_functions(encoder, ids):
    with kernels_disabled():
        return encoder(ids)


WAYS = (ElmoCharacterEncoder.__call__, by_plain_functions)


def run(way, encoder, ids):
    """Vectors and the gradients of all parameters."""
    vectors = way(encoder, ids)
    loss = (vectors * torch.linspace(-1, 1, vectors.shape[-1], dtype=vectors.dtype)).sum()
    return vectors.detach(), torch.autograd.grad(loss, list(encoder.parameters()))


def assert_same(encoder, ids, tolerance=1e-9):
    expected, expected_gradients = run(on_full_width, encoder, ids)
    for way in WAYS:
        vectors, gradients = run(way, encoder, ids)
        with torch.no_grad():
            assert torch.allclose(way(encoder, ids), expected, atol=1e-10)
        assert torch.allclose(vectors, expected, atol=1e-10)
        for first, other in zip(gradients, expected_gradients, strict=True):
            assert torch.allclose(first, other, rtol=1e-9, atol=tolerance)


@settings(max_examples=40, deadline=None)
@given(
    VARIANTS, st.lists(st.lists(st.text(min_size=1, max_size=30), max_size=12), min_size=1, max_size=5), st.booleans()
)
def test_distinct_words_equal_every_token(variant, sentences, masked):
    torch.manual_seed(0)
    made = encoder(**variant)
    tokenizer = ElmoTokenizer(max_characters_per_token=variant["max_characters_per_token"])
    ids = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")["input_ids"]
    assert_same(made, ids[(ids > 0).any(-1)] if masked else ids.flatten(0, 1))


def test_any_ids_whatever_a_tokenizer_would_make():
    torch.manual_seed(0)
    made = encoder(character_cnn_filters=[[1, 4], [3, 5]], projection_size=4, max_characters_per_token=12)
    ids = torch.randint(0, 262, (600, 12))
    ids[:300, 6:] = 261
    ids[:30] = 0
    ids[30:60] = 261
    assert_same(made, ids, 1e-8)
    with torch.no_grad():
        for way in WAYS:
            assert torch.allclose(way(made, ids[:, :8]), way(made, F.pad(ids[:, :8], (0, 4), value=261)), atol=1e-6)


@pytest.mark.parametrize("at_once", [1, 3, 512])
@pytest.mark.parametrize("kernels", [True, False])
def test_words_in_parts_are_the_words(at_once, kernels, monkeypatch):
    torch.manual_seed(0)
    made = encoder(character_cnn_filters=[[1, 4], [3, 5]], projection_size=4, max_characters_per_token=12)
    monkeypatch.setattr(modeling_elmo, "WORDS_AT_ONCE", at_once)
    with contextlib.nullcontext() if kernels else kernels_disabled():
        assert_same(made, torch.randint(0, 262, (20, 12)))


@pytest.mark.parametrize("width", [1, 4, 12])
def test_rows_of_mere_padding(width):
    made = encoder(character_cnn_filters=[[1, 4], [3, 5]], projection_size=4, max_characters_per_token=12)
    assert_same(made, torch.full((3, width), 261))


def test_no_tokens_at_all():
    made = encoder(character_cnn_filters=[[1, 4]], projection_size=4)
    for way in WAYS:
        assert way(made, torch.zeros(0, 50, dtype=torch.long)).shape == (0, 4)


@pytest.mark.parametrize("hashes", ["hashes", "equal hashes"])
def test_distinct_rows(monkeypatch, hashes):
    """The kernel compares rows by a hash; rows of equal hashes stay apart."""
    if hashes == "equal hashes":
        zeros = lambda width: torch.zeros(width, dtype=torch.int64)  # noqa: E731
        monkeypatch.setattr(sys.modules["elmo_hf.kernels.distinct_rows"], "_hash_factors", zeros)
    for rows in (
        torch.tensor([[259, 98, 260, 261], [259, 98, 260, 261], [0, 0, 0, 0], [261, 261, 261, 261]]),
        torch.randint(0, 3, (40, 4)),
    ):
        for words, numbers in (distinct_rows(rows), run_kernel(distinct_rows, rows)):
            assert torch.equal(words[numbers], rows) and len(words) == len(rows.unique(dim=0))
