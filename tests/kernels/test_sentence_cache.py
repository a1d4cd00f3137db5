"""Sentences remembered: the same layers, gradients and vectors as without, and each sentence read once."""

import contextlib
import copy
import pickle

import pytest
import torch
from small_models import ENTITIES, small

from elmo_hf import ElmoForTokenClassification, ElmoModel, ElmoTokenizer, SentenceCache
from elmo_hf.kernels import kernels_disabled, native

SENTENCES = ["one two three", "a much longer sentence of characterfulness", "one two three", "two", "four five"]


def batch_of(texts, side="right"):
    tokenizer = ElmoTokenizer(padding_side=side)
    return tokenizer(texts, padding=True, return_tensors="pt")


def frozen(**settings):
    return small(ElmoModel, freeze_bilm=True, **settings)


@pytest.fixture
def reads(monkeypatch):
    """How many sentences the biLM has read, call by call."""
    counts, plain = [], ElmoModel.run_layers

    def run_layers(self, input_ids, *rest):
        counts.append(len(input_ids))
        return plain(self, input_ids, *rest)

    monkeypatch.setattr(ElmoModel, "run_layers", run_layers)
    return counts


@pytest.fixture(params=["kernels", "plain functions"])
def kernels(request):
    with contextlib.nullcontext() if request.param == "kernels" else kernels_disabled():
        yield request.param


def test_batches_of_every_shape_get_what_the_bilm_gives(kernels, reads):
    model, plain, cache = frozen(), frozen(), SentenceCache()
    model.cache_sentences(cache)
    holes = batch_of(SENTENCES[:2])
    holes["attention_mask"][1, 2] = 0
    batches = [batch_of(SENTENCES), batch_of(SENTENCES[3:] + SENTENCES[:1], "left"), batch_of(["two"]), holes]
    for batch in batches:
        actual = model(**batch, output_hidden_states=True)
        reads.clear()
        again = model(**batch, output_hidden_states=True)
        assert not reads
        expected = plain(**batch, output_hidden_states=True)
        assert len(actual.hidden_states) == len(expected.hidden_states) == 3
        for output in (actual, again):
            for name in ("last_hidden_state", "hidden_states"):
                torch.testing.assert_close(output[name], expected[name], atol=1e-6, rtol=0)
    assert len(cache) == 5  # four sentences, and one with a hole
    assert model(**batches[0]).hidden_states is None


def test_each_sentence_is_read_once_however_wide_its_rows_are(reads):
    model = frozen()
    model.cache_sentences(SentenceCache())
    model(**batch_of(SENTENCES))
    short = batch_of(["two"])
    short["input_ids"] = short["input_ids"][:, :, :6]
    model(**short)
    model(**batch_of(["two", "new"]))
    assert reads == [4, 1]


def test_words_as_input():
    model = small(ElmoModel, word_input=True, vocab_size=9, freeze_bilm=True)
    plain, ids = copy.deepcopy(model), torch.tensor([[1, 4, 2, 0], [1, 5, 7, 2]])
    model.cache_sentences(SentenceCache())
    for _ in range(2):
        torch.testing.assert_close(model(ids).last_hidden_state, plain(ids).last_hidden_state, atol=1e-6, rtol=0)


def test_changed_weights_read_anew_and_equal_ones_share(reads):
    cache, batch, models = SentenceCache(), batch_of(SENTENCES), [frozen(), frozen(mix="top"), frozen(cell_clip=0.01)]
    for model in models:
        model.cache_sentences(cache)
        model(**batch)
    assert reads == [4, 4]  # the second has the first one's weights, the third clips otherwise
    with torch.no_grad():
        models[0].bilm.forward_layers[1].bias.add_(0.5)
    plain = copy.deepcopy(models[0])
    plain.cache_sentences(None)
    changed = models[0](**batch).last_hidden_state
    torch.testing.assert_close(changed, plain(**batch).last_hidden_state, atol=1e-6, rtol=0)
    assert not torch.allclose(changed, models[2](**batch).last_hidden_state)


def test_a_full_cache_keeps_what_it_has_and_stays_right(reads):
    size = 3 * 3 * 16 * 4  # layers, tokens of "two" with its boundaries, hidden size, bytes
    model, plain, cache = frozen(), frozen(), SentenceCache(megabytes=size / 2**20)
    model.cache_sentences(cache)
    model(**batch_of(["two"]))
    reads.clear()
    batch = batch_of(SENTENCES)
    actual = model(**batch).last_hidden_state
    assert reads == [3] and len(cache) == 1
    torch.testing.assert_close(actual, plain(**batch).last_hidden_state, atol=1e-6, rtol=0)
    cache.clear()
    assert len(cache) == 0


def test_training_on_remembered_sentences_is_training_on_sentences():
    labels, batch, gradients = None, batch_of(SENTENCES), []
    for remembers in (False, True):
        head = {"type": "bilstm-crf", "preset": "small", "dropout": 0.0, "elmo_at": ["input", "output"]}
        model = small(ElmoForTokenClassification, labels=ENTITIES, head=head, mix_dropout=0.0).train()
        if remembers:
            model.cache_sentences(SentenceCache())
            model(**batch)
        labels = torch.arange(batch["input_ids"].shape[1]).remainder(2).expand(len(SENTENCES), -1)
        labels = labels.where(batch["attention_mask"] > 0, -100)
        model(**batch, labels=labels).loss.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.requires_grad})
    assert {"elmo.scalar_mix.weight", "output_mix.gamma"} <= gradients[0].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-6, rtol=1e-4, msg=name)


def test_what_trains_or_goes_on_with_a_text_is_computed(reads):
    model, cache = frozen(), SentenceCache()
    model.cache_sentences(cache)
    batch = batch_of(SENTENCES)
    states = model(**batch, use_cache=True).past_states
    model(**batch, past_states=states)
    model.freeze(False)
    model(**batch)
    assert reads == [5, 5, 5] and not len(cache)
    with pytest.raises(ValueError, match="token_encoder, layer_1, layer_2 of the biLM may train. Expected a frozen"):
        model.cache_sentences(cache)
    with pytest.raises(ValueError, match="Invalid `megabytes`: 0. Expected a number above 0"):
        SentenceCache(0)


def test_what_was_remembered_in_inference_mode_serves_training():
    model = small(ElmoForTokenClassification, labels=ENTITIES).train()
    model.cache_sentences(SentenceCache())
    batch = batch_of(SENTENCES)
    with torch.inference_mode():
        model(**batch)
    model(**batch).logits.sum().backward()
    assert model.elmo.scalar_mix.weight.grad is not None


def test_a_copy_shares_the_cache_and_another_process_begins_with_an_empty_one(reads):
    model, cache = frozen(), SentenceCache(megabytes=250)
    model.cache_sentences(cache)
    model(**batch_of(SENTENCES))
    assert copy.deepcopy(model).sentence_cache is cache
    sent = pickle.loads(pickle.dumps(model)).sentence_cache
    assert len(cache) == 4 and len(sent) == 0 and sent.megabytes == 250


def test_weights_that_change_uncounted_read_anew(reads):
    # Nobody counts what is done through `.data`, nor to weights that were made in inference mode.
    with torch.inference_mode():
        models = [frozen()]
    models.append(frozen())
    for model in models:
        model.cache_sentences(SentenceCache())
        batch = batch_of(SENTENCES)
        with torch.inference_mode():
            before = model(**batch).last_hidden_state
            if model is models[0]:
                model.bilm.forward_layers[1].weight_input.mul_(2)
            else:
                model.bilm.forward_layers[1].weight_input.data.mul_(2)
            assert not torch.allclose(model(**batch).last_hidden_state, before)
    assert reads == [4] * 4


def test_settings_that_change_later_read_anew(reads):
    model = frozen()
    model.cache_sentences(SentenceCache())
    batch = batch_of(SENTENCES)
    model(**batch)
    model.config.cell_clip = 0.01
    model(**batch)
    model.bilm.layers[1].cell_clip = 0.01
    model(**batch)
    model.token_encoder.activation = "tanh" if model.token_encoder.activation == "relu" else "relu"
    model(**batch)
    assert reads == [4] * 4


def test_without_the_native_library_nothing_is_cached(reads, monkeypatch):
    monkeypatch.setattr(native, "_find", None)
    monkeypatch.setattr(native, "_library", None)
    model, cache = frozen(), SentenceCache()
    model.cache_sentences(cache)
    for _ in range(2):
        model(**batch_of(SENTENCES))
    assert reads == [5, 5] and not len(cache)


class Doubled(torch.nn.Linear):
    """As an adapter that can be switched: its weights are the same with it and without."""

    factor = 2.0

    def forward(self, x):
        return self.factor * super().forward(x)


def test_what_has_to_see_the_bilm_at_work_is_read_each_time(reads):
    model, batch = frozen(projection_size=6), batch_of(SENTENCES)
    model.cache_sentences(SentenceCache())
    before = model(**batch).last_hidden_state
    hook = model.bilm.backward_layers[0].register_forward_hook(lambda _, __, output: (output[0] * 0, *output[1:]))
    assert not torch.allclose(model(**batch).last_hidden_state, before)
    hook.remove()
    assert torch.equal(model(**batch).last_hidden_state, before)
    projection = model.token_encoder.projection
    adapted = Doubled(projection.in_features, projection.out_features).requires_grad_(False)
    adapted.load_state_dict(projection.state_dict())
    model.token_encoder.projection = adapted
    doubled = model(**batch).last_hidden_state
    adapted.factor = 1.0
    torch.testing.assert_close(model(**batch).last_hidden_state, before, atol=1e-6, rtol=0)
    assert not torch.allclose(doubled, before) and reads == [4, 5, 5, 5]


def test_what_was_read_under_autocast_serves_without_it(kernels):
    model, plain, batch = frozen(), frozen(), batch_of(SENTENCES)
    model.cache_sentences(SentenceCache())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(**batch)
    actual, expected = (first(**batch, output_hidden_states=True) for first in (model, plain))
    assert actual.last_hidden_state.dtype == torch.float32
    torch.testing.assert_close(actual.hidden_states, expected.hidden_states, atol=1e-6, rtol=0)
