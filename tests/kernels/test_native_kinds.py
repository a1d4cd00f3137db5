"""The library in bfloat16 and int8: against the loop in Python, and on processors without units for them."""

import copy
import shutil
import warnings

import pytest
import torch
from torch.nn import functional as F

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.kernels import describe, native, native_product
from elmo_hf.kernels.linear import PlainProduct, dequantize
from elmo_hf.kernels.loop import LayerProducts, through_time
from elmo_hf.kernels.native import build, find, library, use_library
from elmo_hf.kernels.native.calls import LayerCall
from elmo_hf.kernels.native_check import difference_from_python
from elmo_hf.kernels.native_lstm import run_layer, serves
from elmo_hf.kernels.steps import Steps

TEXTS = ["The first sentence is the longest one of all .", "Second", "", "A third , then ."] * 3
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")


@pytest.fixture(autouse=True)
def found_anew(monkeypatch):
    """The library as it is found, and the same again after the test."""
    monkeypatch.setattr(native, "_find", None)
    monkeypatch.setattr(native, "_library", None)
    monkeypatch.setattr(native, "_checked", set())
    use_library(find)
    if library() is None:
        pytest.skip("there is no library for this machine")


@pytest.fixture(params=["bfloat16", "int8"])
def kind(request):
    if request.param not in library().kinds:
        pytest.skip(f"this processor has no units for {request.param}")
    return request.param


@pytest.fixture
def batch():
    return dict(ElmoTokenizer()(TEXTS, padding=True, return_tensors="pt"))


def new_model(kind, **changes):
    torch.manual_seed(0)
    sizes = {"character_cnn_filters": [[1, 4], [3, 12]], "projection_size": 9, "cell_size": 64}
    model = ElmoModel(ElmoConfig(**{**sizes, **changes})).eval()
    for parameter in model.bilm.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    if kind == "int8":
        model.quantize()
    return model.to(torch.bfloat16) if kind == "bfloat16" else model


@torch.no_grad()
def layers(model, batch):
    return model(**batch, output_hidden_states=True).hidden_states


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8"])
def test_the_check_at_the_first_use(kind):
    if kind not in library().kinds:
        pytest.skip(f"this processor has no units for {kind}")
    assert difference_from_python(library(), kind) < native.LARGEST_DIFFERENCE[kind] / 5


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 13])
def test_every_number_of_rows_against_float32(kind, rows):
    """Weights that both types represent, so that only activations are rounded."""
    torch.manual_seed(0)
    size, cell, lengths = 20, 128, sorted((torch.arange(rows) % 5 + 1).tolist(), reverse=True)
    sizes = [sum(length > step for length in lengths) for step in range(lengths[0])]
    whole = [torch.randint(-127, 128, shape) for shape in ((4 * cell, size), (4 * cell, size), (size, cell))]
    for values in whole:
        values[:, 0] = 127
    if kind == "int8":
        of_input, of_state, of_cell = ((w.to(torch.int8), torch.rand(len(w)) * 2e-3) for w in whole)
    else:
        of_input, of_state, of_cell = ((w * 2.0**-10).bfloat16() for w in whole)
    weights = [of_input, of_state, torch.randn(4 * cell).bfloat16().float(), of_cell]
    packed = [torch.randn(n, width).bfloat16() for n, width in ((sum(sizes), size), (rows, size), (rows, cell))]
    exact = [dequantize(w).float() for w in weights]
    steps, clips = Steps.of(sizes), (0.9, 0.8)
    expected = through_time(LayerProducts.of_weights(PlainProduct, exact, clips), steps, *(p.float() for p in packed))
    if kind == "bfloat16":
        weights[2] = weights[2].bfloat16()
    assert serves([weights], packed[0], rows)
    [actual] = run_layer([tuple(packed)], [weights], sizes, clips)
    for first, other in zip(actual, expected, strict=True):
        assert first.dtype == torch.bfloat16 and first.shape == other.shape
        assert torch.cosine_similarity(first.float(), other, dim=-1).min() > 0.999


@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_few_rows(threads, monkeypatch):
    """In bfloat16: all numbers of rows, and what is no number."""
    if ("bfloat16", library().lanes) not in native_product.FEW_ROWS or "bfloat16" not in library().kinds:
        pytest.skip("this processor has no units for bfloat16, or no products of few rows")
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(native_product, "LARGE", 0)
    for columns, outputs in ((32, 4), (160, 324)):
        weight, bias = torch.randn(outputs, columns).bfloat16(), torch.randn(outputs).bfloat16()
        for rows in (*range(2, 14), 31, 128):
            x = torch.randn(rows, columns).bfloat16()
            x[1, 3] = torch.nan
            for start in (bias, None):
                exact = F.linear(x.double(), weight.double(), None if start is None else start.double())
                found = native_product.multiply_few_rows(library(), x, weight, start)
                assert found.dtype == torch.bfloat16
                assert torch.allclose(found.double(), exact, atol=1e-2, rtol=1e-2, equal_nan=True)
                assert found[1].isnan().all() and found.isnan().sum() == outputs
    monkeypatch.setattr(native_product.onednn, "multiplies_matrices", lambda: False)
    assert native_product.multiplies_few_rows(library(), x, weight)
    assert not native_product.multiplies_few_rows(library(), x[:, :-16].contiguous(), weight[:, :-16].contiguous())
    monkeypatch.setattr(native_product.onednn, "multiplies_matrices", lambda: True)
    assert not native_product.multiplies_few_rows(library(), x, weight)


@pytest.mark.parametrize("changes", [{}, {"projection_size": 80, "cell_size": 192}, {"projection_size": 64}])
def test_the_same_layers_without_the_units(kind, changes, batch, monkeypatch):
    """A processor without them computes the same by oneDNN (in int8 a little less exactly), and nobody is told."""
    model = new_model(kind, **changes)
    actual, name = layers(model, batch), library().name
    assert name in describe(model)
    monkeypatch.setattr(library(), "kinds", {"float32"})
    real = library().run
    monkeypatch.setattr(library(), "run", lambda calls: real([c for c in calls if not isinstance(c, LayerCall)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = layers(copy.deepcopy(model), batch)
    assert name not in describe(model)
    mask = (batch["input_ids"] > 0).any(-1)
    for first, other in zip(actual, expected, strict=True):
        assert first.dtype == other.dtype
        assert torch.cosine_similarity(first[mask].float(), other[mask].float(), dim=-1).min() > 0.99


def test_a_library_of_other_numbers_is_not_used_for_this_kind(kind, batch, monkeypatch):
    real, number = library().run, native.loader.KINDS.index(kind)

    def lies(calls):
        real([call for call in calls if not (isinstance(call, LayerCall) and call.kind == number)])

    monkeypatch.setattr(library(), "run", lies)
    model = new_model(kind)
    with pytest.warns(
        RuntimeWarning, match=f"differs from the loop in Python by .* it is not used for {kind}"
    ) as said:
        actual = layers(model, batch)
    assert len(said) == 1 and kind not in library().kinds and "float32" in library().kinds
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = layers(model, batch)
    for first, other in zip(actual, again, strict=True):
        assert torch.equal(first, other) and first.isfinite().all()


def test_numbers_that_are_none_stay_in_their_row(kind, batch):
    model = new_model(kind)
    with torch.no_grad():
        vectors = model.encode_tokens(batch["input_ids"])[0]
        expected = model(inputs_embeds=vectors).last_hidden_state
        vectors[0, 2, 3] = torch.nan
        actual = model(inputs_embeds=vectors).last_hidden_state
    assert actual[0, 2].isnan().all()
    assert torch.equal(actual[1:], expected[1:])


def test_changed_weights_are_arranged_anew(kind, batch):
    model = new_model(kind)
    before = layers(model, batch)[-1]
    weights = model.bilm.forward_layers[0]
    changed = weights.weight_recurrent_scale if kind == "int8" else weights.weight_recurrent
    changed.data.mul_(3)
    after = layers(model, batch)[-1]
    expected = layers(copy.deepcopy(model), batch)[-1]
    assert torch.equal(after, expected) and not torch.equal(before, after)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 7), (130, 33), (256, 128)])
@pytest.mark.parametrize("rows", [1, 4, 200])
def test_products_in_int8(shape, rows, threads, monkeypatch):
    """Against the same rounding in exact arithmetic, for full panels and parts of them, by one thread and by two."""
    if "int8" not in library().kinds:
        pytest.skip("this processor has no units for int8")
    monkeypatch.setattr(native_product, "LARGE", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    torch.manual_seed(0)
    values, scale = torch.randint(-127, 128, shape).to(torch.int8), torch.rand(shape[0]) * 1e-3
    x, bias = torch.randn(rows, shape[1]), torch.randn(shape[0])
    x[-1] = 0
    of_rows = (x.abs().amax(1, keepdim=True) / 127).clamp(min=1e-30)
    exact = (x / of_rows).round().double() @ values.double().T * of_rows * scale + bias
    product = native_product.NativeInt8Product(values, scale, library())
    step = float(of_rows.max() * scale.max() * 127)  # of a number that is rounded the other way
    difference = (product(x, bias) - exact).abs()
    assert difference.max() < 2 * step and difference.mean() < 1e-6
    assert torch.equal(product(x, bias)[-1], bias)
    assert torch.allclose(product.add_to(bias.expand(rows, -1), x), product(x, bias), atol=1e-6)
    assert product.clipped(x, 0.01).abs().max() <= 0.01
    x[0, 0] = torch.nan
    assert product(x)[0].isnan().all() and product(x)[1:].isfinite().all()
    assert product(x.bfloat16()).dtype == torch.bfloat16


def test_a_compiler_that_does_not_know_the_units(tmp_path, monkeypatch):
    run, commands = build._run, []

    def fails_with_units(command):
        commands.append(command)
        if "-DFLOAT32_ONLY" not in command:
            raise OSError("unknown target")
        run(command)

    monkeypatch.setattr(build, "_run", fails_with_units)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native.loader, "MANIFEST", tmp_path / "none")
    assert find().kinds == {"float32"} and len(commands) == 2
