"""Two processes with half of the streams each train what one process with all of them trains."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from small_texts import SIZES


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    words = [f"w{k}" for k in range(40)]
    lines = [" ".join(words[(k * k + j) % 40] for j in range(3 + k % 9)) for k in range(300)]
    (folder / "text.txt").write_text("\n".join(lines))
    (folder / "config.json").write_text(json.dumps({**SIZES, "dropout": 0.0}))

    def run(processes, name, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        launch = ["-m", "torch.distributed.run", "--nproc-per-node", processes, "--master-port", port]
        arguments = [folder / "text.txt", "-o", folder / name, "--size", folder / "config.json", "--min-count", 1]
        arguments += ["--batch-size", 8, "--unroll-steps", 5, "--stop-after", 50, "--evaluate-every", 20]
        arguments += ["--recipe", "original", "--precision", "float32", *options]
        command = [sys.executable, *(launch if processes > 1 else []), "-m", "elmo_hf.cli", "pretrain", *arguments]
        done = subprocess.run(
            list(map(str, command)),
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return load_file(folder / name / "model.safetensors"), done.stdout

    return run


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [0, 12])
def test_two_processes_equal_one(train, sampled):
    one, said = train(1, f"one-{sampled}", "--num-sampled", sampled)
    two, also_said = train(2, f"two-{sampled}", "--num-sampled", sampled)
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], atol=1e-5, rtol=0, msg=lambda text, name=name: name + text)
    # The same lines are reported, once; only speed differs.
    cut = [
        [line.split(" tokens/s")[0].rsplit("  ", 1)[0] for line in out.splitlines()[:-1]] for out in (said, also_said)
    ]
    assert cut[0] == cut[1]


@pytest.mark.slow
def test_a_batch_that_cannot_be_divided(train):
    with pytest.raises(AssertionError, match="7 streams cannot be divided among 2 processes"):
        train(2, "seven", "--batch-size", 7)
