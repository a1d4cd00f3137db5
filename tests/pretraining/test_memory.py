"""Freed memory, counted by the pages that the system hands out anew."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, importlib.util, resource, sys
spec = importlib.util.spec_from_file_location("memory", sys.argv[1])
memory = importlib.util.module_from_spec(spec)
spec.loader.exec_module(memory)
if sys.argv[2] == "keep":
    print(memory.keep_freed_memory())
library, size = ctypes.CDLL(None), 100 * 2**20
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

def step():
    place = library.malloc(size)
    ctypes.memset(place, 1, size)
    library.free(place)

step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(how, **variables):
    from elmo_hf.pretraining import memory

    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))
    } | variables
    command = [sys.executable, "-c", PROGRAM, memory.__file__, how]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told")
def test_freed_memory_is_taken_again():
    (without,), (told, faults) = run("leave"), run("keep")
    assert told == "True"
    assert int(without) > 50 and int(faults) < int(without) // 10


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told")
def test_what_the_environment_says_stays():
    assert run("keep", MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"
    assert run("keep", GLIBC_TUNABLES="glibc.malloc.trim_threshold=131072")[0] == "False"
