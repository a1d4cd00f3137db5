"""Weights that are changed, in whatever way, never meet anything that was prepared from their earlier values.

Each model is used twice before the change, so that whatever is prepared for later calls is prepared, and is compared
with a new model of the same weights afterwards. Whoever looks for a stale value at a single number has to compare all
of them: sums and samples miss what some of these tests write.
"""

import copy

import pytest
import torch
from torch import nn

from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoModel, ElmoTokenizer, SentenceCache

SIZES = {
    "8-16": {"projection_size": 8, "cell_size": 16, "character_cnn_filters": [[1, 8], [2, 8]]},
    "32-128": {"projection_size": 32, "cell_size": 128, "character_cnn_filters": [[1, 16], [2, 32]]},
}
CACHES = ("no cache", "words", "sentences")
TEXTS = ["The first sentence is the longest one of all .", "Second", "A third , then . And the first again"]


@pytest.fixture
def batch():
    return dict(ElmoTokenizer()(TEXTS, padding=True, return_tensors="pt"))


@pytest.fixture(params=SIZES)
def size(request):
    return SIZES[request.param]


@pytest.fixture(params=CACHES)
def cache(request):
    return request.param


# How models are used: more may be prepared where no gradient can ever be asked for.
without_gradients = torch.no_grad


@pytest.fixture(autouse=True, params=[torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def mode(request, monkeypatch):
    monkeypatch.setitem(globals(), "without_gradients", request.param)


def vectors(model, batch):
    with without_gradients():
        output = model(**batch, output_hidden_states=True)
    return [output.last_hidden_state, *output.hidden_states]


@pytest.fixture
def model(size, cache, batch):
    """A model that has been used."""
    return used(ElmoModel(ElmoConfig(num_highway_layers=1, freeze_bilm=cache == "sentences", **size)), cache, batch)


def used(model, cache, batch):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
        model.base_model.token_encoder.embedding.weight[0] = 0.0
    model.eval()
    model.cache_words(**({"megabytes": 8} if cache == "words" else {"number": 0}))
    if cache == "sentences":
        model.cache_sentences(SentenceCache(megabytes=8))
    for _ in range(2):
        vectors(model, batch)
    return model


def fresh(model):
    """A new model of the same weights, which keeps nothing."""
    new = ElmoModel(copy.deepcopy(model.config)).to(next(model.parameters()).dtype).eval()
    new.load_state_dict(model.state_dict())
    new.cache_words(0)
    return new


def assert_same(actual, expected, note="", tolerance=1e-6):
    for first, other in zip(actual, expected, strict=True):
        # Sums over other batches of words differ in their last bits.
        torch.testing.assert_close(first, other, atol=tolerance, rtol=1e-5, msg=lambda text: f"{note}\n{text}")


def assert_as_fresh(model, batch, before, tolerance=1e-6, expected=None):
    """The model computes with its weights as they are now, as `expected` does, a fresh model; and the second time."""
    expected = vectors(fresh(model) if expected is None else expected, batch)
    assert max((first - other).abs().max() for first, other in zip(before, expected, strict=True)) > 1e-4, "no change"
    for _ in range(2):
        assert_same(vectors(model, batch), expected, tolerance=tolerance)


def weights(model):
    """The parameters with two dimensions or more that the biLM multiplies by, by name."""
    return {name: p for name, p in model.named_parameters() if p.dim() > 1 and "embedding" not in name}


# Optimizers


@pytest.mark.parametrize("way", ["plain", "foreach", "fused"])
@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
def test_step_of_an_optimizer(model, batch, optimizer, way):
    """Without a call of train(), nor any forward pass with gradients in between."""
    before = vectors(model, batch)
    options = {"foreach": way == "foreach"} if way != "fused" else {"fused": True}
    stepped = getattr(torch.optim, optimizer)(model.parameters(), lr=0.05, **options)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    stepped.step()
    assert_as_fresh(model, batch, before)


@pytest.mark.parametrize("way", ["plain", "foreach", "fused"])
def test_steps_of_training(size, batch, way):
    """As in a training loop that evaluates in between."""
    model = used(ElmoModel(ElmoConfig(num_highway_layers=1, **size)), "words", batch)
    before = vectors(model, batch)
    options = {"foreach": way == "foreach"} if way != "fused" else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, **options)
    for _ in range(2):
        model.train()
        model(**batch).last_hidden_state.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        model.eval()
        assert_as_fresh(model, batch, before)
        before = vectors(model, batch)


# Values that are written


def test_load_state_dict(model, batch):
    before = vectors(model, batch)
    model.load_state_dict({name: value + 0.1 * torch.randn_like(value) for name, value in model.state_dict().items()})
    assert_as_fresh(model, batch, before)


def test_load_state_dict_that_assigns(model, batch):
    before = vectors(model, batch)
    state = {name: value + 0.1 * torch.randn_like(value) for name, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    assert_as_fresh(model, batch, before)


@torch.no_grad()
def test_in_place(model, batch):
    before = vectors(model, batch)
    for parameter in model.parameters():
        parameter.mul_(0.9).add_(0.01)
    assert_as_fresh(model, batch, before)


def test_in_place_in_inference_mode(model, batch):
    before = vectors(model, batch)
    with torch.inference_mode():
        for parameter in weights(model).values():
            parameter.mul_(0.9)
    assert_as_fresh(model, batch, before)


def test_copy_into_data(model, batch):
    before = vectors(model, batch)
    for parameter in model.parameters():
        parameter.data.copy_(parameter.data + 0.1 * torch.randn_like(parameter))
    assert_as_fresh(model, batch, before)


def test_rectangles_written_through_data(model, batch):
    """Of 2 to 64 numbers a side, at other places each time, in one weight after the other."""
    draw = torch.Generator().manual_seed(1)
    for name, parameter in weights(model).items():
        before = vectors(model, batch)
        for _ in range(3):
            top, left = (int(torch.randint(0, size - 1, (), generator=draw)) for size in parameter.shape[:2])
            height, width = torch.randint(2, 65, (2,), generator=draw).tolist()
            parameter.data[top : top + height, left : left + width] += 0.2
            expected = vectors(fresh(model), batch)
            for _ in range(2):
                assert_same(vectors(model, batch), expected, name)
        # A filter may win at no position.
        changed = any(not torch.equal(first, other) for first, other in zip(before, expected, strict=True))
        assert changed or "convolutions" in name, name


def test_one_number_written_through_data(model, batch):
    for name, parameter in weights(model).items():
        index = tuple(size // 3 for size in parameter.shape)
        parameter.data[index] += 5.0
        expected = vectors(fresh(model), batch)
        assert_same(vectors(model, batch), expected, name)


def test_two_rows_swapped_through_data(model, batch):
    """No sum over the numbers changes."""
    for name, parameter in weights(model).items():
        first, other = len(parameter) // 4, len(parameter) // 2
        parameter.data[[first, other]] = parameter.data[[other, first]]
        expected = vectors(fresh(model), batch)
        assert_same(vectors(model, batch), expected, name)


def test_swapped_numbers_of_numpy(model, batch):
    """Written through memory that NumPy shares: PyTorch hears nothing of it."""
    before = vectors(model, batch)
    for parameter in weights(model).values():
        array = parameter.detach().numpy()
        array[:] = array[::-1].copy()
    assert_as_fresh(model, batch, before)


def test_character_embedding_written_through_data(model, batch):
    before = vectors(model, batch)
    model.token_encoder.embedding.weight.data[ord("e") + 1] += 1.0
    assert_as_fresh(model, batch, before)


def test_biases_written_through_data(model, batch):
    before = vectors(model, batch)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data[len(parameter) // 2] += 0.5
    assert_as_fresh(model, batch, before)


# Tensors that are exchanged


def test_other_types_and_back(model, batch):
    before = vectors(model, batch)
    model.to(torch.float64)
    actual = vectors(model, batch)
    assert all(layer.dtype == torch.float64 for layer in actual)
    assert_same(actual, vectors(fresh(model), batch))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    model.to(torch.float32)
    assert_as_fresh(model, batch, before)


def test_data_assigned(model, batch):
    before = vectors(model, batch)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.1 * torch.randn_like(parameter)
    assert_as_fresh(model, batch, before)


def test_data_assigned_again_where_memory_was_freed(model, batch):
    """A new tensor often lies where an old one was: neither address nor version tells them apart."""
    for number in range(4):
        before = vectors(model, batch)
        for parameter in weights(model).values():
            values = parameter.data * 0.9 + 0.01 * number
            parameter.data = torch.empty(0)
            parameter.data = values
            del values
        assert_as_fresh(model, batch, before)


def test_parameters_replaced(model, batch):
    before = vectors(model, batch)
    for name, parameter in list(weights(model).items()):
        owner, _, last = name.rpartition(".")
        new = nn.Parameter(parameter.detach() * 0.8, requires_grad=parameter.requires_grad)
        setattr(model.get_submodule(owner), last, new)
    assert_as_fresh(model, batch, before)


def test_swap_tensors(model, batch):
    before = vectors(model, batch)
    others = {name: nn.Parameter(parameter.detach() * 0.8) for name, parameter in weights(model).items()}
    for name, parameter in weights(model).items():
        torch.utils.swap_tensors(parameter, others[name])
    assert_as_fresh(model, batch, before)


def test_moving_average_swapped_in_and_out(model, batch):
    """As a trainer does that evaluates with averaged weights, there and back."""
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    average.update_parameters(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    average.update_parameters(model)
    trained = vectors(model, batch)
    for before in (trained, vectors(average.module, batch)):
        for first, other in zip(model.parameters(), average.module.parameters(), strict=True):
            saved = first.data.clone()
            first.data.copy_(other.data)
            other.data.copy_(saved)
        assert_as_fresh(model, batch, before)
    assert_same(vectors(model, batch), trained)


# Modules and their attributes


def test_module_replaced(model, batch):
    before = vectors(model, batch)
    old = model.bilm.forward_layers[0]
    new = copy.deepcopy(old)
    with torch.no_grad():
        new.weight_input.mul_(0.5)
    model.bilm.forward_layers[0] = new
    encoder = model.token_encoder
    projection = nn.Linear(encoder.projection.in_features, encoder.projection.out_features)
    encoder.projection = projection.requires_grad_(encoder.projection.weight.requires_grad)
    # torch's own product in both, because a kernel's sums differ from it in their last bits.
    expected = fresh(model)
    expected.token_encoder.projection = copy.deepcopy(projection)
    assert_as_fresh(model, batch, before, expected=expected)


def test_module_of_another_class(model, batch):
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    encoder = model.token_encoder
    doubled = Doubled(encoder.projection.in_features, encoder.projection.out_features)
    doubled.load_state_dict(encoder.projection.state_dict())
    doubled.requires_grad_(encoder.projection.weight.requires_grad)
    before = vectors(model, batch)
    encoder.projection = doubled
    with torch.no_grad():
        other = fresh(model)
        other.token_encoder.projection = nn.Linear(doubled.in_features, doubled.out_features)
        for name, parameter in other.token_encoder.projection.named_parameters():
            parameter.copy_(2 * getattr(doubled, name))
    expected = vectors(other, batch)
    assert (expected[0] - before[0]).abs().max() > 1e-3
    assert_same(vectors(model, batch), expected, tolerance=1e-5)


@pytest.mark.parametrize(
    ("part", "attribute", "value"),
    [
        ("bilm", "cell_clip", 0.05),
        ("bilm", "projection_clip", 0.05),
        ("bilm", "skip", False),
        ("token_encoder", "activation", "tanh"),
    ],
)
def test_attributes_of_modules(model, batch, part, attribute, value):
    before, other = vectors(model, batch), fresh(model)
    for first in (model, other):
        modules = [module for module in first.get_submodule(part).modules() if hasattr(module, attribute)]
        assert any(getattr(module, attribute) != value for module in modules)
        for module in modules:
            setattr(module, attribute, value)
    expected = vectors(other, batch)
    assert max((first - actual).abs().max() for first, actual in zip(expected, before, strict=True)) > 1e-3
    assert_same(vectors(model, batch), expected)


def test_global_forward_hook(model, batch):
    """A hook of all modules may change what they return."""
    before = vectors(model, batch)
    doubled = model.token_encoder.projection
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, inputs, output: 2 * output if module is doubled else None
    )
    try:
        changed = vectors(model, batch)
    finally:
        hook.remove()
    torch.testing.assert_close(changed[1], 2 * before[1], atol=1e-5, rtol=1e-5)
    assert_same(vectors(model, batch), before)


def test_mix_weights(model, batch):
    before = vectors(model, batch)
    model.scalar_mix.weight.data[0] = 3.0
    model.scalar_mix.gamma.data.fill_(0.5)
    assert_as_fresh(model, batch, before)


# Adapters


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
def test_adapters_merged_and_unmerged(size, batch):
    peft = pytest.importorskip("peft", reason="peft is not installed: pip install peft")
    config = ElmoConfig(num_highway_layers=1, num_labels=3, **size)
    model = used(ElmoForTokenClassification(config).eval().base_model, "words", batch)
    settings = peft.LoraConfig(
        r=2,
        target_modules=["carry", "transform", "projection"],
        target_parameters=["weight_input", "weight_recurrent", "weight_projection"],
    )
    before = vectors(model, batch)
    adapted = peft.get_peft_model(model, settings).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, 0.2)
    changed = vectors(adapted, batch)
    assert (changed[0] - before[0]).abs().max() > 1e-3
    for _ in range(2):
        adapted.merge_adapter()
        assert_same(vectors(adapted, batch), changed, tolerance=1e-4)
        adapted.unmerge_adapter()
        with adapted.disable_adapter():
            assert_same(vectors(adapted, batch), before, tolerance=1e-4)
    merged = adapted.merge_and_unload().eval()
    assert_as_fresh(merged, batch, before, tolerance=1e-4)
