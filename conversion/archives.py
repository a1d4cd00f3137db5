"""Zip and tar archives: members are listed first, and only those that are needed are unpacked."""

import gzip
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from .downloads import SourceError

MAX_MEMBERS, MAX_FOLDERS = 20_000, 8
MAX_DESCRIPTION = 4 << 20  # bytes of a JSON file that describes a model
# Weights hardly compress; texts do by a factor of ten.
MAX_EXPANSION, ALWAYS_ALLOWED = 100, 64 << 20
MAX_HEADER = 64 << 10  # bytes of a long name, or of the extended headers of one member of a tar
BLOCK = tarfile.BLOCKSIZE
GZIP_SIGNATURE, ZIP_SIGNATURE = b"\x1f\x8b", b"PK\x03\x04"
EXTENDED_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
MAX_QUOTED = 300  # characters of a library's message, which may repeat a whole header


def _quoted(error: BaseException) -> str:
    message = str(error)
    return message if len(message) <= MAX_QUOTED else f"{message[:MAX_QUOTED]} ..."


@dataclass(frozen=True)
class Member:
    """A file in an archive.

    Args:
        name: its path in the archive, as `variables/variables.index`.
        size: its bytes, unpacked.
        problem: why it cannot be unpacked, or None.
        handle: what the archive needs to find it.
    """

    name: str
    size: int
    problem: str | None
    handle: Any


class Archive:
    """A zip or tar.

    Args:
        path: the file.
        where: its name in messages.
    """

    kind: str
    errors: tuple[type[Exception], ...]

    def __init__(self, path: Path, where: str):
        self.where, self.size = where, path.stat().st_size

    def close(self):
        """Closes the file."""
        raise NotImplementedError

    def _all_members(self) -> Iterator[Member]:
        raise NotImplementedError

    def _content(self, member: Member) -> IO[bytes]:
        raise NotImplementedError

    def members(self) -> dict[str, Member]:
        """The files by name, without hidden ones and those in deep folders."""
        members: dict[str, Member] = {}
        for number, member in enumerate(self._all_members()):
            if number >= MAX_MEMBERS:
                raise SourceError(f"The {self.kind} {self.where} has more than {MAX_MEMBERS:,} members.")
            name = member.name
            if name.startswith("/") or "\\" in name or ".." in name.split("/") or re.match("[A-Za-z]:", name):
                raise SourceError(
                    f"The {self.kind} {self.where} is refused: its member {name[:200]} would be written outside of a "
                    "folder."
                )
            path = PurePosixPath(name)
            # macOS adds a hidden ._twin of every file, under __MACOSX.
            is_hidden = path.name.startswith(".") or "__MACOSX" in path.parts
            if is_hidden or not 1 <= len(path.parts) <= MAX_FOLDERS:
                continue
            if str(path) in members:
                raise SourceError(f"The {self.kind} {self.where} is refused: it has two members {name[:200]}.")
            members[str(path)] = member
        return members

    def unpack(self, members: list[Member], folder: Path) -> list[Path]:
        """Unpacks members into a folder, under the names that they have in the archive; their paths."""
        for member in members:
            if member.problem:
                raise SourceError(f"The member {member.name} of the {self.kind} {self.where} {member.problem}.")
            if member.name.endswith(".json") and member.size > MAX_DESCRIPTION:
                raise SourceError(
                    f"The member {member.name} of the {self.kind} {self.where} has {member.size:,} bytes. Expected at "
                    f"most {MAX_DESCRIPTION:,} for the description of a model."
                )
        self._check_size(sum(member.size for member in members), max(members, key=lambda member: member.size).name)
        self._check_room(members, folder)
        return [self._unpack(member, folder) for member in members]

    def _check_size(self, size: int, name: str):
        """Raises if an archive unpacks to far more than its own size."""
        if size > max(MAX_EXPANSION * self.size, ALWAYS_ALLOWED):
            raise SourceError(
                f"The {self.kind} {self.where} is refused: its {self.size:,} bytes unpack to {size:,} or more, with "
                f"the member {name[:200]}. Expected at most {MAX_EXPANSION} times its size; if it is right, unpack it "
                "and give the folder."
            )

    def _check_room(self, members: list[Member], folder: Path):
        size, free = sum(member.size for member in members), shutil.disk_usage(folder).free
        if size > free:
            largest = max(members, key=lambda member: member.size).name
            raise SourceError(
                f"The {self.kind} {self.where} unpacks to {size} bytes, most of them in the member {largest}, "
                f"but {folder.parent} has room for {free}. The variable TMPDIR names another folder."
            )

    def _unpack(self, member: Member, folder: Path) -> Path:
        target = folder / PurePosixPath(member.name)
        if target.exists():
            return target
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._content(member) as content, target.open("wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
            if target.stat().st_size != member.size:
                raise EOFError(f"{target.stat().st_size} of {member.size} bytes are there")
        except self.errors as error:
            target.unlink(missing_ok=True)
            raise SourceError(
                f"The member {member.name} of the {self.kind} {self.where} cannot be unpacked: {_quoted(error)}."
            ) from error
        return target


class ZipArchive(Archive):
    """A zip."""

    kind = "zip"
    errors = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, OSError, ValueError)

    def __init__(self, path: Path, where: str):
        super().__init__(path, where)
        try:
            self._file = zipfile.ZipFile(path)
        except (*self.errors, UnicodeDecodeError) as error:
            problem = f"is not a zip, or a truncated one: {_quoted(error)}"
            raise SourceError(f"{where} ({self.size} bytes) {problem}.") from error

    def close(self):
        """Closes the file."""
        self._file.close()

    def _all_members(self) -> Iterator[Member]:
        for info in self._file.infolist():
            # zipfile cannot look at an entry without a name.
            if not info.filename or info.is_dir():
                continue
            problem = None
            if stat.S_ISLNK(info.external_attr >> 16):
                problem = "is a symbolic link, not a file"
            elif info.flag_bits & 0x1:
                problem = "is encrypted; unpack it first"
            yield Member(info.filename, info.file_size, problem, info)

    def _content(self, member: Member) -> IO[bytes]:
        return self._file.open(member.handle)


class TarArchive(Archive):
    """A tar, compressed with gzip or not.

    Headers are read here and not by tarfile, which loads the names and attributes that they announce whatever their
    size, and writes sparse members of any size.
    """

    kind = "tar"
    errors = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError)

    def __init__(self, path: Path, where: str):
        super().__init__(path, where)
        with path.open("rb") as file:
            is_compressed = file.read(2) == GZIP_SIGNATURE
        self._file: IO[bytes] = gzip.GzipFile(path) if is_compressed else path.open("rb")  # type: ignore[assignment]

    def close(self):
        """Closes the file."""
        self._file.close()

    def _all_members(self) -> Iterator[Member]:
        try:
            yield from self._read_headers()
        except self.errors as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(f"The tar {self.where} is damaged or truncated: {_quoted(error)}.") from error

    def _read_headers(self) -> Iterator[Member]:
        position, num_headers = 0, 0
        attributes: dict[str, str] = {}
        while header := self._read(position, BLOCK):
            if not header.strip(b"\0"):
                return
            num_headers += 1
            if num_headers > 2 * MAX_MEMBERS:
                raise SourceError(f"The tar {self.where} has more than {2 * MAX_MEMBERS:,} headers.")
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            size = int(attributes.get("size", info.size))
            name = (attributes.get("path") or info.name).rstrip("/")
            if size < 0:
                raise SourceError(f"The tar {self.where} is damaged: its member {name[:200]} has {size} bytes.")
            position += BLOCK
            if info.type in EXTENDED_HEADERS:
                size = info.size
                attributes |= self._read_attributes(info, position)
            else:
                if not info.isdir():
                    yield Member(name, size, _tar_problem(info, attributes), position)
                attributes = {}
                size = 0 if info.type in tarfile.SUPPORTED_TYPES and not info.isreg() else size
                self._check_size(position + size, name)
            position += -(-size // BLOCK) * BLOCK

    def _read_attributes(self, info: tarfile.TarInfo, position: int) -> dict[str, str]:
        """The long name, or the extended attributes, of the next member."""
        if info.size > MAX_HEADER:
            raise SourceError(
                f"The tar {self.where} is refused: it has a header of {info.size:,} bytes. Expected at most "
                f"{MAX_HEADER:,}."
            )
        content = self._read(position, info.size)
        if info.type == tarfile.GNUTYPE_LONGNAME:
            return {"path": content.rstrip(b"\0").decode("utf-8", "surrogateescape")}
        is_of_member = info.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
        return dict(_pax_records(content)) if is_of_member else {}

    def _read(self, position: int, size: int) -> bytes:
        self._file.seek(position)
        content = self._file.read(size)
        if content and len(content) < size:
            raise EOFError("it ends in the middle of a header")
        return content

    def _content(self, member: Member) -> IO[bytes]:
        self._file.seek(member.handle)
        return _Part(self._file, member.size)  # type: ignore[return-value]


class _Part(io.RawIOBase):
    """The next bytes of a file, as a file of their own."""

    def __init__(self, file: IO[bytes], size: int):
        super().__init__()
        self._file, self._left = file, size

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(content)
        return content


def _pax_records(content: bytes) -> Iterator[tuple[str, str]]:
    """The keys and values of an extended header: records `LENGTH KEY=VALUE` with a newline."""
    position = 0
    while position < len(content) and content[position] != 0:
        begin = content.index(b" ", position) + 1
        end = position + int(content[position : begin - 1])
        if not begin < end <= len(content):
            raise tarfile.ReadError("an extended header with a wrong length")
        key, _, value = content[begin : end - 1].partition(b"=")
        yield key.decode("utf-8", "replace"), value.decode("utf-8", "surrogateescape")
        position = end


def _tar_problem(info: tarfile.TarInfo, attributes: dict[str, str]) -> str | None:
    if info.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse.") for key in attributes):
        return "is a sparse file, which is not unpacked; unpack it first"
    return None if info.isreg() else "is a link or a device, not a file"


def _is_zip(path: Path) -> bool:
    """Whether a file has the directory of a zip at its end, also a damaged one."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # of a zip of several disks
        return True


@contextmanager
def open_archive(path: Path, where: str) -> Iterator[Archive]:
    """Opens a zip or tar; SourceError if a file is neither."""
    with path.open("rb") as file:
        head = file.read(262)
    name = path.name.lower()
    if _is_zip(path) or head[:4] == ZIP_SIGNATURE or name.endswith(".zip"):
        archive: Archive = ZipArchive(path, where)
    elif head[:2] == GZIP_SIGNATURE or head[257:262] == b"ustar" or name.endswith(SUFFIXES):
        archive = TarArchive(path, where)
    else:
        raise SourceError(f"{where} is neither a folder nor a zip or tar.")
    try:
        yield archive
    finally:
        archive.close()


@contextmanager
def temporary_folder(where: str) -> Iterator[Path]:
    """A folder for unpacked files; messages of errors name the archive in its place."""
    with tempfile.TemporaryDirectory(prefix="elmo_hf_") as name:
        with shown_as(Path(name), where):
            yield Path(name)


@contextmanager
def shown_as(folder: Path, where: str) -> Iterator[None]:
    """Replaces the path of a folder in messages of errors."""
    try:
        yield
    except ValueError as error:
        if os.fspath(folder) not in str(error):
            raise
        raise SourceError(str(error).replace(os.fspath(folder), where)) from error
