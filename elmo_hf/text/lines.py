"""Text files as they lie about: plain, .gz or .xz, by name or by pattern, read line by line."""

import glob
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from tqdm import tqdm

OPENERS = {".gz": gzip.open, ".xz": lzma.open}
STANDARD_INPUT = "-"
ERRORS = ("strict", "replace", "ignore")


def read_lines(
    files: str | os.PathLike | Sequence[str | os.PathLike], errors: str = "strict", progress: bool = False
) -> Iterator[str]:
    """The lines of text files that are not blank, one after the other; memory does not grow with the files.

    Args:
        files: paths or patterns as `news/*.txt.gz`; `-` is standard input. What ends in .gz or .xz is unpacked.
        errors: what happens to a line that is not UTF-8: `"strict"` names its file and number, `"replace"` and
            `"ignore"` are those of Python.
        progress: show how much of the files has been read.

    Example:

    ```python
    >>> import gzip, pathlib, tempfile
    >>> from elmo_hf import read_lines
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("One line .\\n\\nAnother .\\n")
    >>> _ = (folder / "b.txt.gz").write_bytes(gzip.compress(b"Packed .\\n"))
    >>> list(read_lines(folder / "*.txt*"))
    ['One line .', 'Another .', 'Packed .']

    ```
    """
    if errors not in ERRORS:
        raise ValueError(f"`errors` is {errors!r}; accepted are {', '.join(map(repr, ERRORS))}.")
    paths = find_files(files)
    # Standard input has no size to measure progress by.
    total = None if STANDARD_INPUT in paths else sum(map(os.path.getsize, paths))
    # disable=None: no bar where nobody is watching
    with tqdm(total=total, unit="B", unit_scale=True, disable=None if progress else True) as bar:
        for path in paths:
            for number, line in enumerate(_lines(path, bar), 1):
                text = _decode(line, errors, path, number).strip()
                if text:
                    yield text


def find_files(files: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    """Paths and patterns -> paths in the order given, those of a pattern sorted; each must exist."""
    given = [files] if isinstance(files, (str, os.PathLike)) else files
    found = []
    for name in map(os.fspath, given):
        # A file whose name has brackets in it is that file.
        matches = [name] if name == STANDARD_INPUT or os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not matches:
            kind = "No file matches the pattern" if glob.has_magic(name) else "There is no file"
            raise ValueError(f"{kind} {name}; accepted are text files, also .gz and .xz.")
        found += [match for match in matches if match == name or not os.path.isdir(match)]
    folders = [path for path in found if path != STANDARD_INPUT and os.path.isdir(path)]
    if folders:
        raise ValueError(f"{folders[0]} is a folder; accepted are files or a pattern, as {folders[0]}/*.")
    return found


def _lines(path: str, bar: tqdm) -> Iterator[bytes]:
    if path == STANDARD_INPUT:
        yield from sys.stdin.buffer
        return
    with open(path, "rb") as raw, _unpacked(path, raw) as file:
        before, seekable = 0, raw.seekable()  # a pipe cannot tell where it is
        try:
            for line in file:
                yield line
                if seekable:
                    bar.update(raw.tell() - before)
                    before = raw.tell()
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            raise ValueError(f"{path} is broken and cannot be unpacked: {error}") from None


def _unpacked(path: str, raw: BinaryIO) -> BinaryIO:
    opener = OPENERS.get(os.path.splitext(path)[1].lower())
    return raw if opener is None else io.BufferedReader(opener(raw))


def _decode(line: bytes, errors: str, path: str, number: int) -> str:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")  # the mark that some editors begin a file with
    try:
        return line.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        where = "standard input" if path == STANDARD_INPUT else path
        raise ValueError(
            f"{where}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x} at {error.start + 1}); accepted is "
            "text in UTF-8, or errors='replace' (--errors replace) to go on."
        ) from None
