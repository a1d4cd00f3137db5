"""`python -m fuzz [MINUTES] [KIND ...]`: new trials for as long as asked, and a table of what came of them.

Each kind gets the same time. A failure, a hang and a crash print the seed that makes them again:
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
SECONDS_A_TRIAL = 60  # of computing: other processes may be busy
SECONDS_TO_HANG = 900
MOST_MEMORY = 1000  # MB that a trial may take beside what is there already


def run_trial(kind: str, seed: int) -> str:
    """One trial in a folder of its own that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        return importlib.import_module(f"fuzz.{kind}").trial(random.Random(f"{kind}/{seed}"), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Tally:
    """What came of the trials of a kind."""

    def __init__(self):
        self.counts = collections.Counter()
        self.seconds = self.slowest = self.peak = 0.0

    def add(self, kind: str, seed: int):
        """One more trial, with its failure printed."""
        before, wall, computed = memory("VmRSS"), time.perf_counter(), time.process_time()
        forget_peak()
        signal.setitimer(signal.ITIMER_PROF, SECONDS_A_TRIAL)
        try:
            result = "accepted" if run_trial(kind, seed) == "accepted" else "refused"
            taken = memory("VmHWM") - before
            assert taken < MOST_MEMORY, f"a trial took {taken:,.0f} MB"
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
        cells = [self.counts.total(), *(self.counts[result] for result in ("accepted", "refused", "failed"))]
        return "{:12s}{:9,d}{:10,d}{:9,d}{:8,d}{:10,.0f}{:10.1f}{:10,.0f}".format(
            kind, *cells, self.seconds, self.slowest, self.peak
        )


HEAD = (
    f"{'':12s}{'trials':>9s}{'accepted':>10s}{'refused':>9s}{'failed':>8s}{'seconds':>10s}{'slowest':>10s}{'MB':>10s}"
)


def memory(name: str) -> float:
    """VmRSS (now) or VmHWM (the most since `forget_peak`) of this process in MB."""
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(name))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak():
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def work(kinds: list[str], minutes: float, said: int) -> int:
    """Trials until the time is over; each is announced before it begins."""
    quiet()
    signal.signal(signal.SIGPROF, _too_long)
    tallies, number = {kind: Tally() for kind in kinds}, random.SystemRandom().randrange(2**32)
    early = 0.0
    for kind in kinds:  # imports, and what a kind makes once, are not of its time
        run_trial(kind, 0)
    begin = time.time()
    with contextlib.suppress(KeyboardInterrupt):
        while time.time() - begin < 60 * minutes:
            kind = min(kinds, key=lambda one: tallies[one].seconds)
            number += 1
            os.write(said, f"{kind} --seed {number}\n".encode())
            tallies[kind].add(kind, number)
            if not early and time.time() - begin > 60 * minutes / 2:
                early = memory("VmRSS")
    print(HEAD, *(tally.row(kind) for kind, tally in tallies.items()), sep="\n")
    print(f"memory {early:,.0f} MB after half of the time, {memory('VmRSS'):,.0f} MB at the end", flush=True)
    return any(tally.counts["failed"] for tally in tallies.values())


def watch(worker: int, said: int) -> int:
    """Waits for the process of the trials; its code."""
    last, ended = "no trial", False
    while not ended:
        if not select.select([said], [], [], SECONDS_TO_HANG)[0]:
            print(f"hangs: python -m fuzz 0 {last}", flush=True)
            os.kill(worker, signal.SIGKILL)
        lines = os.read(said, 1 << 16).decode().splitlines()
        last, ended = lines[-1] if lines else last, not lines
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    if code < 0:
        print(f"ended by {signal.Signals(-code).name}: python -m fuzz 0 {last}")
    return abs(code)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, help="Only this trial.")
    given = parser.parse_args()
    kinds = given.kinds or list(KINDS)
    if given.seed is not None:
        quiet()
        for kind in kinds:
            print(kind, run_trial(kind, given.seed))
        return 0
    said, saying = os.pipe()
    worker = os.fork()
    if not worker:
        os.close(said)
        code = 1
        try:
            code = work(kinds, given.minutes, saying)
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(saying)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trials end with a table
    return watch(worker, said)


def quiet():
    os.environ["HF_HUB_OFFLINE"] = "1"
    logging.getLogger("elmo_hf").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def _too_long(*args: object):
    raise TimeoutError(f"a trial computed for more than {SECONDS_A_TRIAL} s")


if __name__ == "__main__":
    sys.exit(main())
