"""Speed, load time and memory of elmo_hf beside the programs before it, all in one interleaved run.

python benchmarks/run.py            all of it, about half an hour after the first set-up
python benchmarks/run.py --quick    less text and fewer rounds, minutes
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import report
import text
import typer
from agreement import Disagreement, check_agreement
from processes import Worker, WorkerFailed
from programs import PROGRAMS, Program
from setup_peers import PEERS, SetupFailed, set_up

# Torch must not be imported here: a worker's memory would be measured on top of ours where the system counts so.
HERE = Path(__file__).resolve().parent
SIZES = ("small", "original")
VOCABULARY_WORDS = 5000
# Memory is measured, and text is described, at this batch size.
LARGE_BATCH = 64
# Threads of a program that has just worked may still spin for a moment.
PAUSE_SECONDS = 0.25


@dataclass(frozen=True)
class Plan:
    """How much to measure: rounds, starts (fresh processes), and sentences of a round by size and batch size."""

    rounds: int
    starts: int
    sentences: dict[str, dict[int, int]]


FULL = Plan(
    rounds=7,
    starts=5,
    sentences={
        "small": {1: 48, 8: 96, 32: 192, 64: 256},
        "original": {1: 12, 8: 32, 32: 64, 64: 128},
    },
)
QUICK = Plan(
    rounds=3,
    starts=2,
    sentences={
        "small": {1: 24, 8: 48, 32: 96, 64: 128},
        "original": {1: 4, 8: 16, 32: 32, 64: 64},
    },
)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Less text and fewer rounds.")] = False,
    save: Annotated[bool, typer.Option("--save", help="Keep the tables in benchmarks/README.md.")] = False,
    size: Annotated[list[str] | None, typer.Option(help="small, original; several times for several.")] = None,
    program: Annotated[list[str] | None, typer.Option(help="bilm, elmo_hf ...; several times for several.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="In place of the plan's number of rounds.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="For each program; else as many as processors.")] = None,
    processor_time: Annotated[
        bool, typer.Option("--processor-time", help="Processors' seconds, not the clock's: beside other work.")
    ] = False,
    text_file: Annotated[
        Path | None, typer.Option(help="Other text: a sentence a line, words between spaces, in document order.")
    ] = None,
):
    """Measures elmo_hf beside bilm, simple-elmo and AllenNLP. The peers are set up under benchmarks/peers/ first."""
    _check("program", program, [p.name for p in PROGRAMS])
    _check("size", size, SIZES)
    try:
        chosen = [p for p in PROGRAMS if p.name in program] if program else PROGRAMS
        for environment in dict.fromkeys(p.environment for p in chosen if p.environment):
            set_up(environment, typer.echo)
        plan = QUICK if quick else FULL
        run = Run(chosen, plan, rounds or plan.rounds, threads or _processors(), text_file, processor_time)
        lines = []
        for one in size or SIZES:
            lines += run.measure(one)
    except (SetupFailed, WorkerFailed, Disagreement, subprocess.CalledProcessError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
    whole = "\n".join([*run.description(), *lines])
    typer.echo(f"\n{whole}")
    if save:
        report.save(whole)


def _check(option: str, given: list[str] | None, accepted: Sequence[str]):
    unknown = [name for name in given or [] if name not in accepted]
    if unknown:
        raise typer.BadParameter(f"Invalid `--{option}`: {unknown[0]!r}. Expected {', '.join(map(repr, accepted))}.")


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Run:
    """One benchmark run: the text, the programs, and what came out."""

    def __init__(
        self,
        programs: list[Program],
        plan: Plan,
        rounds: int,
        threads: int,
        text_file: Path | None,
        processor_time: bool = False,
    ):
        self.programs, self.plan, self.rounds, self.threads = programs, plan, rounds, threads
        self.processor_time = processor_time
        self.text = text.read(text_file) if text_file else text.sentences()
        self.text_name = text_file.name if text_file else "Python's language reference and standard library docstrings"
        self.versions: dict[str, str] = {}

    def measure(self, size: str) -> list[str]:
        """Tables of one size of model."""
        settings = self._checkpoint(size)
        with ExitStack() as stack:
            workers = self._start_all(stack, size, settings)
            embedding = [w for w in workers if w.program.embeds]
            typer.echo(f"{size}: do all programs give the same vectors?")
            agreement = check_agreement(embedding, self.text[:16], PEERS)
            typer.echo("\n".join(agreement))
            speeds = self._speeds(size, workers)
            programs = [w.program for w in workers if w.program.starts]
        starts = self._starts(size, settings, programs)
        lines = [f"### {size}: the same vectors", "", *agreement, ""]
        lines += report.speed_tables(size, speeds)
        lines += report.start_table(size, LARGE_BATCH, starts)
        (PEERS / f"last-{size}.json").write_text(json.dumps({"speeds": speeds, "starts": starts}, indent=1))
        return lines

    def _checkpoint(self, size: str) -> dict:
        typer.echo(f"{size}: making a random checkpoint")
        folder = PEERS / "checkpoints" / size
        subprocess.run([sys.executable, HERE / "checkpoints.py", folder, size], check=True)
        original = folder / "original-files"
        # bilm looks these up in place of spelling them; boundaries must be there.
        words = ["<S>", "</S>", "<UNK>", *text.frequent_words(self.text, VOCABULARY_WORDS)]
        (original / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        return {
            "checkpoint": str(original),
            "converted": str(folder / "converted"),
            "max_characters": 50,
            "threads": self.threads,
            "processor_time": self.processor_time,
        }

    def _start_all(self, stack: ExitStack, size: str, settings: dict) -> list[Worker]:
        workers = []
        for program in self.programs:
            typer.echo(f"{size}: loading {program.name}")
            worker = stack.enter_context(self._start(program, size, settings))
            self.versions[program.name] = worker.loaded["version"]
            workers.append(worker)
        return workers

    def _start(self, program: Program, size: str, settings: dict) -> Worker:
        log = PEERS / "logs" / f"{size}-{program.name.replace(' ', '_')}.log"
        return Worker(program, settings, log)

    def _speeds(self, size: str, workers: list[Worker]) -> dict[int, report.Rounds]:
        sentences = self.plan.sentences[size]
        speeds = {n: {w.program.name: [] for w in workers} for n in sentences}
        for number in range(-1, self.rounds):  # the first round only warms
            typer.echo(f"{size}: round {number + 1} of {self.rounds}" if number >= 0 else f"{size}: warming up")
            for batch_size, count in sentences.items():
                batches = self._batches(number, batch_size, count if number >= 0 else batch_size)
                tokens = sum(len(words) for batch in batches for words in batch)
                # Each round begins with another program.
                turn = max(number, 0) % len(workers)
                for worker in workers[turn:] + workers[:turn]:
                    time.sleep(PAUSE_SECONDS)
                    seconds = worker.embed(batches)["seconds"]
                    if number >= 0:
                        speeds[batch_size][worker.program.name].append(tokens / seconds)
        return speeds

    def _batches(self, number: int, batch_size: int, count: int) -> list[list[list[str]]]:
        """Neighbouring sentences, for each round from another part of the text."""
        # The warm-up, number -1, has a part of its own.
        start = (number + 1) * len(self.text) // (self.rounds + 1)
        part = self.text[start : start + count]
        return [part[i : i + batch_size] for i in range(0, len(part), batch_size)]

    def _starts(self, size: str, settings: dict, programs: list[Program]) -> dict[str, report.Rounds]:
        """Fresh processes: seconds to load, the same until one sentence has its vectors, and peak memory."""
        starts = {what: {p.name: [] for p in programs} for what in ("load", "first", "peak")}
        [large] = self._batches(0, LARGE_BATCH, LARGE_BATCH)
        for number in range(self.plan.starts):
            typer.echo(f"{size}: start {number + 1} of {self.plan.starts}")
            for program in programs:
                with self._start(program, size, settings) as worker:
                    load = worker.loaded["load_seconds"]
                    first = worker.embed([self.text[:1]])["seconds"]
                    peak = worker.embed([large])["peak_bytes"]
                for what, value in (("load", load), ("first", load + first), ("peak", peak)):
                    starts[what][program.name].append(value)
        return starts

    def description(self) -> list[str]:
        """When, where, with what."""
        described = ", ".join(
            f"{n}: {distinct:.2f} / {positions:.2f}"
            for n in self.plan.sentences["small"]
            for distinct, positions in [text.statistics(self.text, n)]
        )
        mean = sum(map(len, self.text)) / len(self.text)
        lines = [
            f"{date.today()}. {report.machine()}; {self.threads} threads for each program; {self.rounds} rounds, "
            f"{self.plan.starts} starts{'; tokens/s are by processor seconds' if self.processor_time else ''}.",
            "",
            f"Programs: {'; '.join(dict.fromkeys(self.versions.values()))}.",
            "",
            f"Text: {self.text_name}, {mean:.1f} words a sentence; distinct words per token in a batch / positions "
            f"per token with padding, at batch {described}.",
            "",
        ]
        return lines


if __name__ == "__main__":
    typer.run(main)
