"""Freed memory, counted by the pages that the system hands out anew."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, importlib.util, resource, sys, threading
spec = importlib.util.spec_from_file_location("memory", sys.argv[1])
memory = importlib.util.module_from_spec(spec)
spec.loader.exec_module(memory)
if sys.argv[2] == "keep":
    print(memory.keep_freed_memory())
library, size = ctypes.CDLL(None), int(sys.argv[4])
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

def step():
    place = library.malloc(size)
    ctypes.memset(place, 1, size)
    library.free(place)

def work():
    if sys.argv[3] == "thread":  # one that ends
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
    else:
        step()

work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(how, where="here", size=100 * 2**20, **variables):
    from elmo_hf.pretraining import memory

    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))
    } | variables
    command = [sys.executable, "-c", PROGRAM, memory.__file__, how, where, str(size)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told")
@pytest.mark.parametrize(("where", "size"), [("here", 100 * 2**20), ("thread", 100 * 2**20), ("thread", 20 * 2**20)])
def test_freed_memory_is_taken_again(where, size):
    (without,), (told, faults) = run("leave", where, size), run("keep", where, size)
    assert told == "True"
    assert int(without) > 50 and int(faults) < int(without) // 10


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told")
def test_what_the_environment_says_stays():
    assert run("keep", MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"
    assert run("keep", GLIBC_TUNABLES="glibc.malloc.trim_threshold=131072")[0] == "False"
