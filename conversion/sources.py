"""Where original files come from: two files, a folder, a zip or a tar; on this machine or at an http(s) address."""

import io
import lzma
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from .downloads import SourceError, fetch, shown

__all__ = ["Bundle", "SourceError", "SourceFiles", "fetch", "open_bundles", "open_sources"]

# Tiers of patterns: the first tier that any name matches decides, and must match one name only.
OPTIONS = (("options.json",), ("*options*.json",))
WEIGHTS = (("weights.hdf5",), ("*weights*.hdf5", "*weights*.h5"), ("*.hdf5", "*.h5"))
VOCABULARY = (("vocab.txt",), ("vocabulary.txt",), ("vocab*.txt",))
NOT_WEIGHTS = ("softmax", "vocab", "embedding")

TWO_FORMS = "Sources are either two files, OPTIONS.json WEIGHTS.hdf5, or one folder or zip that holds them"
ACCEPTED = (
    "Accepted are an options file (options.json, or one *options*.json) and beside it the weights (weights.hdf5, or "
    "one *weights*.hdf5, *.hdf5 or *.h5 whose name has none of softmax, vocab, embedding); or the files of another "
    "format, which `elmo-hf convert --help` lists"
)
LISTED = 20
# No model has more files, no folder of one is deeper, and no description or list of words is larger.
MOST_NAMES, DEEPEST = 20_000, 4
LARGEST_TEXT = 1 << 30
LARGEST_DESCRIPTION = 16 << 20


@dataclass(frozen=True)
class SourceFiles:
    """The files of one original model, all on this machine.

    Example:

    ```python
    >>> from pathlib import Path
    >>> from elmo_hf.conversion import SourceFiles
    >>> files = SourceFiles(Path("options.json"), Path("weights.hdf5"))
    >>> files.weights.name, files.vocabulary
    ('weights.hdf5', None)

    ```
    """

    options: Path
    weights: Path
    vocabulary: Path | None = None


@dataclass(frozen=True)
class Bundle:
    """A folder, or one in an archive, that may hold a model.

    Args:
        where: what to call it in messages.
        label: its name among the folders of its archive.
        names: the files in and below it, as `variables/variables.index`.
        unpack: gives the paths of some of them, all on this machine.
        given: the two files, where these were given in place of a folder.
        options: the options file, where it was given beside an archive.
    """

    where: str
    label: str
    names: tuple[str, ...]
    unpack: Callable[[tuple[str, ...]], list[Path]]
    given: tuple[Path, ...] = ()
    options: Path | None = None

    @property
    def top(self) -> list[str]:
        """The files that stand in the folder itself."""
        return [name for name in self.names if "/" not in name]

    def paths(self, *names: str) -> list[Path]:
        return self.unpack(names)

    def path(self, name: str) -> Path:
        return self.unpack((name,))[0]


@contextmanager
def open_bundles(
    *sources: str | os.PathLike, cache_dir: str | os.PathLike | None = None
) -> Iterator[tuple[list[Bundle], str]]:
    """The folders that `sources` lead to, and what to call them; what was unpacked is removed at the end of the block.

    `sources` are two files, the options and the weights, or one folder, zip or tar. Each is a local path or an
    http(s) address, which is downloaded into `cache_dir` as `fetch` does it.
    """
    if len(sources) == 2:
        files = _two_files(*sources, cache_dir)
        with files[1].open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        if packed:
            name = shown(sources[1])
            with _opened(files[1], name) as archive, tempfile.TemporaryDirectory(prefix="elmo_hf_") as room:
                bundles = [replace(bundle, options=files[0]) for bundle in _bundles(archive, Path(room))]
                yield bundles, f"The {archive.kind} {name}"
            return
        names = tuple(path.name for path in files)
        yield [Bundle(f"{files[0]} and {files[1]}", ".", names, lambda names: list(files), files)], str(files[1])
    elif len(sources) == 1:
        path, name = fetch(sources[0], cache_dir), shown(sources[0])
        if path.is_dir():
            names = tuple(_names_in(path))
            yield (
                [Bundle(f"The folder {path}", ".", names, lambda names: [path / name for name in names])],
                f"The folder {path}",
            )
        else:
            with _opened(path, name) as archive, tempfile.TemporaryDirectory(prefix="elmo_hf_") as room:
                yield list(_bundles(archive, Path(room))), f"The {archive.kind} {name}"
    else:
        raise SourceError(f"{len(sources)} sources were given. {TWO_FORMS}.")


@contextmanager
def open_sources(*sources: str | os.PathLike, cache_dir: str | os.PathLike | None = None) -> Iterator[SourceFiles]:
    """The options and HDF5 weights that `sources` lead to, as `open_bundles` finds them.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("options.json", "model.hdf5", "softmax.hdf5", "vocab.txt"):
    ...         Path(folder, name).touch()
    ...     with open_sources(folder) as files:
    ...         print(files.options.name, files.weights.name, files.vocabulary.name)
    options.json model.hdf5 vocab.txt
    """
    with open_bundles(*sources, cache_dir=cache_dir) as (bundles, where):
        yield find_files(only_bundle([one for one in bundles if has_files(one)], bundles, where))


def only_bundle(found: list[Bundle], bundles: list[Bundle], where: str) -> Bundle:
    """The one folder with a model; where there is none or several, an error that lists what there is."""
    if len(found) > 1:
        raise SourceError(
            f"{where} holds models in {len(found)} folders: {_listing(bundle.label for bundle in found)}. "
            f"{TWO_FORMS}: unpack it and give one of these folders."
        )
    if found:
        return found[0]
    if len(bundles) == 1 and (bundles[0].given or where.startswith("The folder")):
        return bundles[0]  # its format's own error says what is missing
    names = {f"{bundle.label}/{name}".removeprefix("./") for bundle in bundles for name in bundle.top}
    raise SourceError(
        f"No folder of {where[0].lower()}{where[1:]} holds a model; found were {_listing(names)}. {ACCEPTED}."
    )


def has_files(bundle: Bundle) -> bool:
    """Whether a folder holds options and HDF5 weights."""
    names = bundle.top
    return bool(bundle.given) or bool(_candidates(names, OPTIONS) and _candidates(names, WEIGHTS, NOT_WEIGHTS))


def find_files(bundle: Bundle) -> SourceFiles:
    """The options, HDF5 weights and vocabulary of a folder."""
    if bundle.given:
        return SourceFiles(*bundle.given)
    names = bundle.top
    wanted = (
        only(_candidates(names, OPTIONS), "the options file", names, bundle.where),
        only(_candidates(names, WEIGHTS, NOT_WEIGHTS), "the weights", names, bundle.where),
        *find_vocabulary(bundle),
    )
    return SourceFiles(*bundle.paths(*wanted))


def find_options(bundle: Bundle) -> str | None:
    """The name of a folder's options file, if there is one."""
    return only(_candidates(bundle.top, OPTIONS) or [None], "the options file", bundle.top, bundle.where)


def find_vocabulary(bundle: Bundle) -> list[str]:
    """The name of a folder's vocabulary, or nothing."""
    found = only(_candidates(bundle.top, VOCABULARY) or [None], "the vocabulary", bundle.top, bundle.where)
    return [found] if found else []


def only(candidates: list[str | None], what: str, names: list[str], where: str) -> str | None:
    """The one candidate; an error if there is none, or more."""
    if not candidates:
        raise SourceError(f"{where} does not hold {what}, but {_listing(names)}. {ACCEPTED}.")
    if len(candidates) > 1:
        raise SourceError(
            f"{where} holds {len(candidates)} files that may be {what}: {_listing(candidates)}. {ACCEPTED}; "
            "to choose, give the two files themselves."
        )
    return candidates[0]


def _two_files(
    options: str | os.PathLike, weights: str | os.PathLike, cache_dir: str | os.PathLike | None
) -> tuple[Path, Path]:
    files = fetch(options, cache_dir), fetch(weights, cache_dir)
    for source, path in zip((options, weights), files, strict=True):
        if not path.is_file():
            raise SourceError(f"{shown(source)} is not a file, and two sources were given. {TWO_FORMS}.")
    with files[0].open("rb") as file:
        if file.read(8) == b"\x89HDF\r\n\x1a\n":
            raise SourceError(
                f"{shown(options)} is an HDF5 file where the options belong. {TWO_FORMS}, in this order."
            )
    return files


def _names_in(folder: Path) -> Iterator[str]:
    """The files in a folder and its sub-folders, without the hidden ones."""
    number = 0
    for place, folders, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        folders[:] = sorted(one for one in folders if not one.startswith(".") and len(inside.parts) < DEEPEST)
        for name in sorted(names):
            number += 1
            if number > MOST_NAMES:
                return
            if not name.startswith(".") and (Path(place) / name).is_file():
                yield (inside / name).as_posix()


def _candidates(names: Iterable[str], tiers: tuple[tuple[str, ...], ...], excluded: tuple[str, ...] = ()) -> list[str]:
    names = sorted(name for name in names if not any(word in name.lower() for word in excluded))
    for patterns in tiers:
        found = [name for name in names if any(fnmatchcase(name.lower(), pattern) for pattern in patterns)]
        if found:
            return found
    return []


def _listing(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more if names else "nothing"


# -- archives


@dataclass(frozen=True)
class Member:
    """One file of an archive; `refused` says why it may not be unpacked, if so."""

    name: str
    size: int
    refused: str | None
    handle: zipfile.ZipInfo | tarfile.TarInfo


class _Archive:
    """A zip or tar: its members are listed first, and only those that are needed are unpacked."""

    kind: str
    errors: tuple[type[Exception], ...]

    def __init__(self, source: str):
        self.source = source

    def members(self) -> Iterator[Member]:
        raise NotImplementedError

    def content(self, member: Member) -> BinaryIO:
        raise NotImplementedError

    def unpacked(self, members: list[Member], room: Path) -> list[Path]:
        for member in members:
            if member.refused:
                raise SourceError(f"The member {member.name} of the {self.kind} {self.source} {member.refused}.")
            if member.name.endswith(".json") and member.size > LARGEST_DESCRIPTION:
                raise SourceError(
                    f"The member {member.name} of the {self.kind} {self.source} has {member.size:,} bytes; no "
                    f"description of a model has more than {LARGEST_DESCRIPTION:,}."
                )
        declared, free = sum(member.size for member in members), shutil.disk_usage(room).free
        if declared > free:
            largest = max(members, key=lambda member: member.size).name
            raise SourceError(
                f"The {self.kind} {self.source} unpacks to {declared} bytes, most of them in the member {largest}, "
                f"but {room.parent} has room for {free}. The variable TMPDIR names another folder."
            )
        return [self._extracted(member, room) for member in members]

    def _extracted(self, member: Member, room: Path) -> Path:
        # A folder for each directory of the archive: two members of one name do not meet.
        folder = room if "/" not in member.name else room / re.sub(r"\W", "_", str(PurePosixPath(member.name).parent))
        folder.mkdir(exist_ok=True)
        target = folder / PurePosixPath(member.name).name
        if target.exists():
            return target
        try:
            with self.content(member) as packed, target.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
            if target.stat().st_size != member.size:
                raise EOFError(f"{target.stat().st_size} of {member.size} bytes are there")
        except self.errors as error:
            target.unlink(missing_ok=True)
            raise SourceError(
                f"The member {member.name} of the {self.kind} {self.source} cannot be unpacked: {error}."
            ) from error
        return target


class _Zip(_Archive):
    kind = "zip"
    errors = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, OSError, ValueError)

    def __init__(self, path: Path, source: str):
        super().__init__(source)
        try:
            self.file = zipfile.ZipFile(path)
        except (*self.errors, UnicodeDecodeError) as error:
            size = path.stat().st_size
            raise SourceError(f"{source} ({size} bytes) is not a zip, or a truncated one: {error}.") from error

    def members(self) -> Iterator[Member]:
        for info in self.file.infolist():
            # An entry without a name, which zipfile cannot look at, is nobody's file.
            if not info.filename or info.is_dir():
                continue
            refused = None
            if stat.S_ISLNK(info.external_attr >> 16):
                refused = "is a symbolic link, not a file"
            elif info.flag_bits & 0x1:
                refused = "is encrypted; unpack it first"
            yield Member(info.filename, info.file_size, refused, info)

    def content(self, member: Member) -> BinaryIO:
        return self.file.open(member.handle)


class _Tar(_Archive):
    kind = "tar"
    errors = (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)

    def __init__(self, path: Path, source: str):
        super().__init__(source)
        self.free = shutil.disk_usage(tempfile.gettempdir()).free
        try:
            self.file = tarfile.open(path)
        except self.errors as error:
            raise SourceError(f"{source} is not a tar, or a truncated one: {error}.") from error

    def members(self) -> Iterator[Member]:
        try:
            for info in self.file:
                # Going past a member unpacks it: nothing that could not be kept is worth that.
                if info.size > self.free:
                    raise SourceError(
                        f"The tar {self.source} is refused: its member {info.name} has {info.size} bytes, and there "
                        f"is room for {self.free}."
                    )
                if not info.isdir():
                    refused = None if info.isreg() else "is a link or a device, not a file"
                    yield Member(info.name.removeprefix("./"), info.size, refused, info)
        except self.errors as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(f"The tar {self.source} is damaged or truncated: {error}.") from error

    def content(self, member: Member) -> BinaryIO:
        return self.file.extractfile(member.handle) or io.BytesIO()


@contextmanager
def _opened(path: Path, source: str) -> Iterator[_Archive]:
    with path.open("rb") as file:
        begins = file.read(262)
    name = path.name.lower()
    if zipfile.is_zipfile(path) or begins[:4] == b"PK\x03\x04" or name.endswith(".zip"):
        archive = _Zip(path, source)
    elif begins[:2] == b"\x1f\x8b" or begins[257:262] == b"ustar" or name.endswith((".tar", ".tar.gz", ".tgz")):
        archive = _Tar(path, source)
    else:
        raise SourceError(f"{source} is neither a folder nor a zip. {TWO_FORMS}.")
    with archive.file:
        yield archive


def _bundles(archive: _Archive, room: Path) -> Iterator[Bundle]:
    """Every folder of an archive, as one that may hold a model."""
    members: dict[str, Member] = {}
    for member in archive.members():
        name = member.name
        if name.startswith("/") or "\\" in name or ".." in name.split("/") or re.match("[A-Za-z]:", name):
            raise SourceError(
                f"The {archive.kind} {archive.source} is refused: its member {name} would be written outside of a "
                "folder."
            )
        if len(members) >= MOST_NAMES:
            raise SourceError(f"The {archive.kind} {archive.source} has more than {MOST_NAMES:,} members.")
        path = PurePosixPath(name)
        # macOS adds a hidden ._twin of every file, under __MACOSX.
        if path.name.startswith(".") or "__MACOSX" in path.parts:
            continue
        if name in members:
            raise SourceError(f"The {archive.kind} {archive.source} is refused: it has two members {name}.")
        members[name] = member
    folders = sorted({str(parent) for name in members for parent in PurePosixPath(name).parents} or {"."})
    for folder in folders:
        prefix = "" if folder == "." else f"{folder}/"

        def unpack(names: tuple[str, ...], prefix: str = prefix) -> list[Path]:
            return archive.unpacked([members[prefix + name] for name in names], room)

        names = tuple(name.removeprefix(prefix) for name in members if name.startswith(prefix))
        where = f"The folder {folder} of the {archive.kind} {archive.source}"
        yield Bundle(where, folder, names, unpack)
