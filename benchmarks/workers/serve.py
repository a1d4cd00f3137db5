"""What all workers share: requests come in as JSON lines, answers go out as JSON lines.

A worker is one program in one process: it loads its model once, says how long that took, and then embeds whatever
batches it is sent, so that programs can take turns within one run.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Batch = list[list[str]]  # sentences of words, without <S> and </S>


@dataclass
class Program:
    """A loaded program."""

    version: str
    embed: Callable[[Batch], Any]
    # What `embed` returned for a batch, and the batch -> for each sentence an array (layers, words, size).
    to_arrays: Callable[[Any, Batch], Sequence[Any]]


def serve(load: Callable[[dict], Program]):
    """Loads the program as the first line says, then answers until the input ends."""
    answer = answers()
    settings = json.loads(sys.stdin.readline())
    try:
        start = time.perf_counter()
        program = load(settings)
        clock = time.process_time if settings.get("processor_time") else time.perf_counter
        answer(load_seconds=time.perf_counter() - start, version=program.version)
        for line in sys.stdin:
            request = json.loads(line)
            answer(**_run(program, clock, request["batches"], request.get("save_to")))
    except Exception as error:
        import traceback

        traceback.print_exc()
        answer(error=f"{type(error).__name__}: {error}".partition("\n")[0])
        sys.exit(1)


def answers() -> Callable[..., None]:
    """What sends one answer. From here on, whatever libraries print goes to the log, apart from the answers."""
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**fields: Any):
        print(json.dumps(fields), file=lines, flush=True)

    return answer


def _run(program: Program, clock: Callable[[], float], batches: list[Batch], save_to: str | None) -> dict:
    results = []
    start = clock()
    for batch in batches:
        result = program.embed(batch)
        if save_to:
            results.append(result)
    seconds = clock() - start
    if save_to:
        import numpy as np

        arrays = []
        for result, batch in zip(results, batches, strict=True):
            arrays += program.to_arrays(result, batch)
        np.savez(save_to, *arrays)
    return {"seconds": seconds, "peak_bytes": peak_bytes()}


def peak_bytes() -> int:
    """The largest resident memory that this process has had."""
    try:
        # Unlike getrusage, this does not begin with the memory of the process that started us.
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
