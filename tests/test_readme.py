"""The README's commands and examples, run as they stand there, print what it shows."""

import json
import re
import shlex
import subprocess
import sys

import h5py
import pytest
from golden_files import GOLDEN, TESTS
from golden_language_model import write_random_softmax

from elmo_hf import cli

README = (TESTS.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n((?:(?!```).)*)```\n\n[^\n]*prints\n\n```text\n(.*?)```", README, re.DOTALL)
SESSIONS = re.findall(r"```console\n\$ ([^\n]*)\n(.*?)```", README, re.DOTALL)
PLAIN = GOLDEN["plain"]


def same_but_for_measurements(text):
    """Times, memory and the last digits of differences are what they are."""
    text = re.sub(r"in \d+\.\d s, peak memory [\d,]+ MB", "in T s, peak memory M MB", text)
    return re.sub(r"\d\.\d\de-0(\d)", r"D e-0\1", text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the README's reader has at hand: original files, and vectors dumped from them."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "options.json").write_bytes(PLAIN.options.read_bytes())
    (folder / "weights.hdf5").write_bytes(PLAIN.weights.read_bytes())
    (folder / "vocab.txt").write_bytes(PLAIN.vocabulary.read_bytes())
    write_random_softmax(folder / "softmax.hdf5", words=65, size=6)
    sentences = json.loads(PLAIN.sentences_file.read_text(encoding="utf-8"))
    (folder / "sentences.txt").write_text("\n".join(map(" ".join, sentences)), encoding="utf-8")
    with h5py.File(folder / "dumped.hdf5", "w") as file:
        for number in range(len(sentences)):
            file[str(number)] = PLAIN.expected_layers("stateful", number)
    return folder


def test_there_are_examples():
    assert len(EXAMPLES) >= 2 and len(SESSIONS) >= 2


@pytest.mark.parametrize("number", range(len(SESSIONS)))
def test_commands(number, folder, monkeypatch, capsys):
    command, shown = SESSIONS[number]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    assert same_but_for_measurements(capsys.readouterr().out) == same_but_for_measurements(shown)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples(number, folder):
    code, shown = EXAMPLES[number]
    run = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    # The Trainer's own log is lines of dictionaries that begin with a score.
    printed = [line for line in run.stdout.splitlines() if not re.match(r"\{'(loss|eval_|train_)", line)]
    assert printed == shown.splitlines()
