"""A manifest of a folder: names, sizes and checksums of its files, written last. Who reads it knows what is whole."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

MANIFEST = "manifest.json"


def write_manifest(folder: Path, names: Iterable[str] | None = None):
    """Writes down the files of a folder; with `names`, adds only those to what is written down already."""
    files = {} if names is None else _read(folder)
    if names is None:
        names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != MANIFEST)
    files |= {name: [(folder / name).stat().st_size, _checksum(folder / name)] for name in names}
    write_whole(folder / MANIFEST, json.dumps({"files": files}, indent=1))


def what_is_wrong(folder: Path) -> str | None:
    """Why a folder is not as its manifest says; None if it is.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.pretraining.manifest import what_is_wrong, write_manifest
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a").write_text("text"), write_manifest(folder)
    >>> print(what_is_wrong(folder))
    None
    >>> _ = (folder / "a").write_text("tex!")
    >>> what_is_wrong(folder)
    'a is not what was written'

    ```
    """
    try:
        files = _read(folder)
        for name, (size, checksum) in files.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != size:
                return f"{name} has {path.stat().st_size:,} bytes and not {size:,}"
            if _checksum(path) != checksum:
                return f"{name} is not what was written"
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return f"{MANIFEST} cannot be read"
    return None


def write_whole(path: Path, text: str):
    """Writes a small file so that it is there whole or not at all, also if the power fails."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def _read(folder: Path) -> dict[str, list]:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
