"""Threads against processes: words per second of the model, and what follows for more processors.

python benchmarks/threads.py                  one process with one and with two threads, two processes with one each
python benchmarks/threads.py --size original --rounds 5

The three take turns. From the times of one and of two threads follows the share of a batch that only one thread works
on (Amdahl's law); from those of one and of two processes, what a second process costs the first one. The last table
extrapolates both to more processors, and so is an estimate: memory bandwidth per processor is that of this machine.
"""

import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from typing import Annotated

import text
import typer

SIZES = {"small": (128, 1024, 1), "original": (512, 4096, 2)}
FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
# (processes, threads of each)
CASES = [(1, 1), (1, 2), (2, 1)]


def work(connection: Connection, size: str):
    """Embeds the batches that come in, with as many threads as each request says; answers with the seconds."""
    import torch

    from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    from elmo_hf.kernels import constant_weights

    projection, cell, highways = SIZES[size]
    sizes = {"projection_size": projection, "cell_size": cell, "num_highway_layers": highways}
    model = ElmoModel(ElmoConfig(character_cnn_filters=FILTERS, **sizes)).eval()
    model.cache_words(0)
    tokenizer = ElmoTokenizer("whitespace")
    while True:
        batch, threads = connection.recv()
        if not batch:
            return
        torch.set_num_threads(threads)
        with torch.inference_mode(), constant_weights():
            start = time.perf_counter()
            model(**tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt"))
            connection.send(time.perf_counter() - start)


def seconds(connections: list[Connection], batches: list[list[list[str]]], threads: int) -> float:
    """The time of the slower one of the processes that each compute one batch at the same time."""
    pairs = list(zip(connections, batches, strict=True))
    for connection, batch in pairs:
        connection.send((batch, threads))
    return max(connection.recv() for connection, _ in pairs)


def measure(size: str, batch_size: int, rounds: int) -> dict[tuple[int, int], float]:
    """Median words per second of each case."""
    context, sentences = multiprocessing.get_context("spawn"), text.sentences()
    pipes = [context.Pipe() for _ in range(2)]
    workers = [context.Process(target=work, args=(end, size), daemon=True) for _, end in pipes]
    for worker in workers:
        worker.start()
    speeds: dict[tuple[int, int], list[float]] = {case: [] for case in CASES}
    for number in range(-1, rounds):  # the first round warms up
        for processes, threads in CASES:
            start = (number + 1) * 2 * batch_size
            batches = [sentences[start + k * batch_size : start + (k + 1) * batch_size] for k in range(processes)]
            took = seconds([connection for connection, _ in pipes[:processes]], batches, threads)
            if number >= 0:
                speeds[processes, threads].append(sum(len(words) for batch in batches for words in batch) / took)
    for connection, _ in pipes:
        connection.send(([], 1))
    for worker in workers:
        worker.join()
    return {case: statistics.median(values) for case, values in speeds.items()}


def main(
    size: Annotated[str, typer.Option(help="small or original.")] = "small",
    batch_size: Annotated[int, typer.Option(help="Sentences.")] = 32,
    rounds: Annotated[int, typer.Option(help="After one that warms up.")] = 15,
):
    """Measures one process with one and with two threads, and two processes, and extrapolates to more processors."""
    if size not in SIZES:
        raise typer.BadParameter(f"Invalid `--size`: {size!r}. Expected {', '.join(map(repr, SIZES))}.")
    speeds = measure(size, batch_size, rounds)
    one, threads, processes = (speeds[case] for case in CASES)
    serial = min(1.0, max(0.0, 2 * one / threads - 1))
    cost = max(0.0, 2 * one / processes - 1)  # of a second process, as a share of one process's time
    typer.echo(f"{size}, batch {batch_size}: words per second, median of {rounds} rounds\n")
    typer.echo("| one process, one thread | one process, two threads | two processes |\n|---:|---:|---:|")
    typer.echo(f"| {one:.0f} | {threads:.0f} ({threads / one:.2f}) | {processes:.0f} ({processes / one:.2f}) |\n")
    typer.echo(f"Work of one thread only: {serial:.0%}. Time that a second process costs the first: {cost:.0%}.\n")
    typer.echo("| processors | times one thread: threads | processes |\n|---:|---:|---:|")
    for count in (2, 4, 8, 16):
        by_threads, by_processes = 1 / (serial + (1 - serial) / count), count / (1 + cost)
        typer.echo(f"| {count} | {by_threads:.2f} | {by_processes:.2f} |")


if __name__ == "__main__":
    typer.run(main)
