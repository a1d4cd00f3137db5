"""For workers that train: the program's own training loop runs, and waits between its steps until it is asked on."""

import json
import sys
import time

from serve import answers, peak_bytes


class Turns:
    """The first line that comes in is the settings; each one after it asks for a number of steps."""

    def __init__(self):
        self._answer = answers()
        self._start = time.perf_counter()
        self._left: int | None = None
        self.settings = json.loads(sys.stdin.readline())
        self.version = ""

    def before_step(self):
        """To be called before each step, the first included; ends the process when nothing more is asked for."""
        seconds = time.perf_counter() - self._start
        if self._left is None:
            self._answer(load_seconds=seconds, version=self.version)
            self._wait()
        elif self._left > 1:
            self._left -= 1
        else:
            self._answer(seconds=seconds, peak_bytes=peak_bytes())
            self._wait()

    def _wait(self):
        line = sys.stdin.readline()
        if not line:
            sys.exit()
        self._left = json.loads(line)["steps"]
        self._start = time.perf_counter()
