"""The README's commands and examples, run as they stand there, print what it shows."""

import shlex
import sys

import h5py
import numpy as np
import pytest
from golden_files import GOLDEN
from readme_blocks import EXAMPLE, ORIGINAL, README, SESSION, provide, remade, run_example, same_but_for_measurements

from elmo_hf import cli, read_lines

TEXT = README.read_text(encoding="utf-8")
EXAMPLES, SESSIONS = EXAMPLE.findall(TEXT), SESSION.findall(TEXT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    provide(folder)
    return folder


def test_the_files_of_the_examples_are_those_of_a_golden_checkpoint():
    plain = GOLDEN["plain"]
    for name, file in (
        ("options.json", plain.options),
        ("weights.hdf5", plain.weights),
        ("vocab.txt", plain.vocabulary),
    ):
        assert (ORIGINAL / name).read_bytes() == file.read_bytes()
    assert [line.split() for line in read_lines(ORIGINAL / "sentences.txt")] == plain.sentences
    with h5py.File(ORIGINAL / "dumped.hdf5") as dumped:
        for number in range(len(plain.sentences)):
            np.testing.assert_array_equal(dumped[str(number)], plain.expected_layers("stateful", number))


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
    assert run_example(code, folder) == shown


def test_what_is_printed_is_put_in_its_place(tmp_path):
    kept = "```console\n$ echo 'converted in 3.0 s, peak memory 1,000 MB'\nconverted in 9.9 s, peak memory 5 MB\n```\n"
    before = "A\n\n```console\n$ echo new\nold\n```\n\n```python\nprint(1 + 1)\n```\n\nprints\n\n```text\n3\n```\n"
    assert remade(kept, tmp_path) == kept
    assert remade(before, tmp_path) == before.replace("\nold\n", "\nnew\n").replace("text\n3", "text\n2")
