"""Runs the command line in this process."""

import contextlib
import io
import sys

from elmo_hf import cli


def run(*arguments: object, stdin: bytes = b"") -> tuple[object, str, str]:
    """The exit code, the output and the messages of a command."""
    before, out, err = (sys.argv, sys.stdin), _text(), _text()
    sys.argv, sys.stdin = ["elmo-hf", *map(str, arguments)], io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.stdin = before
    return code, _read(out), _read(err)


def _text() -> io.TextIOWrapper:
    """A stream like a pipe: text that UTF-8 cannot encode is an error unless the command handles it."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


def _read(written: io.TextIOWrapper) -> str:
    written.flush()
    return written.buffer.getvalue().decode()
