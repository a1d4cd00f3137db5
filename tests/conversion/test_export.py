"""Out: the original files with or without the softmax, and ONNX, as onnxruntime computes it."""

import os

import numpy as np
import onnxruntime
import pytest
import torch
from golden_files import GOLDEN

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.conversion import convert, export
from elmo_hf.conversion.formats import onnx

WORDS = ["<S>", "</S>", "<UNK>", "a", "b"]


@pytest.fixture
def language_model(tmp_path):
    """A folder with a model of words whose softmax has the embedding as its weight."""
    config = ElmoConfig(
        word_input=True, vocab_size=5, projection_size=4, cell_size=6, share_embedding_softmax=True, dropout=0.0
    )
    model = ElmoForPreTraining(config)
    model.softmax.bias.data.normal_()
    model.save_pretrained(tmp_path / "lm")
    ElmoTokenizer("whitespace", word_vocabulary=WORDS, word_input=True).save_pretrained(tmp_path / "lm")
    return tmp_path / "lm", model


def test_the_softmax_is_written_if_it_is_there_asked_for_or_not(language_model, tmp_path, caplog):
    folder, model = language_model
    assert [path.name for path in export(folder, tmp_path / "a")] == [
        "options.json",
        "softmax.hdf5",
        "vocab.txt",
        "weights.hdf5",
    ]
    assert "softmax.hdf5" not in [path.name for path in export(folder, tmp_path / "b", softmax=False)]
    assert not isinstance(convert(tmp_path / "a", output_dir=tmp_path / "without"), ElmoForPreTraining)
    assert "softmax.hdf5 is left out. With --vocabulary and --softmax" in caplog.text
    caplog.clear()
    back = convert(tmp_path / "a", output_dir=tmp_path / "back", softmax=tmp_path / "a" / "softmax.hdf5")
    assert "left out" not in caplog.text
    assert torch.equal(back.softmax.weight, model.softmax.weight)
    assert torch.equal(back.softmax.bias, model.softmax.bias)


def test_what_cannot_be_written(converted, language_model, tmp_path):
    for keywords, sentence in (
        ({"softmax": True}, "The softmax cannot be written: .* has none"),
        ({"softmax": True, "format": "onnx"}, "The softmax cannot be written: an ONNX file holds the vectors only"),
        ({"format": "pdf"}, "Invalid `format`: 'pdf'. Expected bilm-hdf5 or onnx"),
    ):
        with pytest.raises(ValueError, match=sentence):
            export(converted(GOLDEN["plain"]), tmp_path / "out", **keywords)
    assert sorted(os.listdir(tmp_path)) == ["lm"]


def test_onnx_with_a_torch_that_cannot_export_it(converted, tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(onnx, "CAN_EXPORT", False)
    with pytest.raises(ValueError, match=r"^torch 2\.\d+.* cannot export .* Expected torch 2.13 or later\.$"):
        export(converted(GOLDEN["plain"]), tmp_path / "out", format="onnx")


def test_dictionaries_have_no_place_in_the_original_files(tmp_path):
    convert(os.path.join(os.path.dirname(__file__), "many_langs", "both"), output_dir=tmp_path / "model")
    with pytest.raises(ValueError, match="reads characters and words from dictionaries"):
        export(tmp_path / "model", tmp_path / "out")
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.slow
@pytest.mark.skipif(not onnx.CAN_EXPORT, reason="this torch cannot export loops")
@pytest.mark.parametrize("name", ["three-layers"])
def test_onnx_gives_our_vectors_for_every_batch_and_length(name, converted, tmp_path):
    folder = converted(GOLDEN[name])
    files = export(folder, tmp_path / "onnx", format="onnx")
    assert [path.name for path in files] == ["model.onnx"]
    session = onnxruntime.InferenceSession(files[0])
    model, tokenizer = ElmoModel.from_pretrained(folder), ElmoTokenizer.from_pretrained(folder)
    for texts in (["one"], ["a longer sentence of seven words here", "two words", ""] * 3):
        for side in ("right", "left"):
            batch = tokenizer(texts, padding=True, padding_side=side, return_tensors="pt")
            with torch.no_grad():
                expected = model(**batch, output_hidden_states=True)
            mixed, layers = session.run(None, {name: value.numpy() for name, value in batch.items()})
            assert np.abs(mixed - expected.last_hidden_state.numpy()).max() < 2e-6
            assert np.abs(layers - torch.stack(expected.hidden_states, 1).numpy()).max() < 2e-6
