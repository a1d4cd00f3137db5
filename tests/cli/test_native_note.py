"""The note on how to get the native library, where it is missing and would be used."""

import pytest

from elmo_hf.cli.native_note import NOTE
from elmo_hf.kernels import native


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "english", "It"),
        ("analyse", "similarity", "english", "a b", "b a"),
        ("analyse", "surprise", "english", "--text", "It rains."),
        ("embed", "english", "TEXT", "STORE", "--processes", 1),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_note(command, tmp_path, monkeypatch, arguments):
    (tmp_path / "text.txt").write_text("It rains.\n")
    names = {"TEXT": tmp_path / "text.txt", "STORE": tmp_path / "store"}
    arguments = [names.get(argument, argument) for argument in arguments]
    monkeypatch.delenv("ELMO_HF_NATIVE", raising=False)
    monkeypatch.setattr(native, "library", lambda: None)
    code, _, err = command(*arguments, "--device", "cpu")
    assert code == 0 and err.count(NOTE) == 1
    monkeypatch.setenv("ELMO_HF_NATIVE", "0")  # left out on purpose
    assert NOTE not in command(*arguments, "--device", "cpu")[2]
