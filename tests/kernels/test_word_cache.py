"""Words remembered from batch to batch: seldom computed, never stale, never many."""

import copy
import pickle
import random
import string
import sys

import pytest
import torch

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo_hf.model import fast_ways_elmo
from elmo_hf.model.fast_products_elmo import _kept
from elmo_hf.model.fast_word_cache_elmo import WordCache, bytes_of_word

TEXTS = ["one two three two", "two five six", "one two", "seven one six ten five"]


def new_model(**changes):
    torch.manual_seed(0)
    sizes = {"character_cnn_filters": [[1, 4], [3, 5]], "projection_size": 4, "cell_size": 8, "num_highway_layers": 1}
    model = ElmoModel(ElmoConfig(**{**sizes, **changes})).eval()
    model.set_engine("packed")
    return model


@pytest.fixture
def computed(monkeypatch):
    """Words of each call that had to compute some, `<S>` and `</S>` among them."""
    calls, plain = [], fast_ways_elmo.encode_words

    def counted(encoder, words, device):
        calls.append([word[2:-2:2].decode("latin-1") for word in words])
        return plain(encoder, words, device)

    monkeypatch.setattr(fast_ways_elmo, "encode_words", counted)
    return calls


def batch_of(text):
    return dict(ElmoTokenizer(splitting="whitespace")([text], return_tensors="pt"))


@torch.no_grad()
def vectors(model, text):
    return model(**batch_of(text)).last_hidden_state


def fresh_vectors(model, text):
    """By a new model of the same weights, on the plain loop."""
    fresh = ElmoModel(copy.deepcopy(model.config)).to(model.dtype).eval()
    fresh.load_state_dict(model.state_dict())
    fresh.set_engine("reference")
    return vectors(fresh, text)


def cache_of(model):
    return _kept[model.token_encoder]["words"][1]


def test_each_word_is_computed_once(computed):
    model = new_model()
    found = [vectors(model, text) for text in TEXTS * 2]
    assert [len(words) for words in computed] == [5, 2, 2]  # one two three <S> </S>; five six; seven ten
    model.cache_words(0)
    expected = [vectors(model, text) for text in TEXTS * 2]
    assert len(computed) == 3 + 8
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() < 5e-6
    assert "remembered" not in model.engine
    model.cache_words(megabytes=1.5)
    assert "words remembered in up to 1.5 MB" in model.engine
    assert "words remembered in up to 64 MB" in new_model().engine


def test_what_is_remembered_is_nobody_elses(computed):
    model = new_model()
    first = model.encode_tokens(batch_of("one two")["input_ids"])[0]
    expected = first.detach().clone()
    with torch.no_grad():
        first.zero_()
        again = model.encode_tokens(batch_of("one two")["input_ids"])[0]
        assert torch.equal(again, expected)
        again.zero_()
        assert torch.equal(model.encode_tokens(batch_of("one two")["input_ids"])[0], expected)


def test_a_gradient_computes_and_forgets(computed):
    model = new_model(freeze_bilm=False)
    vectors(model, "one two")
    loss = model(**batch_of("one two")).last_hidden_state.sum()
    loss.backward()
    assert len(computed) == 2 and model.token_encoder.embedding.weight.grad.abs().sum() > 0
    assert "words" not in _kept.get(model.token_encoder, {})


def test_training_above_a_frozen_bilm_remembers(computed):
    model = ElmoForTokenClassification(new_model().config)
    model.set_engine("packed")
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
    assert len(computed) == 2


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
        found = model(**batch_of("one two")).last_hidden_state
    assert len(computed) == 2
    assert torch.allclose(found, fresh_vectors(model, "one two"), atol=1e-5)
    assert not torch.allclose(found.float(), before, atol=1e-3) or change == "another type"


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


def test_parameters_of_inference_mode(computed):
    with torch.inference_mode():
        model = new_model()
        first = model(**batch_of("one two")).last_hidden_state
        again = model(**batch_of("one two")).last_hidden_state
        assert len(computed) == 1 and torch.equal(first, again)
        model.token_encoder.embedding.weight.mul_(2)
        model(**batch_of("one two"))
        assert len(computed) == 2


def test_copies_and_pickles_remember_for_themselves(computed):
    model = new_model()
    expected = vectors(model, "one two")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        before = len(computed)
        assert torch.equal(vectors(other, "one two"), expected) and len(computed) == before + 1
        with torch.no_grad():
            other.token_encoder.embedding.weight.mul_(2)
        vectors(other, "one two")
        assert torch.equal(vectors(model, "one two"), expected) and len(computed) == before + 2
    assert not [name for name in model.state_dict() if "word" in name]


def test_autocast_changes_nothing(computed):
    model = new_model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = vectors(model, "one two")
    assert torch.equal(found, vectors(model, "one two")) and len(computed) == 1


def test_the_embedder_remembers_what_its_model_does(computed):
    model, tokenizer = new_model(), ElmoTokenizer(splitting="whitespace")
    vectors(model, "one two three")
    ElmoEmbedder(model, tokenizer).encode(["two three", "three four"])
    assert [*map(len, computed)] == [5, 1]
    ElmoEmbedder(model, tokenizer, remember=0).encode(["two three"])
    assert [*map(len, computed)] == [5, 1, 4]


def test_random_words_stay_within_their_bytes():
    most, size = 2**20, 64
    cache, drawn = WordCache(most, size, torch.float32), random.Random(0)
    for _ in range(60):
        words = {"".join(drawn.choices(string.ascii_letters, k=drawn.randint(1, 48))) for _ in range(300)}
        keys = [word.encode("utf-16-le") for word in words]
        cache.vectors(keys, lambda missing: torch.tensor([[len(word)] for word in missing]).expand(-1, size).float())
        held = sum(map(sys.getsizeof, (*cache._words, *cache._slots.values(), cache._words, cache._slots)))
        assert held + cache._store.numel() * 4 <= most
    assert len(cache) == cache.capacity == most // bytes_of_word(size, torch.float32)
    # What is still there is what was put there.
    known = list(cache._slots)
    assert torch.equal(cache.vectors(known, pytest.fail)[:, 0], torch.tensor([float(len(word)) for word in known]))
