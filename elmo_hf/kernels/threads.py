"""Calls in parallel, in threads that end with them: nothing is left to clean up, also after a fork."""

import _thread
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial

import torch


def run_in_parallel(calls: Sequence[Callable[[], None]]):
    """Runs all calls but the first in threads of their own, where more than one thread is allowed.

    If a thread starts late because other processes keep the processors busy, this thread runs its call instead.
    """
    errors = []

    def run(call: Callable[[], None], started: _thread.LockType, ended: _thread.LockType):
        if started.acquire(blocking=False):
            try:
                call()
            except BaseException as error:
                errors.append(error)
            finally:
                ended.release()

    tasks = [(call, _thread.allocate_lock(), _thread.allocate_lock()) for call in calls]
    for _, _, ended in tasks:
        ended.acquire()
    if torch.get_num_threads() > 1:
        for task in tasks[1:]:
            _thread.start_new_thread(copy_context().run, (run, *task))
    for task in tasks:
        run(*task)
    for _, _, ended in tasks:
        ended.acquire()
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
        run_in_parallel([partial(run_with_share, call) for call in calls])
    finally:
        torch.set_num_threads(threads)
