"""Several calls side by side, in threads that end with them: there is nothing to forget after a fork."""

import _thread
from collections.abc import Callable, Sequence
from functools import partial

import torch


def side_by_side(calls: Sequence[Callable[[], None]]):
    """All calls but the first in threads of their own, where more than one is allowed; each takes one thread.

    A thread that comes late, because others keep the processors busy, finds its call made by this one.
    """
    errors = []

    def make(call: Callable[[], None], begun: _thread.LockType, ended: _thread.LockType):
        if begun.acquire(blocking=False):
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
            _thread.start_new_thread(make, task)
    for task in tasks:
        make(*task)
    for _, _, ended in tasks:
        ended.acquire()
    if errors:
        raise errors[0]


def side_by_side_in_torch(calls: Sequence[Callable[[], None]]):
    """The same for calls of torch's operators, without gradients: each has its share of torch's threads."""
    threads = torch.get_num_threads()
    share = max(1, threads // len(calls))

    def with_share(call: Callable[[], None]):
        # Both belong to a thread: a new one has all of torch's threads, and records gradients.
        torch.set_num_threads(share)
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            call()

    try:
        side_by_side([partial(with_share, call) for call in calls])
    finally:
        torch.set_num_threads(threads)
