"""Worker processes, seen from the outside."""

import json
import os
import subprocess
from pathlib import Path

from programs import Program

WORKERS = Path(__file__).resolve().parent / "workers"


class WorkerFailed(Exception):
    """A worker ended or reported an error."""


class Worker:
    """One program that has loaded its model and waits for batches; a context manager."""

    def __init__(self, program: Program, settings: dict, log: Path, python: Path | None = None):
        self.program, self.log = program, log
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        # Without a number, each program takes as many threads as it does by itself.
        threads = dict.fromkeys(names, str(settings["threads"])) if "threads" in settings else {}
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [python or program.python, WORKERS / program.worker],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **threads, "HF_HUB_OFFLINE": "1"},
            )
        try:
            self.loaded = self._ask({**settings, "variant": program.variant})
        except WorkerFailed:
            self.stop()
            raise

    def embed(self, batches: list, save_to: Path | None = None) -> dict:
        """Seconds for all batches, and the largest memory so far; `save_to` keeps the vectors of every sentence."""
        return self._ask({"batches": batches, "save_to": save_to and str(save_to)})

    def train(self, steps: int) -> dict:
        """Seconds for so many training steps, and the largest memory so far."""
        return self._ask({"steps": steps})

    def _ask(self, request: dict) -> dict:
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"it ended; the last lines of {self.log} may say why"}
        if "error" in answer:
            raise WorkerFailed(f"{self.program.name}: {answer['error']}")
        return answer

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
