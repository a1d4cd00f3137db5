"""Saved models whose files do not fit each other, by every way of loading: a sentence with the file and the weight."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import small
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification

from elmo_hf import ElmoEmbedder, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoScorer, ElmoTokenizer

WORDS = ["<S>", "</S>", "<UNK>", "a", "b"]
LOADERS = {
    "ElmoModel": (ElmoModel, ElmoModel.from_pretrained),
    "AutoModel": (ElmoModel, AutoModel.from_pretrained),
    "of a language model": (ElmoForPreTraining, ElmoModel.from_pretrained),
    "scorer": (ElmoForPreTraining, ElmoScorer.from_pretrained),
    "embedder": (ElmoForPreTraining, ElmoEmbedder.from_pretrained),
    "head": (ElmoForTokenClassification, AutoModelForTokenClassification.from_pretrained),
    "head on a body": (ElmoModel, ElmoForTokenClassification.from_pretrained),
}


def saved(folder, model_class, quantized=False):
    words = {"vocab_size": len(WORDS)} if model_class is ElmoForPreTraining else {}
    model = small(model_class, **words)
    if quantized:
        model.quantize()
    model.save_pretrained(folder)
    ElmoTokenizer(word_vocabulary=WORDS).save_pretrained(folder)
    return folder


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def rewrite(folder, change):
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, {"format": "pt"})
    return path


@pytest.fixture(params=LOADERS)
def way(request, tmp_path):
    model_class, load = LOADERS[request.param]
    return saved(tmp_path, model_class), load


def test_a_config_of_another_size(way):
    folder, load = way
    edit(folder, projection_size=6)
    with pytest.raises(ValueError) as error:
        load(folder)
    said = str(error.value)
    assert said.startswith(f"The weights in {folder / 'model.safetensors'} do not fit config.json: ")
    assert re.search(
        r"[.]weight(_input)? has the shape \[\d+, (8|16)\], but the model expects \[\d+, (6|12)\] \(and \d+ more\)",
        said,
    )


def test_weights_that_are_not_there(way):
    folder, load = way
    path = rewrite(folder, lambda weights: weights.pop(min(name for name in weights if "bilm." in name)))
    with pytest.raises(ValueError, match=r"bilm.backward_layers.0.bias is missing\. Expected both files") as error:
        load(folder)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("model_class", [ElmoModel, ElmoForTokenClassification])
def test_a_report_stands_for_the_error(tmp_path, model_class):
    """Who asks for it learns from the report what is missing, as in transformers, and the model is built."""
    name = "bilm.backward_layers.0.bias"
    path = rewrite(saved(tmp_path, ElmoModel), lambda weights: weights.pop(name))
    with pytest.raises(ValueError, match="output_loading_info=True") as error:
        model_class.from_pretrained(tmp_path)
    assert str(path) in str(error.value)
    model, report = model_class.from_pretrained(tmp_path, output_loading_info=True)
    assert isinstance(model, model_class)
    assert any(key.endswith(name) for key in report["missing_keys"])


def test_a_file_that_breaks_off(way):
    folder, load = way
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(OSError, match="are damaged and cannot be read") as error:
        load(folder)
    assert str(path) in str(error.value)


def test_quantized_weights_that_are_not_there(tmp_path):
    saved(tmp_path, ElmoModel, quantized=True)
    rewrite(tmp_path, lambda weights: weights.pop("bilm.forward_layers.1.weight_recurrent_scale"))
    for load in (ElmoModel.from_pretrained, AutoModel.from_pretrained):
        with pytest.raises(ValueError, match=r"bilm.forward_layers.1.weight_recurrent_scale is missing"):
            load(tmp_path)


@pytest.mark.parametrize("dtype", [0.5, "int64", 3, "no_such", "zeros", {"": "float32"}, [], True])
def test_a_dtype_that_is_none(tmp_path, dtype):
    saved(tmp_path, ElmoModel)
    edit(tmp_path, dtype=dtype)
    for load in (AutoConfig.from_pretrained, ElmoModel.from_pretrained, AutoModel.from_pretrained):
        with pytest.raises(ValueError, match=f"^Invalid configuration of {tmp_path}: .*(`|')dtype"):
            load(tmp_path)


@pytest.mark.parametrize("content", ["[1]", "0.5", "null", '"elmo"'])
def test_a_config_that_is_no_object(tmp_path, content):
    (saved(tmp_path, ElmoForPreTraining) / "config.json").write_text(content)
    for load in (ElmoModel.from_pretrained, ElmoScorer.from_pretrained, ElmoEmbedder.from_pretrained):
        with pytest.raises(ValueError, match=f"{tmp_path} holds no config.json with a `model_type`"):
            load(tmp_path)


def test_what_may_be_missing(tmp_path):
    body = ElmoModel.from_pretrained(saved(tmp_path, ElmoForPreTraining))
    # A head and its mix are new on a body; a mix that was not saved begins as an average.
    model = ElmoForTokenClassification.from_pretrained(tmp_path)
    assert torch.equal(model.elmo.bilm.forward_layers[0].bias, body.bilm.forward_layers[0].bias)
    # Who asks for it gets fresh weights where sizes differ.
    fresh = ElmoModel.from_pretrained(tmp_path, projection_size=6, ignore_mismatched_sizes=True)
    assert fresh.config.projection_size == 6 and torch.equal(
        fresh.bilm.forward_layers[0].bias, body.bilm.forward_layers[0].bias
    )


@pytest.mark.parametrize("shared", [True, False])
def test_shared_embeddings_are_there_once(tmp_path, shared):
    settings = {"word_input": True, "vocab_size": len(WORDS), "share_embedding_softmax": shared}
    model = small(ElmoForPreTraining, **settings)
    model.save_pretrained(tmp_path)
    loaded = ElmoForPreTraining.from_pretrained(tmp_path)
    assert all(torch.equal(loaded.state_dict()[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("load", [ElmoModel, ElmoEmbedder, ElmoScorer])
def test_a_mistyped_folder_is_named_at_once(tmp_path, monkeypatch, load):
    saved(tmp_path / "my-elmo", ElmoForPreTraining)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=r"my-elno does not exist. Expected .* Did you mean the folder my-elmo\?"):
        load.from_pretrained("my-elno")


def test_weights_may_be_given_in_place_of_a_name():
    model = small(ElmoModel)
    loaded, report = ElmoModel.from_pretrained(
        None, config=model.config, state_dict=model.state_dict(), output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name
