"""The two folders of a run: OUT, the model and nothing else, and OUT.run, what the run needs to go on.

Whatever is written stands in OUT.run/unfinished until it is whole. Only one process at a time has the folder.
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
    """Where a run puts what.

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
        """Nobody else runs here meanwhile; what an earlier run was in the middle of writing is taken away."""
        new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            os.chmod(self.path, 0o700)  # it holds the text
            lock = FileLock(self._lock)
            lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(
                f"{self.output} is being trained by {self._who()}. Accepted is to wait for it, or a new --output-dir."
            ) from None
        except OSError as error:
            raise ValueError(
                f"{self.path} cannot be written ({error.strerror}); accepted is another --output-dir."
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
        """Takes away what a run that was killed left half written."""
        shutil.rmtree(self.unfinished, ignore_errors=True)
        for left in self.path.glob(".*"):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)

    # -- the schedule of a run with a time limit

    def read_schedule(self, schedule: LearningRateSchedule):
        """Fixes the number of steps as it was fixed before, if it was."""
        try:
            schedule.fix(*json.loads(self._rates.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return
        except (ValueError, TypeError):
            raise ValueError(
                f"{self._rates} cannot be read: how many steps the run has is lost. A new run needs "
                "a new --output-dir."
            ) from None

    def write_schedule(self, schedule: LearningRateSchedule):
        """At once and not with the next checkpoint: the schedule must not depend on when a run was killed."""
        write_text_atomically(self._rates, json.dumps([schedule.steps, schedule.known_from]))

    def forget_schedule(self):
        self._rates.unlink(missing_ok=True)

    # -- the model

    def check_output(self):
        """Raises where the model would overwrite something that is not of this run."""
        ours = self._finished.exists() or self._staged.exists()
        if not ours and self.output.exists() and (not self.output.is_dir() or any(self.output.iterdir())):
            raise ValueError(f"{self.output} is there already; accepted as --output-dir is a new folder.")

    def publish(self, save: Callable[[Path], Any], about: dict[str, Any]):
        """Has the model saved, and moves it to its place; `about` says what it is."""
        place = self.unfinished / "model"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        save(place)
        write_text_atomically(place / self._finished.name, json.dumps(about))
        shutil.rmtree(self._staged, ignore_errors=True)
        place.rename(self._staged)
        self.go_on_publishing()

    def go_on_publishing(self):
        """Moves the files of a model that was saved whole; killed in between, it is called again by the next run."""
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
        """What was said of the model that stands in its place, None if there is none."""
        try:
            if not (self.output / "config.json").exists():
                return None
            return json.loads(self._finished.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
