"""Kills a pretraining run at random moments and goes on: does it end as the run that nobody killed?

    python tests/fuzz/kills.py [KILLS] [SEED]

A run with a limit in steps is killed (SIGKILL) while it starts, reads, trains, saves checkpoints, and saves the model
after its last checkpoint, and is started again with --resume until it ends by itself; this as often as it takes for so
many kills. Every end must have the weights of the run that was never killed, bit for bit, and one more start changes
nothing.
"""

import hashlib
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from small_texts import write_text

from elmo_hf.pretraining import Settings, pretrain

STEPS = 60
LATE = 4  # of so many kills, one is aimed at the end of the run


class Run:
    """A run in a process of its own, forked off so that it need not load everything once more."""

    def __init__(self, folder: Path, output: Path):
        reading, writing = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(reading)
            os._exit(train(folder, output, writing))
        os.close(writing)
        self.lines = os.fdopen(reading)

    def kill(self) -> bool:
        """Whether it was still alive."""
        os.kill(self.process, signal.SIGKILL)
        self.lines.close()
        return os.WIFSIGNALED(os.waitpid(self.process, 0)[1])

    def end(self) -> tuple[int, str]:
        """What it still says, and its code."""
        said = self.lines.read()
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1]), said


def train(folder: Path, output: Path, said: int) -> int:
    settings = Settings(output, [str(folder / "text.txt")], size=str(folder / "config.json"), resume=True, min_count=1)
    settings.batch_size, settings.unroll_steps, settings.num_sampled = 4, 5, 4
    settings.stop_after, settings.log_every, settings.save_every, settings.evaluate_every = str(STEPS), 1, "4", "9"
    settings.threads = 1
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        pretrain(settings, lambda line: os.write(said, f"{line}\n".encode()))
    except Exception:
        os.write(said, traceback.format_exc().encode())
        return 1
    return 0


def killed(run: Run, generator: random.Random) -> bool:
    """Kills after some line, and a little later; whether it had not ended by then."""
    wanted = f"step {STEPS}/" if generator.randrange(LATE) == 0 else None
    after = generator.randrange(1, 80)
    for seen, line in enumerate(run.lines, 1):
        if line.startswith(wanted) if wanted else seen >= after:
            time.sleep(generator.random() * (2.0 if wanted else 0.2))
            break
    return run.kill()


def files(output: Path) -> dict[str, str]:
    """The files of a model, and what is in them."""
    found = sorted(path for path in output.iterdir() if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def finish(folder: Path, output: Path) -> dict[str, str]:
    code, said = Run(folder, output).end()
    if code:
        sys.exit(f"A run that went on ended with code {code}:\n{said}")
    return files(output)


def main(kills: int = 20, seed: int = 0):
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder, dropout=0.2)
        expected = finish(folder, folder / "whole" / "model")
        left, runs, late = kills, 0, 0
        while left:
            output = folder / f"run-{runs}" / "model"
            for _ in range(min(left, generator.randrange(4, 8))):
                if not killed(Run(folder, output), generator):
                    break
                left -= 1
                steps = [int(path.name[11:]) for path in output.parent.glob("model.run/checkpoint-*")]
                late += STEPS in steps
                saved = ", the model saved" if (output / "config.json").exists() else ""
                print(f"killed: newest checkpoint {max(steps, default=None)}{saved}", flush=True)
            found = finish(folder, output)
            if found != expected:
                names = sorted(name for name in found.keys() | expected if found.get(name) != expected.get(name))
                sys.exit(f"Run {runs} did not end as the run that nobody killed (seed {seed}): {', '.join(names)}.")
            before = {path: path.stat().st_mtime_ns for path in output.iterdir()}
            if finish(folder, output) != expected or before != {p: p.stat().st_mtime_ns for p in output.iterdir()}:
                sys.exit(f"Starting run {runs} once more changed what was finished (seed {seed}).")
            runs += 1
    print(f"{kills} kills in {runs} runs, {late} of them after the last checkpoint: all ended bit-identical")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
