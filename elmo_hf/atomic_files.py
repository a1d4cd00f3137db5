"""Atomic writes of files and folders, and manifests that tell whether a folder is complete.

A file or folder is written under a temporary name and renamed: it is there completely or not at all, whenever the
process is killed.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


# -- files


def write_atomically(path: str | os.PathLike, write: Callable[[Path], Any]):
    """Writes a file under a temporary name, syncs it to disk and renames it.

    Several processes may write the same file at the same time, if they write the same content.

    Args:
        path: the file.
        write: called with the temporary path; writes the content there.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.atomic_files import write_atomically
    >>> path = pathlib.Path(tempfile.mkdtemp(), "numbers.txt")
    >>> write_atomically(path, lambda temporary: temporary.write_text("1 2 3"))
    >>> path.read_text()
    '1 2 3'

    ```
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{_process_name()}.tmp")
    try:
        # Some libraries create files that only their owner may read; ours get the default permissions.
        temporary.touch()
        mode = temporary.stat().st_mode
        write(temporary)
        os.chmod(temporary, mode)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except FileNotFoundError:
        # Another process has finished the same file and removed this one as a leftover.
        if not path.exists():
            raise
    finally:
        temporary.unlink(missing_ok=True)
    remove_leftovers(path)


def write_text_atomically(path: str | os.PathLike, text: str):
    """Writes a text file in UTF-8; see `write_atomically`."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def remove_leftovers(path: Path):
    """Removes the temporary files that killed processes have left beside a file."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        leftover.unlink(missing_ok=True)


# -- folders


@contextmanager
def atomic_folder(path: str | os.PathLike, replace: bool = False) -> Iterator[Path]:
    """A temporary folder that is renamed to `path` at the end, and removed after an error.

    Leftovers of killed processes of this machine are removed.

    Args:
        path: the folder. Its parent is created.
        replace: replace a folder that is there. By default only an empty one is.

    Raises:
        OSError: with `errno` ENOTEMPTY if there is a folder that is not empty.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.atomic_files import atomic_folder
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model")
    >>> with atomic_folder(path) as folder:
    ...     _ = (folder / "config.json").write_text("{}")
    ...     path.exists()
    False
    >>> [file.name for file in path.iterdir()]
    ['config.json']

    ```
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned_folders(path)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.partial-{_process_name()}-", dir=path.parent))
    try:
        yield partial
        # mkdtemp creates a folder for its owner only; this one gets the default permissions.
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o777 & ~mask)
        if replace:
            shutil.rmtree(path, ignore_errors=True)
        elif path.exists():
            path.rmdir()
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _remove_abandoned_folders(path: Path):
    pattern = re.compile(re.escape(f".{path.name}.partial-{socket.gethostname()}-") + r"(\d+)-\w+")
    for entry in path.parent.iterdir():
        process = pattern.fullmatch(entry.name)
        if process and not _is_running(int(process[1])):
            shutil.rmtree(entry, ignore_errors=True)


def _process_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _is_running(process: int) -> bool:
    if os.name == "nt":  # the signal 0 would end the process there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


# -- manifests


def write_manifest(folder: Path, names: Iterable[str] | None = None):
    """Writes sizes and checksums of a folder's files into its `manifest.json`.

    Args:
        folder: the folder.
        names: add these files to the manifest that is there. By default it is made anew, of all files.
    """
    files = {} if names is None else _read_manifest(folder)
    if names is None:
        names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != MANIFEST)
    files |= {name: [(folder / name).stat().st_size, file_checksum(folder / name)] for name in names}
    write_text_atomically(folder / MANIFEST, json.dumps({"files": files}, indent=1))


def manifest_problem(folder: Path) -> str | None:
    """Why a folder is not what its manifest says; None if it is.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.atomic_files import manifest_problem, write_manifest
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a").write_text("text"), write_manifest(folder)
    >>> print(manifest_problem(folder))
    None
    >>> _ = (folder / "a").write_text("tex!")
    >>> manifest_problem(folder)
    'the checksum of a is wrong'

    ```
    """
    try:
        for name, (size, checksum) in _read_manifest(folder).items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != size:
                return f"{name} has {path.stat().st_size:,} bytes instead of {size:,}"
            if file_checksum(path) != checksum:
                return f"the checksum of {name} is wrong"
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return f"{MANIFEST} cannot be read"
    return None


def _read_manifest(folder: Path) -> dict[str, list]:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]


def file_checksum(path: Path) -> str:
    """The BLAKE2b checksum of a file, 128 bits in hexadecimal digits.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.atomic_files import file_checksum
    >>> path = pathlib.Path(tempfile.mkdtemp(), "text")
    >>> _ = path.write_bytes(b"abc")
    >>> file_checksum(path)
    'cf4ab791c62b8d2b2109c90275287816'

    ```
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
