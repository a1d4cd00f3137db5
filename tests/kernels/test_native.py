"""The loop in C against the loop in Python, and every way in which the library can be missing or wrong."""

import functools
import hashlib
import importlib
import json
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.kernels import describe, kernels_disabled, native, native_features, native_lstm, native_product
from elmo_hf.kernels.cell import cell_
from elmo_hf.kernels.characters import character_features as kernel_of_features
from elmo_hf.kernels.native import build, find, library, loader, use_library
from elmo_hf.kernels.native.calls import CALLS, Int8LinearCall, LayerCall
from elmo_hf.model.modeling_elmo import character_features, highway

# `elmo_hf.kernels.highway` is the function.
kernel_of_highways = importlib.import_module("elmo_hf.kernels.highway")

SIZES = {"character_cnn_filters": [[1, 4], [3, 12]], "projection_size": 9, "cell_size": 32}
TEXTS = ["The first sentence is the longest one of all .", "Second", "", "A third , then ."] * 3
COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler here")


@pytest.fixture(autouse=True)
def nothing_found_yet(monkeypatch):
    monkeypatch.setattr(native, "_find", None)
    monkeypatch.setattr(native, "_library", None)


@pytest.fixture
def batch():
    return dict(ElmoTokenizer()(TEXTS, padding=True, return_tensors="pt"))


@pytest.fixture(params=[1, 2])
def side_by_side(request, monkeypatch):
    """One direction after the other, or both at once; torch itself keeps to its one thread."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)


def new_model(**changes):
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(**{**SIZES, **changes})).eval()
    for parameter in model.bilm.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@torch.no_grad()
def outputs(model, batch, states=None):
    output = model(**batch, past_states=states, output_hidden_states=True, use_cache=True)
    return [*output.hidden_states, *(part for state in output.past_states for part in state)], output.past_states


def assert_equal_to_plain_functions(model, batch):
    with kernels_disabled():
        expected, wanted_states = outputs(model, batch)
        wanted_second, _ = outputs(model, batch, wanted_states)
    first, states = outputs(model, batch)
    second, _ = outputs(model, batch, states)
    for left, other in zip([*first, *second], [*expected, *wanted_second], strict=True):
        assert torch.allclose(left, other, atol=5e-6)


@functools.cache
def compiled(*flags):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "elmo_lstm.so"
        command = [COMPILER, *build.FLAGS, "-shared", "-fPIC", *flags, "-o", str(path), *map(str, build.SOURCES)]
        subprocess.run(command, check=True)
        return path.read_bytes()


def built(folder, *flags):
    path = folder / "elmo_lstm.so"
    path.write_bytes(compiled(*flags))
    return path


OTHER_WIDTHS = [pytest.param(flags, marks=pytest.mark.slow) for flags in ([], ["-mavx2", "-mfma"], ["-mavx512f"])]


@needs_compiler
@pytest.mark.parametrize("flags", [["-march=native"], *OTHER_WIDTHS])
def test_every_width_of_vectors(flags, tmp_path, batch, side_by_side):
    capability = torch.backends.cpu.get_cpu_capability()
    if ("-mavx512f" in flags and capability != "AVX512") or ("-mavx2" in flags and not capability.startswith("AVX")):
        pytest.skip(f"this processor is of the kind {capability}")
    compiled_library = loader.Library(built(tmp_path, *flags), "test")
    use_library(lambda: compiled_library)
    for changes in (
        {},
        {"projection_size": 80, "cell_size": 96, "cell_clip": None, "projection_clip": 0.1},
        {"projection_size": 16, "cell_size": 16, "cell_clip": 0.2},
        {"cell_size": 2064, "num_hidden_layers": 1, "bidirectional": False, "projection_clip": 0.1},
        {"bidirectional": False, "num_hidden_layers": 3, "projection_clip": None, "use_skip_connections": False},
    ):
        model = new_model(**changes)
        if changes.get("cell_size", 0) > 1000:
            for parameter in model.bilm.parameters():
                parameter.data.mul_(0.2)
        assert_equal_to_plain_functions(model, batch)
        assert "test" in describe(model)
    assert library() is compiled_library


@needs_compiler
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("threads", [1, 2])
def test_maxima_of_character_filters(tmp_path, activation, threads, monkeypatch):
    """Words of all lengths, also without a window of padding alone; filters that fill no panel; what is no number."""
    compiled_library = loader.Library(built(tmp_path, "-march=native"), "test")
    use_library(lambda: compiled_library)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(native_features, "LARGE", 0)
    torch.manual_seed(0)
    rows, embedding = torch.zeros(40, 20, dtype=torch.long), torch.randn(9, 5)
    embedding[0] = 0
    embedding[8, 2] = torch.nan
    for length in range(20):
        rows[length, : length + 1] = torch.randint(1, 8, (length + 1,))
        rows[39 - length, : length + 1] = torch.randint(0, 8, (length + 1,))
    rows[3, 2] = 8
    filters = [(torch.randn(n, 5, width), torch.randn(n)) for width, n in ((1, 3), (2, 70), (4, 66))]
    exact = character_features(rows, embedding, filters, activation, 0)
    for some in (slice(None), slice(15), slice(30, 40), slice(18, 20)):
        with torch.inference_mode():
            found = kernel_of_features(character_features, rows[some], embedding, filters, activation, 0)
        assert torch.allclose(found, exact[some], atol=1e-5, equal_nan=True)
    assert exact[3].isnan().all()


@needs_compiler
@pytest.mark.parametrize("flags", [["-march=native"], *OTHER_WIDTHS])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_products_of_few_rows(tmp_path, flags, threads, monkeypatch):
    """All numbers of rows, outputs that threads cannot share evenly, weights at any address, and what is no number."""
    compiled_library = loader.Library(built(tmp_path, *flags), "test")
    use_library(lambda: compiled_library)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(native_product, "LARGE", 0)
    torch.manual_seed(0)
    for columns, outputs in ((16, 4), (128, 64), (144, 324), (1040, 188)):
        numbers = torch.randn(1 + outputs * columns)
        for weight in (numbers[1:].view(outputs, columns), numbers[:-1].view(outputs, columns)):
            bias = torch.randn(outputs)
            for rows in (*range(2, 14), 31, 128):
                x = torch.randn(rows, columns)
                x[1, 3] = torch.nan
                few = native_product.FEW_ROWS.get(("float32", compiled_library.lanes), ())
                assert native_product.multiplies_few_rows(compiled_library, x, weight) == (rows in few)
                for start in (bias, None):
                    exact = F.linear(x.double(), weight.double(), None if start is None else start.double())
                    found = native_product.multiply_few_rows(compiled_library, x, weight, start)
                    assert torch.allclose(found.double(), exact, atol=1e-4, equal_nan=True)
                    assert found[1].isnan().all() and found.isnan().sum() == outputs


@needs_compiler
def test_products_of_other_shapes_are_left_to_torch(tmp_path):
    compiled_library = loader.Library(built(tmp_path, "-march=native"), "test")
    if compiled_library.lanes == 4:
        pytest.skip("this processor has no AVX2, for which these products are made")
    use_library(lambda: compiled_library)
    x, weight = torch.randn(5, 256), torch.randn(128, 256)
    serves = functools.partial(native_product.multiplies_few_rows, compiled_library)
    assert serves(x, weight)
    assert not serves(x[:1], weight) and not serves(torch.randn(129, 256), weight)
    assert not serves(x, weight[:-1]) and not serves(x[:, :-1].contiguous(), weight[:, :-1].contiguous())
    assert not serves(x.double(), weight.double()) and not serves(x.bfloat16(), weight)
    assert not serves(x, torch.randn(256, 128).t()) and not serves(torch.randn(256, 5).t(), weight)


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
def test_gate_of_highways(tmp_path, threads, monkeypatch):
    """Sizes that fill no vector, large arguments, and what is no number."""
    compiled_library = loader.Library(built(tmp_path, "-march=native"), "test")
    use_library(lambda: compiled_library)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(kernel_of_highways, "LARGE", 0)
    torch.manual_seed(0)
    for shape in ((1, 1), (3, 7), (5, 64), (9, 2050)):
        x, transformed, carried = torch.randn(3, *shape) * 3
        carried[0, 0], transformed[-1, -1] = 1e4, torch.nan
        with torch.inference_mode():
            found = kernel_of_highways.highway(highway, x, transformed, carried)
        exact = highway(x.double(), transformed.double(), carried.double())
        assert torch.allclose(found.double(), exact, atol=1e-6, equal_nan=True)
        assert found.isnan().sum() == 1


@needs_compiler
def test_gate_of_highways_declines(tmp_path):
    compiled_library = loader.Library(built(tmp_path, "-march=native"), "test")
    use_library(lambda: compiled_library)
    x = torch.randn(3, 4, 4)
    of_four_dimensions = x[:, None]
    declined = [x.double(), x.bfloat16(), x[:, :0], x.clone().requires_grad_(), of_four_dimensions]
    assert all(kernel_of_highways.highway(highway, *parts) is NotImplemented for parts in declined)
    assert kernel_of_highways.highway(highway, *x) is not NotImplemented
    use_library(None)
    assert kernel_of_highways.highway(highway, *x) is NotImplemented


@needs_compiler
def test_small_outputs_keep_their_digits(tmp_path, batch):
    compiled_library = loader.Library(built(tmp_path, "-march=native"), "test")
    use_library(lambda: compiled_library)
    model = new_model(cell_size=64)
    for parameter in model.bilm.parameters():
        parameter.data.mul_(1e-3)
    actual = outputs(model, batch)[0][1].double()
    with kernels_disabled():
        exact = outputs(model.double(), batch)[0][1]
    assert (actual - exact).norm() < 1e-5 * exact.norm() < 1e-5


@needs_compiler
def test_a_cell_that_does_not_fit_the_vectors_is_computed_in_python(tmp_path, batch):
    compiled_library = loader.Library(built(tmp_path), "test")
    use_library(lambda: compiled_library)
    model = new_model(cell_size=33)
    assert_equal_to_plain_functions(model, batch)
    assert "test" not in describe(model)


@needs_compiler
@pytest.mark.parametrize("narrow_or_crowded", [("WIDE", 1000), ("DIRECTIONS", 0)])
def test_large_weights_take_it_for_few_texts_only(tmp_path, batch, monkeypatch, narrow_or_crowded):
    compiled_library, seen = loader.Library(built(tmp_path), "test"), []
    real = compiled_library.run
    compiled_library.run = lambda calls: seen.extend(c for c in calls if isinstance(c, LayerCall)) or real(calls)
    use_library(lambda: compiled_library)
    model = new_model()
    outputs(model, batch)
    calls = len(seen)
    assert calls > 3  # three of them are the check
    monkeypatch.setattr(native_lstm, "LARGE", 100)
    monkeypatch.setattr(native_lstm, "WIDE", compiled_library.lanes)
    monkeypatch.setattr(native_lstm, "DIRECTIONS", torch.get_num_threads())
    assert_equal_to_plain_functions(model, batch)
    assert len(seen) > calls and "texts" not in describe(model)
    calls = len(seen)
    monkeypatch.setattr(native_lstm, *narrow_or_crowded)
    assert_equal_to_plain_functions(model, batch)
    assert len(seen) == calls and "for up to 2 texts" in describe(model)
    few = {name: value[:2] for name, value in batch.items()}
    assert_equal_to_plain_functions(model, few)
    assert len(seen) > calls


@needs_compiler
def test_changed_weights_numbers_that_are_none_and_inference_mode(tmp_path, batch):
    compiled_library = loader.Library(built(tmp_path), "test")
    use_library(lambda: compiled_library)
    model = new_model()
    outputs(model, batch)
    with torch.no_grad():
        model.bilm.forward_layers[1].weight_recurrent[3, 4] += 1
        model.bilm.backward_layers[0].bias.mul_(2)
    with torch.inference_mode():
        assert_equal_to_plain_functions(model, batch)
    with torch.no_grad():
        model.bilm.forward_layers[0].bias[5] = torch.nan
    with kernels_disabled():
        expected = outputs(model, batch)[0]
    actual = outputs(model, batch)[0]
    for first, other in zip(actual, expected, strict=True):
        assert torch.equal(first.isnan(), other.isnan())


def nothing(*arguments):
    """Whatever was in memory is the result."""


@needs_compiler
@pytest.mark.parametrize("wrong", [*CALLS, "cell", "cell_backward", "strongest"])
def test_a_library_of_other_numbers_is_not_used(tmp_path, batch, wrong):
    compiled_library = loader.Library(built(tmp_path), "wrong")
    if wrong is Int8LinearCall:
        pytest.skip("the layers of its kind are compared with Python, and its products in test_native_kinds.py")
    if isinstance(wrong, str):
        setattr(compiled_library, wrong, nothing)
    else:
        real = compiled_library.run
        compiled_library.run = lambda calls: real([call for call in calls if not isinstance(call, wrong)])
    use_library(lambda: compiled_library)
    model = new_model()
    with pytest.warns(RuntimeWarning, match="The library wrong differs from the loop in Python") as said:
        outputs(model, batch)
    assert len(said) == 1
    assert_equal_to_plain_functions(model, batch)
    assert "wrong" not in describe(model)


@needs_compiler
@pytest.mark.parametrize("flags", [["-march=native"], []])
def test_small_values_keep_their_digits(flags, tmp_path):
    """tanh(x) as a difference of numbers near 1 would have none of its digits at 1e-8."""
    compiled_library = loader.Library(built(tmp_path, *flags), "test")
    size = 8 * compiled_library.lanes
    j = torch.logspace(-8, 1.5, size) * torch.tensor([1.0, -1.0]).repeat(size // 2)
    gates = torch.cat([torch.zeros(size), j, torch.zeros(2 * size)])[None]
    exact = torch.tanh(j.double().tanh() / 2) / 2
    for step in (native_lstm.NativeCell(compiled_library).forward, cell_):
        m = step(gates.clone(), torch.zeros(1, size), None)[0].double()
        assert ((m - exact) / exact).abs().max() < 1e-6


@needs_compiler
@pytest.mark.parametrize("flags", [["-march=native"], []])
@pytest.mark.parametrize("bound", [None, 0.7])
def test_the_cell_of_training(flags, bound, tmp_path):
    """Against autograd through the formulas, in float64; values from tiny to saturated, clips that bind."""
    compiled_library = loader.Library(built(tmp_path, *flags), "test")
    cell, (rows, size) = native_lstm.NativeCell(compiled_library), (5, 3 * compiled_library.lanes)
    torch.manual_seed(0)
    gates, state, d_m, d_after = (torch.randn(rows, n) * 3 for n in (4 * size, size, size, size))
    gates[0], gates[1] = gates[0] * 20, gates[1] * 1e-6

    exact = [first.double().requires_grad_() for first in (gates, state)]
    i, j, f, o = exact[0].chunk(4, 1)
    after = f.sigmoid() * exact[1] + i.sigmoid() * j.tanh()
    after = after if bound is None else after.clamp(-bound, bound)
    m = o.sigmoid() * after.tanh()
    d_gates, d_state = torch.autograd.grad([m, after], exact, [d_m.double(), d_after.double()])

    saved, before, c = gates.clone(), state, state.clone()
    actual = cell.forward(saved, c, bound)
    found_d_gates, again, d_c = torch.empty_like(gates), torch.empty_like(state), d_after.clone()
    cell.backward(found_d_gates, again, saved, before, c, d_m, d_c, bound)
    for first, expected in ((actual, m), (again, m), (c, after), (found_d_gates, d_gates), (d_c, d_state)):
        assert torch.allclose(first.double(), expected, atol=3e-6)
    assert bound is None or (after.abs() == bound).any()

    turned = gates.t().contiguous().t()  # not as the library reads it
    assert torch.allclose(cell.forward(turned, state.clone(), bound), actual, atol=1e-6)


@needs_compiler
def test_training_steps_are_those_of_the_loop_in_python(tmp_path, batch):
    gradients = []
    for actual in (loader.Library(built(tmp_path), "test"), None):
        used = []
        if actual is not None:
            real = actual.cell_backward
            actual.cell_backward = lambda *arguments, real=real, used=used: used.append(arguments) or real(*arguments)
        use_library(lambda actual=actual: actual)
        model = new_model(cell_clip=0.3, projection_clip=0.2).train()
        model(**batch).last_hidden_state.pow(2).sum().backward()
        assert (len(used) > 2) == (actual is not None)
        gradients.append([parameter.grad for parameter in model.bilm.parameters()])
    for first, other in zip(*gradients, strict=True):
        assert torch.allclose(first, other, rtol=1e-4, atol=1e-5)


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A folder as a wheel has it, with one library for this machine: its path."""
    if COMPILER is None:
        pytest.skip("there is no C compiler here")
    path = built(tmp_path, "-march=native")
    target = tmp_path / "elmo_lstm-here.so"
    path.rename(target)
    monkeypatch.setattr(loader, "HERE", tmp_path)
    monkeypatch.setattr(loader, "MANIFEST", tmp_path / "libraries.json")
    monkeypatch.setattr(loader, "targets", lambda *_: ["here"])
    monkeypatch.setattr(build, "file_name", lambda name: f"elmo_lstm-{name}.so")
    note(target)
    return target


def note(path):
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    (path.parent / "libraries.json").write_text(json.dumps(sums))


def test_a_wheels_own_library(wheel, batch):
    use_library(find)
    model = new_model()
    assert_equal_to_plain_functions(model, batch)
    assert "native code for here" in describe(model)


def removed(path):
    path.unlink()


def truncated(path):
    path.write_bytes(path.read_bytes()[:5000])


def for_another_processor(path):
    content = bytearray(path.read_bytes())
    content[18:20] = (0xF3 if content[18] != 0xF3 else 0x3E).to_bytes(2, "little")  # the ELF header's machine: RISC-V
    path.write_bytes(content)
    note(path)


def without_its_function(path):
    source = path.with_suffix(".c")
    source.write_text("int nothing(void) { return 0; }\n")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    note(path)


@pytest.mark.parametrize("damage", [removed, truncated, for_another_processor, without_its_function])
def test_a_damaged_library_is_named_once(damage, wheel, batch):
    damage(wheel)
    use_library(find)
    model = new_model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs(model, batch)
        assert_equal_to_plain_functions(model, batch)
    messages = [str(first.message) for first in caught if first.category is RuntimeWarning]
    assert len(messages) == 1 and messages[0].startswith("The native loop is not used: ")
    assert str(wheel) in messages[0] and ". Vectors stay the same" in messages[0]
    assert "without the native library" in describe(model)


def test_a_wheel_has_all_libraries_or_none(tmp_path, monkeypatch):
    def compiles(command):
        made = Path(command[command.index("-o") + 1])
        made.write_text(made.name)
        (made.parent / "elmo_lstm.lib").touch()

    monkeypatch.setattr(build, "_run", compiles)
    build.for_all_platforms(tmp_path)
    sums = json.loads((tmp_path / "libraries.json").read_text())
    assert set(sums) == {build.file_name(target) for target in build.TARGETS}
    assert {path.name for path in tmp_path.iterdir()} == {*sums, "libraries.json"}
    assert all(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == sums[name] for name in sums)

    def fails_for_one(command):
        compiles(command)
        if "windows" in str(command):
            raise OSError("no such platform")

    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setattr(build, "_run", fails_for_one)
    with pytest.raises(OSError, match="no such platform"):
        build.for_all_platforms(empty)
    assert not [*empty.iterdir()]


def test_processors_without_a_library(wheel, monkeypatch):
    monkeypatch.setattr(loader, "targets", lambda *_: [])
    assert find() is None


def test_it_can_be_left_out(monkeypatch):
    monkeypatch.setenv("ELMO_HF_NATIVE", "0")
    monkeypatch.setattr(loader, "_packaged", pytest.fail)
    monkeypatch.setattr(loader, "_built", pytest.fail)
    assert find() is None


@needs_compiler
def test_a_checkout_builds_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(loader, "MANIFEST", tmp_path / "none")
    assert find().lanes in (4, 8, 16)
    monkeypatch.setattr(build, "_run", pytest.fail)
    assert find().name == "native code built here"


def test_a_compiler_that_fails_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "false")
    monkeypatch.setattr(loader, "MANIFEST", tmp_path / "none")
    with pytest.warns(RuntimeWarning, match="false cannot build elmo_lstm.c"):
        assert find() is None
