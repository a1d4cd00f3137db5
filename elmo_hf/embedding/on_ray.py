"""Parts made as tasks on Ray, by this machine or a cluster: one model for each worker, and whoever dies is replaced.

A part is one task. A worker that is killed costs the part it was at, which Ray gives to another; a driver that is
killed costs nothing that is in its place. All machines must see the folder of the store under the same path.
"""

import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from .making import Made, MakerSpec, PartMaker
from .windows import Window

# Parts that are handed out ahead of time, for each processor of the cluster.
AHEAD = 2
# How often a part is given out again when its worker dies.
RETRIES = 5

_makers: dict[str, PartMaker] = {}


def make_on_ray(spec: MakerSpec, windows: Iterable[Window], address: str | None, threads: int) -> Iterator[Made]:
    """Makes parts on Ray; they come as they get finished, in any order.

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
            yield from _run(ray, task, ray.put(spec), iter(windows))
        finally:
            ray.shutdown()


def _run(ray: Any, task: Any, spec: Any, windows: Iterator[Window]) -> Iterator[Made]:
    at_work: list[Any] = []
    # What a cluster has may change while it runs.
    while True:
        room = AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1) - len(at_work)
        at_work += [task.remote(spec, window) for window in itertools.islice(windows, max(room, 0))]
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


def _make(spec: MakerSpec, window: Window) -> Made:
    """A task; the model stays in the worker for the next one."""
    key = f"{spec.folder} {spec.model} {spec.settings['weights']}"
    if key not in _makers:
        _makers.clear()
        _makers[key] = spec.load()
    return _makers[key].make(window)
