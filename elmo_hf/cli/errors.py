"""What a person can mend, said in a sentence and not in a traceback."""

import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

import typer
from huggingface_hub.errors import StrictDataclassError

MENDABLE = (ValueError, OSError, ImportError, MemoryError, StrictDataclassError)


def run(app: Callable[[], None]) -> NoReturn | None:
    """Runs the command line; ends with exit code 1 and one message on the errors that a person can mend."""
    _make_writable()
    try:
        app()
    except BrokenPipeError:
        # Who reads the output has seen enough, as `head` does; Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except MENDABLE as error:
        typer.echo(f"Error: {sentence(error)}", err=True)
        raise SystemExit(1) from None


def _make_writable():
    """Lets nothing fail, or reach another file, for what the three standard streams are.

    What an encoding cannot say (bytes of an argument, or any word where it is not UTF-8) is shown by its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever called
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def sentence(error: BaseException) -> str:
    """The message of an error, with the file's name in front where the system names only a number.

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
