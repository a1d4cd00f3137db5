"""Hostile sources: no secrets are stored, no memory is wasted, nothing loops forever or is left behind."""

import json
import os
import signal
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import h5py
import numpy as np
import pytest
from fork_server import run_forked
from golden_files import GOLDEN

from elmo_hf.conversion import convert, downloads, export, fetch
from elmo_hf.conversion.downloads import shown
from elmo_hf.conversion.hdf5 import open_weights
from elmo_hf.conversion.options import read_options
from elmo_hf.conversion.sources import SourceError, open_sources

PLAIN = GOLDEN["plain"]


# Secrets


class Secretive(BaseHTTPRequestHandler):
    """Serves the plain checkpoint to those who know the password and the token."""

    def do_GET(self):
        allowed = self.headers.get("Authorization") == "Basic dXNlcjpvcGVuLXNlc2FtZQ==" and "token=hush" in self.path
        content = (PLAIN.options if "options" in self.path else PLAIN.weights).read_bytes() if allowed else b""
        self.send_response(200 if allowed else 403)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *arguments):
        pass


@pytest.fixture
def served(monkeypatch, tmp_path):
    """A function that serves with a handler and gives the address."""
    monkeypatch.setenv("ELMO_HF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloads, "PAUSES", (0.0,))
    servers = []

    def serve(handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.handle_error = lambda *arguments: None  # clients that go away are part of this
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_address[1]}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_passwords_and_tokens_of_addresses_are_used_and_never_kept(served, tmp_path):
    address = f"http://user:open-sesame@{served(Secretive)}"
    files = [f"{address}/{name}?token=hush" for name in ("options.json", "weights.hdf5")]
    said = []
    convert(*files, output_dir=tmp_path / "model", say=said.append)
    with pytest.raises(SourceError, match="cannot be downloaded: the server answered 403") as refused:
        convert(f"{address}/options.json?t0ken=x", files[1], output_dir=tmp_path / "other")
    everything = [str(refused.value), *said]
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            if not name.endswith((".hdf5", ".safetensors", ".py")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    everything.append(f"{name} {file.read()}")
    for secret in ("hush", "sesame", "t0ken"):
        assert not [text for text in everything if secret in text]
    assert "`options.json`" in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.parametrize(
    "source, seen",
    [
        ("https://u:p@host:8080/a/b.json?x=1#y", "https://host:8080/a/b.json"),
        ("http://host?token=1", "http://host"),
        ("http:/u:p@host/x?y", "http://host/x"),
        ("ftp://u:p@host/x", "ftp://host/x"),
        ("/home/me/a?b.json", "/home/me/a?b.json"),
    ],
)
def test_what_is_shown_of_a_source(source, seen):
    assert shown(source) == seen


@pytest.mark.parametrize("sign", "/?#[")
def test_passwords_that_break_an_address_are_not_shown(sign):
    for address in (f"https://user:sec{sign}ret@host/x", f"https://user:sec{sign}ret"):
        with pytest.raises(SourceError) as refused:
            fetch(address)
        assert "sec" not in str(refused.value) and "https://" in str(refused.value)


@pytest.mark.parametrize("address", ["ftp://u:secret@host/x", "http://u:secret@/x", "http://u:secret@host:port/x"])
def test_messages_about_bad_addresses_show_no_password(address):
    with pytest.raises(SourceError) as refused:
        fetch(address)
    assert "secret" not in str(refused.value)


def test_card_facts_are_one_line_and_the_repositorys_name_is_looked_at_first(tmp_path):
    for name, value in (("license", "mit\n# Buy this"), ("language", "\n"), ("license", "x" * 300)):
        with pytest.raises(ValueError, match=f"Invalid `{name}`: .* Expected one line"):
            convert(PLAIN.options, PLAIN.weights, output_dir=tmp_path / "model", **{name: value})
    with pytest.raises(ValueError, match="epo"):
        convert(PLAIN.options, PLAIN.weights, output_dir=tmp_path / "model", push_to="a/b/c d")
    assert not list(tmp_path.iterdir())


# HDF5


def hdf5(path, write):
    with h5py.File(path, "w") as file:
        write(file)
    return path


def test_groups_that_share_members_or_contain_themselves_are_walked_once(tmp_path):
    def lattice(file):
        groups = [file.create_group("0")]
        for level in range(30):
            inner = groups[-1].create_group("a")
            groups[-1]["b"] = inner  # the same group by another name: 2^30 ways to the bottom
            groups.append(inner)
            inner.attrs["level"] = level
        groups[-1]["values"] = np.ones(3, "f")
        groups[-1]["self"] = file["0"]

    start = time.perf_counter()
    with open_weights(hdf5(tmp_path / "x.h5", lattice)) as weights:
        (name,) = weights.names()
        assert name.endswith("/values") and weights.read(name).tolist() == [1, 1, 1]
    assert time.perf_counter() - start < 10


def test_groups_without_end(tmp_path):
    def deep(file):
        group = file
        for _ in range(300):
            group = group.create_group("a")
        group["x"] = np.ones(2, "f")

    with pytest.raises(ValueError, match="more than 64 groups deep"), open_weights(hdf5(tmp_path / "x.h5", deep)):
        pass


@pytest.mark.parametrize(
    "write",
    [
        lambda file: file.create_dataset("x", (1 << 40,), "f4"),
        lambda file: file.create_dataset("x", (1 << 33,), "f4", chunks=(1 << 20,), compression="gzip"),
    ],
)
def test_values_that_the_file_does_not_have_ask_for_no_memory(tmp_path, write):
    with open_weights(hdf5(tmp_path / "x.h5", write)) as weights:
        with pytest.raises(ValueError, match=r"x has the shape .* bytes, of which the file of [\d,]+ bytes stores 0"):
            weights.read("x")


@pytest.mark.parametrize("value", [np.float32(1), h5py.Empty("f4"), np.ones(3, "f")])
def test_a_softmax_that_is_no_table(tmp_path, value):
    path = hdf5(tmp_path / "softmax.h5", lambda file: file.create_dataset("softmax/W", data=value))
    with pytest.raises(ValueError, match=r"softmax/W has the shape .*. Expected \(words, projection_size\)"):
        convert(PLAIN.options, PLAIN.weights, output_dir=tmp_path / "model", softmax=path)


def test_random_damage_is_always_one_sentence_with_the_file(tmp_path):
    content, random = PLAIN.weights.read_bytes(), np.random.default_rng(0)
    for number in range(120):
        broken = bytearray(content)
        for place in random.integers(0, len(content) if number % 2 else 4000, 8):
            broken[place] = random.integers(256)
        path = tmp_path / "weights.hdf5"
        path.write_bytes(broken)
        try:
            with open_weights(path) as weights:
                for name in weights.names():
                    weights.shape(name), weights.dtype(name), weights.read(name)
        except ValueError as error:
            assert str(path) in str(error)


def test_clips_that_float32_does_not_have_and_descriptions_without_end(tmp_path):
    options = json.loads(PLAIN.options.read_text())
    options["lstm"]["cell_clip"] = 1e308
    (tmp_path / "options.json").write_text(json.dumps(options))
    with pytest.raises(ValueError, match="Invalid `lstm.cell_clip`: 1e.308. Expected a number from 1e-06 to 1e.06"):
        convert(tmp_path / "options.json", PLAIN.weights, output_dir=tmp_path / "model")
    with open(tmp_path / "options.json", "wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(
        ValueError, match="has 2,147,483,648 bytes. Expected the options.json of the weights, of at most"
    ):
        read_options(tmp_path / "options.json")


def test_a_word_vocabulary_without_unk(tmp_path):
    word = GOLDEN["word-input"]
    lines = ["other" if line == "<UNK>" else line for line in word.vocabulary.read_text().splitlines()]
    (tmp_path / "vocab.txt").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="vocab.txt has 65 words, but not <UNK>. Expected all three"):
        convert(word.options, word.weights, output_dir=tmp_path / "model", vocabulary=tmp_path / "vocab.txt")


# Archives


def test_damaged_lzma_and_unknown_versions_of_zip(tmp_path):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("options.json", b"{}" * 500)
        archive.writestr("weights.hdf5", os.urandom(2000))
    content = path.read_bytes()
    (tmp_path / "damaged.zip").write_bytes(content[:52] + bytes([content[52] ^ 0xFF]) + content[53:])
    with pytest.raises(SourceError, match="member options.json of the zip .* cannot be unpacked"):
        with open_sources(tmp_path / "damaged.zip"):
            pass
    at = content.rindex(b"PK\x01\x02") + 6
    (tmp_path / "future.zip").write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    with pytest.raises(SourceError, match="future.zip .* is not a zip, or a truncated one: zip file version"):
        with open_sources(tmp_path / "future.zip"):
            pass


def test_an_options_file_of_zeros_without_end_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("options.json", bytes(40 << 20))
        archive.writestr("weights.hdf5", b"x")
    with pytest.raises(SourceError, match="member options.json .* has 41,943,040 bytes. Expected at most"):
        with open_sources(tmp_path / "bomb.zip"):
            pass


# Downloads


def test_a_response_without_end_and_one_that_only_drips(served, monkeypatch, tmp_path):
    class Endless(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(bytes(1 << 16) if "fast" in self.path else b"ab")
                if "fast" not in self.path:
                    time.sleep(0.02)

        def log_message(self, *arguments):
            pass

    server = served(Endless)
    monkeypatch.setattr(downloads, "MAX_SIZE", 1 << 20)
    monkeypatch.setattr(downloads, "RATE_SPAN", 0.3)
    with pytest.raises(SourceError, match="/fast is refused: more than [0-9,]+ bytes came, and no end"):
        fetch(f"http://{server}/fast")
    start = time.perf_counter()
    with pytest.raises(SourceError, match="less than 1,000 bytes a second came for 0.3 seconds"):
        fetch(f"http://{server}/slow")
    assert time.perf_counter() - start < 20
    monkeypatch.setattr(downloads, "MIN_RATE", 0)
    monkeypatch.setattr(downloads, "TOTAL_TIME", 0.5)
    with pytest.raises(SourceError, match="it took more than"):
        fetch(f"http://{server}/slow")


@pytest.mark.parametrize("drop", [b"X-More: 1\r\n", b"a", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_headers_that_only_drip(served, monkeypatch, tmp_path, drop):
    class Dripping(BaseHTTPRequestHandler):
        def handle(self):
            self.rfile.readline()
            self.wfile.write(drop if drop.startswith(b"HTTP") else b"HTTP/1.1 200 OK\r\n")
            for _ in range(500):
                self.wfile.write(drop)
                time.sleep(0.02)

    monkeypatch.setattr(downloads, "HEADERS_TIME", 0.3)
    start = time.perf_counter()
    with pytest.raises(SourceError, match="no answer with all of its headers came within 0.3 seconds"):
        fetch(f"http://{served(Dripping)}/options.json")
    assert time.perf_counter() - start < 8
    assert os.listdir(tmp_path / "cache") == []


def test_a_download_that_failed_leaves_no_lock_and_can_be_waited_for(served, tmp_path, monkeypatch):
    class Late(BaseHTTPRequestHandler):
        asked = 0

        def do_GET(self):
            type(self).asked += 1
            if self.asked == 1:
                time.sleep(0.3)  # meanwhile the others wait at its lock
            self.send_response(404 if self.asked == 1 else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_HEAD = do_GET

        def log_message(self, *arguments):
            pass

    address, contents = f"http://{served(Late)}/options.json", []

    def ask():
        try:
            contents.append(fetch(address).read_bytes())
        except SourceError as error:
            contents.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, contents))[:2] == [str(b"{}")] * 2 and "answered 404" in sorted(map(str, contents))[2]
    fails = f"http://{served(Late)}/nothing.json"
    Late.asked = 0
    with pytest.raises(SourceError, match="answered 404"):
        fetch(fails)
    assert not [name for name in os.listdir(tmp_path / "cache") if "nothing" in name]


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/x", "file:///etc/passwd"])
def test_redirects_lead_to_http_only(served, target):
    class Redirects(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", target)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with pytest.raises(SourceError, match="is refused: it redirects to|could not|cannot be downloaded"):
        fetch(f"http://{served(Redirects)}/x")


@pytest.mark.parametrize("headers", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\nab", b""])
def test_odd_answers_are_explained_with_the_address(served, headers):
    class Odd(BaseHTTPRequestHandler):
        def handle(self):
            self.rfile.readline()
            self.wfile.write(headers)

    address = f"http://{served(Odd)}/weights.hdf5"
    try:
        fetch(address)
    except SourceError as error:
        assert address in str(error)


# Leftovers


def test_what_a_killed_run_left_is_swept_by_the_next(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from elmo_hf.conversion.output import new_folder\n"
        "with new_folder(sys.argv[1]):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert run_forked(["-c", code, tmp_path / "model"]).returncode == -signal.SIGKILL
    assert [name for name in os.listdir(tmp_path) if name.startswith(".model.partial-")]
    convert(PLAIN.options, PLAIN.weights, output_dir=tmp_path / "model")
    assert os.listdir(tmp_path) == ["model"]
    with pytest.raises(ValueError, match="exists already"):
        export(tmp_path / "model", tmp_path / "model")


def test_a_message_does_not_repeat_a_damaged_header(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("options.json", "{}")
        archive.writestr("weights.hdf5", os.urandom(70_000))
    content = bytearray((tmp_path / "model.zip").read_bytes())
    content[26:28] = (60_000).to_bytes(2, "little")  # the length of the first member's name
    (tmp_path / "model.zip").write_bytes(content)
    with pytest.raises(SourceError, match="The member options.json of the zip .* cannot be unpacked") as refused:
        with open_sources(tmp_path / "model.zip"):
            pass
    assert len(str(refused.value)) < 1000


def test_an_entry_of_a_zip_without_a_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "source.zip", "w") as archive:
        archive.writestr("x", b"nobody's")
        archive.filelist[0].filename = ""
    with pytest.raises(SourceError):
        convert(tmp_path / "source.zip", output_dir=tmp_path / "model")
    assert not (tmp_path / "model").exists()
