"""What goes wrong for reasons that a person can mend: one sentence, exit code 1, nothing else."""

import builtins
import errno
import os

import pytest
from small_models import small
from transformers import BertConfig, BertModel

from elmo_hf import ElmoEmbedder, ElmoForPreTraining, ElmoModel, ElmoScorer, ElmoTokenizer
from elmo_hf.analysis import LayerReader
from elmo_hf.cli.errors import sentence

WORDS = ["<S>", "</S>", "<UNK>", "a", "b", "c", "."]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    small(ElmoForPreTraining, vocab_size=len(WORDS)).save_pretrained(folder / "elmo")
    ElmoTokenizer(word_vocabulary=WORDS).save_pretrained(folder / "elmo")
    bert = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertModel(bert).save_pretrained(folder / "bert")
    (folder / "empty").mkdir()
    (folder / "text.txt").write_text("a b c .\n" * 30)
    (folder / "broken.txt.gz").write_bytes(b"\x1f\x8b nothing")
    return folder


def complaint(command, *arguments):
    code, out, err = command(*arguments)
    assert code == 1 and "Traceback" not in err and err.startswith("Error: ") and err.count("\n") == 1
    return out, err


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "bert", "a b"),
        ("score", "bert", "text.txt"),
        ("perplexity", "bert", "text.txt"),
        ("substitute", "bert", "a b", 1),
        ("export", "bert", "out"),
        ("pretrain", "text.txt", "-o", "out", "--from", "bert", "--new-vocab"),
    ],
)
def test_a_model_of_another_kind(command, folders, monkeypatch, arguments):
    monkeypatch.chdir(folders)
    _, err = complaint(command, *arguments)
    assert "bert holds a model of type 'bert'. Expected an ELMo" in err


def test_a_model_of_another_kind_in_python(folders):
    for loader in (ElmoModel, ElmoScorer):
        with pytest.raises(ValueError, match="holds a model of type 'bert'. Expected an ELMo"):
            loader.from_pretrained(folders / "bert")
        with pytest.raises(ValueError, match="empty holds no config.json with a `model_type`"):
            loader.from_pretrained(folders / "empty")
        with pytest.raises(OSError, match="nowhere does not exist. Expected a folder"):
            loader.from_pretrained(folders / "nowhere")


@pytest.mark.parametrize("device", ["foo", "cuda:99", ""])
@pytest.mark.parametrize(
    "verb",
    [
        ["predict", "elmo", "a b"],
        ["embed", "elmo", "text.txt", "vectors"],
        ["analyse", "similarity", "elmo", "a b", "a c"],
        ["analyse", "surprise", "elmo", "--text", "a b"],
    ],
    ids=lambda verb: " ".join(verb[:2]),
)
def test_missing_devices(command, folders, monkeypatch, verb, device):
    monkeypatch.chdir(folders)
    out, err = complaint(command, *verb, "--device", device)
    assert out == "" and err.startswith(f"Error: Invalid `device`: '{device}'. Expected 'cpu'")
    assert not (folders / "vectors").exists()


def test_missing_devices_in_python(folders):
    for loader in (ElmoEmbedder, ElmoScorer, LayerReader):
        with pytest.raises(ValueError, match="Invalid `device`: 'cuda:99'. Expected 'cpu'"):
            loader.from_pretrained(folders / "elmo", device="cuda:99")


@pytest.mark.parametrize("arguments", [("substitute", "a b c", 7), ("score", "broken.txt.gz")])
def test_no_table_is_begun_before_an_error(command, folders, monkeypatch, arguments):
    monkeypatch.chdir(folders)
    verb, *rest = arguments
    assert complaint(command, verb, "elmo", *rest)[0] == ""


def test_files_that_may_not_be_read_are_named(command, folders, monkeypatch):
    real = builtins.open

    def refuse(path, *args, **kwargs):
        if str(path).endswith("text.txt"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", refuse)  # the superuser may read everything
    _, err = complaint(command, "perplexity", folders / "elmo", folders / "text.txt")
    assert err == f"Error: {folders / 'text.txt'} cannot be read: Permission denied.\n"


def test_sentences_of_the_system():
    assert sentence(PermissionError(errno.EACCES, "Permission denied", "a")) == "a: Permission denied."
    assert sentence(OSError(errno.EXDEV, "Invalid cross-device link", "a", None, "b")) == (
        "a -> b: Invalid cross-device link."
    )
    assert sentence(OSError(errno.ENOSPC, "No space left on device")) == "No space left on device."
    assert sentence(ValueError("As it is.")) == "As it is."
    assert sentence(ValueError()) == "ValueError."


def test_weights_that_break_off(command, folders, tmp_path):
    for file in (folders / "elmo").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    _, err = complaint(command, "predict", tmp_path, "a b")
    assert f"Error: The weights in {weights} are damaged and cannot be read: " in err
