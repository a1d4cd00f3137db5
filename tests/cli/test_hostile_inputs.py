"""Every command with inputs that it cannot use: one sentence that names the input and what is expected."""

import pytest
from transformers import BertConfig, BertModel

FILE_COMMANDS = {
    "perplexity": ("perplexity", "MODEL", "FILE"),
    "score": ("score", "MODEL", "FILE"),
    "embed": ("embed", "MODEL", "FILE", "OUT", "--processes", 1, "--device", "cpu"),
    "index": ("analyse", "index", "MODEL", "FILE", "-o", "OUT"),
    "surprise": ("analyse", "surprise", "MODEL", "FILE"),
}
OTHER_COMMANDS = {
    "substitute": ("substitute", "MODEL", "a b", 0),
    "predict": ("predict", "MODEL", "a"),
    "similarity": ("analyse", "similarity", "MODEL", "a b", "b a"),
    "weights": ("analyse", "weights", "MODEL"),
    "demo": ("demo", "MODEL"),
    "export": ("export", "MODEL", "OUT"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    BertModel(BertConfig(**sizes, intermediate_size=8)).save_pretrained(folder / "bert")
    (folder / "wrong").mkdir()
    (folder / "text.txt").write_text("It's raining.\n")
    (folder / "binary.bin").write_bytes(bytes(range(256)) * 20)
    (folder / "german.txt").write_text("Das ist schön, nicht wahr?\n\nÜber Straßen.\n", encoding="utf-8")
    (folder / "chinese.txt").write_text("今天天气很好。\n", encoding="utf-8")
    return folder


def run(command, arguments, tmp_path, **values):
    return command(
        *(values.get(argument, tmp_path / "out" if argument == "OUT" else argument) for argument in arguments)
    )


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("wrong", "wrong holds no config.json with a `model_type`. Expected an ELMo"),
        ("bert", "bert holds a model of type 'bert'. Expected an ELMo"),
        ("nowhere", "nowhere does not exist. Expected a folder, a bundled model"),
        ("me/nowhere", "me/nowhere is not a folder, is not in the cache, and the Hub may not be asked"),
    ],
)
@pytest.mark.parametrize("name", [*FILE_COMMANDS, *OTHER_COMMANDS])
def test_models(command, inputs, tmp_path, monkeypatch, name, model, complaint):
    monkeypatch.chdir(inputs)
    arguments = FILE_COMMANDS.get(name) or OTHER_COMMANDS[name]
    code, out, err = run(command, arguments, tmp_path, MODEL=model, FILE="text.txt")
    assert (code, out) == (1, "") and err.startswith(f"Error: {complaint}") and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ("binary.bin", "binary.bin, line 2: not UTF-8"),
        ("wrong", "wrong is a folder"),
        ("nowhere.txt", "There is no file nowhere.txt"),
    ],
)
@pytest.mark.parametrize("name", FILE_COMMANDS)
def test_files(command, inputs, tmp_path, monkeypatch, name, file, complaint):
    monkeypatch.chdir(inputs)
    code, out, err = run(command, FILE_COMMANDS[name], tmp_path, MODEL="english", FILE=file)
    assert (code, out) == (1, "") and f"Error: {complaint}" in err and "Traceback" not in err


@pytest.mark.parametrize("file", ["german.txt", "chinese.txt"])
@pytest.mark.parametrize("name", FILE_COMMANDS)
def test_other_languages(command, inputs, tmp_path, name, file):
    assert run(command, FILE_COMMANDS[name], tmp_path, MODEL="english", FILE=inputs / file)[0] == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--splitting", "foo"), "Invalid `splitting`: 'foo'. Expected 'moses-en'"),
        (("--errors", "foo"), "Invalid `errors`: 'foo'. Expected 'strict'"),
        (("--device", "cuda:99"), "Invalid `device`: 'cuda:99'. Expected 'cpu'"),
    ],
)
@pytest.mark.parametrize("name", FILE_COMMANDS)
def test_option_values(command, inputs, tmp_path, name, options, complaint):
    code, out, err = run(
        command, (*FILE_COMMANDS[name], *options), tmp_path, MODEL="english", FILE=inputs / "text.txt"
    )
    assert (code, out) == (1, "") and f"Error: {complaint}" in err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--html", "wrong"), "wrong is a folder. Expected the name of a file to write."),
        (("--json", "wrong"), "wrong is a folder. Expected the name of a file to write."),
        (("--json", "nowhere/x.json"), "There is no folder nowhere to write x.json to."),
    ],
)
def test_outputs_are_checked_first(command, inputs, tmp_path, monkeypatch, options, complaint):
    monkeypatch.chdir(inputs)
    code, out, err = command("analyse", "surprise", "english", "text.txt", *options)
    assert (code, out, err) == (1, "", f"Error: {complaint}\n")


def test_a_file_in_place_of_a_store(command, inputs, tmp_path):
    code, _, err = command("embed", "english", inputs / "text.txt", inputs / "binary.bin", "--device", "cpu")
    assert (
        code == 1
        and err == f"Error: {inputs / 'binary.bin'} is a file. Expected a new folder, or a store to resume.\n"
    )
