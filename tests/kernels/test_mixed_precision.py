"""Training in mixed precision: products in bfloat16, weights, states and sums in float32."""

import pytest
import torch
from small_texts import SIZES

from elmo_hf import ElmoConfig, ElmoForPreTraining
from elmo_hf.kernels import native
from elmo_hf.kernels.mixed_cell import mixed_cell, mixed_cell_backward
from elmo_hf.kernels.mixed_precision import has_bfloat16_units, uses_bfloat16
from elmo_hf.pretraining.precision import choose_precision

needs_units = pytest.mark.skipif(not has_bfloat16_units(), reason="the processor has no units for bfloat16")
UNITS = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")


@pytest.fixture
def no_units(monkeypatch):
    """A processor without AVX-512 BF16 and AMX."""
    for name in UNITS:
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    has_bfloat16_units.cache_clear()
    yield
    monkeypatch.undo()
    has_bfloat16_units.cache_clear()


def new_model(**changes):
    torch.manual_seed(3)
    sizes = {**SIZES, "projection_size": 16, "cell_size": 32, "max_characters_per_token": 20, "dropout": 0.0}
    return ElmoForPreTraining(ElmoConfig(**{**sizes, "vocab_size": 40, **changes})).train()


def window(model):
    generator = torch.Generator().manual_seed(4)

    def draw(high, *more):
        return torch.randint(1, high, (12, 6, *more), generator=generator)

    ids = {prefix + "input_ids": draw(120, 20) for prefix in ("", "backward_")}
    for rows in ids.values():  # words of 1 to 20 characters; 261 is padding
        rows[torch.arange(20) > draw(20)[..., None]] = 261
    return ids | {prefix + "labels": draw(40) for prefix in ("", "backward_")}


def gradients(model, mixed):
    torch.manual_seed(5)  # of negative samples
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        output = model(**window(model), use_cache=True)
    output.loss.backward()
    states = [part for layer in output.past_states for part in layer]
    trained = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return output.loss.detach(), states, trained


@needs_units
@pytest.mark.parametrize("library", [True, False], ids=["C", "torch"])
@pytest.mark.parametrize(
    "changes", [{}, {"num_sampled": 6}, {"cell_size": 16}, {"cell_clip": 0.05, "projection_clip": 0.02}], ids=str
)
def test_gradients_are_those_of_float32(changes, library, monkeypatch):
    """Rounding to bfloat16 is off by up to 2^-9, and some ten products lie between the loss and the characters.

    Their errors are independent, so a gradient is off by about 3 times 2^-9, and by four times as much at most.
    """
    if not library:
        monkeypatch.setattr("elmo_hf.kernels.mixed_cell.library", lambda: None)
    model = new_model(**changes)
    loss, states, expected = gradients(model, mixed=False)
    mixed_loss, mixed_states, actual = gradients(model, mixed=True)
    assert mixed_loss.dtype == torch.float32 and abs(mixed_loss / loss - 1) < 2**-9
    for one, other in zip(mixed_states, states, strict=True):
        assert one.dtype == torch.float32 and (one - other).norm() < 12 * 2**-9 * other.norm()
    # A clip passes no gradient: where a state is near its bound, rounding decides.
    most = (12 if "cell_clip" not in changes else 60) * 2**-9
    for name, gradient in expected.items():
        error = (actual[name] - gradient).norm() / gradient.norm()
        assert actual[name].dtype == torch.float32 and actual[name].is_contiguous(), name
        assert 0 < error < most, (name, error)


@needs_units
def test_gradients_of_states_and_of_texts_of_different_lengths():
    """The gradient of the states that come in, and a batch whose texts end at different steps."""
    model = new_model().elmo
    mask = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    x = torch.randn(3, 6, 16)
    found = []
    for mixed in (False, True):
        states = [[torch.full_like(part, 0.1).requires_grad_() for part in layer] for layer in _states(model)]
        words = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            output = model(inputs_embeds=words, attention_mask=mask, past_states=states, output_hidden_states=True)
        (
            output.hidden_states[-1].pow(2).sum() + sum(p.sum() for layer in output.past_states for p in layer)
        ).backward()
        found.append([words.grad, *(part.grad for layer in states for part in layer)])
    for actual, expected in zip(*reversed(found), strict=True):
        assert 0 < (actual - expected).norm() < 12 * 2**-9 * expected.norm()


def _states(model):
    return model.bilm.initial_states(3, torch.zeros(1))


@pytest.mark.parametrize("library", [True, False], ids=["C", "torch"])
@pytest.mark.parametrize("bound", [None, 0.4])
def test_the_cell_against_autograd(bound, library, monkeypatch):
    """In float64 from the same rounded gates: all that differs is the rounding of the results."""
    if library and native.library() is None:
        pytest.skip("there is no compiler")
    if not library:
        monkeypatch.setattr("elmo_hf.kernels.mixed_cell.library", lambda: None)
    torch.manual_seed(0)
    rows, size = 5, 64
    gates, bias, before = torch.randn(rows, 4 * size).bfloat16(), torch.randn(4 * size), torch.randn(rows, size)
    d_m, d_after = torch.randn(rows, size).bfloat16(), torch.randn(rows, size)
    after, m = torch.empty(rows, size), torch.empty(rows, size, dtype=torch.bfloat16)
    d_c, d_gates, d_bias = d_after.clone(), torch.empty_like(gates), torch.ones(4 * size)
    mixed_cell(gates, bias, before, after, m, bound)
    mixed_cell_backward(gates, bias, before, after, d_m, d_c, d_gates, d_bias, bound)

    exact = [part.double().requires_grad_() for part in (gates, bias, before)]
    i, j, f, o = (exact[0] + exact[1]).chunk(4, 1)
    state = torch.sigmoid(f) * exact[2] + torch.sigmoid(i) * torch.tanh(j)
    state = state if bound is None else state.clamp(-bound, bound)
    output = torch.sigmoid(o) * torch.tanh(state)
    expected = torch.autograd.grad([state, output], exact, [d_after.double(), d_m.double()])
    for actual, other in ((after, state), (d_c, expected[2]), (d_bias - 1, expected[1])):
        torch.testing.assert_close(actual.double(), other, rtol=1e-5, atol=1e-5)
    for actual, other in ((m, output), (d_gates, expected[0])):
        torch.testing.assert_close(actual.double(), other, rtol=2**-8, atol=1e-6)


@needs_units
def test_numbers_round_to_even_and_none_stays_none():
    """As torch rounds; through the state, which a forget gate of one passes on."""
    numbers = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1e-3, float("nan"), float("inf")])
    m = torch.empty(1, 64, dtype=torch.bfloat16)
    gates = torch.zeros(1, 256, dtype=torch.bfloat16)
    bias, before, after = torch.zeros(256), torch.zeros(1, 64), torch.empty(1, 64)
    before[0, : len(numbers)] = numbers
    mixed_cell(gates, bias, before, after, m, None)
    expected = (torch.sigmoid(torch.zeros(1)) * torch.tanh(after)).bfloat16()
    torch.testing.assert_close(m, expected, rtol=2**-7, atol=0, equal_nan=True)
    assert m[0, 4].isnan() and m[0, 5] == 0.5


@needs_units
def test_it_is_deterministic():
    model = new_model(num_sampled=6)
    first, second = gradients(model, mixed=True), gradients(model, mixed=True)
    assert all(torch.equal(first[2][name], second[2][name]) for name in first[2])


def test_a_processor_without_the_units_trains_in_float32(no_units):
    model = new_model()
    expected, actual = gradients(model, mixed=False), gradients(model, mixed=True)
    assert all(torch.equal(actual[2][name], expected[2][name]) for name in expected[2])
    said = []
    assert choose_precision("auto", {}, "cpu", said.append) == "float32" and not said
    assert choose_precision("bf16", {}, "cpu", said.append) == "float32"
    assert said == ["precision: float32, not bf16: this processor has neither AVX-512 BF16 nor AMX"]
    assert choose_precision("auto", {"precision": "bf16"}, "cpu", said.append) == "bf16"
    assert said[1].startswith("precision: the run was begun in bf16 and continues in float32: this processor has")


@needs_units
def test_the_choice(monkeypatch):
    said = []
    assert choose_precision("auto", {}, "cpu", said.append) == "bf16"
    assert choose_precision("float32", {}, "cpu", said.append) == "float32"
    assert choose_precision("auto", {"precision": "float32"}, "cpu", said.append) == "float32" and not said
    assert choose_precision("auto", {}, "cuda", said.append) == "float32" and not said
    assert choose_precision("bf16", {}, "cuda", said.append) == "float32" and "this device" in said[0]
    with torch.autocast("cpu", torch.bfloat16):
        assert uses_bfloat16([torch.zeros(1), None])
        assert not uses_bfloat16([torch.zeros(1), torch.zeros(1, dtype=torch.float64)])
    with torch.autocast("cpu", torch.float16):
        assert not uses_bfloat16([torch.zeros(1)])
