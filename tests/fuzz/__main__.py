"""`python -m fuzz [MINUTES] [KIND ...]`: runs new trials for some minutes and prints a table of the results.

Each kind gets the same time. A failure, a hang or a crash prints the command that reproduces it:
`python -m fuzz 0 KIND --seed SEED`.
"""

import argparse
import collections
import contextlib
import importlib
import logging
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

KINDS = ("sources", "checkpoints", "runs", "corpora", "tokenizer", "text_files", "inputs", "commands")
TRIAL_SECONDS = 60  # of CPU time: other processes may be busy
HANG_SECONDS = 900
MAX_MEMORY = 1000  # MB that a trial may allocate


def run_trial(kind: str, seed: int) -> str:
    """Runs one trial in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        return importlib.import_module(f"fuzz.{kind}").trial(random.Random(f"{kind}/{seed}"), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Tally:
    """The results of the trials of a kind."""

    def __init__(self):
        self.counts = collections.Counter()
        self.seconds = self.slowest = self.peak = 0.0

    def add(self, kind: str, seed: int):
        """Runs a trial, counts its result and prints its failure."""
        before, wall, computed = memory("VmRSS"), time.perf_counter(), time.process_time()
        reset_peak()
        signal.setitimer(signal.ITIMER_PROF, TRIAL_SECONDS)
        try:
            result = "accepted" if run_trial(kind, seed) == "accepted" else "refused"
            taken = memory("VmHWM") - before
            assert taken < MAX_MEMORY, f"a trial took {taken:,.0f} MB"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            result = "failed"
            traceback.print_exc()
            print(f"python -m fuzz 0 {kind} --seed {seed}", flush=True)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.counts[result] += 1
        self.seconds += time.perf_counter() - wall
        self.slowest = max(self.slowest, time.process_time() - computed)
        self.peak = max(self.peak, memory("VmHWM"))

    def row(self, kind: str) -> str:
        """A line of the table."""
        cells = [self.counts.total(), *(self.counts[result] for result in ("accepted", "refused", "failed"))]
        return "{:12s}{:9,d}{:10,d}{:9,d}{:8,d}{:10,.0f}{:10.1f}{:10,.0f}".format(
            kind, *cells, self.seconds, self.slowest, self.peak
        )


HEAD = (
    f"{'':12s}{'trials':>9s}{'accepted':>10s}{'refused':>9s}{'failed':>8s}{'seconds':>10s}{'slowest':>10s}{'MB':>10s}"
)


def memory(name: str) -> float:
    """VmRSS (now) or VmHWM (the most since `reset_peak`) of this process in MB."""
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(name))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def reset_peak():
    """Resets VmHWM to the memory in use."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def work(kinds: list[str], minutes: float, said: int) -> int:
    """Runs trials until the time is over; each is announced in the pipe before it begins."""
    quiet()
    signal.signal(signal.SIGPROF, _too_long)
    tallies, number = {kind: Tally() for kind in kinds}, random.SystemRandom().randrange(2**32)
    memory_halfway = 0.0
    for kind in kinds:  # imports and fixtures do not count as the time of a kind
        run_trial(kind, 0)
    begin = time.time()
    with contextlib.suppress(KeyboardInterrupt):
        while time.time() - begin < 60 * minutes:
            kind = min(kinds, key=lambda name: tallies[name].seconds)
            number += 1
            os.write(said, f"{kind} --seed {number}\n".encode())
            tallies[kind].add(kind, number)
            if not memory_halfway and time.time() - begin > 60 * minutes / 2:
                memory_halfway = memory("VmRSS")
    print(HEAD, *(tally.row(kind) for kind, tally in tallies.items()), sep="\n")
    print(f"memory {memory_halfway:,.0f} MB after half of the time, {memory('VmRSS'):,.0f} MB at the end", flush=True)
    return any(tally.counts["failed"] for tally in tallies.values())


def watch(worker: int, said: int) -> int:
    """Waits for the process of the trials, kills it if it hangs, and returns its exit code."""
    last, ended = "no trial", False
    while not ended:
        if not select.select([said], [], [], HANG_SECONDS)[0]:
            print(f"hangs: python -m fuzz 0 {last}", flush=True)
            os.kill(worker, signal.SIGKILL)
        lines = os.read(said, 1 << 16).decode().splitlines()
        last, ended = lines[-1] if lines else last, not lines
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    if code < 0:
        print(f"ended by {signal.Signals(-code).name}: python -m fuzz 0 {last}")
    return abs(code)


def main() -> int:
    """Runs one trial, or trials in a process of their own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, help="Only this trial.")
    args = parser.parse_args()
    kinds = args.kinds or list(KINDS)
    if args.seed is not None:
        quiet()
        for kind in kinds:
            print(kind, run_trial(kind, args.seed))
        return 0
    said, saying = os.pipe()
    worker = os.fork()
    if not worker:
        os.close(said)
        code = 1
        try:
            code = work(kinds, args.minutes, saying)
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(saying)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trials end with a table
    return watch(worker, said)


def quiet():
    """Silences logging and progress bars."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    logging.getLogger("elmo_hf").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def _too_long(*args: object):
    raise TimeoutError(f"a trial computed for more than {TRIAL_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
