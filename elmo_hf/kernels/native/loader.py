"""Finds the library for this processor, checks that it is whole, and loads it."""

import ctypes
import hashlib
import json
import os
import platform
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import torch

from ..threads import openmp_entry, run_in_parallel
from . import build
from .calls import CALLS, Call

HERE = Path(__file__).resolve().parent
MANIFEST = HERE / "libraries.json"  # sha256 of each library of a wheel, by its name
VARIABLE = "ELMO_HF_NATIVE"
KINDS = ("float32", "bfloat16", "int8")  # of products, by their numbers in C


class _QueuedCall(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("arguments", ctypes.c_void_p)]


class Library:
    """The functions in C, for pointers as numbers."""

    def __init__(self, path: Path, name: str):
        self.name = name
        loaded = ctypes.CDLL(str(path))
        number, pointer, real = ctypes.c_int, ctypes.c_void_p, ctypes.c_float
        self.cell, self.cell_backward = loaded.elmo_cell, loaded.elmo_cell_backward
        self.cell.argtypes = [*[number] * 2, real, *[pointer] * 3]
        self.cell_backward.argtypes = [*[number] * 2, real, *[pointer] * 7]
        self.mixed_cell, self.mixed_cell_backward = loaded.elmo_mixed_cell, loaded.elmo_mixed_cell_backward
        self.mixed_cell.argtypes = [*[number] * 2, real, *[pointer] * 5]
        self.mixed_cell_backward.argtypes = [*[number] * 2, real, *[pointer] * 8]
        self.strongest = loaded.elmo_strongest
        self.strongest.argtypes = [*[number] * 3, ctypes.c_int64, *[pointer] * 3]
        self.strongest.restype = None
        self.mixed_cell.restype = self.mixed_cell_backward.restype = None
        self.cell.restype = self.cell_backward.restype = None
        self.to_words = loaded.elmo_to_words
        self.to_words.argtypes, self.to_words.restype = [*[number] * 2, *[pointer] * 2], None
        self._addresses = {call: ctypes.cast(getattr(loaded, call.function), pointer).value for call in CALLS}
        self._run = loaded.elmo_run
        self._run.argtypes, self._run.restype = [number, ctypes.POINTER(_QueuedCall), number, pointer], None
        self._hashes = loaded.elmo_hashes
        self._hashes.argtypes, self._hashes.restype = [number, *[ctypes.POINTER(ctypes.c_uint64)] * 2], None
        kinds: int = loaded.elmo_kinds()
        self.lanes: int = loaded.elmo_lanes()
        self.zero_point: int = loaded.elmo_zero_point()
        # What the processor has units for; a kind that gives other results than Python is removed when it is checked.
        self.kinds = {kind for number, kind in enumerate(KINDS) if kinds >> number & 1}

    def run(self, calls: Sequence[Call]):
        """Runs calls side by side where there may be several threads: in torch's OpenMP threads, or in new ones."""
        threads = min(len(calls), torch.get_num_threads())
        openmp = openmp_entry() if threads > 1 else None
        if threads > 1 and openmp is None:
            run_in_parallel([partial(self._run, 1, self._queue([call]), 1, None) for call in calls])
        else:
            self._run(len(calls), self._queue(calls), threads, openmp)

    def _queue(self, calls: Sequence[Call]) -> ctypes.Array:
        queued = (_QueuedCall(self._addresses[type(call)], ctypes.addressof(call)) for call in calls)
        return (_QueuedCall * len(calls))(*queued)

    def hashes(self, stretches: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        """Of stretches of memory, by address and length.

        In one call, after which the interpreter's lock is taken once: threads that take it often wait for each other.
        """
        count = len(stretches)
        results = (ctypes.c_uint64 * count)()
        self._hashes(count, (ctypes.c_uint64 * (2 * count))(*chain.from_iterable(stretches)), results)
        return tuple(results)


def find() -> Library | None:
    """The library for this machine; None, with one warning if there should have been one.

    ELMO_HF_NATIVE=0 leaves it out.
    """
    if os.environ.get(VARIABLE) == "0":
        return None
    try:
        return _packaged() if MANIFEST.exists() else _built()
    except (OSError, ValueError) as error:
        warnings.warn(
            f"The native loop is not used: {error} Vectors stay the same, computing takes longer.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def targets(system: str, machine: str, capability: str) -> list[str]:
    """Names of the builds that a machine can run, the fastest first.

    Example:

    ```python
    >>> from elmo_hf.kernels.native.loader import targets
    >>> targets("Linux", "x86_64", "AVX512"), targets("Darwin", "arm64", "DEFAULT")
    (['linux-x86_64-v4', 'linux-x86_64'], ['macos-arm64'])
    >>> targets("Linux", "x86_64", "DEFAULT")  # too old a processor
    []

    ```
    """
    system = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}.get(system, system.lower())
    if machine.lower() in ("arm64", "aarch64"):
        names = [f"{system}-arm64"]
    elif machine.lower() in ("x86_64", "amd64") and capability in ("AVX2", "AVX512"):
        names = [f"{system}-x86_64-v4"] * (capability == "AVX512") + [f"{system}-x86_64"]
    else:
        names = []
    return [name for name in names if name in build.TARGETS]


def _packaged() -> Library | None:
    """The library that came along in a wheel."""
    sums = json.loads(MANIFEST.read_text(encoding="utf-8"))
    for name in targets(platform.system(), platform.machine(), torch.backends.cpu.get_cpu_capability()):
        file = build.file_name(name)
        if file in sums:
            return _loaded(HERE / file, sums[file], f"native code for {name}")
    return None


def _built() -> Library | None:
    """In a checkout, what the system's compiler makes of the source; kept in the user's cache."""
    if not (HERE.parents[2] / "pyproject.toml").exists() or sys.platform == "win32":
        return None
    path = build.for_this_machine()
    if path is None:
        return None
    expected = path.with_suffix(".sha256").read_text(encoding="ascii")
    return _loaded(path, expected, "native code built here")


def _loaded(path: Path, expected: str, name: str) -> Library:
    # Loading a damaged library could crash the process, so its checksum is verified first.
    content = path.read_bytes() if path.exists() else None
    if content is None:
        raise ValueError(f"{path} is missing.")
    if hashlib.sha256(content).hexdigest() != expected:
        raise ValueError(f"{path} is not the file that was built (its checksum differs).")
    try:
        return Library(path, name)
    except (OSError, AttributeError) as error:
        raise ValueError(f"{path} cannot be loaded ({error}).") from None
