"""Output folders that appear whole or not at all."""

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError


@contextmanager
def new_folder(output_dir: str | os.PathLike) -> Iterator[Path]:
    """Yields a folder to write into; at the end it becomes `output_dir`, after a failure it is gone.

    `output_dir` may exist only if it is empty: nothing is ever overwritten.
    """
    target = Path(output_dir)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise ValueError(f"{target} exists already; accepted is a new or an empty folder, so that nothing is lost.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        prefix = f".{target.name}.partial-{platform.node()}-{os.getpid()}-"
        partial = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error.strerror} ({error.filename}).") from None
    try:
        yield partial
        # mkdtemp makes a folder for its owner alone; this one is for whom the umask lets in.
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o777 & ~mask)
        if target.exists():
            target.rmdir()
        partial.rename(target)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{target} could not be written, and nothing of it is left behind: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _sweep(target: Path):
    """Removes what earlier runs left that were killed while they wrote the same folder."""
    pattern = re.compile(re.escape(f".{target.name}.partial-{platform.node()}-") + r"(\d+)-\w+")
    for entry in target.parent.iterdir():
        owner = pattern.fullmatch(entry.name)
        if owner and not _is_running(int(owner[1])):
            shutil.rmtree(entry, ignore_errors=True)


def _is_running(process: int) -> bool:
    if os.name == "nt":  # there, asking would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
