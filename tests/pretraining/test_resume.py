"""Going on after kill -9, after a full disk, and where going on is refused. Each run is a process of its own."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from fork_server import run_forked
from safetensors.torch import load_file
from small_texts import write_text

from elmo_hf.atomic_files import MANIFEST
from elmo_hf.kernels.mixed_precision import has_bfloat16_units
from elmo_hf.pretraining import Settings, newest_checkpoint, pretrain
from elmo_hf.pretraining.run_folder import RunFolder

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
"""
COMMAND = "from elmo_hf.cli import main; main()"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    # Dropout, sampling and several passes: whatever is drawn has to go on being drawn from the same place.
    write_text(folder, dropout=0.2)
    return folder


@pytest.fixture(scope="module")
def start(text):
    """A function that starts `elmo-hf pretrain` into a folder and returns the process, finished if `code` is None."""

    def run(output, *options, code=COMMAND):
        arguments = ["pretrain", text / "text.txt", "-o", output, "--size", text / "config.json", "--min-count", 1]
        arguments += ["--batch-size", 4, "--unroll-steps", 5, "--epochs", 2, "--num-sampled", 4, "--log-every", 1]
        arguments += ["--save-every", 3, "--evaluate-every", 7, "--recipe", "original", *options]
        if code is None:
            return run_forked(["-m", "elmo_hf.cli", *arguments])
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return run


def finished(process):
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    return out


@pytest.fixture(scope="module")
def uninterrupted(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    done = start(folder, code=None)
    assert done.returncode == 0, done.stderr
    return folder, int(re.search(r"step \d+/(\d+)", done.stdout)[1])


def weights(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.slow
def test_killed_three_times_it_ends_with_the_same_weights(start, uninterrupted, tmp_path):
    whole, steps = uninterrupted
    folder, generator = tmp_path / "run", random.Random(5)
    for _ in range(3):
        process = start(folder, "--resume")
        victim = generator.randrange(4, steps - 4)
        for line in process.stdout:
            found = re.match(r"step (\d+)/", line)
            if found and int(found[1]) >= victim:
                break
        time.sleep(generator.random() * 0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        # What was written when it died may be half; it is passed over.
        kept = folder.with_name("run.run")
        assert newest_checkpoint(kept) is not None
        shutil.rmtree(kept / "corpus")  # and the text is read again where its numbers are gone
    out = finished(start(folder, "--resume"))
    assert "resuming from" in out
    expected, found = weights(whole), weights(folder)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.slow
def test_a_full_disk_leaves_the_checkpoint_before(start, uninterrupted, tmp_path):
    """A limit on the size of files stands for it: writing fails in the middle of a checkpoint."""
    folder = tmp_path / "run"
    finished(start(folder, "--stop-after", 5))
    before = newest_checkpoint(folder.with_name("run.run"))
    process = start(folder, "--resume", code=LIMITED + COMMAND)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 1 and "could not be written completely" in out and "continue with --resume" in out
    assert "Traceback" not in out
    assert newest_checkpoint(folder.with_name("run.run")) == before
    finished(start(folder, "--resume"))
    expected, found = weights(uninterrupted[0]), weights(folder)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.fixture
def again(text, uninterrupted, tmp_path):
    """A function that goes on with a copy of the finished run, with changed settings; and where its folder is."""
    folder = tmp_path / "run"
    shutil.copytree(uninterrupted[0], folder)
    shutil.copytree(uninterrupted[0].with_name("run.run"), tmp_path / "run.run")
    same = {"size": str(text / "config.json"), "min_count": 1, "batch_size": 4, "unroll_steps": 5, "num_sampled": 4}
    same |= {"files": [str(text / "text.txt")], "epochs": 2, "recipe": "original", "resume": True}

    def run(**changes):
        said = []
        found = pretrain(Settings(folder, **{**same, **changes}), say=said.append)
        return found, "\n".join(said)

    return run, folder


def everything(folder):
    """Each file of a run with its content and when it was last written."""
    found = [path for root in (folder, folder.with_name("run.run")) for path in root.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found if path.name != "lock"}


def test_a_finished_run_is_not_changed(again):
    run, folder = again
    before = everything(folder)
    found, said = run()
    assert "finished:" in said and found["after"] < found["before"]
    assert everything(folder) == before


def test_a_model_that_was_not_saved_any_more_is_made_of_the_last_checkpoint(again, uninterrupted):
    run, folder = again
    shutil.rmtree(folder)
    folder.with_name("run.run").joinpath("finished.json").unlink()
    found, said = run()
    assert "step" not in said.split("resuming from")[1] and found["after"] < found["before"]
    # Not the weights alone: what is said of the model too.
    expected, made = ({path.name: path.read_bytes() for path in one.iterdir()} for one in (uninterrupted[0], folder))
    assert expected.keys() == made.keys() and [name for name in made if made[name] != expected[name]] == []


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "recurrent_state_0.pt", MANIFEST])
def test_a_damaged_checkpoint_is_passed_over(again, name):
    run, folder = again
    newest = newest_checkpoint(folder.with_name("run.run"))
    (newest / name).unlink()
    older = newest_checkpoint(folder.with_name("run.run"))
    assert older is not None and older != newest
    (older / name).write_bytes((older / name).read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="No checkpoint in .* is complete"):
        run()


def test_it_goes_on_from_the_checkpoint_before_a_damaged_one(again, uninterrupted):
    run, folder = again
    newest = newest_checkpoint(folder.with_name("run.run"))
    (newest / "optimizer.pt").write_bytes(b"")
    _, said = run()
    assert f"skipped: {newest} is damaged (optimizer.pt has 0 bytes instead of" in said and "held-out" in said
    expected, made = weights(uninterrupted[0]), weights(folder)
    assert all(torch.equal(expected[name], made[name]) for name in expected)


def test_another_run_is_refused(text, again):
    run, folder = again
    kept = folder.with_name("run.run")
    before = everything(folder)

    def refused(**changes):
        with pytest.raises(ValueError) as error:
            run(**changes)
        return str(error.value)

    assert "exists already. Expected --resume" in refused(resume=False)
    assert "batch_size 4, and this is 2" in refused(batch_size=2)
    assert "dropout 0.2, and this is 0.1" in refused(dropout=0.1)
    assert "optimizer 'adagrad', and this is 'adamw'" in refused(optimizer="adamw")
    assert "learning_rate 0.2, and this is 0.1" in refused(learning_rate=0.1)
    assert "schedule 'constant', and this is 'linear'" in refused(schedule="linear")
    assert "warmup_steps 0, and this is 3" in refused(warmup_steps=3)
    assert "max_grad_norm 10.0, and this is 1" in refused(max_grad_norm=1)
    if has_bfloat16_units():
        assert "precision 'bf16', and this is 'float32'" in refused(precision="float32")
    assert "vocabulary differs from that of" in refused(max_size=10)
    (text / "other.txt").write_text("one more line of text")
    assert "text differs from the one" in refused(files=[str(text / "*.txt")])
    assert everything(folder) == before  # nothing is left behind
    with RunFolder(folder).locked():
        assert f"is being trained by process {os.getpid()} on" in refused()
    assert not list(kept.glob(".*")) and not (kept / "unfinished").exists()


def test_a_damaged_corpus_is_made_again(again):
    run, folder = again
    kept = folder.with_name("run.run") / "corpus"
    for damage in (
        lambda: (kept / "tokens.int32").write_bytes(b"x" * 7),
        lambda: (kept / "words.txt").unlink(),
        lambda: (kept / MANIFEST).write_text("[]"),
        lambda: (kept / "corpus.json").write_text("{}"),
    ):
        damage()
        _, said = run()
        assert "reading the text" in said and "finished:" in said


def test_a_folder_that_is_not_of_the_run_is_left_alone(text, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "README.md").write_text("mine")
    with pytest.raises(ValueError, match="model exists already. Expected a new folder as --output-dir"):
        pretrain(Settings(tmp_path / "model", [str(text / "text.txt")], size="tiny"), say=lambda line: None)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
