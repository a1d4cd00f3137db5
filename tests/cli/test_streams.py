"""Standard streams as shells and other programs leave them: closed, full, broken, in another encoding."""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from small_models import small

from elmo_hf import ElmoForPreTraining, ElmoTokenizer

# A shell closes and redirects; the command goes by its module, so that any Python will do.
COMMAND = f"{sys.executable} -m elmo_hf.cli"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    words = ["<S>", "</S>", "<UNK>", "a", "日"]
    small(ElmoForPreTraining, vocab_size=len(words)).save_pretrained(folder / "model")
    ElmoTokenizer(word_vocabulary=words).save_pretrained(folder / "model")
    (folder / "text.txt").write_text("a 日 b\n" * 20_000, encoding="utf-8")
    (folder / "short.txt").write_text("a 日 b\n" * 20, encoding="utf-8")
    return folder


def shell(places, line, **environment):
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", **environment}
    line = line.replace("elmo-hf", COMMAND)
    return subprocess.run(["bash", "-c", line], cwd=places, env=surroundings, capture_output=True, timeout=300)


@pytest.mark.slow
def test_streams_that_are_not_there(places):
    # One shell, for the time that each start takes.
    found = shell(
        places,
        "elmo-hf score model <&- 2>closed-in; echo $?; elmo-hf score model text.txt --words 2>broken | head -1;"
        "echo ${PIPESTATUS[0]}; elmo-hf score model short.txt >&- 2>closed-out; echo $?;"
        "elmo-hf predict model a >/dev/full 2>full; echo $?; elmo-hf predict nowhere/at/all a 2>&-; echo $?",
    )
    said = {name: (places / name).read_text() for name in ("closed-in", "broken", "closed-out", "full")}
    lines = found.stdout.decode().splitlines()
    header = "sentence\tforward\tbackward\tboth\t"
    assert lines == ["1", f"{header}word", "1", "0", "1", "1"], (lines, said)
    assert "standard input contains no sentence" in said["closed-in"]
    assert "Traceback" not in "".join(said.values()) + found.stderr.decode()
    assert said["full"].splitlines()[-1] == "Error: No space left on device."


@pytest.mark.slow
def test_words_that_an_encoding_does_not_have(places):
    found = shell(places, r"elmo-hf predict model $'日 \xff' -k 5 --specials", PYTHONIOENCODING="latin-1")
    assert found.returncode == 0, found.stderr
    assert r"\u65e5" in found.stdout.decode("latin-1")


@pytest.mark.slow
def test_control_c_says_nothing_more(places):
    line = [sys.executable, "-m", "elmo_hf.cli", "score", "model", "text.txt"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A shell's background jobs, and all that they start, do not hear of Ctrl-C.
    hears = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = subprocess.Popen(line, cwd=places, env=environment, preexec_fn=hears, **pipes)
    command.stdout.readline()
    time.sleep(0.1)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 130 and b"Traceback" not in said


@pytest.mark.parametrize("is_terminal", [True, False])
def test_libraries_show_progress_on_a_terminal_only(command, monkeypatch, is_terminal):
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    assert command("--version")[0] == 0
    assert os.environ.get("HF_HUB_DISABLE_PROGRESS_BARS") == (None if is_terminal else "1")
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
