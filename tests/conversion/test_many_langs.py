"""ELMoForManyLangs: every layer as its own program gives it, its dictionaries, and what is refused.

tests/conversion/many_langs was written by benchmarks/workers/many_langs_worker.py, with the program's own code.
"""

import contextlib
import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.conversion import convert
from elmo_hf.conversion.formats.many_langs import SAMPLE, read_ids
from elmo_hf.kernels import kernels_disabled
from elmo_hf.model.tokenization_elmo import ElmoDictionary

FILES = Path(__file__).resolve().parent / "many_langs"
SENTENCES = json.loads((FILES / "sentences.json").read_text(encoding="utf-8"))
CASES = ["both", "characters", "words"]


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many_langs")
    for case in CASES:
        convert(FILES / case, output_dir=folder / case)
    return folder


def layers_of(model, tokenizer, sentences, **keywords):
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt", **keywords)
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
    stacked = torch.stack(output.hidden_states, 1)
    inside = [mask.nonzero().squeeze(1)[1:-1] for mask in batch["attention_mask"]]
    return [stacked[row][:, where].numpy() for row, where in enumerate(inside)]


@pytest.mark.parametrize("case", CASES)
def test_every_layer_is_the_programs_own(case, converted):
    model, tokenizer = AutoModel.from_pretrained(converted / case), AutoTokenizer.from_pretrained(converted / case)
    assert isinstance(model, ElmoModel) and tokenizer.splitting == "whitespace"
    for context in (contextlib.nullcontext, kernels_disabled):
        with np.load(FILES / case / "layers.npz") as expected, context():
            # One after the other as there; and all at once, with padding.
            alone = [layers_of(model, tokenizer, [words])[0] for words in SENTENCES]
            for together in (alone, layers_of(model, tokenizer, SENTENCES)):
                for number, layers in enumerate(together):
                    assert layers.shape == expected[str(number)].shape
                    assert np.abs(layers - expected[str(number)]).max() < 2e-6


def test_words_that_differ_only_in_case_or_composition_stay_apart(converted):
    tokenizer = ElmoTokenizer.from_pretrained(converted / "characters")
    rows = tokenizer([["ë", "e\u0308", "A", "a"]], is_split_into_words=True)["input_ids"][0][1:-1]
    assert len({tuple(row) for row in rows}) == 4


def test_rows_back_to_words(converted):
    for case, words in (("both", ["the", "cat", "\ufffd"]), ("words", ["the", "cat", "<oov>"])):
        tokenizer = ElmoTokenizer.from_pretrained(converted / case)
        ids = tokenizer([["the", "cat", "q"], ["the"]], is_split_into_words=True, padding=True)["input_ids"]
        assert tokenizer.decode(ids) == [" ".join(["<S>", *words, "</S>"]), "<S> the </S>"]


def test_word_mask_gradients_quantizing_and_a_second_save(converted, tmp_path):
    model = ElmoModel.from_pretrained(converted / "both", mix_layer_norm="sentence")
    tokenizer = ElmoTokenizer.from_pretrained(converted / "both")
    batch = tokenizer(["the cat", "zoë"], padding=True, return_tensors="pt")
    from elmo_hf.model.modeling_elmo import word_mask

    assert word_mask(model.config, batch["attention_mask"].bool(), batch["input_ids"]).tolist() == [
        [False, True, True, False],
        [False, True, False, False],
    ]
    model(**batch).last_hidden_state.sum().backward()
    assert model.token_encoder.word_embedding.weight.grad.abs().sum() > 0
    assert model.token_encoder.word_embedding.weight.grad[0].abs().sum() == 0
    expected = model.eval()(**batch).last_hidden_state
    model.save_pretrained(tmp_path / "again")
    tokenizer.save_pretrained(tmp_path / "again")
    again = ElmoModel.from_pretrained(tmp_path / "again", mix_layer_norm="sentence")
    same = ElmoTokenizer.from_pretrained(tmp_path / "again")(["the cat", "zoë"], padding=True, return_tensors="pt")
    assert torch.equal(again(**same).last_hidden_state, expected)
    model.quantize()
    assert torch.cosine_similarity(model(**batch).last_hidden_state.flatten(), expected.flatten(), 0) > 0.98


def test_ids_that_no_row_has_are_refused(converted):
    model = ElmoModel.from_pretrained(converted / "both")
    with pytest.raises(
        ValueError, match=r"Invalid shape of `input_ids`: \(1, 2, 12\). Expected .* 13 characters a token"
    ):
        model(torch.ones(1, 2, 12, dtype=torch.long))
    with pytest.raises(ValueError, match="Invalid id in `input_ids`: 99. Expected ids from 0 to"):
        model(torch.full((1, 2, 13), 99))


def test_zip_and_the_sizes_that_only_the_program_had(tmp_path, caplog):
    with zipfile.ZipFile(tmp_path / "175.zip", "w") as archive:
        for path in (FILES / "both").rglob("*.*"):
            archive.write(path, path.relative_to(FILES / "both"))
    said = []
    convert(tmp_path / "175.zip", output_dir=tmp_path / "model", say=said.append)
    assert "found a model of ELMoForManyLangs: encoder.pkl and token_embedder.pkl" in said[0]
    assert "19 characters and 11 words" in said[0]
    shutil.copytree(FILES / "both", tmp_path / "in", ignore=shutil.ignore_patterns("configs"))
    (tmp_path / "in" / "config.json").write_text('{"config_path": "/home/x/configs/cnn_50_100_512_4096_sample.json"}')
    with pytest.raises(ValueError, match=r"has the shape \(44, 6\); expected \(16384, 512\)"):
        convert(tmp_path / "in", output_dir=tmp_path / "other")
    assert SAMPLE["encoder"]["dim"] == 4096 and "The sizes are those of the program's own cnn_50" in caplog.text


def test_dictionaries_are_read_as_the_program_reads_them(tmp_path):
    (tmp_path / "char.dic").write_text("<oov>\t0\na\t1\n\u3000\t2\n\t7\nß\t8\r\n", encoding="utf-8", newline="")
    assert read_ids(tmp_path / "char.dic") == {"<oov>": 0, "a": 1, "\u3000": 7, "ß": 8}
    with pytest.raises(ValueError, match="Invalid dictionary: <eow>, <bow>, .* missing"):
        ElmoDictionary({"a": 1}, None)


# What is refused


def description(**changes):
    def damage(folder):
        path = folder / "configs" / "small.json"
        content = json.loads(path.read_text())
        for name, value in changes.items():
            part, key = name.split("__")
            content[part][key] = value
        path.write_text(json.dumps(content))

    return damage


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content)


class Runs:
    def __reduce__(self):
        return (os.mkdir, ("was-run",))


def cut(folder):
    content = (folder / "encoder.pkl").read_bytes()
    (folder / "encoder.pkl").write_bytes(content[: len(content) // 2])


def state(name, change):
    def damage(folder):
        content = torch.load(folder / name, weights_only=True)
        change(content)
        torch.save(content, folder / name)

    return damage


MALFORMED = {
    "a pickle that runs code": (written("encoder.pkl", pickle.dumps(Runs())), "encoder.pkl is refused: it holds more"),
    "truncated": (cut, "encoder.pkl is not a file of torch.save, or is damaged"),
    "empty": (written("token_embedder.pkl", b""), "token_embedder.pkl is not a file of torch.save, or is damaged"),
    "an LSTM that is no biLM": (description(encoder__name="lstm"), "the encoder is 'lstm'. Expected 'elmo'"),
    "characters by an LSTM": (description(token_embedder__name="lstm"), "the token_embedder is 'lstm'. Expected"),
    "other sizes": (description(encoder__dim=12), r"input_linearity.weight has the shape \(44, 6\); expected"),
    "no sizes at all": (description(encoder__dim=None), "Invalid `lstm.dim`: null. Expected a whole number"),
    "huge sizes": (description(token_embedder__word_dim=10**12), "Invalid `token_embedder.word_dim`: 1000000000000"),
    "no description": (lambda folder: (folder / "config.json").unlink(), "does not hold config.json, which every"),
    "a description that is none": (written("config.json", b"["), "config.json is not JSON"),
    "a path to nowhere": (
        written("config.json", b'{"config_path": "a/b.json"}'),
        "has no file b.json, which",
    ),
    "no dictionary": (
        lambda folder: (folder / "char.dic").unlink(),
        "has no char.dic. Expected one: `char_dim` is not 0 in",
    ),
    "a dictionary of something else": (written("char.dic", b"a b c\nd"), "char.dic: line 1 is 'a b c'. Expected"),
    "a dictionary without marks": (written("char.dic", b"a\t0\n"), "Invalid dictionary: <eow>, <bow>, .* missing"),
    "a dictionary that is not UTF-8": (written("word.dic", b"\xff\t0\n"), "word.dic is not UTF-8"),
    "ids beyond the weights": (
        written("word.dic", b"<oov>\t0\nthe\t500\n"),
        r"word_emb_layer.embedding.weight has the shape \(11, 5\); expected \(501, 5\)",
    ),
    "a missing weight": (state("encoder.pkl", lambda s: s.popitem()), "is missing; expected the shape"),
    "a weight too many": (
        state("token_embedder.pkl", lambda s: s.update(other=torch.ones(2))),
        r"other with the shape \(2,\) has no place in this model",
    ),
    "not finite": (
        state("encoder.pkl", lambda s: s["forward_layer_0.state_linearity.bias"].fill_(float("nan"))),
        "forward_layer_0.state_linearity.bias holds 44 values that are NaN or infinite",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_models_are_explained_in_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    damage, sentence = MALFORMED[name]
    shutil.copytree(FILES / "both", tmp_path / "in")
    damage(tmp_path / "in")
    with pytest.raises(ValueError, match=f"(?s){sentence}"):
        convert(tmp_path / "in", output_dir=tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]
