"""Lines out of files of every kind, and sentences about files that cannot be read."""

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import sys
import threading

import pytest

from elmo_hf import read_lines
from elmo_hf.text import files

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffÉin Satz .\r\n\n \t\nTwo\u2028lines? No .\n".encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"packed\n"))
    (tmp_path / "c.txt.XZ").write_bytes(lzma.compress(b"tighter, without a last line end"))
    (tmp_path / "d.bz2").write_bytes(bz2.compress(b"small\n") + bz2.compress(b"in two parts\n"))
    (tmp_path / "e.zst").write_bytes(zstd.compress(b"newer\n") + zstd.compress(b"in two parts too\n"))
    (tmp_path / "empty.txt").touch()
    return tmp_path


A = ["Éin Satz .", "Two\u2028lines? No ."]


def test_files_of_every_kind(folder):
    assert list(read_lines(folder / "a.txt")) == A
    everything = [*A, "packed", "tighter, without a last line end"]
    everything += ["small", "in two parts", "newer", "in two parts too"]
    assert list(read_lines(str(folder / "*"))) == everything
    assert list(read_lines([folder / "c.txt.XZ", folder / "[ab].txt*"])) == [everything[3], *everything[:3]]
    assert list(read_lines(folder / "empty.txt")) == []


def test_a_name_with_brackets_is_a_name_where_it_exists(folder):
    (folder / "[a].txt").write_text("brackets")
    assert list(read_lines(folder / "[a].txt")) == ["brackets"]


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\xff two\n")))
    with pytest.raises(ValueError, match="standard input, line 2: not UTF-8"):
        list(read_lines("-"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("through\na pipe\n"))
    writer.start()
    assert list(read_lines(tmp_path / "pipe")) == ["through", "a pipe"]
    writer.join()


def test_text_that_is_not_utf8(folder):
    (folder / "bad.txt.gz").write_bytes(gzip.compress(b"good\n\nab\xe9c\ngood\n"))
    with pytest.raises(ValueError, match=r"bad.txt.gz, line 3: not UTF-8 \(byte 0xe9 at 3\)\. Expected UTF-8"):
        list(read_lines(folder / "bad.txt.gz"))
    assert list(read_lines(folder / "bad.txt.gz", errors="replace")) == ["good", "ab\ufffdc", "good"]
    assert list(read_lines(folder / "bad.txt.gz", errors="ignore")) == ["good", "abc", "good"]
    with pytest.raises(ValueError, match="Invalid `errors`: 'no'. Expected 'strict', 'replace' or 'ignore'"):
        list(read_lines(folder / "a.txt", errors="no"))


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (
            "Das Haus ist groß.".encode("utf-16"),
            "It is UTF-16. Expected UTF-8, as `iconv -f UTF-16 -t UTF-8` writes it.",
        ),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "It looks like a binary file. Expected text in UTF-8."),
        (
            "groß".encode("latin-1"),
            "Expected UTF-8. errors='replace' (--errors replace, where a command has it) reads it",
        ),
    ],
)
def test_what_a_file_may_be_that_is_not_utf8(content, advice, folder):
    (folder / "bad").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad, line 1: not UTF-8 \(byte 0x.. at \d\)\. " + re.escape(advice)):
        list(read_lines(folder / "bad"))


def test_a_sentence_in_place_of_a_file(folder):
    with pytest.raises(
        ValueError, match=r"There is no file 'The cat sat\.'\. .* A sentence itself is read from standard input"
    ):
        list(read_lines("The cat sat."))
    with pytest.raises(ValueError, match="There is no file ''. Expected text files"):
        list(read_lines(""))


@pytest.mark.parametrize("name", ["b.txt.gz", "c.txt.XZ", "d.bz2", "e.zst"])
@pytest.mark.parametrize("damage", [lambda data: data[:-8], lambda data: b"not packed at all", lambda data: data[:9]])
def test_broken_packages(folder, name, damage):
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    with pytest.raises(ValueError, match=f"{name} is broken and cannot be unpacked"):
        list(read_lines(folder / name))


def test_files_that_are_not_there(folder):
    with pytest.raises(ValueError, match="There is no file .*nothing.txt"):
        list(read_lines([folder / "a.txt", folder / "nothing.txt"]))
    with pytest.raises(ValueError, match=r"No file matches the pattern .*\*.csv"):
        list(read_lines(folder / "*.csv"))
    with pytest.raises(ValueError, match="is a folder. Expected files or a pattern"):
        list(read_lines(folder))


def test_files_are_read_as_they_are_needed(folder):
    """The second file is broken, which nobody learns before it is its turn."""
    (folder / "z.gz").write_bytes(b"broken")
    lines = read_lines([folder / "a.txt", folder / "z.gz"])
    assert [next(lines), next(lines)] == A
    with pytest.raises(ValueError, match="z.gz is broken"):
        next(lines)


def test_zstandard_that_is_not_installed_is_named(folder, monkeypatch):
    for module in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match="e.zst is packed by Zstandard, which this .* pip install backports.zstd"):
        list(read_lines(folder / "e.zst"))


def test_a_file_that_may_not_be_read(folder, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(files, "open", refuse, raising=False)  # the superuser may read everything
    with pytest.raises(PermissionError, match=r"^.*a.txt cannot be read: Permission denied\.$"):
        list(read_lines(folder / "a.txt"))


def test_a_line_without_end_does_not_fill_the_memory(folder, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    (folder / "bomb.gz").write_bytes(gzip.compress(b"short\n" + b"x" * 2000))
    lines = read_lines(folder / "bomb.gz")
    assert next(lines) == "short"
    with pytest.raises(ValueError, match="bomb.gz, line 2 is longer than 1,000 bytes. Expected text with"):
        next(lines)
