"""Calls in parallel: in torch's OpenMP threads where they can be had, otherwise in threads that end with the calls.

Between two parallel operators, torch's threads keep their processors busy for some milliseconds while they wait for
the next one. A new thread has to compete with them: with two processors, it began 2 ms late in each LSTM layer, and
both threads were interrupted for another 4 ms of 20.
"""

import _thread
import ctypes
import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import torch

_RegionBody = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_process = os.getpid()


def run_in_parallel(calls: Sequence[Callable[[], None]], may_use_openmp: bool = True):
    """Runs all calls: some of them in other threads, where more than one is allowed and starts in time.

    Args:
        calls: each runs in a copy of the context of this thread.
        may_use_openmp: whether torch's OpenMP threads may run them. Operators of torch have no other threads there.
    """
    waiting = deque((copy_context(), call) for call in calls)
    outcomes: SimpleQueue = SimpleQueue()  # of each call that ended: its error, or None

    def work(_: object = None):
        while True:
            try:
                context, call = waiting.popleft()
            except IndexError:
                return
            try:
                context.run(call)
            except BaseException as error:
                outcomes.put(error)
            else:
                outcomes.put(None)

    threads = min(len(calls), torch.get_num_threads())
    openmp = _openmp() if may_use_openmp and threads > 1 else None
    if openmp is None:
        for _ in range(threads - 1):
            _thread.start_new_thread(work, ())
        work()
        ended = [outcomes.get() for _ in calls]
    else:
        openmp.GOMP_parallel(_RegionBody(work), None, threads, 0)
        ended = [outcomes.get() for _ in range(outcomes.qsize())]
        if len(ended) < len(calls):  # Ctrl-C between two calls, which ctypes does not pass on
            raise KeyboardInterrupt
    errors = [error for error in ended if error is not None]
    if errors:
        raise errors[0]


def run_torch_in_parallel(calls: Sequence[Callable[[], None]], gradients: bool = False):
    """The same for calls of torch's operators: each has its share of torch's threads.

    Args:
        calls: what runs, without autocast.
        gradients: whether operations are recorded for gradients.
    """
    threads = torch.get_num_threads()
    share = max(1, threads // len(calls))

    def run_with_share(call: Callable[[], None]):
        # Both settings are per thread: a new thread uses all of torch's threads and records gradients.
        torch.set_num_threads(share)
        with torch.set_grad_enabled(gradients), torch.autocast("cpu", enabled=False):
            call()

    try:
        run_in_parallel([partial(run_with_share, call) for call in calls], may_use_openmp=share == 1)
    finally:
        torch.set_num_threads(threads)


def openmp_entry() -> int | None:
    """The address of GOMP_parallel, which runs a function in torch's OpenMP threads; None where there is none."""
    openmp = _openmp()
    return None if openmp is None else ctypes.cast(openmp.GOMP_parallel, ctypes.c_void_p).value


def _openmp() -> ctypes.CDLL | None:
    # The threads do not exist in a forked process, where the library would wait for them without end.
    return _load_openmp() if os.getpid() == _process else None


@functools.cache
def _load_openmp() -> ctypes.CDLL | None:
    """The OpenMP library that torch is linked to, if it has the entry that GCC's and LLVM's share on Linux."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if sys.platform != "linux" or not path.is_file():
        return None
    library = ctypes.CDLL(str(path))  # its symbols include those of the libraries that it is linked to
    if not hasattr(library, "GOMP_parallel"):
        return None
    library.GOMP_parallel.argtypes = _RegionBody, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint
    library.GOMP_parallel.restype = None
    return library
