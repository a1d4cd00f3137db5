"""Saved models whose files contradict each other are refused, by every way of loading them."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import ENTITIES, small
from transformers import AutoModel, AutoTokenizer, pipeline

from elmo_hf import (
    ElmoEmbedder,
    ElmoForPreTraining,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoScorer,
    ElmoTokenizer,
)
from elmo_hf.hub.consistency import vocabulary_hash

WORDS = ["<S>", "</S>", "<UNK>", "a", "b", "c"]
TOKENIZERS = {
    "ElmoTokenizer": ElmoTokenizer.from_pretrained,
    "AutoTokenizer": AutoTokenizer.from_pretrained,
    "embedder": ElmoEmbedder.from_pretrained,
    "scorer": ElmoScorer.from_pretrained,
}
MODELS = {
    "ElmoModel": ElmoModel.from_pretrained,
    "AutoModel": AutoModel.from_pretrained,
    "embedder": ElmoEmbedder.from_pretrained,
    "scorer": ElmoScorer.from_pretrained,
}
every_tokenizer = pytest.mark.parametrize("load", TOKENIZERS.values(), ids=TOKENIZERS)
every_model = pytest.mark.parametrize("load", MODELS.values(), ids=MODELS)


def saved(folder, splitting="whitespace", word_input=False):
    settings = {"vocab_size": len(WORDS), "vocabulary_sha256": vocabulary_hash(WORDS), "word_input": word_input}
    small(ElmoForPreTraining, **settings).save_pretrained(folder)
    ElmoTokenizer(splitting, word_vocabulary=WORDS, word_input=word_input).save_pretrained(folder)
    return folder


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def rewrite(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (WORDS[:-1], "its vocabulary has 5 words, but `vocab_size` in config.json is 6"),
        ([*WORDS, "d"], "its vocabulary has 7 words, but `vocab_size` in config.json is 6"),
        ([*WORDS[:3], "b", "a", "c"], "its vocabulary holds other words, or in another order"),
        ([*WORDS[:5], "d"], "its vocabulary holds other words, or in another order"),
    ],
    ids=["a line missing", "a line more", "two lines swapped", "another word"],
)
@every_tokenizer
def test_another_vocabulary_of_a_model_that_reads_words(tmp_path, load, words, said):
    folder = saved(tmp_path, word_input=True)
    load(folder)
    (folder / "word_vocabulary.txt").write_text("".join(f"{word}\n" for word in words))
    with pytest.raises(ValueError) as found:
        load(folder)
    assert said in str(found.value) and str(folder) in str(found.value)


def test_another_vocabulary_of_a_softmax(tmp_path):
    folder = saved(tmp_path)
    (folder / "word_vocabulary.txt").write_text("".join(f"{word}\n" for word in [*WORDS[:5], "d"]))
    ElmoTokenizer.from_pretrained(folder)  # vectors do not depend on the vocabulary
    with pytest.raises(ValueError, match="holds other words"):
        ElmoScorer.from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "value"), [("max_characters_per_token", 5), ("word_input", True)], ids=["length of words", "word input"]
)
@every_tokenizer
def test_a_tokenizer_of_another_model(tmp_path, load, name, value):
    folder = saved(tmp_path)
    edit(folder / "tokenizer_config.json", **{name: value})
    with pytest.raises(ValueError, match=f"does not fit the model in .*: `{name}` is {value} in the tokenizer, but"):
        load(folder)


@every_tokenizer
def test_no_settings_of_the_tokenizer(tmp_path, load):
    """Raw text would be split as English, whatever the model was trained on."""
    folder = saved(tmp_path, "residues")
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(ValueError, match=r"has no tokenizer_config\.json, which says how text is split"):
        load(folder)
    assert ElmoTokenizer.from_pretrained(folder, splitting="residues").splitting == "residues"


def test_objects_that_do_not_fit_each_other():
    with pytest.raises(ValueError, match="`max_characters_per_token` is 5 in the tokenizer, but 50"):
        ElmoEmbedder(small(ElmoModel), ElmoTokenizer(max_characters_per_token=5))
    model = small(ElmoForPreTraining, vocab_size=len(WORDS))
    with pytest.raises(ValueError, match="its vocabulary has 5 words"):
        ElmoScorer(model, ElmoTokenizer(word_vocabulary=WORDS[:-1]))
    with pytest.raises(ValueError, match="`max_characters_per_token` is 5"):
        tagger = small(ElmoForTokenClassification, labels=ENTITIES)
        pipeline("token-classification", model=tagger, tokenizer=ElmoTokenizer(max_characters_per_token=5))
    with pytest.raises(ValueError, match="`max_characters_per_token` is 5"):
        ElmoScorer(model, ElmoTokenizer(word_vocabulary=WORDS, max_characters_per_token=5))


NAME = "elmo.bilm.forward_layers.0.weight_recurrent"


@every_model
def test_integers_as_weights(tmp_path, load):
    folder = saved(tmp_path)
    rewrite(folder, lambda weights: weights.update({NAME: (weights[NAME] * 100).to(torch.int32)}))
    with pytest.raises(ValueError, match=rf"Invalid type of {NAME} in .*model\.safetensors: I32\. Expected float"):
        load(folder)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@every_model
def test_weights_that_are_not_finite(tmp_path, load, value):
    folder = saved(tmp_path)
    rewrite(folder, lambda weights: weights[NAME][3].fill_(value))
    with pytest.raises(ValueError, match=r"do not fit config\.json: .*weight_recurrent is NaN or infinite"):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "part"),
    [({"num_highway_layers": 0}, "highways"), ({"bidirectional": False}, "backward_layers")],
    ids=["highways", "directions"],
)
@every_model
def test_weights_that_the_config_leaves_out(tmp_path, load, changes, part):
    folder = saved(tmp_path)
    edit(folder / "config.json", **changes)
    with pytest.raises(ValueError, match=rf"do not fit config\.json: .*{part}.* is not part of such a model"):
        load(folder)
    model, report = ElmoForPreTraining.from_pretrained(folder, output_loading_info=True)
    assert any(part in key for key in report["unexpected_keys"])


def test_quantized_models_load(tmp_path):
    model = small(ElmoModel)
    model.quantize()
    model.save_pretrained(tmp_path)
    assert ElmoModel.from_pretrained(tmp_path).config.int8_weights
