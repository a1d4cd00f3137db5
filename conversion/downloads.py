"""Files from http(s) addresses, downloaded into a cache. An interrupted download continues where it stopped."""

import base64
import hashlib
import json
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from filelock import FileLock
from tqdm import tqdm

TIMEOUT = 30.0
# For connecting, and again for all headers of an answer: TIMEOUT restarts with every byte of them.
HEADERS_TIME = 60.0
# A download below this rate for a while has stalled; the total time is for all attempts together.
MIN_RATE, RATE_SPAN = 1_000, 60.0  # bytes a second, seconds
TOTAL_TIME = 12 * 3600.0
MAX_SIZE = 64 << 30  # bytes, if the server does not announce a size
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?:/|(?=[^/]))")  # Path("http://x") keeps only one slash
SERVER = re.compile(r"(\[[^]@]*\]|[^][:@]*)(:[0-9]*)?")
PAUSES = (0.5, 1.0, 2.0, 4.0)  # seconds before each further attempt
TRANSIENT_STATUSES = {408, 425, 429, 500, 502, 503, 504}
CHUNK = 1 << 16


# What a server or the network may raise.
TRANSPORT_ERRORS = (OSError, HTTPException, UnicodeError, EOFError)


class SourceError(ValueError):
    """A source of original files that cannot be used; the message says which, why, and what was expected.

    Example:

    ```python
    >>> from elmo_hf.conversion import SourceError, open_sources
    >>> try:
    ...     with open_sources("no-such-folder"):
    ...         pass
    ... except SourceError as error:
    ...     print("no-such-folder" in str(error))
    True

    ```
    """


class _Interrupted(Exception):
    """A failure after which another attempt may succeed."""


def fetch(source: str | os.PathLike, cache_dir: str | os.PathLike | None = None) -> Path:
    """The local path of a source: the path itself, or the copy of an http(s) address in the cache.

    The cache is `cache_dir`, the folder in the variable `ELMO_HF_CACHE`, or `~/.cache/elmo_hf/downloads`. A cached
    file is downloaded again only if the server has another version.

    >>> fetch(os.curdir) == Path(os.curdir)
    True
    """
    address = _address(source)
    if address:
        return _Download(address, _cache_folder(cache_dir)).run()
    path = Path(source).expanduser()
    if not path.exists():
        raise SourceError(f"There is no file or folder {path}. A source is a local path or an http(s) address.")
    return path


def shown(source: str | os.PathLike) -> str:
    """A source without secrets: of an address only scheme, server and path.

    >>> shown("https://user:password@example.org/elmo/options.json?token=secret#part")
    'https://example.org/elmo/options.json'
    >>> shown("weights.hdf5")
    'weights.hdf5'
    """
    text = os.fspath(source)
    scheme = SCHEME.match(text)
    if not scheme:
        return text
    address, *rest = re.split(r"[?#]", text[scheme.end() :], maxsplit=1)
    server, slash, path = address.partition("/")
    server = server.rpartition("@")[2]
    # A password with such a character looks like a server with a port.
    if not SERVER.fullmatch(server) or not slash and "@" in "".join(rest):
        return f"{scheme[1]}://..."
    return f"{scheme[1]}://{server}{slash}{path}"


def _address(source: str | os.PathLike) -> str | None:
    text = os.fspath(source)
    scheme = SCHEME.match(text)
    if not scheme:
        return None
    if scheme[1].lower() not in ("http", "https"):
        raise SourceError(f"{shown(text)} begins with {scheme[1]}:. A source is a local path or an http(s) address.")
    try:
        parts = urlsplit(f"{scheme[1]}://{text[scheme.end() :]}")
        server = parts.hostname
        _ = parts.port
        if server:
            server.encode("idna")
    except ValueError:
        raise SourceError(f"{shown(text)} is not a well-formed address.") from None
    if not server:
        raise SourceError(f"The address {shown(text)} names no server.")
    path, query = (quote(part, safe="/%:=&?~+!$,;'@()*[]") for part in (parts.path, parts.query))
    return urlunsplit(parts._replace(path=path, query=query, fragment=""))


def _cache_folder(cache_dir: str | os.PathLike | None) -> Path:
    folder = Path(cache_dir or os.environ.get("ELMO_HF_CACHE") or "~/.cache/elmo_hf/downloads").expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(f"The cache folder {folder} cannot be made: {error.strerror}.") from error
    return folder


def _file_name(address: str) -> str:
    """A readable name that is safe in any folder and unique for an address."""
    last = re.split(r"[/\\]+", unquote(urlsplit(address).path).rstrip("/\\"))[-1]
    stem, suffix = os.path.splitext(re.sub(r"[^A-Za-z0-9._-]+", "_", last).lstrip("."))
    digest = hashlib.sha256(address.encode()).hexdigest()[:12]
    return f"{stem[:80] or 'download'}-{digest}{suffix[:16]}"


@dataclass(frozen=True)
class _Version:
    """The version of a file on a server."""

    etag: str | None
    last_modified: str | None
    size: int | None

    @classmethod
    def of(cls, headers: Message) -> "_Version":
        content_range = headers.get("Content-Range")
        size = content_range.rpartition("/")[2] if content_range else headers.get("Content-Length", "")
        return cls(
            headers.get("ETag"), headers.get("Last-Modified"), int(size) if re.fullmatch("[0-9]{1,18}", size) else None
        )

    @classmethod
    def read(cls, path: Path) -> "_Version | None":
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            return cls(saved["etag"], saved["last_modified"], saved["size"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def validator(self) -> str | None:
        """The value for If-Range; a weak ETag does not promise equal bytes."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified

    def same_as(self, other: "_Version") -> bool:
        if self.etag and other.etag:
            return self.etag.removeprefix("W/") == other.etag.removeprefix("W/")
        if self.last_modified and other.last_modified and self.last_modified != other.last_modified:
            return False
        return None in (self.size, other.size) or self.size == other.size


class _Download:
    def __init__(self, address: str, folder: Path):
        self.address, self.shown = address, shown(address)
        self.deadline = time.monotonic() + TOTAL_TIME
        self.file = folder / _file_name(address)
        self.part = self._beside(".part")
        # Two version files: an interrupted download of a new version says nothing about the old file.
        self.file_version, self.part_version = self._beside(".json"), self._beside(".part.json")

    def _beside(self, ending: str) -> Path:
        return self.file.with_name(self.file.name + ending)

    def run(self) -> Path:
        with FileLock(self._beside(".lock")) as lock:
            try:
                if not (self.file.exists() and self._is_current()):
                    self._retrieve()
            except BaseException:
                # Processes that wait for the lock notice that its file is gone if it is removed while it is held.
                with suppress(OSError):  # on systems that cannot remove open files, the release removes it
                    os.unlink(lock.lock_file)
                raise
        return self.file

    def _is_current(self) -> bool:
        size = self.file.stat().st_size
        known = _Version.read(self.file_version) or _Version(None, None, size)
        if known.size not in (None, size):
            return False
        try:
            with self._open("HEAD", {}) as response:
                return known.same_as(_Version.of(response.headers))
        except TRANSPORT_ERRORS as error:
            message = f"{self.shown} cannot be checked for changes ({_reason(error)}); the copy {self.file} is used."
            warnings.warn(message, stacklevel=4)
            return True

    def _retrieve(self) -> None:
        for pause in (0.0, *PAUSES):
            time.sleep(pause)
            try:
                self._attempt()
                break
            except _Interrupted as interruption:
                problem = str(interruption)
        else:
            raise SourceError(self._failure(f"{problem} (attempt {len(PAUSES) + 1}, the last)"))
        os.replace(self.part, self.file)
        os.replace(self.part_version, self.file_version)

    def _failure(self, problem: str) -> str:
        received, version = self._partial()
        if version is None or not received:
            return f"{self.shown} could not be downloaded: {problem}."
        expected = "an unknown number of" if version.size is None else version.size
        return (
            f"{self.shown} could not be downloaded: {problem}. {received} of {expected} bytes were received and "
            f"are in {self.part}; running the same again resumes there."
        )

    def _partial(self) -> tuple[int, _Version | None]:
        """The bytes and the version of an interrupted download; 0 and None if the version is unknown."""
        version = _Version.read(self.part_version)
        received = self.part.stat().st_size if self.part.exists() else 0
        if version is None or version.validator is None or (version.size is not None and received > version.size):
            return 0, None
        return received, version

    def _attempt(self) -> None:
        received, version = self._partial()
        range_headers = {}
        if version and received:
            range_headers = {"Range": f"bytes={received}-", "If-Range": version.validator or ""}
        try:
            response = self._open("GET", range_headers)
        except HTTPError as error:
            if error.code == 416 and version and range_headers:
                return self._finish_at_the_end(received, version, _Version.of(error.headers))
            answer = f"the server answered {error.code} {error.reason}"
            if error.code in TRANSIENT_STATUSES:
                raise _Interrupted(answer) from error
            raise SourceError(f"{self.shown} cannot be downloaded: {answer}.") from error
        except TRANSPORT_ERRORS as error:
            raise _Interrupted(_reason(error)) from error
        with response:
            offered = _Version.of(response.headers)
            if response.status == 206:
                # A server may ignore If-Range, or answer with another range than the requested one.
                first = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
                if (
                    not (version and range_headers and first)
                    or int(first[1]) != received
                    or not version.same_as(offered)
                ):
                    self._discard_part()
                    raise _Interrupted("the server answered with a part of another version, or with another part")
                self._receive(response, received, version if version.size else offered)
            else:
                self._discard_part()
                self._receive(response, 0, offered)

    def _finish_at_the_end(self, received: int, version: _Version, offered: _Version) -> None:
        """After status 416, nothing follows: the part is the whole file, or the file has changed."""
        if offered.size != received or not version.same_as(offered):
            self._discard_part()
            raise _Interrupted("the file has changed on the server")

    def _discard_part(self) -> None:
        self.part.unlink(missing_ok=True)
        self.part_version.unlink(missing_ok=True)

    def _receive(self, response: HTTPResponse, received: int, version: _Version) -> None:
        bar = tqdm(
            desc=self.file.name,
            total=version.size,
            initial=received,
            unit="B",
            unit_scale=True,
            unit_divisor=1024,
            disable=None,
        )
        try:
            if not received:
                note = json.dumps({"address": self.shown, **asdict(version)}, indent=2)
                self.part_version.write_text(note, encoding="utf-8")
            with bar, self.part.open("ab") as part:
                rate = _Rate()
                while chunk := _read(response):
                    part.write(chunk)
                    received += len(chunk)
                    bar.update(len(chunk))
                    self._check(received, version, rate.of(len(chunk)))
        except OSError as error:
            problem = f"{self.part} cannot be written: {error.strerror or error}"
            raise SourceError(self._failure(problem)) from error
        if version.size not in (None, received):
            raise _Interrupted(f"the connection broke off after {received} of {version.size} bytes")

    def _check(self, received: int, version: _Version, rate: float):
        if received > (MAX_SIZE if version.size is None else version.size):
            self._discard_part()
            raise SourceError(f"{self.shown} is refused: more than {received - 1:,} bytes came, and no end.")
        if time.monotonic() > self.deadline:
            raise SourceError(self._failure(f"it took more than {TOTAL_TIME / 3600:.3g} hours"))
        if rate < MIN_RATE:
            raise _Interrupted(f"less than {MIN_RATE:,} bytes a second came for {RATE_SPAN:.3g} seconds")

    def _open(self, method: str, headers: dict[str, str]) -> HTTPResponse:
        # Sizes and ranges must be those of the file itself, not of a compressed transfer.
        headers = {"User-Agent": "elmo_hf", "Accept-Encoding": "identity", **headers}
        parts = urlsplit(self.address)
        credentials, _, server = parts.netloc.rpartition("@")
        request = Request(urlunsplit(parts._replace(netloc=server)), headers=headers, method=method)
        if credentials:
            # These are not sent to a server that this one redirects to.
            code = base64.b64encode(unquote(credentials).encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {code}")
        try:
            return _opener().open(request, timeout=TIMEOUT)
        except HTTPError as error:
            error.close()  # its body is not read, and its connection would stay open
            raise


class _Rate:
    """Bytes per second over the last RATE_SPAN seconds; infinite before."""

    def __init__(self):
        self.began, self.received = time.monotonic(), 0

    def of(self, size: int) -> float:
        self.received += size
        passed = time.monotonic() - self.began
        if passed < RATE_SPAN:
            return float("inf")
        rate = self.received / passed
        self.began, self.received = time.monotonic(), 0
        return rate


class _Redirects(HTTPRedirectHandler):
    def redirect_request(self, request, file, code, message, headers, address):
        if urlsplit(address).scheme not in ("http", "https"):
            raise SourceError(
                f"{shown(request.full_url)} is refused: it redirects to {shown(address)}. Expected an http(s) address."
            )
        return super().redirect_request(request, file, code, message, headers, address)


class _Bounded(HTTPConnection):
    """A connection that is closed if connecting, or reading the headers of an answer, takes too long."""

    def connect(self):
        self._in_time(super().connect)

    def getresponse(self):
        return self._in_time(super().getresponse)

    def _in_time(self, step: Callable[[], Any]) -> Any:
        ended = threading.Event()
        watch = threading.Timer(HEADERS_TIME, self._end, [ended])
        watch.daemon = True
        watch.start()
        try:
            return step()
        finally:
            watch.cancel()
            # A closed connection looks like the end of the headers.
            if ended.is_set():
                raise TimeoutError(f"no answer with all of its headers came within {HEADERS_TIME:.3g} seconds")

    def _end(self, ended: threading.Event):
        ended.set()
        with suppress(OSError, AttributeError):  # not connected yet, or no longer
            self.sock.shutdown(socket.SHUT_RDWR)


class _BoundedHttp(_Bounded):
    pass


class _BoundedHttps(_Bounded, HTTPSConnection):
    pass


class _Http(HTTPHandler):
    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(_BoundedHttp, request)


class _Https(HTTPSHandler):
    def https_open(self, request: Request) -> HTTPResponse:
        return self.do_open(_BoundedHttps, request)


def _opener() -> OpenerDirector:
    """An opener for http(s) only; the default one also opens ftp, files and data."""
    opener = OpenerDirector()
    for handler in (ProxyHandler, _Http, _Https, HTTPErrorProcessor, HTTPDefaultErrorHandler, _Redirects):
        opener.add_handler(handler())
    return opener


def _read(response: HTTPResponse) -> bytes:
    """The next bytes. Failures to read them differ from failures to write them, which no attempt would solve."""
    try:
        return response.read1(CHUNK)
    except TRANSPORT_ERRORS as error:
        raise _Interrupted(_reason(error)) from error


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) and not isinstance(error, HTTPError) else error
    return f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)
