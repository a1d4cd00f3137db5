"""Output folders of conversions and exports."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from elmo_hf.atomic_files import atomic_folder


@contextmanager
def new_folder(output_dir: str | os.PathLike) -> Iterator[Path]:
    """A temporary folder that is renamed to `output_dir` at the end, and removed after an error.

    `output_dir` may exist only if it is empty: nothing is overwritten.
    """
    target = Path(output_dir)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise ValueError(f"{target} exists already. Expected a new or an empty folder: nothing is overwritten.")
    started = False
    try:
        with atomic_folder(target) as folder:
            started = True
            yield folder
    except (OSError, SafetensorError) as error:
        if started or not isinstance(error, OSError):
            message = f"{target} could not be written, and nothing of it is left behind: {error}"
        else:
            message = f"{target} cannot be written: {error.strerror} ({error.filename})."
        raise ValueError(message) from error
