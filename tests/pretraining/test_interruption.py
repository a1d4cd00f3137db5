"""Ctrl-C and SIGTERM: a checkpoint is written, and the resumed run ends with the same weights."""

import os
import signal

import pytest
import torch
import typer
from safetensors.torch import load_file
from small_texts import write_text

from elmo_hf.cli import pretrain as command
from elmo_hf.pretraining import Settings, newest_checkpoint, pretrain
from elmo_hf.pretraining.interruption import TrainingInterrupted


@pytest.fixture
def run(tmp_path):
    """A function that pretrains into a folder; `at` is a line of the report at which the signal is sent."""
    write_text(tmp_path, dropout=0.2)

    def train(name, at=None, number=signal.SIGINT, **changes):
        said = []

        def say(line):
            said.append(line)
            if at is not None and at in line:
                os.kill(os.getpid(), number)

        settings = {"size": str(tmp_path / "config.json"), "min_count": 1, "batch_size": 4, "unroll_steps": 5}
        settings |= {"epochs": 1, "log_every": 1, "num_sampled": 4, **changes}
        pretrain(Settings(tmp_path / name, [str(tmp_path / "text.txt")], **settings), say=say)
        return "\n".join(said)

    return train


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_signal_writes_a_checkpoint_to_resume_from(run, tmp_path, number):
    before = signal.getsignal(number)
    # The step is reported after its end, and so the signal arrives in the next one.
    with pytest.raises(TrainingInterrupted, match=r"stopped.run/checkpoint-5 .* with --resume continues") as error:
        run("stopped", at="step 4/", number=number)
    assert error.value.signal_number == number and signal.getsignal(number) is before
    assert newest_checkpoint(tmp_path / "stopped.run").name == "checkpoint-5"
    assert not (tmp_path / "stopped").exists()
    assert "resuming from" in run("stopped", resume=True)
    run("whole")
    expected, resumed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(expected[name], resumed[name]) for name in expected)


def test_a_signal_before_the_first_step_writes_a_checkpoint_too(run, tmp_path):
    with pytest.raises(TrainingInterrupted, match="checkpoint-1 "):
        run("stopped", at="held-out perplexity before")


def test_resume_without_a_checkpoint_says_so(run):
    assert "there is no checkpoint in" in run("new", resume=True, stop_after="1")


@pytest.mark.parametrize(("error", "code"), [(TrainingInterrupted(15, None), 143), (KeyboardInterrupt(), 130)])
def test_the_command_ends_with_the_code_of_the_signal(error, code, monkeypatch, capsys, tmp_path):
    def interrupted(*args, **kwargs):
        raise error

    monkeypatch.setattr("elmo_hf.pretraining.pretrain", interrupted)
    with pytest.raises(typer.Exit) as exit:
        command(output_dir=tmp_path / "model", files=["text.txt"])
    assert exit.value.exit_code == code and "nterrupted before" in capsys.readouterr().err
