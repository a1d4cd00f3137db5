"""Going on after kill -9, after a full disk, and where going on is refused. Each run is a process of its own."""

import json
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
from safetensors.torch import load_file

from elmo_hf.pretraining import Settings, newest_checkpoint, pretrain

# Dropout, sampling and several passes: whatever is drawn has to go on being drawn from the same place.
CONFIG = {
    "character_cnn_filters": [[1, 4], [2, 6]],
    "projection_size": 8,
    "cell_size": 12,
    "num_highway_layers": 1,
    "max_characters_per_token": 12,
    "dropout": 0.2,
}
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
"""
COMMAND = "from elmo_hf.cli import main; main()"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    words = "the cat sat on a mat and saw another dog there".split()
    lines = [" ".join(words[k * 7 % 11 :][: 2 + k % 6] + words[: k % 5]) for k in range(150)]
    (folder / "text.txt").write_text("\n".join(lines))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.fixture(scope="module")
def start(text):
    """A function that starts `elmo-hf pretrain` into a folder and gives the process."""

    def run(output, *options, code=COMMAND):
        arguments = ["pretrain", text / "text.txt", "-o", output, "--size", text / "config.json", "--min-count", 1]
        arguments += ["--batch-size", 4, "--unroll-steps", 5, "--epochs", 2, "--num-sampled", 4, "--log-every", 1]
        arguments += ["--save-every", 3, "--evaluate-every", 7, *options]
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
    out = finished(start(folder))
    return folder, int(re.search(r"step \d+/(\d+)", out)[1])


def weights(folder):
    return load_file(folder / "model.safetensors")


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
        assert newest_checkpoint(folder) is not None
        shutil.rmtree(folder / "corpus")  # and the text is read again where its numbers are gone
    out = finished(start(folder, "--resume"))
    assert "going on from" in out
    expected, found = weights(whole), weights(folder)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_full_disk_leaves_the_checkpoint_before(start, uninterrupted, tmp_path):
    """A limit on the size of files stands for it: writing fails in the middle of a checkpoint."""
    folder = tmp_path / "run"
    finished(start(folder, "--stop-after", 5))
    before = newest_checkpoint(folder)
    process = start(folder, "--resume", code=LIMITED + COMMAND)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 1 and "could not be written whole" in out and "go on with --resume" in out
    assert "Traceback" not in out
    assert newest_checkpoint(folder) == before
    finished(start(folder, "--resume"))
    expected, found = weights(uninterrupted[0]), weights(folder)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_another_run_is_refused(text, uninterrupted, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(uninterrupted[0], folder)

    def refused(**changes):
        same = {
            "size": str(text / "config.json"),
            "min_count": 1,
            "batch_size": 4,
            "unroll_steps": 5,
            "num_sampled": 4,
        }
        settings = {"files": [str(text / "text.txt")], "resume": True, **same, **changes}
        with pytest.raises(ValueError) as error:
            pretrain(Settings(folder, **settings), write=lambda line: None)
        return str(error.value)

    assert "is there already; accepted are --resume" in refused(resume=False)
    assert "batch_size 4, and this is 2" in refused(batch_size=2)
    assert "dropout 0.2, and this is 0.1" in refused(dropout=0.1)
    assert "optimizer 'adagrad', and this is 'adamw'" in refused(optimizer="adamw")
    assert "vocabulary is another one" in refused(max_size=10)
    (text / "other.txt").write_text("one more line of text")
    assert "corpus is another one" in refused(files=[str(text / "*.txt")])
    (folder / "checkpoint-98" / "pretraining.json").unlink()
    assert "has no pretraining.json" in refused()
