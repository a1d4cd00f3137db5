"""The packed LSTM against a plain loop over padded tokens: outputs, states and gradients, whatever the shape."""

import contextlib
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_lstm import run_bilm
from torch.utils.checkpoint import checkpoint

from elmo_hf import ElmoConfig
from elmo_hf.kernels import kernels_disabled
from elmo_hf.model.modeling_elmo import ElmoBiLm, pack_tokens

SIZES = {"character_cnn_filters": [[1, 4]], "projection_size": 6, "cell_size": 16}
VARIANTS = st.fixed_dictionaries(
    {
        "cell_size": st.sampled_from([6, 10, 16]),
        "num_hidden_layers": st.integers(1, 3),
        "bidirectional": st.booleans(),
        "use_skip_connections": st.booleans(),
        "cell_clip": st.sampled_from([None, 3.0, 0.1]),
        "projection_clip": st.sampled_from([None, 3.0, 0.05]),
    }
)


def bilm(dtype=torch.float64, **changes):
    model = ElmoBiLm(ElmoConfig(**{**SIZES, **changes})).to(dtype)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model


def run_packed(model, x, mask, backward_x=None, past_states=None, dropout=0.0):
    """Padded tokens, packed at the top and unpacked at the bottom, as `run_bilm` takes and returns them."""
    packing = pack_tokens(mask)
    first = packing.pack(x)
    other = first.index_select(0, packing.reverse) if backward_x is None else packing.pack(backward_x)
    inputs = [first, other][: len(model.directions)]
    outputs, states = model(inputs, packing, past_states, dropout)
    return [packing.unpack(packing.to_forward_order(output, backward_x is None)) for output in outputs], states


def run_plain(*arguments):
    with kernels_disabled():
        return run_packed(*arguments)


@pytest.fixture(params=["kernels", "plain functions"])
def kernels(request):
    with contextlib.nullcontext() if request.param == "kernels" else kernels_disabled():
        yield request.param


def random_mask(batch, length, kind):
    lengths = torch.randint(0, length + 1, (batch, 1))
    if kind == "gaps":
        return torch.rand(batch, length) < 0.7
    mask = torch.arange(length) < lengths
    return mask.flip(1) if kind == "left" else mask


def random_inputs(model, batch, length, dtype, backward=False, states=True):
    """x_forward, x_backward or None, and the states' tensors."""
    config = model.config
    of_state = [(batch, config.num_directions, size) for size in (config.projection_size, config.cell_size)]
    x, other = (torch.randn(batch, length, config.projection_size, dtype=dtype) for _ in range(2))
    flat = [torch.randn(shape, dtype=dtype) for _ in range(config.num_hidden_layers) for shape in of_state]
    return x, other if backward else None, flat if states else None


def run(model, way, inputs, mask, gradients=False):
    """Outputs and states, and the gradients of everything that went in."""
    x, other, flat = inputs
    leaves = [t.clone().requires_grad_(gradients) for t in (x, *([] if other is None else [other]), *(flat or []))]
    states = leaves[-len(flat) :] if flat else None
    past = tuple(zip(states[::2], states[1::2], strict=True)) if flat else None
    with torch.set_grad_enabled(gradients):
        layers, last = way(model, leaves[0], mask, None if other is None else leaves[1], past)
    out = [*layers, *itertools.chain(*last)]
    if not gradients:
        return out, []
    generator = torch.Generator().manual_seed(0)
    loss = sum((t * torch.randn(t.shape, generator=generator, dtype=t.dtype)).sum() for t in out)
    expected = leaves + list(model.parameters())
    loss = loss + sum(0 * t.sum() for t in expected)  # a batch without tokens has a graph too
    return out, list(torch.autograd.grad(loss, expected))


def assert_close(actual, expected, tolerance, relative=False):
    assert len(actual) == len(expected)
    for first, other in zip(actual, expected, strict=True):
        assert first.shape == other.shape and first.dtype == other.dtype
        if other.numel():
            scale = max(other.abs().max().item(), 1e-3) if relative else 1.0
            assert (first - other).abs().max().item() <= tolerance * scale


@settings(max_examples=20, deadline=None)
@given(
    VARIANTS,
    st.integers(1, 9),
    st.integers(0, 60),
    st.sampled_from(["right", "left", "gaps"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 1000),
)
def test_packed_equals_the_loop(variant, batch, length, kind, backward, states, dtype, seed):
    torch.manual_seed(seed)
    model = bilm(dtype, **variant)
    if dtype == torch.float32:
        # Weights this small do not multiply rounding errors from token to token.
        for parameter in model.parameters():
            parameter.data.mul_(0.5)
    inputs, mask = random_inputs(model, batch, length, dtype, backward, states), random_mask(batch, length, kind)
    expected, expected_gradients = run(model, run_bilm, inputs, mask, gradients=True)
    exact = dtype == torch.float64
    for way in (run_packed, run_plain):
        trained, gradients = run(model, way, inputs, mask, gradients=True)
        assert_close(run(model, way, inputs, mask)[0], expected, 1e-10 if exact else 1e-5)
        assert_close(trained, expected, 1e-10 if exact else 1e-5)
        assert_close(gradients, expected_gradients, 1e-9 if exact else 1e-4, relative=True)


@pytest.mark.parametrize("kind", ["right", "gaps"])
def test_bfloat16_stays_near_float32(kind, kernels):
    torch.manual_seed(0)
    model, mask = bilm(torch.float32, projection_size=16, cell_size=64), random_mask(6, 30, kind)
    for parameter in model.parameters():
        parameter.data.mul_(0.4)
    x, _, flat = random_inputs(model, 6, 30, torch.float32)
    expected, _ = run(model, run_bilm, (x, None, flat), mask)
    half = [tensor.bfloat16() for tensor in flat]
    actual, _ = run(model.bfloat16(), run_packed, (x.bfloat16(), None, half), mask)
    for first, other in zip(actual, expected, strict=True):
        assert first.dtype == torch.bfloat16
        cosine = torch.cosine_similarity(first.float()[other != 0], other[other != 0], 0)
        assert cosine > 0.999


def test_gradients_when_only_some_parts_train():
    torch.manual_seed(0)
    model, mask = bilm(), random_mask(4, 9, "gaps")
    model.forward_layers[0].requires_grad_(False)
    x = torch.randn(4, 9, 6, dtype=torch.float64, requires_grad=True)
    actual = {}
    for way in (run_bilm, run_packed, run_plain):
        model.zero_grad()
        way(model, x, mask)[0][-1].square().sum().backward()
        actual[way] = [parameter.grad for parameter in model.parameters()]
    for way in (run_packed, run_plain):
        for first, other in zip(actual[way], actual[run_bilm], strict=True):
            assert (first is None) == (other is None)
            if first is not None:
                assert_close([first], [other], 1e-10)


def test_one_graph_serves_twice_and_gradients_accumulate(kernels):
    torch.manual_seed(0)
    model, mask = bilm(), random_mask(3, 7, "right")
    x = torch.randn(3, 7, 6, dtype=torch.float64)
    loss = run_packed(model, x, mask)[0][-1].square().sum()
    loss.backward(retain_graph=True)
    once = [parameter.grad.clone() for parameter in model.parameters()]
    loss.backward()
    run_packed(model, x, mask)[0][-1].square().sum().backward()
    assert_close(
        [parameter.grad for parameter in model.parameters()], [3 * gradient for gradient in once], 1e-10, True
    )


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_gives_the_same_gradients(reentrant, kernels):
    torch.manual_seed(0)
    model, mask = bilm(), random_mask(3, 7, "right")
    x = torch.randn(3, 7, 6, dtype=torch.float64, requires_grad=True)
    plain = torch.autograd.grad(run_packed(model, x, mask)[0][-1].square().sum(), [x, *model.parameters()])
    out = checkpoint(lambda arguments: run_packed(model, arguments, mask)[0][-1], x, use_reentrant=reentrant)
    out.square().sum().backward()
    assert_close([x.grad, *(parameter.grad for parameter in model.parameters())], plain, 1e-12)


def test_state_carried_over_a_cut_is_that_of_the_whole_text(kernels):
    torch.manual_seed(0)
    model = bilm(bidirectional=False)
    x, mask = torch.randn(2, 12, 6, dtype=torch.float64), torch.ones(2, 12, dtype=torch.bool)
    whole, _ = run_packed(model, x, mask)
    first, states = run_packed(model, x[:, :5], mask[:, :5])
    second, _ = run_packed(model, x[:, 5:], mask[:, 5:], past_states=states)
    assert_close([torch.cat(pair, 1) for pair in zip(first, second, strict=True)], whole, 1e-12)


def test_dropout_acts_in_training_only(kernels):
    torch.manual_seed(0)
    model = bilm()
    x, mask = torch.randn(2, 5, 6, dtype=torch.float64), torch.ones(2, 5, dtype=torch.bool)
    plain = run_packed(model.eval(), x, mask)[0][-1]
    assert torch.equal(run_packed(model, x, mask, dropout=0.5)[0][-1], plain)
    assert not torch.allclose(run_packed(model.train(), x, mask, dropout=0.5)[0][-1], plain)


def test_packing_meets_each_token_once_and_no_padding():
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 1]], dtype=torch.bool)
    packing = pack_tokens(mask)
    assert packing.batch_sizes == [2, 2, 1] and packing.rows.tolist() == [2, 0, 1]
    assert packing.positions.tolist() == [8, 0, 10, 1, 11]
    assert packing.positions[packing.reverse].tolist() == [11, 1, 10, 0, 8]
    x = torch.randn(3, 4, 2)
    assert torch.equal(packing.unpack(packing.pack(x)), torch.where(mask[..., None], x, 0.0))
