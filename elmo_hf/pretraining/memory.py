"""Memory that a step frees and the next one takes again stays with the process."""

import ctypes
import os
import sys

# Names of <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
KEPT, KEPT_BY_OLDER = 2**30, 2**25


def keep_freed_memory() -> bool:
    """Tells the C library to keep memory that was freed, in place of giving it back and asking for it again.

    Each step of training takes and frees the same tensors. glibc gives those of more than 32 MB back to the system at
    once, which hands them out again page by page, each filled with zeros first; so it does with what a thread took
    that has ended, unless all threads take from one place. Returns whether it was told: elsewhere than with glibc
    nothing happens, and what the environment says of its memory (`MALLOC_...`) stays as it is.

    Example:

    ```python
    >>> from elmo_hf.pretraining.memory import keep_freed_memory
    >>> keep_freed_memory() in (True, False)
    True

    ```
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    library = ctypes.CDLL(None)
    if "malloc" in os.environ.get("GLIBC_TUNABLES", "") or not hasattr(library, "gnu_get_libc_version"):
        return False
    # Before 2.35 glibc refuses a second number of more than 32 MB.
    told = library.mallopt(M_MMAP_THRESHOLD, KEPT) or library.mallopt(M_MMAP_THRESHOLD, KEPT_BY_OLDER)
    return bool(told and library.mallopt(M_TRIM_THRESHOLD, KEPT) and library.mallopt(M_ARENA_MAX, 1))
