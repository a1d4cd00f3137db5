"""A text file in, a file or a folder of vectors out: `elmo-hf embed` beside simple-elmo and bilm's own dump.

python benchmarks/embedding.py                       small and original, about ten minutes after the first set-up
python benchmarks/embedding.py --size small --sentences 500

Every program is a process of its own that reads the same text file, all layers in float32 to disk, from its start to
its end: imports, loading and writing count. One after the other, `--rounds` times, each round beginning with another.
Before anything is measured, what they wrote must be the same.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import report
import text
import typer
from setup_peers import PEERS, TENSORFLOW, SetupFailed, set_up

HERE = Path(__file__).resolve().parent
VOCABULARY_WORDS = 5000


@dataclass(frozen=True)
class Contender:
    """One program: its row's name, the command, and the file or folder that this writes."""

    name: str
    command: list[str]
    output: Path

    def run(self, threads: int, log: Path) -> float:
        """Seconds from start to end."""
        output = self.output
        for old in (output, output.with_name(f"{output.name}.parts")):
            shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink(missing_ok=True)
        environment = {**os.environ, "ELMO_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "2"}
        start = time.perf_counter()
        with open(log, "w") as file:
            done = subprocess.run(self.command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        if done.returncode:
            raise SetupFailed(f"{self.name} failed; {log} says why.")
        return time.perf_counter() - start


def contenders(size: str, text_file: Path, folder: Path, processes: int, alone: bool) -> list[Contender]:
    checkpoint = PEERS / "checkpoints" / size
    original = str(checkpoint / "original-files")
    ours = [sys.executable, "-m", "elmo_hf.cli", "embed", str(checkpoint / "converted"), str(text_file)]
    options = ["--tokenized", "--layers", "all", "--processes", str(processes)]
    found = []
    for name, file in (("elmo_hf, safetensors", "elmo_hf"), ("elmo_hf, bilm's HDF5", "elmo_hf.hdf5")):
        found.append(Contender(name, [*ours, str(folder / file), *options], folder / file))
    for name, program in () if alone else (("bilm", "bilm"), ("simple-elmo", "simple_elmo")):
        peer = [str(TENSORFLOW.python), str(HERE / "workers" / "dump_worker.py"), program, original, str(text_file)]
        output = folder / f"{program}.hdf5"
        found.append(Contender(name, [*peer, str(output)], output))
    return found


def main(
    size: Annotated[list[str] | None, typer.Option(help="small, original; several times for several.")] = None,
    sentences: Annotated[int | None, typer.Option(min=1, help="Of the text; not given: 4,000 and 600.")] = None,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    processes: Annotated[int | None, typer.Option(min=1, help="Processors for each program; else all.")] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Without the peers, which then need not be set up.")] = False,
):
    """Measures `elmo-hf embed` from file to file beside bilm and simple-elmo."""
    processes = processes or (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        if not alone:
            set_up(TENSORFLOW, typer.echo)
        lines = []
        for one in size or ("small", "original"):
            lines += _measure(one, sentences or {"small": 4000, "original": 600}[one], rounds, processes, alone)
    except (SetupFailed, subprocess.CalledProcessError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
    where = f"{report.machine()}; {processes} processors for each program; {rounds} rounds."
    typer.echo("\n".join(["", where, "", *lines]))


def _measure(size: str, count: int, rounds: int, processes: int, alone: bool) -> list[str]:
    checkpoint, folder = PEERS / "checkpoints" / size, PEERS / "embedding" / size
    subprocess.run([sys.executable, HERE / "checkpoints.py", checkpoint, size], check=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    chosen = text.sentences()[:count]
    words = ["<S>", "</S>", "<UNK>", *text.frequent_words(chosen, VOCABULARY_WORDS)]
    (checkpoint / "original-files" / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    text_file = folder / "text.txt"
    text_file.write_text("".join(f"{' '.join(sentence)}\n" for sentence in chosen), encoding="utf-8")
    tokens = sum(map(len, chosen))
    programs = contenders(size, text_file, folder, processes, alone)
    seconds: dict[str, list[float]] = {one.name: [] for one in programs}
    for number in range(rounds):
        turn = number % len(programs)
        for program in programs[turn:] + programs[:turn]:
            taken = program.run(processes, folder / f"{program.name.replace(' ', '-')}.log")
            seconds[program.name].append(taken)
            typer.echo(f"{size}, round {number + 1}: {program.name} {taken:.1f} s")
        if not number:
            typer.echo(_agreement(folder))
    peers = ("bilm", "simple-elmo")
    lines = [f"### {size}: {count:,} sentences, {tokens:,} words, file to file", ""]
    lines += ["| program | seconds | words/s | ratio to the faster of bilm and simple-elmo |", "|---|---|---|---|"]
    for name, taken in seconds.items():
        middle, ratio = statistics.median(taken), ""
        if not alone:
            ratios = [min(seconds[peer][n] for peer in peers) / one for n, one in enumerate(taken)]
            ratio = f"{statistics.median(ratios):.2f}"
        lines.append(f"| {name} | {middle:.1f} | {tokens / middle:,.0f} | {ratio} |")
    return [*lines, ""]


def _agreement(folder: Path) -> str:
    """bilm and simple-elmo carry their state along; the first sentence is the one that all begin from zeros."""
    import h5py
    import numpy as np

    from elmo_hf import open_store

    ours = open_store(folder / "elmo_hf")[0]
    worst = {}
    for name in sorted(path.name for path in folder.glob("*.hdf5")):
        with h5py.File(folder / name, "r") as file:
            worst[name] = float(np.abs(file["0"][()] - ours).max())
    if max(worst.values()) > 1e-5:
        raise SetupFailed(f"The programs do not write the same vectors: {worst}.")
    return "the first sentence's vectors differ by " + ", ".join(
        f"{name} {value:.1e}" for name, value in worst.items()
    )


if __name__ == "__main__":
    typer.run(main)
