"""Errors that users can fix, as one sentence instead of a traceback."""

import io
import os
import sys
from collections.abc import Callable

import typer

EXPECTED = (ValueError, OSError, ImportError, MemoryError)
# Of huggingface_hub, which takes a tenth of a second to import: known by its name.
EXPECTED_NAMES = ("StrictDataclassError",)


def run(app: Callable[[], None]) -> None:
    """Runs the command line; an error that users can fix ends it with exit code 1 and one sentence."""
    _make_writable()
    if not sys.stderr.isatty():
        # Read by huggingface_hub and transformers when they are imported: a log file needs no "Loading weights: 100%".
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        app()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except Exception as error:
        if not is_expected(error):
            raise
        typer.echo(f"Error: {sentence(error)}", err=True)
        raise SystemExit(1) from None


def is_expected(error: Exception) -> bool:
    """Whether users can fix an error, so that its message is enough.

    Example:

    ```python
    >>> from elmo_hf.cli.errors import is_expected
    >>> is_expected(ValueError("Invalid `layers`: 7.")), is_expected(KeyError("layers"))
    (True, False)

    ```
    """
    return isinstance(error, EXPECTED) or any(base.__name__ in EXPECTED_NAMES for base in type(error).__mro__)


def _make_writable():
    """Replaces closed standard streams by the null device, and escapes characters that the encoding cannot express."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def sentence(error: BaseException) -> str:
    """The message of an error; that of an error of the system begins with the file's name.

    Example:

    ```python
    >>> from elmo_hf.cli.errors import sentence
    >>> sentence(PermissionError(13, "Permission denied", "notes.txt"))
    'notes.txt: Permission denied.'

    ```
    """
    if isinstance(error, OSError) and error.strerror and error.errno is not None:
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        return f"{' -> '.join(names)}: {error.strerror}." if names else f"{error.strerror}."
    if isinstance(error, MemoryError):
        return f"There is not enough memory. {error}".strip()
    return str(error).strip() or f"{type(error).__name__}."
