"""Both directions at the same time, in threads that end with the call."""

import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

Result = TypeVar("Result")


def run_together(tasks: Sequence[Callable[[], Result]], device: torch.device) -> list[Result]:
    """The results of all tasks, run side by side if this thread may use that many CPU threads.

    They share the threads that `torch.set_num_threads` allows; with one thread they run one after the other. Each
    call starts its own threads and waits for them, so that nothing is left to copy, to pickle, to fork or to stop.
    """
    allowed = torch.get_num_threads()
    if device.type != "cpu" or len(tasks) < 2 or allowed < len(tasks):
        return [task() for task in tasks]
    results: list[Result | None] = [None] * len(tasks)
    errors: list[BaseException] = []
    share, gradients, inference = allowed // len(tasks), torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    def run(number: int):
        try:
            # The number belongs to the thread, and so do the modes.
            torch.set_num_threads(share)
            with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
                results[number] = tasks[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(1, len(tasks))]
    for thread in threads:
        thread.start()
    try:
        run(0)
        for thread in threads:
            thread.join()
    finally:
        torch.set_num_threads(allowed)
    if errors:
        raise errors[0]
    return results


def _after_fork():
    # OpenMP's threads do not come along into a forked process, which would wait for them for ever.
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
