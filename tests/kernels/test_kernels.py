"""Kernels against the plain functions: vectors, states and gradients, and that nothing of them shows outside."""

import contextlib
import copy
import gc
import io
import itertools
import multiprocessing
import pickle
import threading

import numpy as np
import pytest
import torch
from golden_files import GOLDEN, SHARED_FIXTURES
from reference_bilm import ReferenceBilm
from remote import run_python
from torch import nn

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.conversion import convert
from elmo_hf.kernels import ALL_KERNELS, KERNELS, describe, kernels_disabled, lstm_training, native, prepared, threads
from elmo_hf.kernels.linear import OneDnnProduct
from elmo_hf.kernels.mixed_precision import has_bfloat16_units
from elmo_hf.kernels.onednn import in_few_shapes
from elmo_hf.model.modeling_elmo import character_features, linear, lstm_layer, run_kernel
from elmo_hf.model.modeling_elmo_lm import softmax_nll

SIZES = {"character_cnn_filters": [[1, 4], [3, 12]], "projection_size": 8, "cell_size": 32}
TEXTS = ["The first sentence is the longest one of all .", "Second", "A third , then ."]
WAYS = ("kernels", "kernels without the native library", "plain functions")


@pytest.fixture
def batch():
    return dict(ElmoTokenizer()(TEXTS, padding=True, return_tensors="pt"))


@pytest.fixture
def no_native_library(monkeypatch):
    monkeypatch.setattr(native, "_find", None)
    monkeypatch.setattr(native, "_library", None)


@pytest.fixture(params=WAYS)
def way(request):
    if request.param == "kernels without the native library":
        request.getfixturevalue("no_native_library")
    with kernels_disabled() if request.param == "plain functions" else contextlib.nullcontext():
        yield request.param


def new_model(**changes):
    torch.manual_seed(0)
    return ElmoModel(ElmoConfig(**{**SIZES, **changes})).eval()


@torch.no_grad()
def vectors(model, batch):
    return model(**batch).last_hidden_state


def plain_vectors(model, batch):
    """By a model built anew from the weights of another, with the plain functions."""
    fresh = ElmoModel(copy.deepcopy(model.config)).to(next(model.parameters()).dtype).eval()
    fresh.load_state_dict(model.state_dict())
    with kernels_disabled():
        return vectors(fresh, batch)


# The originals' vectors


def padded_batch(golden, sentences):
    rows = [torch.as_tensor(np.array(golden.rows(words))) for _, words in sentences]
    return {"input_ids": nn.utils.rnn.pad_sequence(rows, batch_first=True)}


def assert_near(actual, expected, tolerance):
    # A state is no bounded number where nothing clips it.
    assert (actual - expected).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_vectors_and_states(name, way, gradients, tmp_path):
    golden = GOLDEN[name]
    if not golden.available:
        pytest.skip(f"the files of {name} are not in {SHARED_FIXTURES}")
    vocabulary = golden.vocabulary if golden.word_input else None
    model = convert(golden.options, golden.weights, output_dir=tmp_path / "model", vocabulary=vocabulary).eval()
    assert describe(model).startswith("plain torch" if way == "plain functions" else "kernels: float32 on cpu")
    exact = ReferenceBilm(golden.options_content, golden.arrays) if golden.expands_rounding else None
    model = model.double() if exact else model
    states = of_reference = None
    for number, sentences in enumerate(golden.batches()):
        with torch.set_grad_enabled(gradients):
            output = model(
                **padded_batch(golden, sentences), past_states=states, output_hidden_states=True, use_cache=True
            )
        states = tuple(tuple(part.detach() for part in pair) for pair in output.past_states)
        if exact:
            expected, of_reference = exact([golden.rows(words) for _, words in sentences], of_reference)
            expected_states = of_reference
        else:
            expected = [golden.expected_layers("stateful", at) for at, _ in sentences]
            expected_states = golden.expected_states("stateful", number)
        for row, (_, words) in enumerate(sentences):
            layers = torch.stack([layer[row].detach() for layer in output.hidden_states])
            required = torch.as_tensor(expected[row])
            required = required[:, 1:-1] if exact else required
            assert_near(layers[:, 1 : len(words) + 1], required, golden.tolerance)
            for direction, of_direction in enumerate(expected_states[row]):
                for layer, parts in enumerate(of_direction):
                    for actual, part in zip(states[layer], parts, strict=True):
                        assert_near(actual[row, direction], torch.as_tensor(part), golden.tolerance)


# The table


def test_the_table_is_full_and_can_be_emptied(batch):
    model = new_model()
    assert KERNELS == ALL_KERNELS and len(KERNELS) == 8
    with kernels_disabled():
        assert not KERNELS and describe(model) == "plain torch: float32 on cpu, no kernels."
    assert KERNELS == ALL_KERNELS and describe(model).startswith("kernels: float32 on cpu by ")
    assert describe(model.double()).startswith("kernels: float64 on cpu by torch")


@pytest.mark.parametrize("value, said", [("0", "plain"), ("1", "kernels:")])
def test_the_environment_variable(value, said):
    code = """
from elmo_hf import ElmoConfig, ElmoModel
from elmo_hf.kernels import describe
print(describe(ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8))))
"""
    assert run_python(code, {"ELMO_HF_KERNELS": value}, with_package=True).split()[0] == said


def test_the_native_library_is_named(batch, no_native_library):
    assert "without the native library" in describe(new_model())
    model = new_model()
    model.quantize()
    assert "int8 weights" in describe(model)
    assert "in eight bits" in describe(model) or "as floats" in describe(model)


# Functions and their gradients


def lstm_inputs(dtype):
    """Two directions of four texts, one of which has no token; clips that bind."""
    sizes, projection, cell = [3, 3, 2, 1, 1], 6, 16
    shapes = {"x": (10, projection), "h": (4, projection), "c": (4, cell)}
    shapes |= {"input": (4 * cell, projection), "recurrent": (4 * cell, projection), "bias": (4 * cell,)}
    names = [*shapes, "projection"]
    leaves = [torch.randn(shape, dtype=dtype) for _ in range(2) for shape in (*shapes.values(), (projection, cell))]
    leaves = [leaf * (0.5 if leaf.shape[0] in (4 * cell, projection) else 1.0) for leaf in leaves]

    def call(run, *leaves):
        first, other = (dict(zip(names, part, strict=True)) for part in (leaves[:7], leaves[7:]))
        inputs, hs, cs = ([first[name], other[name]] for name in ("x", "h", "c"))
        weights = [tuple(part[name] for name in names[3:]) for part in (first, other)]
        outputs, hs, cs = run(lstm_layer, inputs, hs, cs, weights, sizes, 0.7, 0.4, None)
        return [*outputs, *hs, *cs]

    return leaves, call


def linear_inputs(dtype):
    leaves = [torch.randn(shape, dtype=dtype) for shape in ((5, 7), (9, 7), (9,))]
    return leaves, lambda run, *leaves: [run(linear, *leaves)]


def character_inputs(dtype):
    """Words of all lengths: some leave room for a window of mere padding, some do not."""
    rows = torch.full((9, 10), 261)
    for number, length in enumerate((1, 2, 2, 5, 6, 7, 8, 9, 10)):
        rows[number, :length] = torch.randint(1, 6, (length,))
    rows[rows == 261] = 6
    leaves = [torch.randn(shape, dtype=dtype) for shape in ((7, 3), (4, 3, 1), (4,), (5, 3, 3), (5,))]

    def call(run, embedding, *filters):
        return [run(character_features, rows, embedding, [filters[:2], filters[2:]], "tanh", 6)]

    return leaves, call


def softmax_inputs(dtype):
    leaves = [torch.randn(shape, dtype=dtype) for shape in ((6, 5), (8, 5), (8,))]
    targets = torch.tensor([0, 7, 3, 3, 1, 2])
    return leaves, lambda run, *leaves: [run(softmax_nll, *leaves, targets)]


def sampled_softmax_inputs(dtype):
    leaves = [torch.randn(shape, dtype=dtype) for shape in ((6, 5), (8, 5), (8,), (6,))]
    hits = torch.tensor([0, 7, -1, 3, -1, 2])
    return leaves, lambda run, rows, weight, bias, own: [run(softmax_nll, rows, weight, bias, hits, own)]


FUNCTIONS = {
    "lstm_layer": lstm_inputs,
    "linear": linear_inputs,
    "character_features": character_inputs,
    "softmax_nll": softmax_inputs,
    "softmax_nll, sampled": sampled_softmax_inputs,
}
functions = pytest.mark.parametrize("function", FUNCTIONS)


def make(function, dtype=torch.float32):
    torch.manual_seed(0)
    leaves, call = FUNCTIONS[function](dtype)
    return [leaf.requires_grad_() for leaf in leaves], call


def by_plain_function(function, *arguments):
    return function(*arguments)


def by_kernel(function, *arguments):
    result = ALL_KERNELS[function.__name__](function, *arguments)
    assert result is not NotImplemented
    return result


def weighted(outputs, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return sum((x * torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.dtype)).sum() for x in outputs)


def second_gradients(run, leaves, call):
    """First gradients, and those of their weighted sum."""
    first = torch.autograd.grad(weighted(call(run, *leaves)), leaves, create_graph=True)
    return [left.detach() for left in first], torch.autograd.grad(weighted(first, 1), leaves, allow_unused=True)


def assert_all_close(actual, expected, tolerance):
    for first, other in zip(actual, expected, strict=True):
        assert (first is None) == (other is None)
        if first is not None:
            scale = max(1.0, other.abs().max().item())
            torch.testing.assert_close(first.double(), other.double(), atol=tolerance * scale, rtol=0)


@functions
def test_values_and_gradients_against_autograd_in_float64(function, way):
    if way == "plain functions":
        pytest.skip("there is no kernel")
    leaves, call = make(function)
    exact, _ = make(function)
    exact = [leaf.detach().double().requires_grad_() for leaf in exact]
    expected = call(by_plain_function, *exact)
    expected_gradients = torch.autograd.grad(weighted(expected), exact)
    actual = call(by_kernel, *leaves)
    assert_all_close([x.detach() for x in actual], [x.detach() for x in expected], 1e-5)
    assert_all_close(torch.autograd.grad(weighted(actual), leaves), expected_gradients, 2e-5)
    with torch.no_grad():
        assert_all_close(call(run_kernel, *leaves), [x.detach() for x in expected], 1e-5)


@functions
def test_gradients_in_float64(function):
    """Where the kernel declines, the plain function runs; the softmax computes in float32."""
    leaves, call = make(function, torch.float64)
    expected, actual = (call(run, *leaves) for run in (by_plain_function, run_kernel))
    tolerance = 1e-5 if "softmax" in function else 1e-11
    assert_all_close([x.detach() for x in actual], [x.detach() for x in expected], tolerance)
    gradients = [torch.autograd.grad(weighted(first), leaves) for first in (actual, expected)]
    assert_all_close(*gradients, tolerance)


@pytest.mark.parametrize("filters", [[[1, 4], [3, 12]], [[2, 8]]])
def test_gradients_have_the_strides_of_their_parameters(batch, filters, way):
    """DistributedDataParallel reports gradients with other strides, and copies them at every step."""
    model = new_model(character_cnn_filters=filters).train()
    model(**batch).last_hidden_state.sum().backward()
    strides = {name: (p.grad.stride(), p.stride()) for name, p in model.named_parameters()}
    assert {name: pair for name, pair in strides.items() if pair[0] != pair[1]} == {}


@functions
def test_gradients_of_some_inputs_only(function):
    leaves, call = make(function)
    for number in range(len(leaves)):
        for leaf in leaves:
            leaf.requires_grad_(leaf is leaves[number])
        actual, expected = (
            torch.autograd.grad(weighted(call(run, *leaves)), leaves[number]) for run in (by_kernel, by_plain_function)
        )
        assert_all_close(actual, expected, 2e-5)


@functions
def test_gradients_of_gradients_are_those_of_the_plain_function(function):
    leaves, call = make(function)
    expected, actual = (second_gradients(run, leaves, call) for run in (by_plain_function, by_kernel))
    assert_all_close(actual[0], expected[0], 2e-5)
    assert_all_close(actual[1], expected[1], 1e-4)
    assert any(first is not None and first.abs().max() > 1e-2 for first in actual[1])


@pytest.mark.parametrize("function", ["lstm_layer", "linear", "character_features"])
def test_gradients_of_gradients_against_differences_in_float64(function):
    """Differences of first gradients along one direction; for the softmax, see test_softmax."""
    leaves, call = make(function, torch.float64)
    _, actual = second_gradients(run_kernel, leaves, call)

    def sum_of_gradients(step, number):
        generator = torch.Generator().manual_seed(2)
        moved = [leaf.detach().clone() for leaf in leaves]
        moved[number] += step * torch.randn(moved[number].shape, generator=generator, dtype=torch.float64)
        moved = [leaf.requires_grad_() for leaf in moved]
        first = torch.autograd.grad(weighted(call(run_kernel, *moved)), moved)
        return weighted(first, 1)

    for number, left in enumerate(actual):
        difference = (sum_of_gradients(1e-6, number) - sum_of_gradients(-1e-6, number)) / 2e-6
        generator = torch.Generator().manual_seed(2)
        way = torch.randn(leaves[number].shape, generator=generator, dtype=torch.float64)
        derivative = 0.0 if left is None else (left * way).sum().item()
        assert float(difference) == pytest.approx(derivative, rel=1e-5, abs=1e-6)


def test_gradients_of_gradients_of_a_model(batch, way):
    """As of a penalty on the gradient of token vectors."""
    actual = []
    for kernels in (True, False):
        torch.manual_seed(0)
        model = ElmoForPreTraining(ElmoConfig(**SIZES, vocab_size=9, dropout=0.0)).train()
        labels = torch.arange(batch["attention_mask"].numel()).view_as(batch["attention_mask"]) % 9
        with contextlib.nullcontext() if kernels else kernels_disabled():
            loss = model(**batch, labels=labels).loss
            parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
            first = torch.autograd.grad(loss, parameters, create_graph=True)
            penalty = sum(left.square().sum() for left in first)
            actual.append([penalty.detach(), *torch.autograd.grad(penalty, parameters, allow_unused=True)])
    assert_all_close(*actual, 1e-4)


# Shapes, types, padding


def test_a_vector_does_not_depend_on_its_batch_mates(batch, way):
    model = new_model()
    together = vectors(model, batch)
    for number, text in enumerate(TEXTS):
        alone = vectors(model, ElmoTokenizer()(text, return_tensors="pt"))[0]
        assert torch.allclose(together[number, : len(alone)], alone, atol=1e-6)
        assert not together[number, len(alone) :].any()


@pytest.mark.parametrize("mix", ["learned", "top", [0.5, 0.0, 2.0]])
def test_mix_of_a_batch_that_is_mostly_padding(mix, batch, way):
    model, lengths = new_model(mix=mix), [len(text.split()) + 2 for text in TEXTS]
    longer = ElmoTokenizer()([*TEXTS, "word " * 60], padding=True, return_tensors="pt")
    few, several = vectors(model, batch), vectors(model, longer)
    for row, length in enumerate(lengths):
        assert torch.allclose(few[row, :length], several[row, :length], atol=1e-6)
        assert not several[row, length:].any()
    assert model.train()(**longer).last_hidden_state.square().sum().requires_grad


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_and_back(dtype, batch, way):
    model = new_model()
    before = vectors(model, batch)
    model.to(dtype)
    assert vectors(model, batch).dtype == dtype
    assert torch.allclose(vectors(model, batch), plain_vectors(model, batch), atol=0.05)
    model.float()
    assert torch.allclose(vectors(model, batch), plain_vectors(model, batch), atol=1e-5)
    assert torch.allclose(vectors(model, batch), before, atol=0.05)


def test_bfloat16_trains(batch):
    """Gradients near those in float32."""
    model = new_model()
    actual = []
    for dtype in (torch.float32, torch.bfloat16):
        model.to(dtype).zero_grad()
        model(**batch).last_hidden_state.float().square().sum().backward()
        actual.append({name: p.grad.float() for name, p in model.named_parameters()})
    for name in ("bilm.forward_layers.0.weight_input", "bilm.backward_layers.1.weight_projection"):
        assert torch.cosine_similarity(*(first[name].flatten() for first in actual), 0) > 0.99


def test_autocast_changes_nothing_in_the_bilm(batch):
    """Layers of the LSTM are of the type of the weights, with kernels."""
    model, words = new_model(), {"inputs_embeds": torch.randn(2, 5, 8)}
    expected = vectors(model, words)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        layers = model(**words, output_hidden_states=True).hidden_states
    assert all(layer.dtype == torch.float32 for layer in layers)
    assert torch.allclose(sum(layers) / 3, expected, atol=1e-6)


def test_products_come_in_few_shapes():
    shapes = {len(in_few_shapes(torch.ones(number, 2))) for number in range(513)}
    assert len(shapes) <= 32
    x, weight, bias = torch.randn(37, 5), torch.randn(16, 5), torch.randn(16)
    product = OneDnnProduct(weight)
    assert torch.allclose(product(x, bias), x @ weight.T + bias, atol=1e-5)
    assert torch.allclose(product.clipped(x, 0.3), (x @ weight.T).clamp(-0.3, 0.3), atol=1e-5)


def test_a_compiler_leaves_the_recurrence_out(batch):
    sizes = []

    def backend(graph, _):
        sizes.append(len(graph.graph.nodes))
        return graph.forward

    model = new_model()
    compiled = torch.compile(model, backend=backend)
    for length in (12, 9, 5):
        subset = {name: value[:, :length] for name, value in batch.items()}
        assert torch.allclose(vectors(compiled, subset), vectors(model, subset), atol=1e-6)
    assert sum(sizes) < 100  # an unrolled loop over time has hundreds for each length


# Nothing of it shows outside


def same(first, other):
    # Products may differ in the last bit with where in memory their numbers lie.
    return torch.allclose(first, other, atol=1e-6)


def test_copies_pickles_and_saved_models(batch, tmp_path, way):
    model = new_model()
    before, names = vectors(model, batch), list(model.state_dict())
    copied = copy.deepcopy(model)
    with torch.no_grad():
        model.bilm.forward_layers[0].weight_input.zero_()
    assert same(vectors(copied, batch), before)
    assert not same(vectors(model, batch), before)
    assert same(vectors(pickle.loads(pickle.dumps(copied)), batch), before)
    buffer = io.BytesIO()
    torch.save(copied, buffer)
    buffer.seek(0)
    assert same(vectors(torch.load(buffer, weights_only=False), batch), before)
    copied.save_pretrained(tmp_path)
    assert same(vectors(ElmoModel.from_pretrained(tmp_path).eval(), batch), before)
    assert list(copied.state_dict()) == names


def test_what_is_prepared_goes_with_its_model(batch):
    if native.library() is None:
        pytest.skip("without the native library nothing is cached")
    gc.collect()
    before = len(prepared._cache)
    model = new_model()
    vectors(model, batch)
    assert len(prepared._cache) > before
    del model
    gc.collect()
    assert len(prepared._cache) == before


def test_without_the_native_library_nothing_is_prepared(batch, no_native_library):
    gc.collect()
    before, model = len(prepared._cache), new_model()
    vectors(model, batch)
    assert len(prepared._cache) == before


# Threads and processes


def test_eight_threads_on_one_model(two_threads, batch):
    model, tokenizer = new_model(), ElmoTokenizer()
    model.cache_words(20)
    batches = [tokenizer(text * number, return_tensors="pt") for text in TEXTS for number in (1, 3, 6)]
    expected = [plain_vectors(model, batch) for batch in batches]
    before, errors = threading.active_count(), []

    def work():
        try:
            for _ in range(5):
                for arguments, required in zip(batches, expected, strict=True):
                    assert torch.allclose(vectors(model, arguments), required, atol=1e-5)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join(60)
    assert not errors and threading.active_count() == before
    assert torch.get_num_threads() == 2


def test_no_fork_hook_is_registered():
    """Neither by importing the package nor by computing; torch registers its own when it is imported."""
    code = """
import os, random, logging, threading, torch, transformers, concurrent.futures, tokenizers
seen = []
os.register_at_fork = lambda **hooks: seen.append(hooks)
from elmo_hf import ElmoConfig, ElmoModel
threads = torch.get_num_threads()
model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8))
ids = torch.full((2, 3, 50), 261)
model(ids).last_hidden_state.sum().backward()
model.cache_words(10)
with torch.no_grad():
    model.eval()(ids)
print(len(seen), [hook for hooks in seen for hook in hooks.values()], torch.get_num_threads() == threads)
"""
    printed = run_python(code, {}, with_package=None)
    assert printed.split()[0] == "0" and printed.split()[-1] == "True", printed


class Embedded(torch.utils.data.Dataset):
    def __init__(self, model, batch):
        self.model, self.batch = model, batch

    def __len__(self):
        return 4

    def __getitem__(self, number):
        return vectors(self.model, self.batch).sum()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")  # on one processor
def test_workers_of_a_data_loader(batch):
    """Started anew: what a forked process may compute is a matter of torch."""
    model = new_model()
    expected = vectors(model, batch).sum()
    dataset = Embedded(model, batch)
    context = multiprocessing.get_context("spawn")
    loader = torch.utils.data.DataLoader(dataset, num_workers=2, multiprocessing_context=context, timeout=300)
    assert [float(x) for x in loader] == pytest.approx([float(expected)] * 4, abs=1e-3)


def test_an_error_in_one_direction_reaches_the_caller(two_threads, batch):
    model = new_model()
    model.bilm.backward_layers[0].bias = nn.Parameter(torch.zeros(3))
    with pytest.raises(RuntimeError):
        vectors(model, batch)
    assert torch.get_num_threads() == 2


def trained(model, batch, number, autocast=False):
    """Vectors and the gradients of all weights."""
    torch.set_num_threads(number)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        actual = model(**batch).last_hidden_state
        actual.pow(2).sum().backward()
    return [actual.detach(), *(parameter.grad.clone() for parameter in model.parameters() if parameter.requires_grad)]


@pytest.mark.parametrize("autocast", [False, True])
def test_a_thread_for_each_direction_trains_alike(two_threads, batch, monkeypatch, autocast):
    """With one thread the directions take turns; products by both threads may round otherwise."""
    model, calls = new_model().train(), []
    words = {"inputs_embeds": model.encode_tokens(**batch)[0].detach(), "attention_mask": batch["attention_mask"]}
    model.token_encoder.requires_grad_(False)
    real = threads.run_in_parallel
    monkeypatch.setattr(
        threads, "run_in_parallel", lambda tasks, **options: calls.append(len(tasks)) or real(tasks, **options)
    )
    with kernels_disabled():
        expected = trained(model, words, 2)
    in_turn = trained(model, words, 1)
    monkeypatch.setattr(lstm_training, "ENOUGH_FOR_THREADS", 0)
    side_by_side = [trained(model, words, 2, autocast) for _ in range(3)]
    assert calls == [2] * 4 * 3  # two layers, forwards and backwards, three times
    assert torch.get_num_threads() == 2
    mixed = autocast and has_bfloat16_units()
    for first, plain, other, *again in zip(expected, in_turn, *side_by_side, strict=True):
        assert torch.allclose(plain, first, rtol=1e-4, atol=1e-5)
        assert (other - first).norm() < 0.03 * first.norm() if mixed else torch.allclose(other, first, 1e-4, 1e-5)
        assert all(torch.equal(other, each) for each in again)


def test_an_error_in_a_thread_of_training_reaches_the_caller(two_threads, batch, monkeypatch):
    monkeypatch.setattr(lstm_training, "ENOUGH_FOR_THREADS", 0)
    model = new_model().train()
    model.bilm.backward_layers[0].bias = nn.Parameter(torch.zeros(3))
    with pytest.raises(RuntimeError):
        model(**batch)
    assert torch.get_num_threads() == 2


# Settings


@pytest.mark.parametrize("clips", itertools.product([None, 0.1, 3.0], [None, 0.05]))
def test_clips(clips, batch, way):
    model = new_model(cell_clip=clips[0], projection_clip=clips[1])
    with torch.no_grad():
        for parameter in model.bilm.parameters():
            parameter.mul_(3)
    assert torch.allclose(vectors(model, batch), plain_vectors(model, batch), atol=1e-5)
    actual = trained(model, batch, torch.get_num_threads())
    with kernels_disabled():
        expected = trained(model, batch, torch.get_num_threads())
    assert_all_close(actual, expected, 1e-4)
