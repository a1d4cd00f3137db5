"""Each private operator of torch taken away, or made to return nonsense: the reference's vectors, and one warning."""

import io
import warnings

import pytest
import torch

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.model import fast_native_elmo, fast_operators_elmo

SIZES = {"character_cnn_filters": [[1, 4], [3, 12]], "projection_size": 8, "cell_size": 32}
TEXTS = ["The first sentence is the longest one of all .", "Second"]


class Namespace:
    """A namespace of operators without, or with another one, of them."""

    def __init__(self, real, name, replacement=None):
        self.real, self.name, self.replacement = real, name, replacement

    def __getattr__(self, name):
        if name != self.name:
            return getattr(self.real, name)
        if self.replacement is None:
            raise AttributeError(name)
        return self.replacement


class Nonsense:
    """Numbers of the right shape and type that mean nothing, whichever overload is called."""

    def __init__(self, operator):
        self.operator = operator

    def __call__(self, *given, **named):
        return self.spoilt(self.operator(*given, **named))

    def binary(self, *given):
        return self.spoilt(self.operator.binary(*given))

    def grad_input(self, *given, grad_input):
        return grad_input.fill_(0.5)

    @staticmethod
    def spoilt(result):
        return not result if isinstance(result, bool) else torch.full_like(result, 0.5)


@pytest.fixture(autouse=True)
def untried(monkeypatch):
    """Every trial is made anew, and forgotten afterwards."""
    monkeypatch.setattr(fast_operators_elmo, "_trusted", {})


@pytest.fixture
def batch():
    return dict(ElmoTokenizer()(TEXTS, padding=True, return_tensors="pt"))


def new_model(engine, **changes):
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(**SIZES, **changes)).eval()
    model.set_engine(engine)
    return model


def vectors_and_gradients(model, batch):
    """Without gradients, with them, and the gradients."""
    with torch.no_grad():
        plain = model(**batch).last_hidden_state
    trained = model(**batch).last_hidden_state
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [plain, trained.detach(), *torch.autograd.grad(trained.square().sum(), wanted)]


def check(batch, match):
    """The vectors and gradients of the reference, with one warning about what `match` says."""
    wanted = vectors_and_gradients(new_model("reference"), batch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = new_model("packed")
        found = [vectors_and_gradients(model, batch) for _ in range(2)]
    messages = [str(one.message) for one in caught if one.category is RuntimeWarning]
    assert len(messages) == 1 and match in messages[0] and "Vectors stay the same" in messages[0]
    for one, other in zip([*found[0], *found[1]], wanted * 2, strict=True):
        assert torch.allclose(one, other, atol=1e-4 * max(1.0, float(other.abs().max())))


def torn(monkeypatch, namespace, name, how):
    real = getattr(torch.ops, namespace)
    replacement = Nonsense(getattr(real, name)) if how == "nonsense" else None
    monkeypatch.setattr(torch.ops, namespace, Namespace(real, name, replacement))


@pytest.mark.parametrize("how", ["missing", "nonsense"])
@pytest.mark.parametrize("name", ["_reorder_linear_weight", "_linear_pointwise"])
def test_products(name, how, monkeypatch, batch):
    torn(monkeypatch, "mkldnn", name, how)
    check(batch, "oneDNN's product")


@pytest.mark.parametrize("said", [OSError(), "vendor_id\t: GenuineIntel", "vendor_id\t: AuthenticAMD"], ids=str)
def test_whose_processor_it_is(said, monkeypatch, batch):
    """Products by one library or by the other, training is the same."""
    wanted = vectors_and_gradients(new_model("reference"), batch)

    def opened(*_, **__):
        if isinstance(said, OSError):
            raise said
        return io.StringIO(said)

    monkeypatch.setattr(fast_operators_elmo, "open", opened, raising=False)
    monkeypatch.setattr(fast_operators_elmo, "_is_by_intel", fast_operators_elmo._is_by_intel.__wrapped__)
    monkeypatch.setenv("PROCESSOR_IDENTIFIER", "Intel64 Family 6 Model 85 Stepping 7, GenuineIntel")
    faster = fast_operators_elmo.mkl_is_faster(torch.device("cpu"), torch.float32)
    assert faster == (torch.backends.mkl.is_available() and "AMD" not in str(said))
    assert not fast_operators_elmo.mkl_is_faster(torch.device("cpu"), torch.bfloat16)
    for one, other in zip(vectors_and_gradients(new_model("packed"), batch), wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-4 * max(1.0, float(other.abs().max())))


@pytest.mark.parametrize("how", ["missing", "nonsense"])
@pytest.mark.parametrize("name", ["sigmoid_backward", "tanh_backward"])
def test_derivatives(name, how, monkeypatch, batch):
    monkeypatch.setattr(fast_native_elmo, "_find", None)  # the loop in C has derivatives of its own
    monkeypatch.setattr(fast_native_elmo, "_native", None)
    torn(monkeypatch, "aten", name, how)
    check(batch, name)


@pytest.mark.parametrize("how", ["missing", "nonsense"])
@pytest.mark.parametrize("name", ["qlinear_prepack", "qlinear_pointwise"])
def test_products_in_eight_bits(name, how, monkeypatch, batch):
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: True)
    torn(monkeypatch, "onednn", name, how)
    models = [new_model(engine) for engine in ("reference", "packed")]
    for model in models:
        model.quantize()
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wanted, *found = (model(**batch).last_hidden_state for model in [*models, models[1]])
        assert "as floats" in models[1].engine
    assert sum("in eight bits fails" in str(one.message) or "numbers" in str(one.message) for one in caught) == 1
    assert all(torch.allclose(one, wanted, atol=1e-5) for one in found)


def missing():
    raise AttributeError("not in this version")


@pytest.mark.parametrize("answer", [missing, lambda: "perhaps"])
def test_whether_the_processor_has_eight_bits(answer, monkeypatch, batch):
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", answer)
    model = new_model("packed")
    model.quantize()
    with pytest.warns(RuntimeWarning, match="the question for eight bits"):
        assert "as floats" in model.engine


@pytest.mark.parametrize("answer", [missing, lambda: "perhaps"])
def test_whether_the_processor_has_bfloat16(answer, monkeypatch, batch):
    monkeypatch.setattr(torch.ops, "mkldnn", Namespace(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", answer))
    model = new_model("packed").to(torch.bfloat16)
    with pytest.warns(RuntimeWarning, match="the question for bfloat16"):
        assert "bfloat16 on cpu by torch" in model.engine


@pytest.mark.parametrize("answer", [missing, lambda: True, lambda: False])
def test_function_transforms(answer, monkeypatch, batch):
    monkeypatch.setattr(torch._C, "_are_functorch_transforms_active", answer)
    check(batch, "the question for function transforms")


def renamed(module):
    raise AttributeError("_forward_hooks")


@pytest.mark.parametrize("answer", [renamed, lambda module: True, lambda module: False])
def test_the_list_of_hooks(answer, monkeypatch, batch):
    monkeypatch.setattr(fast_operators_elmo, "_is_untouched", answer)
    check(batch, "the list of a module's hooks")


def test_the_count_of_changes(monkeypatch, batch):
    monkeypatch.setattr(fast_operators_elmo, "_counted", lambda tensor: 0)
    check(batch, "the count of a tensor's changes")


def test_nothing_is_said_where_all_is_well(batch):
    torch.manual_seed(7)
    state = torch.random.get_rng_state()
    model = new_model("packed")
    torch.random.set_rng_state(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vectors_and_gradients(model, batch)
    assert torch.equal(torch.random.get_rng_state(), state)  # and no random number is drawn
