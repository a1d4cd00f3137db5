"""Whoever watches or transforms a model finds it at work: hooks, adapters, function transforms, checkpointing, export.

The last test runs all others once more without kernels, in a process of its own.
"""

import copy
from collections import Counter

import pytest
import torch
import transformers
from small_models import ENTITIES
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook
from torch.nn.utils import parametrize

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoTokenizer

SIZES = {"character_cnn_filters": [[1, 6], [2, 8]], "projection_size": 8, "cell_size": 12, "num_highway_layers": 2}
TEXTS = ["The first sentence is the longest one", "Second", "A third , then ."]
VOCABULARY = 20
MODELS = {
    "base": (ElmoModel, {}),
    "tagger": (ElmoForTokenClassification, {"num_labels": len(ENTITIES), "freeze_bilm": False}),
    "language model": (ElmoForPreTraining, {"vocab_size": VOCABULARY}),
}
WEIGHTS = (
    "bilm.forward_layers.0.weight_recurrent",
    "bilm.backward_layers.1.weight_input",
    "bilm.forward_layers.1.weight_projection",
    "bilm.backward_layers.0.bias",
    "token_encoder.convolutions.1.weight",
    "token_encoder.highways.0.carry.weight",
    "token_encoder.highways.1.transform.weight",
    "token_encoder.projection.weight",
    "token_encoder.embedding.weight",
)


def make(name="base", **settings):
    model_class, own = MODELS[name]
    torch.manual_seed(0)
    model = model_class(ElmoConfig(**SIZES, **own, **settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.base_model.token_encoder.embedding.weight[0] = 0.0
    return model


@pytest.fixture
def batch():
    return dict(ElmoTokenizer()(TEXTS, padding=True, return_tensors="pt"))


def loss_of(model, batch):
    """A number that depends on every parameter and every token."""
    if isinstance(model, ElmoModel):
        x = model(**batch).last_hidden_state
        return (x * torch.linspace(-1.0, 1.0, x.numel(), dtype=x.dtype).view_as(x)).sum()
    known = VOCABULARY if isinstance(model, ElmoForPreTraining) else len(ENTITIES)
    labels = torch.arange(batch["attention_mask"].numel()).view_as(batch["attention_mask"]) % known
    return model(**batch, labels=labels.masked_fill(batch["attention_mask"] == 0, -100)).loss


def gradients(model, batch):
    model.zero_grad()
    loss_of(model, batch).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(actual, expected, tolerance=1e-6):
    assert set(actual) == set(expected) and expected
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], atol=tolerance, rtol=1e-4, msg=lambda text: text)


# Hooks


def called_modules(model):
    """Modules that a forward pass runs, by name: all but the lists, which hold others.

    A language model runs the encoder and the biLM of its ElmoModel, whose mix is for those who use them, and its loss
    multiplies by some rows of the softmax, or by all of them in chunks.
    """
    idle = ("elmo", "elmo.scalar_mix", "softmax") if isinstance(model, ElmoForPreTraining) else ()
    return {
        name: module
        for name, module in model.named_modules()
        if not isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.ParameterList)) and name not in idle
    }


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_forward_hooks_of_every_module_are_called(name, gradient, batch):
    model, before, after = make(name), Counter(), Counter()
    expected = loss_of(model, batch)
    modules = called_modules(model)
    for path, module in modules.items():
        module.register_forward_pre_hook(lambda *_, path=path: before.update([path]))
        module.register_forward_hook(lambda *_, path=path: after.update([path]))
    with torch.set_grad_enabled(gradient):
        actual = loss_of(model, batch)
    assert set(before) == set(after) == set(modules) and before == after
    torch.testing.assert_close(actual.detach(), expected.detach(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_hook_on_one_module_alone_is_called(name, batch):
    """One module that is watched among many that are not."""
    for path in called_modules(make(name)):
        model, calls = make(name), []
        with torch.no_grad():
            loss_of(model, batch)
            handle = model.get_submodule(path).register_forward_hook(lambda *_, calls=calls: calls.append(1))
            loss_of(model, batch)
            seen = len(calls)
            handle.remove()
            loss_of(model, batch)
        assert seen > 0 and len(calls) == seen, path


def test_a_hook_may_change_what_a_module_returns(batch):
    for path in ("token_encoder.highways.0.carry", "token_encoder.projection", "scalar_mix"):
        model = make()
        with torch.no_grad():
            plain = loss_of(model, batch)
            model.get_submodule(path).register_forward_hook(lambda module, inputs, output: output * 1.5)
            assert (loss_of(model, batch) - plain).abs() > 1e-4, path


def returns_tensors(model, module, batch):
    """Whether a module returns a tensor, or a tuple with one."""
    outputs = []
    handle = module.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    loss_of(model, batch)
    handle.remove()
    parts = outputs[0] if isinstance(outputs[0], tuple) else outputs
    return any(torch.is_tensor(part) for part in parts)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_backward_hooks_of_every_module_are_called(name, batch):
    """PyTorch has none for modules that return a dictionary, as the models themselves do, or tuples in tuples."""
    model, calls = make(name), Counter()
    modules = {path: module for path, module in called_modules(model).items() if returns_tensors(model, module, batch)}
    assert len(modules) > 0.7 * len(called_modules(model))
    expected = gradients(model, batch)
    for path, module in modules.items():
        module.register_full_backward_hook(lambda *_, path=path: calls.update([path]))
    actual = gradients(model, batch)
    assert set(calls) == set(modules)
    assert_same(actual, expected, tolerance=1e-5)


def test_global_hooks_see_every_module(batch):
    model, seen = make(), set()
    handle = register_module_forward_hook(lambda module, *_: seen.add(id(module)))
    try:
        with torch.no_grad():
            loss_of(model, batch)
    finally:
        handle.remove()
    assert {path for path, module in called_modules(model).items() if id(module) not in seen} == set()


@pytest.mark.filterwarnings("ignore:(For backward hooks to be called|Full backward hook is firing):UserWarning")
def test_global_backward_hooks_see_every_module(batch):
    model, seen = make(), set()
    handle = register_module_full_backward_hook(lambda module, *_: seen.add(id(module)))
    try:
        loss_of(model, batch).backward()
    finally:
        handle.remove()
    modules = {path: first for path, first in called_modules(model).items() if returns_tensors(model, first, batch)}
    assert {path for path, module in modules.items() if id(module) not in seen} == set()


# Function transforms


def test_grad_of_a_functional_call(batch):
    model = make()
    expected = gradients(model, batch)

    def loss(parameters):
        x = torch.func.functional_call(model, parameters, kwargs=batch).last_hidden_state
        return (x * torch.linspace(-1.0, 1.0, x.numel()).view_as(x)).sum()

    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    actual = torch.func.grad(loss)(parameters)
    assert_same(actual, expected, tolerance=1e-5)
    doubled = {name: 1.1 * parameter for name, parameter in parameters.items()}
    other = copy.deepcopy(model)
    other.load_state_dict(doubled)
    torch.testing.assert_close(loss(doubled), loss_of(other, batch).detach(), atol=1e-5, rtol=1e-5)


def test_jacobian_in_reverse_mode(batch):
    """Of one sentence's mean by a bias, against finite differences."""
    model = make().double()
    name = "bilm.forward_layers.0.bias"
    parameters = {key: parameter.detach() for key, parameter in model.named_parameters()}

    def mean(bias):
        changed = {**parameters, name: bias}
        return torch.func.functional_call(model, changed, kwargs=batch).last_hidden_state[0].mean(0)

    actual = torch.func.jacrev(mean)(parameters[name])
    direction = torch.linspace(-1.0, 1.0, parameters[name].numel(), dtype=torch.float64)
    step = 1e-6
    expected = (mean(parameters[name] + step * direction) - mean(parameters[name] - step * direction)) / (2 * step)
    torch.testing.assert_close(actual @ direction, expected.detach(), atol=1e-7, rtol=1e-5)


def test_gradients_of_gradients(batch):
    """The product of the Hessian with a direction, against differences of gradients, for every parameter."""
    model = make(mix_l2=0.0).double()
    parameters = dict(model.named_parameters())
    torch.manual_seed(1)
    directions = {name: torch.randn_like(parameter) for name, parameter in parameters.items()}
    directions["token_encoder.embedding.weight"][0] = 0.0

    first = torch.autograd.grad(loss_of(model, batch), list(parameters.values()), create_graph=True)
    along = sum((g * directions[name]).sum() for name, g in zip(parameters, first, strict=True))
    second = torch.autograd.grad(along, list(parameters.values()))
    actual = dict(zip(parameters, second, strict=True))

    step, moved = 1e-6, []
    for sign in (1, -1):
        other = copy.deepcopy(model)
        with torch.no_grad():
            for name, parameter in other.named_parameters():
                parameter.add_(sign * step * directions[name])
        moved.append(gradients(other, batch))
    expected = {name: (moved[0][name] - moved[1][name]) / (2 * step) for name in parameters}
    for name in parameters:
        scale = expected[name].abs().max().clamp(min=1.0)
        assert (actual[name] - expected[name]).abs().max() < 1e-5 * scale, name


# Parametrizations and adapters


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


@pytest.mark.parametrize("path", WEIGHTS)
def test_parametrized_weights(path, batch):
    owner, _, name = path.rpartition(".")
    model, plain = make(), make()
    with torch.no_grad():
        loss_of(model, batch)
        plain.get_parameter(path).mul_(2)
    parametrize.register_parametrization(model.get_submodule(owner), name, Doubled())
    with torch.no_grad():
        torch.testing.assert_close(loss_of(model, batch), loss_of(plain, batch), atol=1e-5, rtol=1e-5)
    actual = gradients(model, batch)[f"{owner}.parametrizations.{name}.original"]
    torch.testing.assert_close(actual, 2 * gradients(plain, batch)[path], atol=1e-5, rtol=1e-4)
    parametrize.remove_parametrizations(model.get_submodule(owner), name)
    with torch.no_grad():
        torch.testing.assert_close(loss_of(model, batch), loss_of(plain, batch), atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
def test_low_rank_adapters_on_highways(batch):
    peft = pytest.importorskip("peft", reason="peft is not installed: pip install peft")
    model = make()
    with torch.no_grad():
        plain = loss_of(model, batch)
    settings = peft.LoraConfig(r=2, target_modules=["carry", "transform"])
    adapted = peft.get_peft_model(model, settings).eval()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(0.0, 0.3)
    loss = loss_of(adapted.base_model.model, batch)
    assert (loss - plain).abs() > 1e-4
    loss.backward()
    trained = {name: p.grad for name, p in adapted.named_parameters() if p.requires_grad}
    assert len(trained) == 2 * 2 * 2 and all(grad is not None and grad.any() for grad in trained.values())
    with torch.no_grad():
        torch.testing.assert_close(loss_of(adapted.base_model.model, batch), loss.detach(), atol=1e-5, rtol=1e-5)


# Checkpointing, compilation, export


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_gradient_checkpointing(name, reentrant, dropout, batch, monkeypatch):
    settings = {"language model": {"dropout": dropout}, "tagger": {"mix_dropout": dropout}}
    model = make(name, **settings.get(name, {})).train()
    torch.manual_seed(5)
    expected = gradients(model, batch)
    calls, checkpoint = [], torch.utils.checkpoint.checkpoint

    def counted(*arguments, **keywords):
        calls.append(1)
        return checkpoint(*arguments, **keywords)

    monkeypatch.setattr(transformers.modeling_utils, "checkpoint", counted)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    assert model.is_activation_checkpointing
    torch.manual_seed(5)
    actual = gradients(model, batch)
    assert_same(actual, expected, tolerance=1e-5)
    assert calls


def test_compiled(batch):
    model = make()
    with torch.no_grad():
        expected = loss_of(model, batch)
    compiled = torch.compile(model, fullgraph=False, backend="eager")
    try:
        with torch.no_grad():
            for _ in range(2):
                actual = compiled(**batch).last_hidden_state
        weights = torch.linspace(-1.0, 1.0, actual.numel()).view_as(actual)
        torch.testing.assert_close((actual * weights).sum(), expected, atol=1e-5, rtol=1e-5)
    finally:
        torch.compiler.reset()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compiled_training(batch):
    model = make()
    expected = gradients(model, batch)
    compiled = torch.compile(model, fullgraph=False, backend="eager")
    model.zero_grad()
    try:
        x = compiled(**batch).last_hidden_state
        (x * torch.linspace(-1.0, 1.0, x.numel()).view_as(x)).sum().backward()
    finally:
        torch.compiler.reset()
    assert_same({name: p.grad for name, p in model.named_parameters()}, expected, tolerance=1e-5)


def test_exported(batch):
    model = make()
    with torch.no_grad():
        expected = model(**batch).last_hidden_state
        program = torch.export.export(model, (), dict(batch), strict=False)
        actual = program.module()(**batch)
    torch.testing.assert_close(actual["last_hidden_state"], expected, atol=1e-5, rtol=1e-5)
    # The same shapes, other words: what was exported is no table of what it has seen.
    other = dict(batch, input_ids=batch["input_ids"].flip(0), attention_mask=batch["attention_mask"].flip(0))
    with torch.no_grad():
        expected, actual = model(**other).last_hidden_state, program.module()(**other)["last_hidden_state"]
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
