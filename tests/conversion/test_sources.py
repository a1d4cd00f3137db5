import errno
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from elmo_hf.conversion import archives, downloads
from elmo_hf.conversion.sources import SourceError, SourceFiles, fetch, open_sources

CONTENT = bytes(range(256)) * 2000


class FileServer(ThreadingHTTPServer):
    """One file at every address, and the misbehaviour that a test asks for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), FileHandler)
        self.content, self.etag, self.last_modified = CONTENT, '"v1"', None
        self.status, self.break_offs, self.break_after = 200, 0, 100_000
        self.ranges = self.if_range = self.length = True
        self.delay = 0.0
        self.log: list[tuple[str, str | None, int]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """A client that goes away in the middle is part of these tests."""


class FileHandler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, span = self.server, re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first, size, status = 0, len(server.content), server.status
        kept_version = self.headers.get("If-Range") in (server.etag, server.last_modified)
        if status == 200 and span and server.ranges and (kept_version or not server.if_range):
            first = int(span[1])
            status = 206 if first < size else 416
        server.log.append((self.command, self.headers.get("Range"), status))
        body = server.content[first:] if status in (200, 206) else b"no"
        self.send_response(status)
        if server.etag:
            self.send_header("ETag", server.etag)
        if server.last_modified:
            self.send_header("Last-Modified", server.last_modified)
        if server.length:
            self.send_header("Content-Length", str(len(body)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
        if status == 416:
            self.send_header("Content-Range", f"bytes */{size}")
        self.end_headers()
        if self.command == "HEAD":
            return
        if server.break_offs and status in (200, 206):
            server.break_offs -= 1
            body = body[: server.break_after]
        time.sleep(server.delay)
        self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def no_waiting_and_no_proxy(monkeypatch):
    monkeypatch.setattr(downloads, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def part_of(cache: Path) -> Path:
    (part,) = cache.glob("*.part")
    return part


def interrupt(server: FileServer, address: str, cache: Path) -> str:
    """Let a download break off for good, after 100,000 bytes; returns what it says."""
    server.break_offs, server.ranges = 1, True
    attempts, downloads.PAUSES = downloads.PAUSES, ()
    with pytest.raises(SourceError) as failure:
        fetch(address, cache)
    downloads.PAUSES = attempts
    server.log.clear()
    return str(failure.value)


def test_a_local_path_is_itself(tmp_path):
    file = tmp_path / "weights.hdf5"
    file.touch()
    assert fetch(file) == fetch(str(file)) == file


def test_a_missing_path_and_an_unknown_scheme_are_named(tmp_path):
    with pytest.raises(SourceError, match="There is no file or folder .*absent.hdf5"):
        fetch(tmp_path / "absent.hdf5")
    with pytest.raises(SourceError, match=r"begins with ftp:\. A source is a local path or an http"):
        fetch("ftp://example.org/weights.hdf5")
    with pytest.raises(SourceError, match="names no server"):
        fetch("http:///weights.hdf5")


def test_a_download_is_kept_under_a_readable_name(server, cache):
    path = fetch(f"{server.url}/models/weights.hdf5?download=1", cache)
    assert path.read_bytes() == CONTENT
    assert path.parent == cache
    assert re.fullmatch(r"weights-[0-9a-f]{12}\.hdf5", path.name)
    assert not list(cache.glob("*.part*"))
    assert fetch(f"{server.url}/models/weights.hdf5?download=2", cache) != path


def test_an_address_given_as_a_path_is_an_address(server, cache):
    assert fetch(Path(f"{server.url}/weights.hdf5"), cache) == fetch(f"{server.url}/weights.hdf5", cache)


def test_the_cache_folder_is_the_one_of_the_environment(server, cache, monkeypatch):
    monkeypatch.setenv("ELMO_HF_CACHE", str(cache))
    assert fetch(f"{server.url}/weights.hdf5").parent == cache


@pytest.mark.parametrize(
    "path",
    [
        "%2e%2e%2f%2e%2e%2fevil.txt",
        "..%5C..%5Cevil.txt",
        "%2Fetc%2Fevil.txt",
        "..",
        "%00",
        "",
        "a b/ü ñ.txt",
        "x" * 400,
    ],
)
def test_no_name_escapes_the_cache_folder(server, cache, path):
    downloaded = fetch(f"{server.url}/{path}", cache)
    assert downloaded.resolve().parent == cache.resolve()
    assert downloaded.read_bytes() == CONTENT
    assert {entry.name for entry in cache.parent.iterdir()} == {"cache"}


def test_what_is_in_the_cache_is_only_checked(server, cache):
    address = f"{server.url}/weights.hdf5"
    path = fetch(address, cache)
    server.log.clear()
    assert fetch(address, cache) == path
    assert server.log == [("HEAD", None, 200)]


@pytest.mark.parametrize(
    "etag, last_modified", [('"v2"', None), (None, "Tue, 02 Jan 2018 00:00:00 GMT"), (None, None)]
)
def test_a_changed_file_is_downloaded_again(server, cache, etag, last_modified):
    address = f"{server.url}/weights.hdf5"
    server.etag, server.last_modified = etag and '"v1"', last_modified and "Mon, 01 Jan 2018 00:00:00 GMT"
    fetch(address, cache)
    server.content, server.etag, server.last_modified = CONTENT[::-1] + b"!", etag, last_modified
    assert fetch(address, cache).read_bytes() == CONTENT[::-1] + b"!"


def test_a_damaged_copy_in_the_cache_is_downloaded_again(server, cache):
    address = f"{server.url}/weights.hdf5"
    fetch(address, cache).write_bytes(CONTENT[:10])
    assert fetch(address, cache).read_bytes() == CONTENT


@pytest.mark.parametrize("etag", ['"v1"', None])
def test_without_the_server_the_cached_copy_is_used_with_a_warning(server, cache, etag):
    server.etag = etag
    address = f"{server.url}/weights.hdf5"
    fetch(address, cache)
    server.status = 404
    with pytest.warns(UserWarning, match="cannot be checked for changes .*404"):
        assert fetch(address, cache).read_bytes() == CONTENT
    server.shutdown()
    server.server_close()
    with pytest.warns(UserWarning, match="cannot be checked for changes .*refused"):
        assert fetch(address, cache).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "validator", [{"etag": '"v1"'}, {"etag": None, "last_modified": "Mon, 01 Jan 2018 00:00:00 GMT"}]
)
def test_a_download_that_breaks_off_is_resumed_at_once(server, cache, validator):
    vars(server).update(validator, break_offs=3)
    assert fetch(f"{server.url}/weights.hdf5", cache).read_bytes() == CONTENT
    assert [span for _, span, _ in server.log] == [None, *(f"bytes={n}00000-" for n in (1, 2, 3))]
    assert [status for _, _, status in server.log] == [200, 206, 206, 206]


def test_a_download_that_keeps_breaking_off_says_how_far_it_came_and_resumes_when_run_again(server, cache):
    address = f"{server.url}/weights.hdf5"
    server.break_offs, server.break_after = 4, 1000
    with pytest.raises(SourceError) as failure:
        fetch(address, cache)
    assert address in str(failure.value)
    assert "4000 of 512000 bytes were received" in str(failure.value)
    assert "running the same again resumes there" in str(failure.value)
    server.log.clear()
    assert fetch(address, cache).read_bytes() == CONTENT
    assert server.log == [("GET", "bytes=4000-", 206)]


def test_without_etag_and_date_a_download_starts_anew_rather_than_mix_versions(server, cache):
    server.etag, server.break_offs = None, 1
    assert fetch(f"{server.url}/weights.hdf5", cache).read_bytes() == CONTENT
    assert [status for _, _, status in server.log] == [200, 200]


def test_a_server_that_ignores_ranges_sends_the_whole_again(server, cache):
    address = f"{server.url}/weights.hdf5"
    interrupt(server, address, cache)
    server.ranges = False
    assert fetch(address, cache).read_bytes() == CONTENT
    assert server.log == [("GET", "bytes=100000-", 200)]


@pytest.mark.parametrize("if_range", [True, False], ids=["heeds If-Range", "overlooks If-Range"])
@pytest.mark.parametrize("size", [len(CONTENT), 50_000], ids=["same size", "shorter"])
def test_a_file_that_changed_in_between_is_started_anew(server, cache, if_range, size):
    address = f"{server.url}/weights.hdf5"
    interrupt(server, address, cache)
    server.content, server.etag, server.if_range = CONTENT[::-1][:size], '"v2"', if_range
    assert fetch(address, cache).read_bytes() == CONTENT[::-1][:size]


def test_a_part_that_is_complete_already_is_taken(server, cache):
    address = f"{server.url}/weights.hdf5"
    interrupt(server, address, cache)
    part_of(cache).write_bytes(CONTENT)
    assert fetch(address, cache).read_bytes() == CONTENT
    assert server.log == [("GET", "bytes=512000-", 416)]


def test_a_part_that_is_too_long_or_of_unknown_origin_is_not_taken(server, cache):
    address = f"{server.url}/weights.hdf5"
    interrupt(server, address, cache)
    part_of(cache).write_bytes(CONTENT + b"too long")
    assert fetch(address, cache).read_bytes() == CONTENT
    fetch(address, cache).unlink()
    interrupt(server, address, cache)
    part_of(cache).with_name(part_of(cache).name + ".json").write_text("{")
    assert fetch(address, cache).read_bytes() == CONTENT


def test_a_new_version_that_breaks_off_does_not_vouch_for_the_old_copy(server, cache):
    address = f"{server.url}/weights.hdf5"
    fetch(address, cache)
    server.content, server.etag = CONTENT[::-1], '"v2"'
    interrupt(server, address, cache)
    assert fetch(address, cache).read_bytes() == CONTENT[::-1]


def test_a_file_of_undeclared_length_is_downloaded(server, cache):
    server.length = False
    assert fetch(f"{server.url}/weights.hdf5", cache).read_bytes() == CONTENT


def test_an_empty_file_is_downloaded(server, cache):
    server.content = b""
    assert fetch(f"{server.url}/vocab.txt", cache).read_bytes() == b""


def test_a_refusal_is_reported_at_once_and_a_passing_trouble_after_some_attempts(server, cache):
    address = f"{server.url}/weights.hdf5"
    server.status = 404
    with pytest.raises(SourceError, match=f"{address} cannot be downloaded: the server answered 404 Not Found"):
        fetch(address, cache)
    assert len(server.log) == 1
    server.status = 503
    with pytest.raises(SourceError, match=f"{address} could not be downloaded: the server answered 503"):
        fetch(address, cache)
    assert len(server.log) == 5


def test_a_server_that_is_not_there_is_named(server, cache):
    server.server_close()
    with pytest.raises(SourceError, match=f"{server.url}/weights.hdf5 could not be downloaded: ConnectionRefused"):
        fetch(f"{server.url}/weights.hdf5", cache)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_ctrl_c_and_a_full_disk_leave_a_part_to_resume(server, cache, monkeypatch, stop):
    address = f"{server.url}/weights.hdf5"

    class StoppingBar(downloads.tqdm):
        def update(self, n=1):
            raise stop

    with monkeypatch.context() as patched:
        patched.setattr(downloads, "tqdm", StoppingBar)
        with pytest.raises((KeyboardInterrupt, SourceError)) as stopped:
            fetch(address, cache)
    if isinstance(stop, OSError):
        assert re.search("No space left on device.* bytes were received .*resumes", str(stopped.value))
    assert len(server.log) == 1
    assert 0 < part_of(cache).stat().st_size < len(CONTENT)
    assert fetch(address, cache).read_bytes() == CONTENT
    assert server.log[-1][2] == 206


@pytest.mark.slow
def test_runs_at_the_same_time_download_once(server, cache):
    server.delay = 0.2
    script = "import sys; from elmo_hf.conversion.downloads import fetch; print(fetch(*sys.argv[1:]))"
    command = [sys.executable, "-c", script, f"{server.url}/weights.hdf5", str(cache)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    results = [(run.communicate(timeout=300), run.returncode) for run in runs]
    assert all(code == 0 for _, code in results), results
    (path,) = {out.strip() for (out, _), _ in results}
    assert Path(path).read_bytes() == CONTENT
    assert [method for method, _, _ in server.log].count("GET") == 1
    # Not a terminal: no progress bar.
    assert {err for (_, err), _ in results} == {""}


def zip_of(path: Path, *names: str, content: bytes = b"x") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, content)
    return path


def folder_of(path: Path, *names: str) -> Path:
    path.mkdir()
    for name in names:
        (path / name).write_bytes(b"x")
    return path


def names(files: SourceFiles) -> tuple[str, ...]:
    return tuple(file.name for file in (files.options, files.weights, files.vocabulary) if file)


CHOICES = [
    (["options.json", "weights.hdf5"], ("options.json", "weights.hdf5")),
    (
        ["README", "meta.json", "options.json", "model.hdf5", "vocab.txt"],
        ("options.json", "model.hdf5", "vocab.txt"),
    ),
    (
        ["elmo_2x4096_options.json", "elmo_2x4096_weights.hdf5", "vocab-2016-09-10.txt"],
        ("elmo_2x4096_options.json", "elmo_2x4096_weights.hdf5", "vocab-2016-09-10.txt"),
    ),
    (
        ["options.json", "old_options.json", "weights.hdf5", "softmax_weights.hdf5", "other.hdf5"],
        ("options.json", "weights.hdf5"),
    ),
    (
        ["options.json", "my_weights.hdf5", "cache.hdf5", "vocab_embedding.hdf5", "vocabulary.txt", "vocab2.txt"],
        ("options.json", "my_weights.hdf5", "vocabulary.txt"),
    ),
    (["Options.json", "MODEL.H5", "._options.json"], ("Options.json", "MODEL.H5")),
]


@pytest.mark.parametrize("present, chosen", CHOICES)
def test_the_files_of_a_model_are_found_in_a_folder_and_in_a_zip(tmp_path, present, chosen):
    with open_sources(folder_of(tmp_path / "folder", *present)) as files:
        assert names(files) == chosen
        assert files.options.parent == tmp_path / "folder"
    for depth in ("", "217/", "a/b/c/"):
        archive = zip_of(
            tmp_path / "model.zip", "LICENCE", *(depth + name for name in present), f"__MACOSX/{depth}._x.h5"
        )
        with open_sources(str(archive)) as files:
            assert names(files) == chosen
            assert files.weights.read_bytes() == b"x"
        assert not files.options.parent.exists()


REFUSALS = [
    ([], "does not hold the options file, but nothing. Expected an"),
    (["weights.hdf5", "meta.json"], "does not hold the options file, but meta.json, weights.hdf5. Expected an"),
    (["options.json", "softmax.hdf5"], "does not hold the weights, but options.json, softmax.hdf5. Expected an"),
    (["a_options.json", "b_options.json", "w.h5"], "holds 2 files that may be the options file: a_options.json, b_"),
    (["options.json", "a.hdf5", "b.h5"], "holds 2 files that may be the weights: a.hdf5, b.h5. Expected an"),
    (["options.json", "a.h5", "vocab-a.txt", "vocab-b.txt"], "may be the vocabulary: vocab-a.txt, vocab-b.txt"),
]


@pytest.mark.parametrize("present, message", REFUSALS)
def test_what_is_missing_or_ambiguous_in_a_folder_is_listed(tmp_path, present, message):
    with pytest.raises(SourceError, match=re.escape(message)), open_sources(folder_of(tmp_path / "folder", *present)):
        pass


@pytest.mark.parametrize(
    "present, message",
    [
        ([], "holds a model; found nothing. Expected an"),
        (
            ["a/options.json", "b/weights.hdf5"],
            "holds a model; found a/options.json, b/weights.hdf5. Expected an",
        ),
        (["options.json", "a.h5", "b.h5"], "holds 2 files that may be the weights: a.h5, b.h5"),
        ([f"{x}/{name}" for x in "ab" for name in ("options.json", "w.h5")], "holds models in 2 folders: a, b."),
        ([f"{n}.txt" for n in range(100, 190)], "118.txt, 119.txt and 70 more"),
    ],
)
def test_what_is_missing_or_ambiguous_in_a_zip_is_listed(tmp_path, present, message):
    with (
        pytest.raises(SourceError, match=re.escape(message)),
        open_sources(zip_of(tmp_path / "model.zip", *present)),
    ):
        pass


def test_two_files_are_taken_as_they_are(tmp_path, server, cache):
    folder = folder_of(tmp_path / "folder", "any.json", "any.bin", "vocab.txt")
    with open_sources(folder / "any.json", str(folder / "any.bin")) as files:
        assert files == SourceFiles(folder / "any.json", folder / "any.bin", None)
    with open_sources(folder / "any.json", f"{server.url}/w.hdf5", cache_dir=cache) as files:
        assert files.weights.read_bytes() == CONTENT


def test_two_files_in_the_wrong_order_and_folders_among_them_are_refused(tmp_path):
    folder = folder_of(tmp_path / "folder", "options.json")
    (folder / "weights.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n...")
    with pytest.raises(SourceError, match="weights.hdf5 is an HDF5 file where the options belong"):
        with open_sources(folder / "weights.hdf5", folder / "options.json"):
            pass
    with pytest.raises(SourceError, match="folder is not a file, and two sources were given"):
        with open_sources(folder / "options.json", folder):
            pass


@pytest.mark.parametrize("count", [0, 3])
def test_another_number_of_sources_is_refused(tmp_path, count):
    with pytest.raises(SourceError, match=f"{count} sources were given. Sources are either two files"):
        with open_sources(*[tmp_path] * count):
            pass


def test_a_zip_at_an_address(tmp_path, server, cache):
    content = zip_of(tmp_path / "model.zip", "217/options.json", "217/model.hdf5", "217/vocab.txt").read_bytes()
    server.content, server.break_offs, server.break_after = content, 1, 100
    with open_sources(f"{server.url}/217", cache_dir=cache) as files:
        assert names(files) == ("options.json", "model.hdf5", "vocab.txt")
    server.content, server.etag = b"<html>Moved</html>", '"v2"'
    with pytest.raises(SourceError, match=f"{server.url}/217 is neither a folder nor a zip or tar"):
        with open_sources(f"{server.url}/217", cache_dir=cache):
            pass


def test_only_the_files_needed_are_unpacked_and_removed_also_after_an_error(tmp_path):
    archive = zip_of(tmp_path / "model.zip", "options.json", "model.hdf5", "softmax.hdf5", "README")
    with pytest.raises(RuntimeError, match="from the block"), open_sources(archive) as files:
        assert sorted(os.listdir(files.options.parent)) == ["model.hdf5", "options.json"]
        raise RuntimeError("from the block")
    assert not files.options.parent.exists()


@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "a/../../evil", "C:/evil", "c:evil", "..\\evil", "a\\b"])
def test_a_zip_with_a_member_that_leads_outside_is_refused(tmp_path, name):
    archive = zip_of(tmp_path / "model.zip", "options.json", "weights.hdf5", name)
    message = f"model.zip is refused: its member {name} would be written outside"
    with pytest.raises(SourceError, match=re.escape(message)), open_sources(archive):
        pass


def test_a_symbolic_link_in_a_zip_is_refused(tmp_path):
    archive = zip_of(tmp_path / "model.zip", "options.json")
    link = zipfile.ZipInfo("weights.hdf5")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr(link, "/etc/passwd")
    with pytest.raises(SourceError, match="member weights.hdf5 of the zip .*model.zip is a symbolic link"):
        with open_sources(archive):
            pass


def test_an_encrypted_zip_is_refused(tmp_path):
    archive = zip_of(tmp_path / "model.zip", "options.json", "weights.hdf5")
    content = bytearray(archive.read_bytes())
    for entry in re.finditer(b"PK\x01\x02", bytes(content)):
        content[entry.start() + 8] |= 1
    archive.write_bytes(content)
    with pytest.raises(SourceError, match="member options.json of the zip .*model.zip is encrypted"):
        with open_sources(archive):
            pass


def test_a_zip_that_does_not_fit_on_the_disk_is_refused(tmp_path, monkeypatch):
    archive = zip_of(tmp_path / "model.zip", "options.json", "weights.hdf5", content=bytes(1000))
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1999}))
    with pytest.raises(SourceError, match="unpacks to 2000 bytes, .* member .*, but .* has room for 1999"):
        with open_sources(archive):
            pass


def test_truncated_damaged_and_other_files_are_told_apart(tmp_path):
    archive = zip_of(tmp_path / "model.zip", "options.json", "weights.hdf5", content=CONTENT)
    whole = archive.read_bytes()
    for name, content, message in [
        ("truncated.zip", whole[:100_000], r"truncated.zip \(100000 bytes\) is not a zip, or a truncated one"),
        ("no_suffix", whole[:100_000], r"no_suffix \(100000 bytes\) is not a zip, or a truncated one"),
        ("empty.zip", b"", r"empty.zip \(0 bytes\) is not a zip"),
        (
            "damaged.zip",
            whole[:1000] + b"!" + whole[1001:],
            "member options.json of the zip .* cannot be unpacked: .*CRC",
        ),
        (
            "weights.hdf5",
            b"\x89HDF",
            "weights.hdf5 is neither a folder nor a zip or tar. Sources are either two files",
        ),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SourceError, match=message), open_sources(tmp_path / name):
            pass


def test_the_note_beside_a_download_names_its_address(server, cache):
    fetch(f"{server.url}/weights.hdf5", cache)
    (note,) = cache.glob("*.json")
    assert json.loads(note.read_text()) == {
        "address": f"{server.url}/weights.hdf5",
        "etag": '"v1"',
        "last_modified": None,
        "size": len(CONTENT),
    }
