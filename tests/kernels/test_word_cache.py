"""Words cached from batch to batch: seldom computed, never stale, never many."""

import copy
import pickle
import random
import string
import sys

import pytest
import torch
from torch import nn

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo_hf.kernels import kernels_disabled, native
from elmo_hf.kernels.word_cache import WordCache
from elmo_hf.model.modeling_elmo import ElmoCharacterEncoder

TEXTS = ["one two three two", "two five six", "one two", "seven one six ten five"]


@pytest.fixture(autouse=True)
def native_library(request):
    if native.library() is None and "no_native_library" not in request.fixturenames:
        pytest.skip("without the native library nothing is cached")


@pytest.fixture
def no_native_library(monkeypatch):
    monkeypatch.setattr(native, "_find", None)
    monkeypatch.setattr(native, "_library", None)


def new_model(megabytes=64, **changes):
    torch.manual_seed(0)
    sizes = {"character_cnn_filters": [[1, 4], [3, 5]], "projection_size": 4, "cell_size": 8, "num_highway_layers": 1}
    model = ElmoModel(ElmoConfig(**{**sizes, **changes})).eval()
    if megabytes:
        model.cache_words(megabytes=megabytes)
    return model


@pytest.fixture
def computed(monkeypatch):
    """How many words each call computed that had to compute some, `<S>` and `</S>` among them."""
    calls, plain = [], ElmoCharacterEncoder.encode

    def counted(encoder, words):
        calls.append(len(words))
        return plain(encoder, words)

    monkeypatch.setattr(ElmoCharacterEncoder, "encode", counted)
    return calls


def batch_of(text):
    return dict(ElmoTokenizer(splitting="whitespace")([text], return_tensors="pt"))


@torch.no_grad()
def vectors(model, text):
    return model(**batch_of(text)).last_hidden_state


def fresh_vectors(model, text):
    """By a new model of the same weights, without a cache, with the plain functions."""
    fresh = ElmoModel(copy.deepcopy(model.config)).to(model.dtype).eval()
    fresh.load_state_dict(model.state_dict())
    with kernels_disabled():
        return vectors(fresh, text)


def test_each_word_is_computed_once(computed):
    model = new_model()
    actual = [vectors(model, text) for text in TEXTS * 2]
    assert computed == [5, 2, 2]  # one two three <S> </S>; five six; seven ten
    model.cache_words(0)
    assert model.token_encoder.word_cache is None
    expected = [vectors(model, text) for text in TEXTS * 2]
    assert len(computed) == 3 + 8
    for first, other in zip(actual, expected, strict=True):
        assert (first - other).abs().max() < 5e-6
    assert new_model(megabytes=None).token_encoder.word_cache is None  # off unless asked for


def test_without_the_native_library_nothing_is_cached(no_native_library, computed):
    model = new_model()
    for _ in range(2):
        vectors(model, "one two")
    assert computed == [4, 4] and not len(model.token_encoder.word_cache)


def test_what_is_cached_is_nobody_elses(computed):
    model = new_model()
    with torch.no_grad():
        first = model.encode_tokens(batch_of("one two")["input_ids"])[0]
        expected = first.clone()
        first.zero_()
        again = model.encode_tokens(batch_of("one two")["input_ids"])[0]
        assert torch.equal(again, expected)
        again.zero_()
        assert torch.equal(model.encode_tokens(batch_of("one two")["input_ids"])[0], expected)
    assert computed == [4]


def test_a_gradient_computes_and_caches_nothing(computed):
    model = new_model(freeze_bilm=False)
    vectors(model, "one two")
    model(**batch_of("one two three")).last_hidden_state.sum().backward()
    assert computed == [4, 5] and model.token_encoder.embedding.weight.grad.abs().sum() > 0
    assert len(model.token_encoder.word_cache) == 4


def test_training_above_a_frozen_bilm_caches(computed):
    model = ElmoForTokenClassification(new_model().config)
    model.cache_words(megabytes=64)
    optimizer = torch.optim.SGD(model.parameter_groups(lr=0.1))
    for _ in range(3):
        model.train()  # as Trainer does
        loss = model(**batch_of("one two"), labels=torch.zeros(1, 4, dtype=torch.long)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert len(computed) == 1
    model.eval()
    vectors(model.elmo, "one two")
    assert len(computed) == 1


CHANGES = {
    "in place": lambda model: model.token_encoder.convolutions[0].bias.add_(1),
    "through data": lambda model: model.token_encoder.highways[0].carry.weight.data.add_(1),
    "loaded": lambda model: model.load_state_dict({k: 1.5 * v for k, v in model.state_dict().items()}),
    "another type": lambda model: model.to(torch.float64),
    "another parameter": lambda model: setattr(
        model.token_encoder.projection, "weight", torch.nn.Parameter(model.token_encoder.projection.weight * 2)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_change_is_noticed(computed, change, mode):
    model = new_model()
    before = vectors(model, "one two")
    with torch.no_grad():
        CHANGES[change](model)
    with mode():
        actual = model(**batch_of("one two")).last_hidden_state
    assert len(computed) == 2
    assert torch.allclose(actual, fresh_vectors(model, "one two"), atol=1e-5)
    assert not torch.allclose(actual.float(), before, atol=1e-3) or change == "another type"


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_of_an_optimizer_is_noticed(fused):
    model = new_model(freeze_bilm=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    for _ in range(3):
        model(**batch_of("one two")).last_hidden_state.square().sum().backward()
        optimizer.step()
        assert torch.allclose(vectors(model, "one two"), fresh_vectors(model, "one two"), atol=1e-5)


def test_eight_bits_are_noticed():
    model = new_model()
    vectors(model, "one two")
    model.quantize()
    after = vectors(model, "one two")
    model.cache_words(0)
    assert torch.equal(after, vectors(model, "one two"))


class Switched(nn.Linear):
    """As an adapter that can be switched off: its weights are the same with it and without."""

    factor = 2.0

    def forward(self, x):
        return self.factor * super().forward(x)


def test_what_can_be_switched_is_computed_each_time(computed):
    model = new_model(projection_size=3)
    before, projection = vectors(model, "one two"), model.token_encoder.projection
    adapted = Switched(projection.in_features, projection.out_features)
    adapted.load_state_dict(projection.state_dict())
    model.token_encoder.projection = adapted
    assert not torch.allclose(vectors(model, "one two"), before, atol=1e-4)
    adapted.factor = 1.0
    torch.testing.assert_close(vectors(model, "one two"), before, atol=1e-5, rtol=0)
    model.token_encoder.projection = projection
    assert torch.equal(vectors(model, "one two"), before)
    projection.forward = lambda x: 0 * x[:, :3]
    assert not torch.allclose(vectors(model, "one two"), before, atol=1e-4)
    assert computed == [4, 4, 4, 4]


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
def test_an_adapter_that_is_switched_off_and_on():
    peft = pytest.importorskip("peft", reason="peft is not installed: pip install peft")
    model = new_model()
    before = vectors(model, "one two")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["carry", "transform"])).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, 0.5)
    for _ in range(2):
        changed = vectors(adapted, "one two")
        assert (changed - before).abs().max() > 1e-4
        with adapted.disable_adapter():
            torch.testing.assert_close(vectors(adapted, "one two"), before, atol=1e-5, rtol=0)


def test_parameters_of_inference_mode(computed):
    with torch.inference_mode():
        model = new_model()
        first = model(**batch_of("one two")).last_hidden_state
        again = model(**batch_of("one two")).last_hidden_state
        assert len(computed) == 1 and torch.equal(first, again)
        model.token_encoder.embedding.weight.mul_(2)
        model(**batch_of("one two"))
        assert len(computed) == 2


def test_words_cached_in_inference_mode_are_added_to_outside_of_it():
    model = new_model()
    with torch.inference_mode():
        vectors(model, "a few words")
    actual = vectors(model, "a few other words")
    torch.testing.assert_close(actual, fresh_vectors(model, "a few other words"))


def test_copies_and_pickles_cache_for_themselves(computed):
    model = new_model()
    expected = vectors(model, "one two")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        before = len(computed)
        assert torch.equal(vectors(other, "one two"), expected) and len(computed) == before + 1
        with torch.no_grad():
            other.token_encoder.embedding.weight.mul_(2)
        vectors(other, "one two")
        assert torch.equal(vectors(model, "one two"), expected) and len(computed) == before + 2
    assert not [name for name in model.state_dict() if "word" in name or "cache" in name]


def test_autocast_changes_nothing(computed):
    model = new_model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = vectors(model, "one two")
    assert torch.equal(actual, vectors(model, "one two")) and len(computed) == 1
    torch.testing.assert_close(actual, fresh_vectors(model, "one two"), atol=1e-5, rtol=0)


def test_the_embedder_caches_unless_its_model_does(computed):
    model, tokenizer = new_model(megabytes=None), ElmoTokenizer(splitting="whitespace")
    ElmoEmbedder(model, tokenizer).encode(["two three", "three four"])
    cache = model.token_encoder.word_cache
    assert computed == [5] and cache.megabytes == 64
    ElmoEmbedder(model, tokenizer).encode(["two five"])
    assert computed == [5, 1] and model.token_encoder.word_cache is cache
    ElmoEmbedder(model, tokenizer, remember=0).encode(["two three"])
    assert computed == [5, 1, 4] and model.token_encoder.word_cache is None
    ElmoEmbedder(model, tokenizer, remember=7).encode(["two three"])
    assert model.token_encoder.word_cache.words == 7


@pytest.mark.parametrize("capacity", [1, 3, 1000])
def test_the_same_vectors_within_bounds(capacity):
    model = new_model(megabytes=None)
    expected = [vectors(model, text) for text in TEXTS * 2]
    model.cache_words(capacity)
    for text, plain in zip(TEXTS * 2, expected, strict=True):
        assert torch.allclose(vectors(model, text), plain, atol=1e-6)
        assert len(model.token_encoder.word_cache) <= capacity


def test_sizes_that_are_none(small_model):
    for wrong in ({"number": -1}, {"megabytes": -0.5}):
        with pytest.raises(ValueError, match="Invalid size of the cache: -.* Expected a number of at least 0"):
            small_model.cache_words(**wrong)
    for wrong in ({}, {"number": 1, "megabytes": 1}):
        with pytest.raises(ValueError, match="one of the two"):
            small_model.cache_words(**wrong)


class Lengths(nn.Module):
    """An encoder whose vectors are the lengths of words."""

    activation, config = "relu", ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=64)

    def encode(self, rows):
        return (rows != 261).sum(1, keepdim=True).expand(-1, 64).float()


@pytest.mark.parametrize("width", [10, 50, 200])
def test_random_words_stay_within_their_bytes(width, monkeypatch):
    encoder, weight = Lengths(), torch.zeros(1)
    encoder.parameters = encoder.buffers = lambda: [weight]
    monkeypatch.setattr("elmo_hf.kernels.word_cache.is_observed", lambda modules: False)
    cache, drawn = WordCache(megabytes=1), random.Random(0)
    for _ in range(60):
        words = {"".join(drawn.choices(string.ascii_letters, k=drawn.randint(1, width - 2))) for _ in range(300)}
        rows = torch.full((len(words), width), 261)
        for row, word in zip(rows, sorted(words), strict=True):
            row[: len(word)] = torch.tensor(list(word.encode()))
        assert torch.equal(cache(encoder, rows), encoder.encode(rows))
        held = sum(map(sys.getsizeof, (*cache._keys, *cache._slots.values(), cache._keys, cache._slots)))
        assert held + cache._vectors.numel() * 4 <= 2**20
    assert 1000 < len(cache) < 60 * 300 or width == 200  # and it has been full
    # What is still there is what was put there.
    monkeypatch.setattr(encoder, "encode", pytest.fail)
    rows = torch.tensor([list(memoryview(key).cast("i")) for key in cache._slots])
    assert torch.equal(cache(encoder, rows)[:, 0], (rows != 261).sum(1).float())
