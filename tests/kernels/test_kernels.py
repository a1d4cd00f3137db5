"""The choice of engine, and that nothing outside of it shows: the originals' vectors, saving, copying, threads."""

import copy
import gc
import io
import multiprocessing
import os
import pickle
import signal
import threading

import numpy as np
import pytest
import torch
from golden_files import GOLDEN, SHARED_FIXTURES
from reference_bilm import ReferenceBilm
from remote import run_python
from torch import nn

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.conversion import convert
from elmo_hf.model import fast_lstm_training_elmo, fast_native_elmo, fast_threads_elmo
from elmo_hf.model.fast_products_elmo import OneDnnLinear, _kept, _step, in_few_shapes

SIZES = {"character_cnn_filters": [[1, 4], [3, 12]], "projection_size": 8, "cell_size": 32}
TEXTS = ["The first sentence is the longest one of all .", "Second", "A third , then ."]


@pytest.fixture
def batch():
    return dict(ElmoTokenizer()(TEXTS, padding=True, return_tensors="pt"))


def new_model(**changes):
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(**{**SIZES, **changes})).eval()
    model.set_engine("packed")
    return model


@torch.no_grad()
def vectors(model, batch):
    return model(**batch).last_hidden_state


def same_weights_reference(model):
    """A model built anew from the weights of another, on the plain loop."""
    fresh = ElmoModel(model.config).to(next(model.parameters()).dtype).eval()
    fresh.load_state_dict(model.state_dict())
    fresh.set_engine("reference")
    return fresh


def assert_fresh(model, batch, tolerance=1e-5):
    assert torch.allclose(vectors(model, batch), vectors(same_weights_reference(model), batch), atol=tolerance)


# The originals' vectors


def padded_batch(golden, sentences):
    rows = [torch.as_tensor(np.array(golden.rows(words))) for _, words in sentences]
    return {"input_ids": nn.utils.rnn.pad_sequence(rows, batch_first=True)}


def assert_near(found, expected, tolerance):
    # A state is no bounded number where nothing clips it.
    assert (found - expected).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


@pytest.mark.parametrize("engine", ["reference", "packed", "packed in Python"])
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_vectors_and_states(name, engine, tmp_path, monkeypatch):
    golden = GOLDEN[name]
    if engine == "packed in Python":
        monkeypatch.setattr(fast_native_elmo, "_find", None)
        monkeypatch.setattr(fast_native_elmo, "_native", None)
        engine = "packed"
    if not golden.available:
        pytest.skip(f"the files of {name} are not in {SHARED_FIXTURES}")
    vocabulary = golden.vocabulary if golden.word_input else None
    model = convert(golden.options, golden.weights, output_dir=tmp_path / "model", vocabulary=vocabulary).eval()
    model.set_engine(engine)
    assert model.engine.startswith(engine)
    exact = ReferenceBilm(golden.options_content, golden.arrays) if golden.expands_rounding else None
    model = model.double() if exact else model
    states = of_reference = None
    for number, sentences in enumerate(golden.batches()):
        with torch.no_grad():
            output = model(
                **padded_batch(golden, sentences), past_states=states, output_hidden_states=True, use_cache=True
            )
        states = output.past_states
        if exact:
            expected, of_reference = exact([golden.rows(words) for _, words in sentences], of_reference)
            expected_states = of_reference
        else:
            expected = [golden.expected_layers("stateful", at) for at, _ in sentences]
            expected_states = golden.expected_states("stateful", number)
        for row, (_, words) in enumerate(sentences):
            layers = torch.stack([layer[row] for layer in output.hidden_states])
            wanted = torch.as_tensor(expected[row])
            wanted = wanted[:, 1:-1] if exact else wanted
            assert_near(layers[:, 1 : len(words) + 1], wanted, golden.tolerance)
            for direction, of_direction in enumerate(expected_states[row]):
                for layer, parts in enumerate(of_direction):
                    for found, part in zip(states[layer], parts, strict=True):
                        assert_near(found[row, direction], torch.as_tensor(part), golden.tolerance)


# The choice


def test_the_choice_is_by_name_and_by_environment(monkeypatch, batch):
    model = new_model()
    model.set_engine("auto")
    monkeypatch.delenv("ELMO_HF_ENGINE", raising=False)
    assert model.engine.startswith("packed: no work on padding")
    monkeypatch.setenv("ELMO_HF_ENGINE", "reference")
    assert model.engine.startswith("reference: the plain loop")
    model.set_engine("packed")
    assert model.engine.startswith("packed")
    with pytest.raises(ValueError, match="The engine is 'fast'; accepted is one of 'auto', 'reference', 'packed'"):
        model.set_engine("fast")
    model.set_engine("auto")
    monkeypatch.setenv("ELMO_HF_ENGINE", "fast")
    with pytest.raises(ValueError, match="The environment variable ELMO_HF_ENGINE is 'fast'"):
        vectors(model, batch)


def test_hooks_and_replaced_parts_are_not_passed_over(batch):
    model, seen = new_model(), []
    plain = vectors(model, batch)
    handle = model.bilm.forward_layers[1].register_forward_hook(lambda *_: seen.append("layer"))
    model.token_encoder.projection.register_forward_hook(lambda *_: seen.append("projection"))
    assert torch.allclose(vectors(model, batch), plain, atol=1e-6)
    assert sorted(seen) == ["layer", "projection"]
    handle.remove()

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model.token_encoder.projection.__class__ = Doubled
    assert not torch.allclose(vectors(model, batch), plain, atol=1e-3)


def test_autocast_changes_nothing_inside(batch):
    model = new_model()
    plain = vectors(model, batch)
    model.set_engine("packed")
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        layers = model(**batch, output_hidden_states=True).hidden_states
    assert all(layer.dtype == torch.float32 for layer in layers)
    assert plain.shape == layers[0].shape


# A changed weight is never served stale


def step_of(make_optimizer):
    def change(model):
        optimizer = make_optimizer(model.parameters())
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()

    return change


@torch.no_grad()
def edit_in_place(model):
    for parameter in model.parameters():
        parameter.add_(0.1)


def edit_data(model):
    for parameter in model.parameters():
        parameter.data.mul_(1.5)


def edit_one_row_of_data(model):
    model.bilm.backward_layers[0].weight_recurrent.data[5] = 1


def edit_one_column_of_data(model):
    model.bilm.forward_layers[1].weight_projection.data[:, 30] = 1


def replace_a_parameter(model):
    layer = model.bilm.forward_layers[0]
    layer.weight_input = nn.Parameter(layer.weight_input.detach() * 2)


def load_other_weights(model):
    torch.manual_seed(1)
    model.load_state_dict(ElmoModel(model.config).state_dict())


CHANGES = {
    "SGD": step_of(lambda p: torch.optim.SGD(p, lr=0.1)),
    "fused Adam": step_of(lambda p: torch.optim.Adam(p, lr=0.1, fused=True)),
    "in place": edit_in_place,
    "data": edit_data,
    "a row of data": edit_one_row_of_data,
    "a column of data": edit_one_column_of_data,
    "a new parameter": replace_a_parameter,
    "load_state_dict": load_other_weights,
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights_are_used_at_once(change, inference, batch):
    model = new_model()
    with torch.inference_mode(inference):
        before = vectors(model, batch)
    CHANGES[change](model)
    with torch.inference_mode(inference):
        after = vectors(model, batch)
    assert not torch.allclose(before, after, atol=1e-4)
    assert_fresh(model, batch, 1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_and_back(dtype, batch):
    model = new_model()
    before = vectors(model, batch)
    model.to(dtype)
    assert vectors(model, batch).dtype == dtype
    assert_fresh(model, batch, 0.05)
    model.float()
    assert_fresh(model, batch)
    assert torch.allclose(vectors(model, batch), before, atol=0.05)


def test_training_between_two_evaluations(batch):
    model = new_model()
    vectors(model, batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, fused=True)
    for _ in range(3):
        model.train()(**batch).last_hidden_state.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert_fresh(model.eval(), batch)


# Nothing of it shows outside


def same(one, other):
    # Products may differ in the last bit with where in memory their numbers lie.
    return torch.allclose(one, other, atol=1e-6)


def test_copies_pickles_and_saved_models(batch, tmp_path):
    model = new_model()
    before, names = vectors(model, batch), list(model.state_dict())
    assert any(module in _kept for module in model.modules())
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
    loaded = ElmoModel.from_pretrained(tmp_path).eval()
    loaded.set_engine("packed")
    assert same(vectors(loaded, batch), before)
    assert list(copied.state_dict()) == names


def test_what_is_kept_goes_with_its_model(batch):
    gc.collect()
    before = len(_kept)
    model = new_model()
    vectors(model, batch)
    assert len(_kept) > before
    del model
    gc.collect()
    assert len(_kept) == before


# Threads and processes


@pytest.fixture
def two_threads():
    number = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(number)


def test_eight_threads_on_one_model(two_threads, batch):
    model, tokenizer = new_model(), ElmoTokenizer()
    model.cache_words(20)
    batches = [tokenizer(text * number, return_tensors="pt") for text in TEXTS for number in (1, 3, 6)]
    model.set_engine("reference")
    expected = [vectors(model, batch) for batch in batches]
    model.set_engine("packed")
    before, errors = threading.active_count(), []

    def work():
        try:
            for _ in range(5):
                for given, wanted in zip(batches, expected, strict=True):
                    assert torch.allclose(vectors(model, given), wanted, atol=1e-5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and threading.active_count() == before
    assert torch.get_num_threads() == 2


def _forked(model, batch, queue):
    queue.put(vectors(model, batch).sum().item())


def test_forked_processes(two_threads, batch):
    model = new_model()
    expected = vectors(model, batch).sum().item()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [context.Process(target=_forked, args=(model, batch, queue)) for _ in range(2)]
    for process in processes:
        process.start()
    found = [queue.get(timeout=300) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert found == pytest.approx([expected] * 2, abs=1e-3)


class Embedded(torch.utils.data.Dataset):
    def __init__(self, model, batch):
        self.model, self.batch = model, batch

    def __len__(self):
        return 4

    def __getitem__(self, number):
        return vectors(self.model, self.batch).sum()


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")  # on one processor
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_data_loader(two_threads, batch, start):
    model = new_model()
    expected = vectors(model, batch).sum()
    dataset = Embedded(model, batch)
    loader = torch.utils.data.DataLoader(dataset, num_workers=2, multiprocessing_context=start, timeout=300)
    assert [float(x) for x in loader] == pytest.approx([float(expected)] * 4, abs=1e-3)


def test_the_threads_of_a_forked_process_are_its_own():
    """Where our code does not run, nothing is set; where it does, one thread is."""
    script = """
import os, torch
torch.set_num_threads(2)
from elmo_hf import ElmoConfig, ElmoModel
model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)).eval()
torch.ones(300, 300) @ torch.ones(300, 300)
if not os.fork():
    before = torch.get_num_threads()
    with torch.no_grad():
        model(torch.full((1, 3, 50), 261))
    print(before, torch.get_num_threads(), flush=True)
    os._exit(0)
os.wait()
print(torch.get_num_threads())
"""
    assert run_python(script, {}, with_package=True).split() == ["2", "1", "2"]


def test_a_fork_while_others_compute(two_threads, batch):
    """Each forked process finds every lock free, and whole words in what is remembered."""
    model = new_model()
    model.cache_words(4)
    expected, stop = vectors(model, batch), threading.Event()

    def work():
        while not stop.is_set():
            vectors(model, batch)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if not child:
                signal.alarm(60)  # a hang ends by itself
                os._exit(0 if torch.allclose(vectors(model, batch), expected, atol=1e-5) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def test_products_comein_few_shapes():
    shapes = {len(in_few_shapes(torch.ones(number, 2))) for number in range(513)}
    assert len(shapes) <= 32
    x, weight, bias = torch.randn(37, 5), torch.randn(16, 5), torch.randn(16)
    product = OneDnnLinear(weight)
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
        some = {name: value[:, :length] for name, value in batch.items()}
        assert torch.allclose(vectors(compiled, some), vectors(model, some), atol=1e-6)
    assert sum(sizes) < 100  # an unrolled loop over time has hundreds for each length


def test_eight_bits_are_named(batch):
    model = new_model()
    model.quantize()
    assert "int8 weights" in model.engine and "eight bits" in model.engine or "as floats" in model.engine


def test_an_error_in_one_direction_reaches_the_caller(two_threads, batch):
    model = new_model()
    model.bilm.backward_layers[0].bias = nn.Parameter(torch.zeros(3))
    model.set_engine("packed")
    with pytest.raises(RuntimeError):
        vectors(model, batch)
    assert torch.get_num_threads() == 2


def trained(model, batch, threads, autocast=False):
    """Vectors and the gradients of all weights."""
    torch.set_num_threads(threads)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = model(**batch).last_hidden_state
        found.pow(2).sum().backward()
    return [found.detach(), *(parameter.grad.clone() for parameter in model.parameters() if parameter.requires_grad)]


@pytest.mark.parametrize("autocast", [False, True])
def test_a_thread_for_each_direction_trains_alike(two_threads, batch, monkeypatch, autocast):
    """With one thread the directions take turns; products by both threads may round otherwise."""
    model, calls = new_model().train(), []
    real = fast_threads_elmo.side_by_side
    monkeypatch.setattr(fast_threads_elmo, "side_by_side", lambda given: calls.append(len(given)) or real(given))
    model.set_engine("reference")
    expected = trained(model, batch, 2)
    model.set_engine("packed")
    in_turn = trained(model, batch, 1)
    monkeypatch.setattr(fast_lstm_training_elmo, "ENOUGH_FOR_THREADS", 0)
    side_by_side = [trained(model, batch, 2, autocast) for _ in range(3)]
    assert calls == [2] * 4 * 3  # two layers, forwards and backwards, three times
    assert torch.get_num_threads() == 2
    for one, plain, other, *again in zip(expected, in_turn, *side_by_side, strict=True):
        assert torch.allclose(plain, one, rtol=1e-4, atol=1e-5)
        assert torch.allclose(other, one, rtol=1e-4, atol=1e-5)
        assert all(torch.equal(other, each) for each in again)


def test_an_error_in_a_thread_of_training_reaches_the_caller(two_threads, batch, monkeypatch):
    monkeypatch.setattr(fast_lstm_training_elmo, "ENOUGH_FOR_THREADS", 0)
    model = new_model().train()
    model.bilm.backward_layers[0].bias = nn.Parameter(torch.zeros(3))
    model.set_engine("packed")
    with pytest.raises(RuntimeError):
        model(**batch)
    assert torch.get_num_threads() == 2


def test_a_vector_does_not_depend_on_its_batch_mates(batch):
    model = new_model()
    together = vectors(model, batch)
    for number, text in enumerate(TEXTS):
        alone = vectors(model, ElmoTokenizer()(text, return_tensors="pt"))[0]
        assert torch.allclose(together[number, : len(alone)], alone, atol=1e-6)
        assert not together[number, len(alone) :].any()


@pytest.mark.parametrize("mix", ["learned", "top", [0.5, 0.0, 2.0]])
def test_mix_of_a_batch_that_is_mostly_padding(mix, batch):
    model, lengths = new_model(mix=mix), [len(text.split()) + 2 for text in TEXTS]
    longer = ElmoTokenizer()([*TEXTS, "word " * 60], padding=True, return_tensors="pt")
    few, many = vectors(model, batch), vectors(model, longer)
    for row, length in enumerate(lengths):
        assert torch.allclose(few[row, :length], many[row, :length], atol=1e-6)
        assert not many[row, length:].any()
    assert model.train()(**longer).last_hidden_state.square().sum().requires_grad


@pytest.mark.parametrize("shape", [(7,), (1, 1), (5, 1), (1, 9), (6, 6), (12, 8), (8, 12), (32, 16, 3), (4, 16, 7)])
def test_the_sample_of_a_weight_meets_every_row_and_every_column(shape):
    size = torch.Size(shape).numel()
    columns = size // shape[0]
    seen = torch.arange(size)[:: _step(torch.empty(shape))]
    assert set((seen % columns).tolist()) == set(range(columns))
    assert set((seen // columns).tolist()) == set(range(shape[0]))
    assert len(seen) <= 3 * max(shape[0], columns)
