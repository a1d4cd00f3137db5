"""Kills the commands themselves with -9 and gives them again: do they end as if nobody had killed them?

    python tests/fuzz/killed_commands.py pretrain [--steps 60] [--rounds 4] [--seed 0]
    python tests/fuzz/killed_commands.py embed TEXT [--sentences 100000] [--seed 0] [--folder FOLDER]

`pretrain`: in each round three kills at random moments, one after the last checkpoint and one while the model is
saved; then the weights must be those of a run that was never killed, bit for bit, and one more start changes nothing.

`embed`: the vectors of a text by a model of size small with random weights. Peak memory of so many sentences and of a
tenth of them; then the same store with five kills, one of them between writing a part and its rename.
"""

import argparse
import filecmp
import lzma
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

# One thread, and a command that need not start itself again to have it so.
SURROUNDINGS = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "HF_HUB_OFFLINE": "1"}

RUN = "import sys; sys.argv[0] = 'elmo-hf'; from elmo_hf.cli import main; main()"

# The same, dead at the moment before something is renamed for the n-th time to a place that fits a pattern.
RUN_TO_RENAME = f"""
import os, re, signal, sys
pattern, left = re.compile(sys.argv[1]), int(sys.argv[2])
del sys.argv[1:3]
def dying(rename):
    def renamed(source, target, **keywords):
        global left
        if pattern.search(os.fspath(target)):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target, **keywords)
    return renamed
os.rename, os.replace = dying(os.rename), dying(os.replace)
{RUN}
"""

MODEL = """
import sys, torch
from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
torch.manual_seed(0)
ElmoModel(ElmoConfig(projection_size=128, cell_size=1024, num_highway_layers=1)).save_pretrained(sys.argv[1])
ElmoTokenizer("whitespace").save_pretrained(sys.argv[1])
"""


class Command:
    """A command in a process of its own; what it says goes to a file."""

    def __init__(self, arguments: list, log: Path, rename: tuple[str, int] | None = None):
        code = [RUN] if rename is None else [RUN_TO_RENAME, *rename]
        self.log = log
        with log.open("w") as file:
            line = [sys.executable, "-c", *map(str, code), *map(str, arguments)]
            self.process = subprocess.Popen(line, env=SURROUNDINGS, stdout=file, stderr=file)

    def kill_when(self, moment: Callable[[], bool], later: float = 0.0) -> bool:
        """Kills some time after a moment; whether it was still at work."""
        while self.process.poll() is None and not moment():
            time.sleep(0.002)
        time.sleep(later)
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL

    def dies(self) -> bool:
        """Whether it was killed, with nothing done to it from here."""
        return self.process.wait() == -signal.SIGKILL

    def end(self) -> float:
        """Lets it end and returns its peak memory in MB."""
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode:
            sys.exit(f"The command ended with {self.process.returncode}:\n{self.log.read_text()}")
        return used.ru_maxrss / 1024


def same(left: Path, right: Path) -> list[str]:
    """Names of the files in which two folders differ."""
    names = sorted({path.name for folder in (left, right) for path in folder.iterdir()})
    _, differing, missing = filecmp.cmpfiles(left, right, names, shallow=False)
    return differing + missing


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in sorted(folder.iterdir())}


class Later:
    """A moment some seconds from now."""

    def __init__(self, seconds: float):
        self.end = time.perf_counter() + seconds

    def __call__(self) -> bool:
        return time.perf_counter() > self.end


def newest(run: Path) -> int:
    return max((int(path.name[11:]) for path in run.glob("checkpoint-*")), default=0)


def reached(run: Path, step: int) -> bool:
    return newest(run) >= step


def has_parts(store: Path, count: int) -> bool:
    return len(list(store.glob("part-*"))) >= count


def pretrain(folder: Path, steps: int, rounds: int, generator: random.Random):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from small_texts import write_text

    write_text(folder, dropout=0.2)

    def start(output: Path, *rename: tuple[str, int]) -> Command:
        every = ["--log-every", 1, "--save-every", 4, "--evaluate-every", 9, "--stop-after", steps]
        shape = ["--size", folder / "config.json", "--batch-size", 4, "--unroll-steps", 5, "--num-sampled", 4]
        what = ["pretrain", folder / "text.txt", "-o", output, "--resume", "--min-count", 1, "--threads", 1]
        return Command([*what, *shape, *every], folder / "log", *rename)

    begin = time.perf_counter()
    start(folder / "whole" / "model").end()
    seconds, kills = time.perf_counter() - begin, {"early": 0, "after the last checkpoint": 0, "while saving": 0}
    for number in range(rounds):
        output = folder / f"round-{number}" / "model"
        beside = output.with_name("model.run")

        for _ in range(3):
            after = generator.randrange(4, steps - 4)
            if generator.random() < 0.3:
                moment = Later(generator.random() * seconds)
            else:
                moment = partial(reached, beside, after)
            kills["early"] += start(output).kill_when(moment, generator.random() * 0.2)
        done = start(output)
        kills["after the last checkpoint"] += done.kill_when(partial(reached, beside, steps), generator.random() * 0.3)
        if number % 2:
            saving = start(output)
            place = beside / "unfinished" / "model"
            kills["while saving"] += saving.kill_when(place.exists, generator.random() * 0.05)
        else:
            moved = re.escape(str(output)) + r"(/|\.run/model$)"
            kills["while saving"] += start(output, (moved, generator.randrange(1, 8))).dies()
        left = sorted(path.name for path in output.iterdir()) if output.exists() else []
        print(f"round {number}: newest checkpoint {newest(beside)}, {len(left)} files of the model", flush=True)
        start(output).end()
        wrong = same(folder / "whole" / "model", output)
        if wrong:
            sys.exit(f"Round {number} did not end as the run that nobody killed: {', '.join(wrong)}.")
        before = times(output), times(beside)
        start(output).end()
        after = times(output), times(beside)
        if (before[0], {**before[1], "lock": 0}) != (after[0], {**after[1], "lock": 0}):
            sys.exit(f"One more start changed what round {number} had finished.")
    said = ", ".join(f"{count} {when}" for when, count in kills.items())
    print(f"{sum(kills.values())} kills ({said}) in {rounds} rounds: all ended bit-identical,")
    print("and one more start changed nothing")


def embed(folder: Path, text: Path, sentences: int, generator: random.Random):
    subprocess.run([sys.executable, "-c", MODEL, folder / "model"], check=True, env=SURROUNDINGS)
    with lzma.open(text, "rt", encoding="utf-8") if text.suffix == ".xz" else text.open(encoding="utf-8") as file:
        lines = [line for _, line in zip(range(sentences), filter(str.strip, file), strict=False)]
    for name, count in (("tenth", len(lines) // 10), ("all", len(lines))):
        (folder / f"{name}.txt").write_text("".join(lines[:count]), encoding="utf-8")

    def start(name: str, output: Path, *rename: tuple[str, int]) -> Command:
        how = ["--tokenized", "--dtype", "float16", "--processes", 1, "--threads", 1]
        return Command(["embed", folder / "model", folder / f"{name}.txt", output, *how], folder / "log", *rename)

    peaks = {}
    for name in ("tenth", "all"):
        begin = time.perf_counter()
        peaks[name] = start(name, folder / name / "store").end()
        print((folder / "log").read_text().strip().splitlines()[-2])
        print(f"peak memory {peaks[name]:,.0f} MB, {time.perf_counter() - begin:,.0f} s", flush=True)
    print(f"{peaks['all'] / peaks['tenth']:.3f} times that of a tenth")
    whole, store = folder / "all" / "store", folder / "killed" / "store"
    parts = len(list(whole.glob("part-*")))
    at = sorted(generator.sample(range(1, parts), 4))
    for number, count in enumerate(at):
        if number == 2:
            here = len(list(store.glob("part-*")))
            command = start("all", store, (r"/part-\d+\.", max(count - here, 1)))
            killed = command.dies()
            left = [path.name for path in store.iterdir() if path.suffix == ".tmp"]
            print(f"killed={killed} before the rename of a part: {len(left)} temporary file is left", flush=True)
        killed = start("all", store).kill_when(partial(has_parts, store, count), generator.random() * 0.5)
        print(f"killed={killed} with {len(list(store.glob('part-*')))} of {parts} parts", flush=True)
    start("all", store).end()
    wrong = same(whole, store)
    if wrong or os.listdir(store.parent) != ["store"]:
        sys.exit(f"The store is not that of a run that nobody killed: {', '.join(wrong)}; {os.listdir(store.parent)}.")
    before = times(store)
    start("all", store).end()
    if times(store) != before:
        sys.exit("One more run changed the store.")
    print(f"byte for byte the store that nobody killed: {len(before)} files, no other file, one more run changed none")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="Where to work, in place of the system's temporary folder.")
    commands = parser.add_subparsers(dest="command", required=True)
    of_pretrain = commands.add_parser("pretrain")
    of_pretrain.add_argument("--steps", type=int, default=60)
    of_pretrain.add_argument("--rounds", type=int, default=4)
    of_embed = commands.add_parser("embed")
    of_embed.add_argument("text", type=Path)
    of_embed.add_argument("--sentences", type=int, default=100_000)
    given = parser.parse_args()
    folder, generator = Path(tempfile.mkdtemp(dir=given.folder)), random.Random(given.seed)
    try:
        if given.command == "pretrain":
            pretrain(folder, given.steps, given.rounds, generator)
        else:
            embed(folder, given.text, given.sentences, generator)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
