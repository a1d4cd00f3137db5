"""Where original files come from: two files, a folder or a zip; on this machine or at an http(s) address."""

import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from .downloads import SourceError, fetch

__all__ = ["SourceError", "SourceFiles", "fetch", "open_sources"]

# Tiers of patterns: the first tier that any name matches decides, and must match one name only.
OPTIONS = (("options.json",), ("*options*.json",))
WEIGHTS = (("weights.hdf5",), ("*weights*.hdf5", "*weights*.h5"), ("*.hdf5", "*.h5"))
VOCABULARY = (("vocab.txt",), ("vocabulary.txt",), ("vocab*.txt",))
NOT_WEIGHTS = ("softmax", "vocab", "embedding")

TWO_FORMS = "Sources are either two files, OPTIONS.json WEIGHTS.hdf5, or one folder or zip that holds them"
ACCEPTED = (
    "Accepted are an options file (options.json, or one *options*.json) and beside it the weights (weights.hdf5, or "
    "one *weights*.hdf5, *.hdf5 or *.h5 whose name has none of softmax, vocab, embedding)"
)
LISTED = 20


@dataclass(frozen=True)
class SourceFiles:
    """The files of one original model, all on this machine."""

    options: Path
    weights: Path
    vocabulary: Path | None = None


@contextmanager
def open_sources(*sources: str | os.PathLike, cache_dir: str | os.PathLike | None = None) -> Iterator[SourceFiles]:
    """The files that `sources` lead to; what was unpacked from a zip is removed at the end of the block.

    `sources` are two, the options and the weights, or one, a folder or a zip with both. Each is a local
    path or an http(s) address, which is downloaded into `cache_dir` as `fetch` does it.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("options.json", "model.hdf5", "softmax.hdf5", "vocab.txt"):
    ...         Path(folder, name).touch()
    ...     with open_sources(folder) as files:
    ...         print(files.options.name, files.weights.name, files.vocabulary.name)
    options.json model.hdf5 vocab.txt
    """
    if len(sources) == 2:
        yield _two_files(*sources, cache_dir)
    elif len(sources) == 1:
        path = fetch(sources[0], cache_dir)
        if path.is_dir():
            yield _folder(path)
        else:
            with _opened_zip(path, str(sources[0])) as archive, tempfile.TemporaryDirectory(prefix="elmo_hf_") as room:
                yield _unpacked(archive, str(sources[0]), Path(room))
    else:
        raise SourceError(f"{len(sources)} sources were given. {TWO_FORMS}.")


def _two_files(
    options: str | os.PathLike, weights: str | os.PathLike, cache_dir: str | os.PathLike | None
) -> SourceFiles:
    files = SourceFiles(fetch(options, cache_dir), fetch(weights, cache_dir))
    for source, path in ((options, files.options), (weights, files.weights)):
        if not path.is_file():
            raise SourceError(f"{source} is not a file, and two sources were given. {TWO_FORMS}.")
    with files.options.open("rb") as file:
        if file.read(8) == b"\x89HDF\r\n\x1a\n":
            raise SourceError(f"{options} is an HDF5 file where the options belong. {TWO_FORMS}, in this order.")
    return files


def _folder(path: Path) -> SourceFiles:
    names = [entry.name for entry in path.iterdir() if entry.is_file() and not entry.name.startswith(".")]
    options, weights, vocabulary = _choose(names, f"The folder {path}")
    return SourceFiles(path / options, path / weights, path / vocabulary if vocabulary else None)


def _choose(names: list[str], where: str) -> tuple[str, str, str | None]:
    return (
        _only(_candidates(names, OPTIONS), "the options file", names, where),
        _only(_candidates(names, WEIGHTS, NOT_WEIGHTS), "the weights", names, where),
        _only(_candidates(names, VOCABULARY) or [None], "the vocabulary", names, where),
    )


def _candidates(names: Iterable[str], tiers: tuple[tuple[str, ...], ...], excluded: tuple[str, ...] = ()) -> list[str]:
    names = sorted(name for name in names if not any(word in name.lower() for word in excluded))
    for patterns in tiers:
        found = [name for name in names if any(fnmatchcase(name.lower(), pattern) for pattern in patterns)]
        if found:
            return found
    return []


def _only(candidates: list[str | None], what: str, names: list[str], where: str) -> str | None:
    if not candidates:
        raise SourceError(f"{where} does not hold {what}, but {_listing(names)}. {ACCEPTED}.")
    if len(candidates) > 1:
        raise SourceError(
            f"{where} holds {len(candidates)} files that may be {what}: {_listing(candidates)}. {ACCEPTED}; "
            "to choose, give the two files themselves."
        )
    return candidates[0]


def _listing(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more if names else "nothing"


def _opened_zip(path: Path, source: str) -> zipfile.ZipFile:
    with path.open("rb") as file:
        begins_as_zip = file.read(4) == b"PK\x03\x04"
    if not zipfile.is_zipfile(path) and not begins_as_zip and path.suffix.lower() != ".zip":
        raise SourceError(f"{source} is neither a folder nor a zip. {TWO_FORMS}.")
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        size = path.stat().st_size
        raise SourceError(f"{source} ({size} bytes) is not a zip, or a truncated one: {error}.") from error


def _unpacked(archive: zipfile.ZipFile, source: str, room: Path) -> SourceFiles:
    folder, members = _folder_with_a_model(archive, source)
    names = _choose(list(members), f"The folder {folder} of the zip {source}")
    wanted = [members[name] for name in names if name]
    for member in wanted:
        if stat.S_ISLNK(member.external_attr >> 16):
            raise SourceError(f"The member {member.filename} of the zip {source} is a symbolic link, not a file.")
        if member.flag_bits & 0x1:
            raise SourceError(f"The member {member.filename} of the zip {source} is encrypted; unpack it first.")
    declared, free = sum(member.file_size for member in wanted), shutil.disk_usage(room).free
    if declared > free:
        largest = max(wanted, key=lambda member: member.file_size).filename
        raise SourceError(
            f"The zip {source} unpacks to {declared} bytes, most of them in the member {largest}, but {room.parent} "
            f"has room for {free}. The variable TMPDIR names another folder."
        )
    options, weights, vocabulary = (
        _extracted(archive, members[name], source, room) if name else None for name in names
    )
    return SourceFiles(options, weights, vocabulary)


def _folder_with_a_model(archive: zipfile.ZipFile, source: str) -> tuple[str, dict[str, zipfile.ZipInfo]]:
    folders: dict[str, dict[str, zipfile.ZipInfo]] = {}
    for member in archive.infolist():
        name = member.filename
        if name.startswith("/") or "\\" in name or ".." in name.split("/") or re.match("[A-Za-z]:", name):
            raise SourceError(f"The zip {source} is refused: its member {name} would be written outside of a folder.")
        path = PurePosixPath(name)
        # macOS adds a hidden ._twin of every file, under __MACOSX.
        if not member.is_dir() and not path.name.startswith(".") and "__MACOSX" not in path.parts:
            folders.setdefault(str(path.parent), {})[path.name] = member
    complete = [
        f for f, names in folders.items() if _candidates(names, OPTIONS) and _candidates(names, WEIGHTS, NOT_WEIGHTS)
    ]
    if not complete:
        names = [member.filename for members in folders.values() for member in members.values()]
        raise SourceError(f"No folder of the zip {source} holds a model; found were {_listing(names)}. {ACCEPTED}.")
    if len(complete) > 1:
        raise SourceError(
            f"The zip {source} holds models in {len(complete)} folders: {_listing(complete)}. {TWO_FORMS}: "
            "unpack it and give one of these folders."
        )
    return complete[0], folders[complete[0]]


def _extracted(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str, room: Path) -> Path:
    target = room / PurePosixPath(member.filename).name
    try:
        with archive.open(member) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        message = f"The member {member.filename} of the zip {source} cannot be unpacked: {error}."
        raise SourceError(message) from error
    return target
