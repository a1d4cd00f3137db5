"""The two folders of a run: OUT has the model and nothing else, OUT.run what resuming the run needs.

Files are written in OUT.run/unfinished and moved when they are complete. A lock keeps other processes out.
"""

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from elmo_hf.atomic_files import write_text_atomically
from elmo_hf.pretraining.schedule import LearningRateSchedule


class RunFolder:
    """The paths of a run, its lock, and the steps of publishing its model.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf.pretraining.run_folder import RunFolder
    >>> folder = RunFolder(tempfile.mkdtemp() + "/my-elmo")
    >>> with folder.locked():
    ...     folder.publish(lambda place: (place / "config.json").write_text("{}"), {"step": 5})
    >>> folder.path.name, folder.finished(), (folder.output / "config.json").read_text()
    ('my-elmo.run', {'step': 5}, '{}')

    ```
    """

    def __init__(self, output: str | os.PathLike):
        self.output = Path(output).absolute()
        self.path = self.output.with_name(f"{self.output.name}.run")
        self.unfinished = self.path / "unfinished"
        self._staged, self._finished = self.path / "model", self.path / "finished.json"
        self._rates, self._holder = self.path / "steps.json", self.path / "running.json"
        self._lock = self.path / "lock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder, and removes what an interrupted run left half written."""
        new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            os.chmod(self.path, 0o700)  # it holds the text
            lock = FileLock(self._lock)
            lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(
                f"{self.output} is being trained by {self._who()}. Wait for it, or choose a new --output-dir."
            ) from None
        except OSError as error:
            raise ValueError(
                f"{self.path} cannot be written ({error.strerror}). Choose another --output-dir."
            ) from error
        try:
            write_text_atomically(self._holder, json.dumps({"process": os.getpid(), "host": socket.gethostname()}))
            self.sweep()
            yield
        finally:
            self._holder.unlink(missing_ok=True)
            shutil.rmtree(self.unfinished, ignore_errors=True)
            if new and {path.name for path in self.path.iterdir()} <= {self._lock.name}:
                shutil.rmtree(self.path, ignore_errors=True)  # refused before anything was made
            lock.release()

    def _who(self) -> str:
        try:
            about = json.loads(self._holder.read_text(encoding="utf-8"))
            return f"process {about['process']} on {about['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"

    def sweep(self):
        """Removes what an interrupted run left half written."""
        shutil.rmtree(self.unfinished, ignore_errors=True)
        for path in self.path.glob(".*"):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    # The schedule of a run with a time limit

    def read_schedule(self, schedule: LearningRateSchedule):
        """Sets the number of steps to that of an earlier part of the run, if there is one."""
        try:
            schedule.fix(*json.loads(self._rates.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return
        except (ValueError, TypeError):
            raise ValueError(
                f"{self._rates} cannot be read, and the number of steps is lost. A new run needs a new --output-dir."
            ) from None

    def write_schedule(self, schedule: LearningRateSchedule):
        """Writes the schedule at once: it must not depend on when a run is killed."""
        write_text_atomically(self._rates, json.dumps([schedule.steps, schedule.known_from]))

    def forget_schedule(self):
        """Removes the schedule of an earlier run."""
        self._rates.unlink(missing_ok=True)

    # The model

    def check_output(self):
        """Raises ValueError if the model would overwrite files of something else."""
        ours = self._finished.exists() or self._staged.exists()
        if not ours and self.output.exists() and (not self.output.is_dir() or any(self.output.iterdir())):
            raise ValueError(f"{self.output} exists already. Expected a new folder as --output-dir.")

    def publish(self, save: Callable[[Path], Any], about: dict[str, Any]):
        """Calls `save` with a temporary folder and moves its files to the output folder; `about` describes them."""
        place = self.unfinished / "model"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        save(place)
        write_text_atomically(place / self._finished.name, json.dumps(about))
        shutil.rmtree(self._staged, ignore_errors=True)
        place.rename(self._staged)
        self.finish_publishing()

    def finish_publishing(self):
        """Moves the files of a completely saved model; the next run finishes what a killed one did not."""
        if not self._staged.is_dir():
            return
        self.output.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._staged.iterdir()):
            if path.name != self._finished.name:
                os.replace(path, self.output / path.name)
        about = self._staged / self._finished.name
        if about.exists():
            os.replace(about, self._finished)
        self._staged.rmdir()

    def finished(self) -> dict[str, Any] | None:
        """Returns the description of the model in the output folder, or None if there is no finished model."""
        try:
            if not (self.output / "config.json").exists():
                return None
            return json.loads(self._finished.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
