"""Text files by name or pattern: decompressed, decoded, with errors that name the file."""

import bz2
import codecs
import glob
import gzip
import importlib
import io
import json
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from tqdm import tqdm

STANDARD_INPUT = "-"
ERRORS = ("strict", "replace", "ignore")
# Longer than any sentence; without a limit, a file without line ends would be read into memory.
LONGEST_LINE = 2**26


def _open_zstandard(raw: BinaryIO) -> Any:
    # That of Python 3.14, and its backport. Other packages do not notice a truncated file.
    for module in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(module).ZstdFile(raw)
        except ImportError:
            continue
    raise ValueError(
        f"{raw.name} is packed by Zstandard, which this Python cannot unpack; pip install backports.zstd helps."
    )


OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".lzma": lzma.open,
    ".bz2": bz2.open,
    ".zst": _open_zstandard,
}
# To tell a binary file from text in another encoding.
BYTES_LOOKED_AT = 1024
PACKED = ".gz, .xz, .bz2 and .zst"
# How help texts say what a list of files may be.
TEXT_FILES = f"Text, a sentence a line; names or patterns, also {PACKED}."


def find_files(files: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    """Expands paths and patterns to paths, those of a pattern sorted; each must exist."""
    names = [files] if isinstance(files, (str, os.PathLike)) else files
    paths = []
    for name in [os.fspath(name) for name in names]:
        # An existing file is not a pattern, even if its name has brackets.
        matches = [name] if name == STANDARD_INPUT or os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not matches:
            kind = "No file matches the pattern" if glob.has_magic(name) else "There is no file"
            is_text = " " in name or not name
            shown, text = (repr(name), " A sentence itself is read from standard input, -.") if is_text else (name, "")
            raise ValueError(f"{kind} {shown}. Expected text files, also {PACKED}.{text}")
        paths += [match for match in matches if match == name or not os.path.isdir(match)]
    folders = [path for path in paths if path != STANDARD_INPUT and os.path.isdir(path)]
    if folders:
        raise ValueError(f"{folders[0]} is a folder. Expected files or a pattern, e.g. {folders[0]}/*.")
    return paths


@contextmanager
def opened(path: str | os.PathLike) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Opens a file for reading bytes, decompressed by its suffix; also yields the raw file.

    Errors while it is open, e.g. missing rights or a damaged archive, name the file.

    Example:

    ```python
    >>> import bz2, pathlib, tempfile
    >>> from elmo_hf.text.files import opened
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.txt.bz2")
    >>> _ = path.write_bytes(bz2.compress(b"Packed ."))
    >>> with opened(path) as (unpacked, _):
    ...     unpacked.read()
    b'Packed .'

    ```
    """
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    opener = OPENERS.get(os.path.splitext(path)[1].lower())
    try:
        with open(path, "rb") as raw:
            if opener is None:
                yield raw, raw
                return
            with io.BufferedReader(opener(raw)) as file:
                yield file, raw
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise type(error)(f"{path} cannot be read: {error.strerror}.") from None
        if isinstance(error, (EOFError, OSError, lzma.LZMAError, zlib.error)) or type(error).__name__ == "ZstdError":
            raise ValueError(f"{path} is broken and cannot be unpacked: {error}") from None
        raise


def numbered_lines(
    path: str | os.PathLike, errors: str = "strict", progress: tqdm | None = None
) -> Iterator[tuple[int, str]]:
    """The lines of a file from 1, without their ends; they end at a newline only."""
    if errors not in ERRORS:
        raise ValueError(f"Invalid `errors`: {errors!r}. Expected 'strict', 'replace' or 'ignore'.")
    with opened(path) as (file, raw):
        before = 0
        if progress is not None and not raw.seekable():  # a pipe cannot tell where it is
            progress = None
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
            if len(line) > LONGEST_LINE:
                raise ValueError(
                    f"{_shown(path)}, line {number} is longer than {LONGEST_LINE:,} bytes. Expected text with line "
                    "ends."
                )
            try:
                text = _decode(line, errors, number)
            except UnicodeDecodeError as error:
                peek = getattr(file, "peek", lambda size: b"")
                raise _not_utf8(path, number, error, line + peek(BYTES_LOOKED_AT)) from None
            yield number, text.rstrip("\r\n")
            if progress is not None:
                progress.update(raw.tell() - before)
                before = raw.tell()


def json_lines(path: str | os.PathLike, fields: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered records of a file with a JSON object a line; each must have the fields."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: invalid JSON ({error}). Expected an object per line.") from None
        missing = [name for name in fields if not isinstance(record, dict) or name not in record]
        if missing:
            raise ValueError(f"{path}, line {number}: {missing[0]!r} is missing. Expected {', '.join(fields)}.")
        yield number, record


def plural(number: int, noun: str) -> str:
    """`3 words`, but `1 word`; `3,000 words`."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def excerpt(text: str, longest: int = 200) -> str:
    """Shortens a text for a message.

    >>> excerpt("a" * 300, longest=5)
    'aaaaa ...'
    """
    return text if len(text) <= longest else f"{text[:longest]} ..."


def _decode(line: bytes, errors: str, number: int) -> str:
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
    return line.decode("utf-8", errors)


def _not_utf8(path: str | os.PathLike, number: int, error: UnicodeDecodeError, content: bytes) -> ValueError:
    """What to do about a line; `content` begins with it."""
    if number == 1 and content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        advice = "It is UTF-16. Expected UTF-8, as `iconv -f UTF-16 -t UTF-8` writes it."
    elif b"\0" in content:
        advice = "It looks like a binary file. Expected text in UTF-8."
    else:
        advice = "Expected UTF-8. errors='replace' (--errors replace, where a command has it) reads it anyway."
    place = f"byte 0x{error.object[error.start]:02x} at {error.start + 1}"
    return ValueError(f"{_shown(path)}, line {number}: not UTF-8 ({place}). {advice}")


def _shown(path: str | os.PathLike) -> str:
    return "standard input" if path == STANDARD_INPUT else os.fspath(path)
