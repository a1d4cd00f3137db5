"""Private operators of torch against public ones, in the versions of torch that have them."""

import io

import pytest
import torch
from packaging.version import Version
from torch.nn import functional as F

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.kernels import describe, kernels_disabled, native, onednn
from elmo_hf.kernels.linear import Int8Product, OneDnnProduct, multiply
from elmo_hf.kernels.onednn import with_spare_rows
from elmo_hf.model.modeling_elmo import linear, run_kernel

SIZES = {"character_cnn_filters": [[1, 4], [3, 12]], "projection_size": 8, "cell_size": 32}
TEXTS = ["The first sentence is the longest one of all .", "Second"]
VERSION = Version(torch.__version__.split("+")[0])
# In these all operators are known to be; in others they may be missing, and are then not used.
KNOWN = Version("2.8") <= VERSION < Version("2.14")
DTYPES = [torch.float32, torch.bfloat16]


@pytest.fixture
def batch():
    return dict(ElmoTokenizer()(TEXTS, padding=True, return_tensors="pt"))


@pytest.fixture
def asked_anew():
    """What the functions found out about torch and the processor is found out again, and forgotten afterwards."""
    functions = (onednn.supports, onednn.supports_int8, onednn.mkl_is_faster)
    for function in functions:
        function.cache_clear()
    yield
    for function in functions:
        function.cache_clear()


def new_model(**changes):
    torch.manual_seed(0)
    return ElmoModel(ElmoConfig(**SIZES, **changes)).eval()


def vectors_and_gradients(model, batch):
    """Without gradients, with them, and the gradients."""
    with torch.no_grad():
        plain = model(**batch).last_hidden_state
    trained = model(**batch).last_hidden_state
    expected = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [plain, trained.detach(), *torch.autograd.grad(trained.square().sum(), expected)]


def assert_as_plain_functions(batch):
    with kernels_disabled():
        expected = vectors_and_gradients(new_model(), batch)
    for first, other in zip(vectors_and_gradients(new_model(), batch), expected, strict=True):
        assert torch.allclose(first, other, atol=1e-4 * max(1.0, float(other.abs().max())))


def needs(dtype):
    if not onednn.supports("cpu", dtype):
        pytest.skip(f"torch {torch.__version__} has no products of {dtype} by oneDNN here")


# Each operator


@pytest.mark.skipif(not KNOWN, reason=f"torch {VERSION} is none of the versions that are known")
def test_known_versions_have_all_operators():
    if torch.backends.mkldnn.is_available():
        assert onednn.supports("cpu", torch.float32)
        assert hasattr(torch.ops.onednn, "qlinear_prepack") and hasattr(torch.ops.onednn, "qlinear_pointwise")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows, out, size", [(1, 5, 3), (7, 16, 32), (40, 33, 17), (130, 64, 256)])
def test_products(dtype, rows, out, size):
    needs(dtype)
    torch.manual_seed(0)
    x, weight, bias, other = (
        torch.randn(*shape).to(dtype) for shape in ((rows, size), (out, size), (out,), (rows, out))
    )
    tolerance = {"atol": 1e-4, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.3, "rtol": 0.02}
    expected, packed = F.linear(x, weight), onednn.pack_weight(weight)
    for arguments in (weight, packed):
        torch.testing.assert_close(onednn.packed_linear(x, arguments, bias), F.linear(x, weight, bias), **tolerance)
        torch.testing.assert_close(onednn.packed_linear(x, arguments, None), expected, **tolerance)
    turned = weight.t().contiguous().t()
    torch.testing.assert_close(onednn.packed_linear(x, turned, bias), F.linear(x, weight, bias), **tolerance)
    before = other.clone()
    torch.testing.assert_close(onednn.packed_add(other, x, packed), before + expected, **tolerance)
    assert torch.equal(other, before)


@pytest.mark.parametrize("rows", [1, 2, 17, 65])
@pytest.mark.parametrize("size", [8, 1100])
def test_packed_products(rows, size):
    needs(torch.float32)
    torch.manual_seed(0)
    x, weight, bias, other = (
        torch.randn(rows, size),
        torch.randn(1000, size),
        torch.randn(1000),
        torch.randn(rows, 1000),
    )
    product, expected = OneDnnProduct(weight), F.linear(x, weight)
    torch.testing.assert_close(product(x, bias), expected + bias, atol=1e-3, rtol=1e-5)
    torch.testing.assert_close(product.add_to(other, x), other + expected, atol=1e-3, rtol=1e-5)
    torch.testing.assert_close(product.clipped(x, 0.7), expected.clamp(-0.7, 0.7), atol=1e-3, rtol=1e-5)
    torch.testing.assert_close(product.clipped(x, None), expected, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 9, 40])
def test_products_in_eight_bits(rows):
    if not onednn.supports_int8("cpu"):
        pytest.skip("this processor has no exact products in eight bits")
    torch.manual_seed(0)
    values, scale = torch.randint(-127, 128, (24, 32), dtype=torch.int8), torch.rand(24) / 100
    x, zeros = torch.randint(0, 256, (rows, 32), dtype=torch.uint8), torch.zeros(24, dtype=torch.long)
    expected = ((x.long() - 128) @ values.long().t()).float() * scale
    actual = onednn.int8_linear(x, onednn.pack_int8(values), scale, zeros)
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-5)
    floats, bias, other = torch.randn(rows, 32), torch.randn(24), torch.randn(rows, 24)
    product, plain = Int8Product(values, scale), F.linear(floats, values.float() * scale[:, None])
    for first, required in (
        (product(floats), plain),
        (product(floats, bias), plain + bias),
        (product.add_to(other, floats), other + plain),
        (product.clipped(floats, 0.5), plain.clamp(-0.5, 0.5)),
    ):
        torch.testing.assert_close(first, required, atol=0.1, rtol=0)


def test_derivatives():
    x = torch.linspace(-8, 8, 400).view(20, 20)
    d_y, out = torch.randn(20, 20), torch.empty(20, 20)
    for public, private in ((torch.sigmoid, onednn.sigmoid_backward), (torch.tanh, onednn.tanh_backward)):
        leaf = x.clone().requires_grad_()
        (expected,) = torch.autograd.grad(public(leaf), leaf, d_y)
        private(d_y, public(x), out)
        assert torch.allclose(out, expected, atol=1e-6)
        # Into a part of a larger tensor, as the gates lie.
        joined = torch.empty(20, 60)
        private(d_y, public(x), joined[:, 20:40])
        assert torch.allclose(joined[:, 20:40], expected, atol=1e-6)


# Where one is missing


class Namespace:
    """A namespace of operators without one of them."""

    def __init__(self, real, name):
        self.real, self.name = real, name

    def __getattr__(self, name):
        if name == self.name:
            raise AttributeError(name)
        return getattr(self.real, name)


@pytest.mark.parametrize("name", ["_reorder_linear_weight", "_linear_pointwise"])
def test_without_the_operators_of_products(name, asked_anew, monkeypatch, batch):
    monkeypatch.setattr(torch.ops, "mkldnn", Namespace(torch.ops.mkldnn, name))
    assert not onednn.supports("cpu", torch.float32)
    assert_as_plain_functions(batch)
    monkeypatch.setattr(native, "_find", None)
    monkeypatch.setattr(native, "_library", None)
    assert "by torch" in describe(new_model())
    assert_as_plain_functions(batch)


def use_no_native_int8(monkeypatch):
    if native.library() is not None:
        monkeypatch.setattr(native.library(), "kinds", {"float32"})


@pytest.mark.parametrize("name", ["qlinear_prepack", "qlinear_pointwise"])
def test_without_the_operators_in_eight_bits(name, asked_anew, monkeypatch, batch):
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: True)
    monkeypatch.setattr(torch.ops, "onednn", Namespace(torch.ops.onednn, name))
    use_no_native_int8(monkeypatch)
    model = new_model()
    model.quantize()
    assert "as floats" in describe(model)
    with torch.no_grad():
        actual = model(**batch).last_hidden_state
        with kernels_disabled():
            assert torch.allclose(actual, model(**batch).last_hidden_state, atol=1e-5)


def test_without_a_way_to_ask_for_eight_bits(asked_anew, monkeypatch):
    monkeypatch.delattr(torch.cpu, "_is_vnni_supported")
    use_no_native_int8(monkeypatch)
    model = new_model()
    model.quantize()
    assert "as floats" in describe(model)


def test_without_a_way_to_ask_for_bfloat16(asked_anew, monkeypatch):
    monkeypatch.setattr(torch.ops, "mkldnn", Namespace(torch.ops.mkldnn, "_is_mkldnn_bf16_supported"))
    assert "bfloat16 on cpu by torch" in describe(new_model().to(torch.bfloat16))


@pytest.mark.parametrize("said", [OSError(), "vendor_id\t: GenuineIntel", "vendor_id\t: AuthenticAMD"], ids=str)
def test_whose_processor_it_is(said, asked_anew, monkeypatch, batch):
    """Products by one library or by the other, training is the same."""

    def opened(*_, **__):
        if isinstance(said, OSError):
            raise said
        return io.StringIO(said)

    monkeypatch.setattr(onednn, "open", opened, raising=False)
    monkeypatch.setenv("PROCESSOR_IDENTIFIER", "Intel64 Family 6 Model 85 Stepping 7, GenuineIntel")
    assert onednn.mkl_is_faster() == (torch.backends.mkl.is_available() and "AMD" not in str(said))
    assert_as_plain_functions(batch)


def test_nothing_is_said_and_no_random_number_is_drawn(recwarn, batch):
    model = new_model()
    torch.manual_seed(7)
    state = torch.random.get_rng_state()
    vectors_and_gradients(model, batch)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not recwarn


@pytest.mark.parametrize("rows", [1, 16, 17, 63, 65, 130, 300])
def test_rows_behind_a_tensor_change_nothing(rows):
    """Whatever lies there, and where the memory ends; no row more is returned."""
    whole = torch.randn(512, 24)
    whole[rows:] = torch.nan
    product, weight = OneDnnProduct(torch.randn(40, 24)), torch.randn(40, 24)
    for x in (whole[:rows], whole[512 - rows :], whole[:rows].clone(), whole.t().contiguous().t()[:rows]):
        spare = onednn.with_spare_rows(x)
        assert len(spare) == onednn.rows_of_few_shapes(rows) == len(onednn.in_few_shapes(x))
        assert torch.equal(spare[:rows].nan_to_num(), x.nan_to_num())
        if onednn.supports("cpu", torch.float32):
            exact = F.linear(x, product.plain.weight)
            assert torch.allclose(product(x), exact, atol=1e-4, equal_nan=True)
            assert torch.allclose(product.clipped(x, 0.5), exact.clamp(-0.5, 0.5), atol=1e-4, equal_nan=True)
            assert torch.allclose(multiply(x, weight), F.linear(x, weight), atol=1e-4, equal_nan=True)
    memory = onednn.new_rows(whole, rows).untyped_storage().nbytes()
    assert memory == onednn.rows_of_few_shapes(rows) * 24 * 4


@pytest.mark.parametrize("rows", [1, 2, 127, 128, 129, 130, 256, 257, 383, 390])
def test_rows_behind_whole_blocks(rows):
    """Products whose last rows another program computes; what is no number stays in its row."""
    x, weight, bias = torch.randn(rows, 64), torch.randn(48, 64), torch.randn(48)
    x[-1, 3] = torch.nan
    with torch.no_grad():
        for start in (bias, None):
            actual = run_kernel(linear, x, weight, start)
            expected = F.linear(x.double(), weight.double(), None if start is None else start.double())
            assert actual.shape == (rows, 48) and actual.is_contiguous()
            assert torch.allclose(actual.double(), expected, atol=1e-4, equal_nan=True)
            assert torch.equal(with_spare_rows(actual)[:rows].nan_to_num(), actual.nan_to_num())
