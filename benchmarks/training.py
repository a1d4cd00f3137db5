"""Training steps of elmo_hf beside bilm's own `train()` and the plain loop, in one interleaved run.

python benchmarks/training.py            some minutes after the first set-up
python benchmarks/training.py --quick    fewer rounds
"""

import json
import random
import subprocess
import time
from contextlib import ExitStack
from datetime import date
from itertools import count
from pathlib import Path
from typing import Annotated

import report
import text
import typer
from processes import Worker, WorkerFailed
from programs import Program
from setup_peers import PEERS, TENSORFLOW, SetupFailed, set_up

BEGIN, END = "<!-- training -->", "<!-- end of training -->"
VOCABULARY_WORDS = 33_000
# As bilm writes and reads them; elmo_hf's worker takes its configuration from the same.
OPTIONS = {
    "bidirectional": True,
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 16},
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "max_characters_per_token": 50,
        "n_characters": 261,
        "n_highway": 1,
    },
    "dropout": 0.1,
    "lstm": {
        "cell_clip": 3,
        "dim": 1024,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 128,
        "use_skip_connections": True,
    },
    "all_clip_norm_val": 10.0,
    "n_epochs": 10,
    "batch_size": 128,
    "unroll_steps": 20,
    "n_negative_samples_batch": 8192,
    "n_tokens_vocab": VOCABULARY_WORDS,
    "learning_rate": 0.2,
}
TOKENS_PER_STEP = OPTIONS["batch_size"] * OPTIONS["unroll_steps"]
OURS = Program("elmo_hf", "training_elmo_hf_worker.py", variant="auto")
MIXED = Program("elmo_hf, bfloat16", "training_elmo_hf_worker.py", variant="bfloat16")
PLAIN = Program("plain step", "training_elmo_hf_worker.py", variant="plain torch")
BILM = Program("bilm", "training_bilm_worker.py", TENSORFLOW)
# Steps in a round, after as many as warm up.
STEPS = {OURS.name: 5, MIXED.name: 5, PLAIN.name: 1, BILM.name: 5}
WARM_UP = {OURS.name: 3, MIXED.name: 3, PLAIN.name: 1, BILM.name: 3}
ROUNDS, QUICK_ROUNDS = 7, 3
# Threads of a program that has just worked may still spin for a moment.
PAUSE_SECONDS = 0.25


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds.")] = False,
    save: Annotated[bool, typer.Option("--save", help="Keep the table in benchmarks/README.md.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="In place of 7, or of 3 with --quick.")] = None,
    python: Annotated[Path | None, typer.Option(help="A Python that has bilm; else one is set up.")] = None,
):
    """Measures training: 2x1024/128, 128 streams by 20 steps, 8,192 words drawn out of 33,000."""
    try:
        if python is None:
            set_up(TENSORFLOW, typer.echo)
        lines = measure(rounds or (QUICK_ROUNDS if quick else ROUNDS), python or TENSORFLOW.python)
    except (SetupFailed, WorkerFailed, subprocess.CalledProcessError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
    whole = "\n".join(lines)
    typer.echo(f"\n{whole}")
    if save:
        report.save(whole, BEGIN, END)


def measure(rounds: int, bilm_python: Path) -> list[str]:
    """The tables."""
    settings = {"options": OPTIONS, **write_text(PEERS / "training")}
    seconds: report.Rounds = {name: [] for name in STEPS}
    peaks: dict[str, int] = {}
    with ExitStack() as stack:
        workers = []
        for program in (OURS, MIXED, PLAIN, BILM):
            typer.echo(f"loading {program.name}")
            log = PEERS / "logs" / f"training-{program.name.replace(', ', '-').replace(' ', '_')}.log"
            worker = Worker(program, settings, log, python=bilm_python if program is BILM else None)
            workers.append(stack.enter_context(worker))
        for worker in workers:
            typer.echo(f"warming up {worker.program.name}")
            worker.train(WARM_UP[worker.program.name])
        for number in range(rounds):
            typer.echo(f"round {number + 1} of {rounds}")
            turn = number % len(workers)  # each round begins with another program
            for worker in workers[turn:] + workers[:turn]:
                name = worker.program.name
                time.sleep(PAUSE_SECONDS)
                answer = worker.train(STEPS[name])
                seconds[name].append(answer["seconds"] / STEPS[name])
                peaks[name] = answer["peak_bytes"]
        versions = dict.fromkeys(worker.loaded["version"] for worker in workers)
    (PEERS / "last-training.json").write_text(json.dumps({"seconds": seconds, "peaks": peaks}, indent=1))
    return [
        f"{date.today()}. {report.machine()}; threads as each program takes them by itself; {rounds} rounds.",
        "",
        f"Programs: {'; '.join(versions)}.",
        "",
        *tables(seconds, peaks),
    ]


def write_text(folder: Path) -> dict[str, str]:
    """The text and its vocabulary, as files."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences = text.sentences()
    # In an order that both programs then keep, as training shuffles sentences.
    random.Random(0).shuffle(sentences)
    words = dict.fromkeys(["<S>", "</S>", "<UNK>", *text.frequent_words(sentences, VOCABULARY_WORDS)])
    for number in count():  # words that the text lacks, as its rarest
        if len(words) >= VOCABULARY_WORDS:
            break
        words.setdefault(f"invented{number}")
    paths = {"text": folder / "text.txt", "vocabulary": folder / "vocabulary.txt"}
    paths["text"].write_text("".join(f"{' '.join(one)}\n" for one in sentences), encoding="utf-8")
    paths["vocabulary"].write_text("\n".join([*words][:VOCABULARY_WORDS]) + "\n", encoding="utf-8")
    return {name: str(path) for name, path in paths.items()}


def tables(seconds: report.Rounds, peaks: dict[str, int]) -> list[str]:
    """Speed and memory of each program, and ratios of seconds within a round."""
    rows = []
    for name, values in seconds.items():
        step = report.spread(values, lambda x: f"{x:.2f}")
        speed = report.spread([TOKENS_PER_STEP / value for value in values], lambda x: f"{x:.0f}")
        times = report.spread(report.ratios(values, seconds[OURS.name]), report.ratio) if name != OURS.name else ""
        rows.append([name, step, speed, times, f"{peaks[name] / 2**20:.0f}"])
    return report.table(["", "s a step", "tokens/s", f"{OURS.name} is faster by", "peak memory, MB"], rows)


if __name__ == "__main__":
    typer.run(main)
