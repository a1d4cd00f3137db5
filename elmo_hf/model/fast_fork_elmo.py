"""What a forked process needs: a lock that nobody holds, and no wait for threads that did not come along."""

import os
import threading

import torch

# Guards all that is kept between calls. One for all, so that a fork can wait until nobody is at it.
lock = threading.RLock()
_is_forked = False


def settle():
    """Before the first computation in a forked process: OpenMP would wait for the parent's threads for ever."""
    global _is_forked
    if _is_forked:
        _is_forked = False
        torch.set_num_threads(1)


def _in_child():
    global _is_forked
    lock.release()
    _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=_in_child)
