"""`python -m fuzz [MINUTES] [KIND ...]`: new trials for as long as asked, and a table of what came of them.

A failure prints the seed that makes it again: `python -m fuzz --seed SEED KIND`.
"""

import argparse
import collections
import faulthandler
import importlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

KINDS = ("sources", "checkpoints", "corpora", "tokenizer", "text_files", "inputs", "commands")
SECONDS_A_TRIAL = 60


def run_trial(kind: str, seed: int) -> str:
    """One trial in a folder of its own that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        return importlib.import_module(f"fuzz.{kind}").trial(random.Random(f"{kind}/{seed}"), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, help="Only this trial.")
    given = parser.parse_args()
    kinds = given.kinds or KINDS
    if given.seed is not None:
        for kind in kinds:
            print(kind, run_trial(kind, given.seed))
        return 0
    faulthandler.enable()
    signal.signal(signal.SIGPROF, _too_long)
    counts = {kind: collections.Counter() for kind in kinds}
    spent, slowest, failures = collections.Counter(), collections.Counter(), []
    begin, start = time.time(), random.SystemRandom().randrange(2**32)
    number = 0
    while time.time() - begin < 60 * given.minutes:
        kind, seed = kinds[number % len(kinds)], start + number
        number += 1
        moment = time.perf_counter()
        signal.setitimer(signal.ITIMER_PROF, SECONDS_A_TRIAL)  # of computing: other processes may be busy
        try:
            counts[kind]["accepted" if run_trial(kind, seed) == "accepted" else "refused"] += 1
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                break
            counts[kind]["failed"] += 1
            failures.append(f"--seed {seed} {kind}")
            traceback.print_exc()
            print(f"python -m fuzz 0 {kind} --seed {seed}", flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.perf_counter() - moment
        spent[kind] += seconds
        slowest[kind] = max(slowest[kind], seconds)
    print(f"{'':12s}{'trials':>9s}{'accepted':>10s}{'refused':>9s}{'failed':>8s}{'slowest':>10s}")
    for kind in kinds:
        found = counts[kind]
        cells = [found.total(), found["accepted"], found["refused"], found["failed"]]
        print("{:12s}{:9,d}{:10,d}{:9,d}{:8,d}{:9.1f}s".format(kind, *cells, slowest[kind]))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")
    return 1 if failures else 0


def _too_long(*args: object):
    raise TimeoutError(f"a trial computed for more than {SECONDS_A_TRIAL} s")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    sys.exit(main())
