"""Shards written by Ray tasks, on this machine or a cluster, with one model for each worker.

A shard is one task. If a worker is killed, Ray gives its shard to another one; shards that are finished survive the
death of the driver. All machines must see the folder of the store under the same path.
"""

import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from .sentence_chunks import Chunk
from .shard_protocol import Writer, WriterLoader, WrittenShard

# Parts that are handed out ahead of time, for each processor of the cluster.
AHEAD = 2
# How often a shard is given out again when its worker dies.
RETRIES = 5

_write_shards: dict[str, Writer] = {}


def write_on_ray(
    spec: WriterLoader, chunks: Iterable[Chunk], address: str | None, threads: int
) -> Iterator[WrittenShard]:
    """Writes shards as Ray tasks; yields them as they are finished, in any order.

    Args:
        address: of a running cluster, or `"auto"`; None starts Ray on this machine for as long as it takes.
        threads: of each task, which takes as many processors.
    """
    # Ray leaves a token in the home directory otherwise.
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Its workers would stand behind everything else that runs: as tasks of a user they are no less than processes are.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        import ray
    except ImportError:
        raise ImportError("--ray needs Ray, which is not installed: pip install 'elmo-hf[ray]'.") from None
    # A socket's path must be short, so the folder is not that of the store.
    with tempfile.TemporaryDirectory(prefix="elmo-ray-", ignore_cleanup_errors=True) as folder:
        local: dict[str, Any] = {"_temp_dir": folder, "include_dashboard": False}
        ray.init(address=address or "local", log_to_driver=False, **({} if address else local))
        try:
            task = ray.remote(num_cpus=threads, max_retries=RETRIES)(_make)
            yield from _run(ray, task, ray.put(spec), iter(chunks))
        finally:
            ray.shutdown()


def _run(ray: Any, task: Any, spec: Any, chunks: Iterator[Chunk]) -> Iterator[WrittenShard]:
    at_work: list[Any] = []
    # What a cluster has may change while it runs.
    while True:
        room = AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1) - len(at_work)
        at_work += [task.remote(spec, chunk) for chunk in itertools.islice(chunks, max(room, 0))]
        if not at_work:
            return
        done, at_work = ray.wait(at_work)
        try:
            yield from ray.get(done)
        except ray.exceptions.WorkerCrashedError as error:
            raise ValueError(
                f"Workers died {RETRIES + 1} times over one part: killed by hand, or for want of memory ({error}). "
                "What is finished stays; the same command goes on."
            ) from None


def _make(spec: WriterLoader, chunk: Chunk) -> WrittenShard:
    """A task; the model stays in the worker for the next one."""
    key = f"{spec.folder} {spec.model} {spec.settings['weights']}"
    if key not in _write_shards:
        _write_shards.clear()
        _write_shards[key] = spec.load()
    return _write_shards[key].write(chunk)
