"""Weights prepared for kernels: hashed at every use, or once inside of `constant_weights`."""

import ctypes
import threading
from contextlib import nullcontext

import pytest
import torch

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer
from elmo_hf.kernels import KERNELS, constant_weights, native_lstm, prepared
from elmo_hf.kernels.native import library

pytestmark = pytest.mark.skipif(not KERNELS or library() is None, reason="without the library nothing is prepared")

SIZES = {"character_cnn_filters": [[1, 8], [2, 8]], "projection_size": 32, "cell_size": 128, "num_highway_layers": 1}
TEXTS = [["The", "first", "sentence"], ["Second"]]


@pytest.fixture
def model():
    return ElmoModel(ElmoConfig(**SIZES)).eval()


@pytest.fixture
def hashed(monkeypatch):
    """The lengths of all stretches of memory that are hashed."""
    lengths, native = [], library()

    class Counting:
        def __getattr__(self, name):
            return getattr(native, name)

        def hashes(self, stretches):
            lengths.extend(length for _, length in stretches)
            return native.hashes(stretches)

        def run(self, calls):
            for call in calls:
                count = getattr(call, "hash_count", 0)
                lengths.extend(ctypes.cast(call.stretches or 0, ctypes.POINTER(ctypes.c_uint64))[1 : 2 * count : 2])
            native.run(calls)

    counting = Counting()
    monkeypatch.setattr(prepared, "library", lambda: counting)
    monkeypatch.setattr(native_lstm, "library", lambda: counting)
    return lengths


@torch.inference_mode()
def vectors(model):
    batch = ElmoTokenizer()(TEXTS, is_split_into_words=True, padding=True, return_tensors="pt")
    return model(**batch).last_hidden_state


def assert_as_fresh(model):
    new = ElmoModel(model.config).eval()
    new.load_state_dict(model.state_dict())
    torch.testing.assert_close(vectors(model), vectors(new), atol=1e-6, rtol=1e-5)


def test_every_call_hashes_without_the_promise(model, hashed):
    vectors(model)
    first = len(hashed)
    vectors(model)
    assert len(hashed) == 2 * first > 0


def test_each_weight_is_hashed_once_inside_of_the_promise(model, hashed):
    expected = vectors(model)
    with constant_weights():
        vectors(model)
        hashed.clear()
        with constant_weights():
            assert torch.equal(vectors(model), expected)
    assert not hashed
    vectors(model)
    assert hashed


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.bilm.forward_layers[0].weight_recurrent.mul_(0.5),
        lambda model: model.load_state_dict({name: 0.9 * value for name, value in model.state_dict().items()}),
        lambda model: model.to(torch.float64).to(torch.float32).load_state_dict(ElmoModel(model.config).state_dict()),
        lambda model: setattr(
            model.token_encoder.projection,
            "weight",
            torch.nn.Parameter(model.token_encoder.projection.weight.detach() * 0.5),
        ),
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=True).step(),
    ],
    ids=["in place", "load_state_dict", "to", "replaced", "optimizer"],
)
def test_changes_that_torch_counts_are_noticed_inside(model, change):
    with constant_weights():
        before = vectors(model)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        with torch.no_grad():
            change(model)
        assert_as_fresh(model)
        assert not torch.allclose(vectors(model), before, atol=1e-4)


def test_everything_is_noticed_after_the_promise(model):
    with constant_weights():
        vectors(model)
        model.bilm.forward_layers[0].weight_recurrent.data.mul_(0.5)
        model.token_encoder.highways[0].carry.weight.detach().numpy()[:] *= 0.5
    assert_as_fresh(model)


def test_the_promise_is_of_one_thread(model):
    results = {}

    def in_a_thread():
        results["before"] = vectors(model)
        model.bilm.forward_layers[0].weight_recurrent.data.mul_(0.5)
        results["after"] = vectors(model)

    with constant_weights():
        thread = threading.Thread(target=in_a_thread)
        thread.start()
        thread.join()
    assert not torch.allclose(results["before"], results["after"], atol=1e-4)


@pytest.mark.parametrize("promise", [nullcontext, constant_weights])
def test_an_embedder_hashes_once_per_call_and_is_never_stale(model, hashed, promise):
    embedder = ElmoEmbedder(model, ElmoTokenizer(), remember=0)
    with promise():
        before = embedder.encode(TEXTS * 8, batch_size=2)
        hashed.clear()
        embedder.encode(TEXTS * 8, batch_size=2)
        several = len(hashed)
        hashed.clear()
        embedder.encode(TEXTS, batch_size=2)
        assert several == len(hashed)
    model.bilm.forward_layers[0].weight_recurrent.data.mul_(0.5)
    after = embedder.encode(TEXTS)
    assert abs(before[0] - after[0]).max() > 1e-4
