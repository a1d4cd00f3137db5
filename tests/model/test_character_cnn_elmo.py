"""Distinct words on as few characters as they have, against every token on all of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.model.fast_products_elmo import _kept
from elmo_hf.model.fast_words_elmo import distinct_words
from elmo_hf.model.modeling_elmo import ElmoCharacterEncoder

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


def run(made, engine, ids, mask):
    made.engine = engine
    made.zero_grad()
    vectors = made(ids, mask)
    (vectors * torch.linspace(-1, 1, vectors.shape[-1], dtype=vectors.dtype)).sum().backward()
    return vectors.detach(), [parameter.grad.clone() for parameter in made.parameters()]


@settings(max_examples=40, deadline=None)
@given(
    VARIANTS, st.lists(st.lists(st.text(min_size=1, max_size=30), max_size=12), min_size=1, max_size=5), st.booleans()
)
def test_packed_equals_reference(variant, sentences, masked):
    torch.manual_seed(0)
    made = encoder(**variant)
    tokenizer = ElmoTokenizer(max_characters_per_token=variant["max_characters_per_token"])
    ids = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")["input_ids"]
    mask = (ids > 0).any(-1) if masked else None
    expected, expected_gradients = run(made, "reference", ids, mask)
    vectors, gradients = run(made, "packed", ids, mask)
    with torch.no_grad():
        assert torch.allclose(made(ids, mask), expected, atol=1e-10)
    assert torch.allclose(vectors, expected, atol=1e-10)
    for one, other in zip(gradients, expected_gradients, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)


def test_any_ids_whatever_a_tokenizer_would_make():
    torch.manual_seed(0)
    made = encoder(character_cnn_filters=[[1, 4], [3, 5]], projection_size=4, max_characters_per_token=12)
    ids = torch.randint(0, 262, (200, 3, 12))
    ids[:100, :, 6:] = 261
    ids[:10] = 0
    ids[10:20] = 261
    expected, expected_gradients = run(made, "reference", ids, None)
    vectors, gradients = run(made, "packed", ids, None)
    assert torch.allclose(vectors, expected, atol=1e-10)
    assert all(torch.allclose(*pair, atol=1e-8) for pair in zip(gradients, expected_gradients, strict=True))
    with torch.no_grad():
        assert torch.allclose(made(ids[:, :, :8]), made(torch.nn.functional.pad(ids[:, :, :8], (0, 4), value=261)))


def test_distinct_words_do_not_depend_on_the_width_of_rows():
    rows = torch.tensor([[259, 98, 260, 261], [259, 98, 260, 261], [0, 0, 0, 0], [261, 261, 261, 261]])
    words, numbers = distinct_words(rows)
    assert numbers.tolist() == [0, 0, 1, 2]
    assert distinct_words(torch.nn.functional.pad(rows[:1], (0, 9), value=261))[0] == words[:1]


@pytest.mark.parametrize("capacity", [1, 3, 1000])
def test_remembered_words_give_the_same_vectors_and_stay_within_bounds(capacity):
    torch.manual_seed(0)
    config = ElmoConfig(character_cnn_filters=[[1, 4], [3, 5]], projection_size=4, cell_size=8)
    model, tokenizer = ElmoModel(config).eval(), ElmoTokenizer()
    texts = ["one two three two", "two five six", "one two", "seven one six ten five"]
    batches = [tokenizer(text, return_tensors="pt") for text in texts * 2]
    model.set_engine("packed")
    with torch.no_grad():
        model.cache_words(0)
        expected = [model(**batch).last_hidden_state for batch in batches]
        model.cache_words(capacity)
        for batch, plain in zip(batches, expected, strict=True):
            assert torch.allclose(model(**batch).last_hidden_state, plain, atol=1e-6)
            assert len(_kept[model.token_encoder]["words"][1]) <= capacity
    for wrong in ({"number": -1}, {"megabytes": -0.5}):
        with pytest.raises(ValueError, match="accepted is a number from 0"):
            model.cache_words(**wrong)
    for wrong in ({}, {"number": 1, "megabytes": 1}):
        with pytest.raises(ValueError, match="one of the two"):
            model.cache_words(**wrong)


def test_remembered_words_are_forgotten_when_a_weight_changes():
    torch.manual_seed(0)
    config = ElmoConfig(character_cnn_filters=[[1, 4], [3, 5]], projection_size=4, cell_size=8)
    model, batch = ElmoModel(config).eval(), ElmoTokenizer()("one two", return_tensors="pt")
    model.set_engine("packed")
    model.cache_words(10)
    with torch.no_grad():
        model(**batch)
        model.token_encoder.convolutions[0].bias.add_(1)
        found = model(**batch).last_hidden_state
        model.set_engine("reference")
        assert torch.allclose(found, model(**batch).last_hidden_state, atol=1e-6)
    assert "cached" not in "".join(model.state_dict())


def test_words_remembered_in_inference_mode_are_added_to_outside_of_it(small_model, tokenizer):
    small_model.cache_words(100)
    first, second = (tokenizer([text], return_tensors="pt") for text in ("a few words", "a few other words"))
    with torch.inference_mode():
        small_model(**first)
    with torch.no_grad():
        found = small_model(**second).last_hidden_state
    small_model.cache_words(0)
    torch.testing.assert_close(found, small_model(**second).last_hidden_state.detach())
