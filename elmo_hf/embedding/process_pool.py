"""Shards written by a pool of processes; one that is killed costs the shard that it was writing, and a restart."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for_end

import torch

from .sentence_chunks import Chunk
from .shard_protocol import Writer, WriterLoader, WrittenShard

# Parts that are handed out ahead of time, for each process.
AHEAD = 2
# So many deaths without a shard in between, and it is no accident.
MOST_DEATHS = 3

_writer: Writer | None = None


def write_in_processes(
    loader: WriterLoader, chunks: Iterable[Chunk], count: int, writer: Writer
) -> Iterator[WrittenShard]:
    """Writes shards in `count` processes; yields them as they are finished, in any order.

    Where a process can be forked, the others begin at once, with the writer of this one and its memory. Elsewhere
    each takes its seconds to import libraries and to load the model. So it does with more than one thread: those of
    OpenMP are not forked with the process that waits for them.
    """
    source, deaths = iter(chunks), 0
    waiting: list[Chunk] = []
    forks = sys.platform == "linux" and loader.settings["threads"] == 1 and writer.device.type == "cpu"
    context = multiprocessing.get_context("fork" if forks else "spawn")
    while True:
        # What goes to forked processes is not pickled.
        pool = ProcessPoolExecutor(count, context, _begin, (loader, writer if forks else None))
        at_work: dict[Future[WrittenShard], Chunk] = {}
        try:
            while True:
                while len(at_work) < AHEAD * count:
                    chunk = waiting.pop() if waiting else next(source, None)
                    if chunk is None:
                        break
                    at_work[pool.submit(_make, chunk)] = chunk
                if not at_work:
                    return
                done, _ = wait(at_work, return_when=FIRST_COMPLETED)
                for future in done:
                    made = future.result()
                    del at_work[future]
                    deaths = 0
                    yield made
        except BrokenProcessPool:
            deaths += 1
            waiting = sorted([*waiting, *at_work.values()], key=lambda chunk: -chunk.number)
            if deaths == MOST_DEATHS:
                raise ValueError(
                    f"Processes died {deaths} times in a row, the last at part {waiting[-1].number} or one of the "
                    "next: killed by hand, or by the system for want of memory. Fewer --processes need less. What is "
                    "finished stays; the same command goes on."
                ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(loader: WriterLoader, writer: Writer | None):
    global _writer
    # Ctrl-C is for the process that gives the orders; and when that one is gone, nobody would end us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _writer = loader.load() if writer is None else writer
    torch.set_num_threads(loader.settings["threads"])


def _end_with_parent():
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_end([parent.sentinel])
        os._exit(1)


def _make(chunk: Chunk) -> WrittenShard:
    assert _writer is not None, "the initializer sets it"
    return _writer.write(chunk)
