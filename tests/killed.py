"""Runs something in a process of its own that is killed at a chosen moment, as by kill -9."""

import os
import signal

from elmo_hf.embedding import corpus_embedder, shard_writer


def killed(run, moment, number):
    """Runs `run()` in a forked process that dies at the `number`-th time (from 0) of a moment; returns its end signal.

    Moments: "writing" (before a part's file is begun), "renaming" (it is written, but not in place), "between" (in
    place, and the next not begun), "state" (the state is saved, its part not), "totals" (all parts are there).
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        _prepare(moment, number)
        run()
    finally:
        os._exit(0)


def _prepare(moment, number):
    counts = {"seen": -1}

    def die_in_time():
        counts["seen"] += 1
        if counts["seen"] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    replace, make, save, write = (
        os.replace,
        shard_writer.ShardWriter.write,
        shard_writer.save_tensors,
        corpus_embedder.write_settings,
    )

    def killed_before_rename(source, target):
        if "part-" in os.fspath(target):
            die_in_time()
        replace(source, target)

    def killed_around(writer, chunk):
        if moment == "writing":
            die_in_time()
        made = make(writer, chunk)
        if moment == "between":
            die_in_time()
        return made

    def killed_after_state(*arguments):
        save(*arguments)
        die_in_time()

    def killed_before_totals(*arguments):
        die_in_time()
        write(*arguments)

    if moment == "renaming":
        os.replace = killed_before_rename
    elif moment in ("writing", "between"):
        shard_writer.ShardWriter.write = killed_around
    elif moment == "state":
        shard_writer.save_tensors = killed_after_state
    elif moment == "totals":
        corpus_embedder.write_settings = killed_before_totals
    else:
        raise ValueError(moment)
