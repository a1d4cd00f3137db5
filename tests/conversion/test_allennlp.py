"""AllenNLP's archives: vectors and mixes of its own Elmo, and what is refused.

tests/conversion/allennlp was written by benchmarks/workers/allennlp_archive_worker.py, with AllenNLP's own code, from
the weights of tests/golden/plain, changed.
"""

import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from golden_files import GOLDEN, SHARED_FIXTURES

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.conversion import convert

FILES = Path(__file__).resolve().parent / "allennlp"
ARCHIVE = FILES / "model.tar.gz"
SENTENCES = GOLDEN["plain"].sentences
BODY = "text_field_embedder.token_embedder_elmo._elmo._elmo_lstm."


def unpacked():
    with tarfile.open(ARCHIVE) as archive:
        config = archive.extractfile("config.json").read()
        state = torch.load(io.BytesIO(archive.extractfile("weights.th").read()), weights_only=True)
    return config, state


def folder_of(path, config, state):
    path.mkdir()
    (path / "config.json").write_bytes(config)
    torch.save(state, path / "weights.th")
    return path


@pytest.mark.parametrize("mix", [0, 1])
def test_layers_and_mixes_are_allennlps(mix, tmp_path):
    said = []
    convert(ARCHIVE, output_dir=tmp_path / "model", mix=mix, say=said.append)
    assert f"mix {mix} of 2: " in said[0] and "tag_projection_layer.weight (3, 4)" in said[1]
    assert f"scalar_mix_{1 - mix}.gamma" in said[1] and f"scalar_mix_{mix}.gamma" not in said[1]
    model, tokenizer = ElmoModel.from_pretrained(tmp_path / "model"), ElmoTokenizer.from_pretrained(tmp_path / "model")
    with np.load(FILES / "expected.npz") as expected:
        for number, words in enumerate(SENTENCES):
            with torch.no_grad():
                output = model(
                    **tokenizer([words], is_split_into_words=True, return_tensors="pt"), output_hidden_states=True
                )
            layers = torch.cat(output.hidden_states)[:, 1:-1].numpy()
            assert np.abs(layers - expected[f"layers/{number}"]).max(initial=0) < 2e-6
            mixed = output.last_hidden_state[0, 1:-1].numpy()
            assert np.abs(mixed - expected[f"mixes/{number}"][mix]).max(initial=0) < 2e-6


def test_options_beside_or_inside_are_heeded(tmp_path, caplog):
    text = GOLDEN["tight-clips"].options.read_text()
    (tmp_path / "options.json").write_text(text)
    clip = GOLDEN["tight-clips"].options_content["lstm"]["cell_clip"]
    assert clip != 3.0
    beside = convert(tmp_path / "options.json", ARCHIVE, output_dir=tmp_path / "beside")
    folder = folder_of(tmp_path / "in", *unpacked())
    (folder / "options.json").write_text(text)
    inside = convert(folder, output_dir=tmp_path / "inside")
    assert beside.config.cell_clip == inside.config.cell_clip == clip and "Clips of 3" not in caplog.text
    assert convert(ARCHIVE, output_dir=tmp_path / "bare").config.cell_clip == 3.0 and "Clips of 3" in caplog.text


def test_the_layer_norm_before_the_mix_is_kept(tmp_path):
    config, state = unpacked()
    changed = config.replace(b'"projection_dim": 5', b'"do_layer_norm": true,')  # a comma that JSON does not allow
    assert changed != config
    model = convert(folder_of(tmp_path / "in", changed, state), output_dir=tmp_path / "model")
    assert model.config.mix_layer_norm == "batch"


def test_a_trained_tagger_and_a_language_model_of_allennlps_own(tmp_path):
    if not SHARED_FIXTURES.exists():
        pytest.skip(f"there is no {SHARED_FIXTURES}")
    said = []
    convert(SHARED_FIXTURES / "allennlp/tagger/serialization/model.tar.gz", output_dir=tmp_path / "a", say=said.append)
    assert "found an ELMo in a model of AllenNLP" in said[0] and "encoder._module.weight_ih_l0" in said[1]
    with pytest.raises(ValueError, match="is a language model of AllenNLP's own, whose contextualizer is a transf"):
        convert(SHARED_FIXTURES / "allennlp-lm/model.tar.gz", output_dir=tmp_path / "b")


# What is refused


class Runs:
    def __reduce__(self):
        return (os.mkdir, ("was-run",))


def changed(change):
    def damage(folder, config, state):
        change(state)
        torch.save(state, folder / "weights.th")

    return damage


def written(name, content):
    return lambda folder, config, state: (folder / name).write_bytes(content)


def cut(folder, config, state):
    content = (folder / "weights.th").read_bytes()
    (folder / "weights.th").write_bytes(content[: len(content) // 2])


def flipped(folder, config, state):
    content = bytearray((folder / "weights.th").read_bytes())
    content[:1000:7] = bytes(len(content[:1000:7]))
    (folder / "weights.th").write_bytes(content)


def rename(state):
    state[f"{BODY}_token_embedder.kernel"] = state.pop(f"{BODY}_token_embedder._projection.weight")


def transpose(state):
    name = f"{BODY}_elmo_lstm.forward_layer_0.state_projection.weight"
    state[name] = state[name].T.contiguous()


def second_elmo(state):
    state |= {f"other.{name}": value for name, value in state.items() if name.startswith(BODY)}


def contextualizer(state):
    state["_contextualizer.forward_layer_0.weight"] = torch.ones(2)
    del state[f"{BODY}_token_embedder._char_embedding_weights"]


MALFORMED = {
    "truncated": (cut, "weights.th is not a file of torch.save, or is damaged"),
    "overwritten": (flipped, "weights.th is (not a file of torch.save|refused)"),
    "empty": (written("weights.th", b""), "weights.th is not a file of torch.save, or is damaged"),
    "a pickle that runs code": (
        written("weights.th", pickle.dumps({"x": Runs()})),
        "weights.th is refused: it holds more than weights, and nothing of it was run. Found .*mkdir; expected",
    ),
    "something else": (
        written("weights.th", b"<html>404</html>"),
        "weights.th is not a file of torch.save, or is damaged",
    ),
    "not a dictionary": (lambda f, c, s: torch.save([1], f / "weights.th"), "is a list; expected a dictionary"),
    "not tensors": (changed(lambda s: s.update(epoch=3)), "epoch is a int; expected a dense tensor"),
    "no ELMo": (changed(lambda s: [s.pop(n) for n in list(s) if n.startswith(BODY)]), "holds no ELMo"),
    "two ELMos": (changed(second_elmo), "holds 2 ELMos: text_field.*, other.*. Expected one"),
    "another language model": (changed(contextualizer), "whose contextualizer is an LSTM. Expected a biLM"),
    "a missing weight": (changed(rename), "_projection.weight is missing"),
    "a transposed weight": (
        changed(transpose),
        r"state_projection.weight has the shape \(12, 6\); expected",
    ),
    "a mix of another length": (
        changed(lambda s: s.update({f"{BODY[:-11]}scalar_mix_0.gamma": torch.ones(2)})),
        "the numbers of scalar_mix_0 have the shapes",
    ),
    "a description that is none": (written("config.json", b"{,"), "config.json is not JSON"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_archives_are_explained_in_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    damage, sentence = MALFORMED[name]
    config, state = unpacked()
    damage(folder_of(tmp_path / "in", config, state), config, state)
    with pytest.raises(ValueError, match=sentence) as error:
        convert(tmp_path / "in", output_dir=tmp_path / "out")
    assert str(tmp_path) in str(error.value) and os.listdir(tmp_path) == ["in"]


def test_mixes_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="Invalid `mix`: 2. Expected 0 to 1: .*weights.th has 2"):
        convert(ARCHIVE, output_dir=tmp_path / "out", mix=2)
