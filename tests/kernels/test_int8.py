"""Weights in eight bits and in bfloat16: near float32 on every layer, saved as plain tensors and loaded again."""

import contextlib
import copy

import numpy as np
import pytest
import torch
from golden_files import GOLDEN
from remote import run_python
from safetensors import safe_open
from torch import nn
from transformers import AutoModel

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoScorer,
    ElmoTokenizer,
    perplexity,
)
from elmo_hf.conversion import convert, export
from elmo_hf.kernels import kernels_disabled, onednn
from elmo_hf.model import modeling_elmo
from elmo_hf.model.modeling_elmo import QuantizedWeight, dequantize, linear, run_kernel, stored_weight
from elmo_hf.model.modeling_elmo_lm import ElmoSoftmax
from elmo_hf.pretraining import Settings, pretrain

SIZES = {"character_cnn_filters": [[1, 16], [3, 48]], "projection_size": 32, "cell_size": 128}
TEXTS = ["The first sentence is the longest one of all .", "Second", "A third , then ."]


@pytest.fixture
def batch():
    return dict(ElmoTokenizer()(TEXTS, padding=True, return_tensors="pt"))


def new_model(**changes):
    torch.manual_seed(0)
    return ElmoModel(ElmoConfig(**{**SIZES, **changes})).eval()


@torch.no_grad()
def layers(model, batch):
    return model(**batch, output_hidden_states=True).hidden_states


def mean_cosines(model, other, batch):
    ids = batch["input_ids"]
    mask = (ids > 0).any(-1) if ids.dim() == 3 else ids > 0
    pairs = zip(layers(model, batch), layers(other, batch), strict=True)
    return [torch.cosine_similarity(a[mask].float(), b[mask].float(), dim=-1).mean().item() for a, b in pairs]


def in_fewer_bits(model, kind):
    smaller = copy.deepcopy(model)
    if kind == "int8":
        smaller.quantize()
        return smaller
    return smaller.to(torch.bfloat16)


@pytest.mark.parametrize("kind", ["int8", "bfloat16"])
@pytest.mark.parametrize("changes", [{}, {"cell_size": 32}, {"bidirectional": False, "num_hidden_layers": 3}])
def test_random_models_stay_near_float32(changes, kind, batch):
    model = new_model(**changes)
    assert min(mean_cosines(model, in_fewer_bits(model, kind), batch)) > 0.999


@pytest.mark.parametrize("kind", ["int8", "bfloat16"])
@pytest.mark.parametrize("name", [name for name, golden in GOLDEN.items() if not golden.expands_rounding])
def test_golden_models_stay_near_float32(name, kind, tmp_path):
    golden = GOLDEN[name]
    if not golden.available:
        pytest.skip("the trained checkpoints are not beside this checkout")
    vocabulary = golden.vocabulary if golden.word_input else None
    model = convert(golden.options, golden.weights, output_dir=tmp_path / "model", vocabulary=vocabulary).eval()
    rows = [torch.as_tensor(np.array(golden.rows(words))) for words in golden.sentences]
    batch = {"input_ids": nn.utils.rnn.pad_sequence(rows, batch_first=True)}
    assert min(mean_cosines(model, in_fewer_bits(model, kind), batch)) > 0.999


def test_saved_as_plain_tensors_and_loaded_again(batch, tmp_path):
    model = new_model()
    model.quantize()
    expected = layers(model, batch)
    model.save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        names = set(file.keys())
        assert file.get_tensor("bilm.forward_layers.0.weight_input_int8").dtype == torch.int8
    assert {"token_encoder.projection.weight_int8", "token_encoder.projection.weight_scale"} <= names
    assert "bilm.forward_layers.0.weight_input" not in names
    for loaded in (ElmoModel.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path, dtype=torch.float32)):
        assert loaded.config.int8_weights
        for first, other in zip(layers(loaded.eval(), batch), expected, strict=True):
            assert torch.allclose(first, other, atol=1e-6)


def test_quantized_weights_are_dropped_for_the_old_ones_and_frozen(batch):
    model = new_model()
    before = layers(model, batch)
    model.quantize()
    model.quantize()  # a second time changes nothing
    after = layers(model, batch)
    assert not torch.equal(before[-1], after[-1])
    assert not any(parameter.requires_grad for parameter in model.bilm.parameters())
    with torch.no_grad():
        model.bilm.forward_layers[0].weight_input_scale.mul_(2)
    assert not torch.allclose(layers(model, batch)[-1], after[-1], atol=1e-4)


def test_plain_functions_read_the_same_weights(batch):
    model = new_model()
    model.quantize()
    actual = layers(model, batch)
    with kernels_disabled():
        expected = layers(model, batch)
    for first, other in zip(actual, expected, strict=True):
        mask = other.abs().sum(-1) > 0
        assert torch.cosine_similarity(first[mask], other[mask], dim=-1).mean() > 0.999


def test_plain_functions_compute_what_the_floats_compute(batch):
    """As a checkpoint that is loaded without the package: the floats that the eight bits stand for."""
    model, floats = new_model(), new_model()
    model.quantize()
    encoder, plain = model.token_encoder, floats.token_encoder
    pairs = [(encoder.projection, plain.projection, "weight")]
    for first, other in zip(encoder.highways, plain.highways, strict=True):
        pairs += [(first.carry, other.carry, "weight"), (first.transform, other.transform, "weight")]
    for first, other in zip(model.bilm.directions, floats.bilm.directions, strict=True):
        for weights, of_floats in zip(first, other, strict=True):
            pairs += [(weights, of_floats, f"weight_{name}") for name in ("input", "recurrent", "projection")]
    with torch.no_grad(), kernels_disabled():
        for module, other, name in pairs:
            getattr(other, name).copy_(dequantize(stored_weight(module, name)))
        for first, other in zip(layers(model, batch), layers(floats, batch), strict=True):
            assert torch.allclose(first, other, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_products_in_parts(rows, monkeypatch):
    """The plain product never has all of a weight as floats."""
    values, scale = torch.randint(-127, 128, (50, 6), dtype=torch.int8), torch.rand(50)
    x, bias, weight = torch.randn(3, 6), torch.randn(50), QuantizedWeight(values, scale)
    monkeypatch.setattr(modeling_elmo, "WEIGHTS_AT_ONCE", rows * 6)
    expected = torch.nn.functional.linear(x, dequantize(weight), bias)
    assert torch.allclose(linear(x, weight, bias), expected, atol=1e-3)
    actual = run_kernel(linear, x, weight, bias)
    cosine = torch.cosine_similarity(actual.flatten(), expected.flatten(), 0)
    assert cosine > (0.999 if onednn.supports_int8("cpu") else 1 - 1e-6)


def test_a_vector_does_not_depend_on_its_batch_mates(batch):
    model = new_model()
    model.quantize()
    together = layers(model, batch)[-1]
    alone = layers(model, ElmoTokenizer()(TEXTS[1], return_tensors="pt"))[-1][0]
    assert torch.allclose(together[1, : len(alone)], alone, atol=1e-5)


def test_a_model_in_eight_bits_can_be_built_anew(batch):
    model = ElmoModel(ElmoConfig(**SIZES, int8_weights=True)).eval()
    assert all(torch.isfinite(layer).all() for layer in layers(model, batch))


WORDS = ["<S>", "</S>", "<UNK>", *(f"word{number}" for number in range(997))]
LINES = ["word1 word20 .", "word3", "word996 is not word5 , word7 word8"]


def new_language_model(**changes):
    torch.manual_seed(0)
    model = ElmoForPreTraining(ElmoConfig(**{**SIZES, "vocab_size": len(WORDS), "dropout": 0.0, **changes})).eval()
    torch.nn.init.normal_(model.softmax.bias)
    return model, ElmoTokenizer("whitespace", word_vocabulary=WORDS)


def with_a_softmax_of_floats(model):
    """The same biLM in eight bits, the softmax as the float layer that its eight bits stand for."""
    other = copy.deepcopy(model)
    other.softmax = ElmoSoftmax(*reversed(model.softmax.weight_int8.shape))
    other.softmax.load_state_dict({"weight": dequantize(stored_weight(model.softmax)), "bias": model.softmax.bias})
    return other.requires_grad_(False)


def size_of_save(model, folder):
    model.save_pretrained(folder)
    return (folder / "model.safetensors").stat().st_size


def test_the_softmax_goes_into_eight_bits_too(tmp_path):
    model, tokenizer = new_language_model()
    before = perplexity(model, tokenizer, LINES).perplexity
    floats, halves = (
        size_of_save(first, tmp_path / name) for name, first in (("f", model), ("h", copy.deepcopy(model).half()))
    )
    model.quantize()
    assert size_of_save(model, tmp_path / "i") < 0.7 * halves < 0.4 * floats
    assert perplexity(model, tokenizer, LINES).perplexity == pytest.approx(before, rel=0.02)
    assert not [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def test_a_language_model_in_eight_bits_is_what_its_floats_are(monkeypatch):
    """Scores, substitutes, losses over all words and over words drawn; also where the floats are made in parts."""
    model, tokenizer = new_language_model(num_sampled=50)
    model.quantize()
    floats = with_a_softmax_of_floats(model)
    monkeypatch.setattr(modeling_elmo, "WEIGHTS_AT_ONCE", 100 * SIZES["projection_size"])
    scorers = ElmoScorer(model, tokenizer), ElmoScorer(floats, tokenizer)
    for context in (kernels_disabled, contextlib.nullcontext):
        with context():
            for first, other in zip(*(scorer.score(LINES) for scorer in scorers), strict=True):
                assert np.allclose(first.forward, other.forward, atol=1e-5)
                assert np.allclose(first.backward, other.backward, atol=1e-5)
    actual, expected = (scorer.substitutes(LINES[2], 3, k=5) for scorer in scorers)
    assert [first.word for first in actual] == [first.word for first in expected]
    batch = tokenizer(LINES, padding=True, return_tensors="pt", return_lm_labels=True)
    for training in (False, True):
        losses = []
        for first in (model, floats):
            torch.manual_seed(1)
            with torch.no_grad():
                losses.append(first.train(training)(**batch, return_logits=True))
        assert losses[0].loss.item() == pytest.approx(losses[1].loss.item(), rel=1e-5)
        assert torch.allclose(losses[0].forward_logits, losses[1].forward_logits, atol=1e-5)


LOADED = """
import torch
from transformers import AutoModelForPreTraining, AutoTokenizer
model = AutoModelForPreTraining.from_pretrained(folder, trust_remote_code=True)
ids = torch.load(folder + "/ids.pt")
print(type(model).__module__.split(".")[0], model.softmax.weight_int8.dtype, float(model(**ids).loss))
"""


def test_a_language_model_in_eight_bits_is_saved_and_loaded_with_and_without_the_package(tmp_path):
    model, tokenizer = new_language_model()
    model.quantize()
    model.save_pretrained(tmp_path)
    batch = dict(tokenizer(LINES, padding=True, return_tensors="pt", return_lm_labels=True))
    expected = float(model(**batch).loss)
    assert float(ElmoForPreTraining.from_pretrained(tmp_path)(**batch).loss) == pytest.approx(expected, rel=1e-6)
    torch.save(batch, tmp_path / "ids.pt")
    actual = run_python(LOADED, {"HF_HOME": str(tmp_path / "home")}, folder=str(tmp_path)).split()
    assert actual[:2] == ["transformers_modules", "torch.int8"]
    # Without the package there are no kernels, and the plain functions round in another order.
    with kernels_disabled():
        plain = float(model(**batch).loss)
    assert float(actual[2]) == pytest.approx(plain, rel=1e-6) and plain == pytest.approx(expected, rel=1e-5)


def test_what_eight_bits_cannot_do_is_refused(tmp_path):
    model, tokenizer = new_language_model()
    model.quantize()
    batch = tokenizer(LINES, padding=True, return_tensors="pt", return_lm_labels=True)
    with pytest.raises(ValueError, match="A quantized language model does not train. Expected the model before"):
        model.train()(**batch)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text("word1 word2\n" * 100, encoding="utf-8")
    for more in ({}, {"new_vocab": True}):
        settings = Settings(tmp_path / "out", [str(tmp_path / "text.txt")], start=str(tmp_path / "model"), **more)
        with pytest.raises(ValueError, match="int8 weights, which cannot be trained"):
            pretrain(settings, say=lambda line: None)
    with pytest.raises(ValueError, match="weights in eight bits. Expected the float model"):
        export(tmp_path / "model", tmp_path / "exported")
    body = new_model()
    body.quantize()
    body.save_pretrained(tmp_path / "body")
    config = ElmoConfig.from_pretrained(tmp_path / "body", vocab_size=len(WORDS))
    with pytest.raises(ValueError, match=r"softmax\.weight_int8 is missing"):
        ElmoForPreTraining.from_pretrained(tmp_path / "body", config=config)


def test_a_head_trains_on_a_bilm_in_eight_bits(batch):
    torch.manual_seed(0)
    model = ElmoForTokenClassification(ElmoConfig(**SIZES, num_labels=3))
    model.quantize()
    labels = torch.zeros(batch["input_ids"].shape[:2], dtype=torch.long)
    model.train()(**batch, labels=labels).loss.backward()
    assert model.classifier.weight.grad.abs().sum() > 0
