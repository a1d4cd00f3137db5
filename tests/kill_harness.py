"""Kills a function with SIGKILL: it runs in a forked process, until a chosen rename, a moment, or its end."""

import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

Run = Callable[[], Any]


def killed_at_rename(run: Run, pattern: str, number: int = 0, after: bool = False) -> bool:
    """Kills the run right before, or after, a file or folder is renamed to its place.

    Args:
        run: the function.
        pattern: a regular expression that is searched for in the path of the place.
        number: which of the renames to such a place, from 0.
        after: kill after the rename.

    Returns:
        Whether it came to that.
    """

    def deadly(rename: Callable[..., None]) -> Callable[..., None]:
        def renamed(source: Any, target: Any, **keywords: Any):
            nonlocal number
            number -= bool(re.search(pattern, os.fspath(target)))
            if number < 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(source, target, **keywords)
            if number < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        return renamed

    def prepared():
        os.rename, os.replace = deadly(os.rename), deadly(os.replace)
        run()

    return _was_killed(_fork(prepared))


def killed_when(run: Run, moment: Callable[[], bool], seconds: float = 0.0) -> bool:
    """Kills the run some seconds after `moment()` is true; returns whether it was still running."""
    process = _fork(run)
    while not moment():
        time.sleep(0.002)
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.WIFSIGNALED(status)
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    return _was_killed(process)


def complete(run: Run):
    """Lets the run end in a process of its own; ends this one if it fails."""
    code = os.waitstatus_to_exitcode(os.waitpid(_fork(run), 0)[1])
    if code:
        sys.exit(f"A run ended with code {code}.")


def _fork(run: Run) -> int:
    process = os.fork()
    if not process:
        code = 1
        try:
            run()
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return process


def _was_killed(process: int) -> bool:
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])
