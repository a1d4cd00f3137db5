"""A note where the native library is missing, without which computing on a CPU takes about twice as long."""

import os

import typer

NOTE = (
    "Note: the native library is missing, so computing takes about twice as long. Install a C compiler (gcc or clang) "
    "and install elmo-hf again (pip install --force-reinstall --no-deps); in a checkout the compiler is enough."
)


def note_missing_library(device: str | None):
    """Prints how to get the native library if it is missing on a machine that would use it.

    Example:

    ```python
    >>> from elmo_hf.cli.native_note import note_missing_library
    >>> note_missing_library("cuda")  # a GPU does not use the library

    ```
    """
    import torch

    from elmo_hf.kernels.native import library

    uses_cpu = device == "cpu" or (device is None and not torch.cuda.is_available())
    if uses_cpu and os.environ.get("ELMO_HF_NATIVE") != "0" and library() is None:
        typer.echo(NOTE, err=True)


__all__ = ["NOTE", "note_missing_library"]
