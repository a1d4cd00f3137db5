"""Weights in eight bits and in bfloat16: near float32 on every layer, saved as plain tensors and loaded again."""

import copy

import numpy as np
import pytest
import torch
from golden_files import GOLDEN
from safetensors import safe_open
from torch import nn
from transformers import AutoModel

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.conversion import convert

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
        for one, other in zip(layers(loaded.eval(), batch), expected, strict=True):
            assert torch.allclose(one, other, atol=1e-6)


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


def test_reference_engine_reads_the_same_weights(batch):
    model = new_model()
    model.quantize()
    plain = copy.deepcopy(model)
    plain.set_engine("reference")
    assert min(mean_cosines(model, plain, batch)) > 0.999


def test_a_vector_does_not_depend_on_its_batch_mates(batch):
    model = new_model()
    model.quantize()
    together = layers(model, batch)[-1]
    alone = layers(model, ElmoTokenizer()(TEXTS[1], return_tensors="pt"))[-1][0]
    assert torch.allclose(together[1, : len(alone)], alone, atol=1e-5)


def test_a_model_in_eight_bits_can_be_built_anew(batch):
    model = ElmoModel(ElmoConfig(**SIZES, int8_weights=True)).eval()
    assert all(torch.isfinite(layer).all() for layer in layers(model, batch))
