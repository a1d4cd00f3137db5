"""Kills a pretraining run at random moments and goes on: does it end as the run that nobody killed?

    python tests/fuzz/kills.py [KILLS] [SEED]

A run with a limit in steps is killed (SIGKILL) while it starts, reads, trains, saves checkpoints, and saves the model
after its last checkpoint, and is started again with --resume until it ends by itself; this as often as it takes for so
many kills. Every end must have the weights of the run that was never killed, bit for bit, and one more start changes
nothing.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = {
    "character_cnn_filters": [[1, 4], [2, 6]],
    "projection_size": 8,
    "cell_size": 12,
    "num_highway_layers": 1,
    "max_characters_per_token": 12,
    "dropout": 0.2,
}
STEPS = 60
COMMAND = "from elmo_hf.cli import main; main()"
LATE = 4  # of so many kills, one is aimed at the end of the run


def write_text(folder: Path):
    words = "the cat sat on a mat and saw another dog there".split()
    lines = [" ".join(words[k * 7 % 11 :][: 2 + k % 6] + words[: k % 5]) for k in range(150)]
    (folder / "text.txt").write_text("\n".join(lines))
    (folder / "config.json").write_text(json.dumps(CONFIG))


def start(folder: Path, output: Path) -> subprocess.Popen:
    arguments = [folder / "text.txt", "-o", output, "--size", folder / "config.json", "--resume", "--min-count", 1]
    arguments += ["--batch-size", 4, "--unroll-steps", 5, "--num-sampled", 4, "--stop-after", STEPS]
    arguments += ["--log-every", 1, "--save-every", 4, "--evaluate-every", 9]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "pretrain", *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def killed(process: subprocess.Popen, generator: random.Random) -> bool:
    """Kills after some line, and a little later; whether it came to that."""
    wanted = f"step {STEPS}/" if generator.randrange(LATE) == 0 else None
    after, seen = generator.randrange(1, 40), 0
    for line in process.stdout:
        seen += 1
        if line.startswith(wanted) if wanted else seen >= after:
            time.sleep(generator.random() * (1.5 if wanted else 0.1))
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def files(output: Path) -> dict[str, str]:
    """The files of a model, and what is in them."""
    found = sorted(path for path in output.iterdir() if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def finish(folder: Path, output: Path) -> dict[str, str]:
    out, _ = (process := start(folder, output)).communicate(timeout=600)
    if process.returncode:
        sys.exit(f"A run that went on ended with code {process.returncode}:\n{out}")
    return files(output)


def main(kills: int = 20, seed: int = 0):
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder)
        expected = finish(folder, folder / "whole" / "model")
        left, runs, late = kills, 0, 0
        while left:
            output = folder / f"run-{runs}" / "model"
            for _ in range(min(left, generator.randrange(1, 5))):
                if not killed(start(folder, output), generator):
                    break
                left -= 1
                steps = [int(path.name[11:]) for path in output.parent.glob("model.run/checkpoint-*")]
                late += STEPS in steps
                saved = ", the model saved" if (output / "config.json").exists() else ""
                print(f"killed: newest checkpoint {max(steps, default=None)}{saved}", flush=True)
            if finish(folder, output) != expected:
                sys.exit(f"Run {runs} did not end as the run that nobody killed (seed {seed}).")
            before = {path: path.stat().st_mtime_ns for path in output.iterdir()}
            if finish(folder, output) != expected or before != {p: p.stat().st_mtime_ns for p in output.iterdir()}:
                sys.exit(f"Starting run {runs} once more changed what was finished (seed {seed}).")
            runs += 1
    print(f"{kills} kills in {runs} runs, {late} of them after the last checkpoint: all ended bit-identical")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
