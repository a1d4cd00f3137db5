"""Fresh Python processes at a fifth of their price: forks of a server that has imported torch and other libraries.

A process that loads a model imports some 3,000 modules, which takes four seconds. A server imports once those that
read no environment variables (torch, numpy, scipy, ...). Each program runs in a fork of the server and imports
transformers, huggingface_hub and elmo_hf itself, under its own environment and import path. A test of what a process
imports needs a real process.
"""

import atexit
import functools
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Libraries whose modules behave the same whatever the environment is. Those of Hugging Face read it when imported.
PRELOADED = frozenset(
    "anyio charset_normalizer h11 h5py httpcore httpcore2 httpx httpx2 idna jinja2 markupsafe mpmath numpy packaging "
    "PIL psutil regex safetensors scipy sklearn sympy tokenizers torch torchgen typer rich yaml".split()
)


def run_forked(
    arguments: Sequence[object],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike | None = None,
    timeout: float = 600,
) -> subprocess.CompletedProcess:
    """Runs a Python program in a fork of the server, as `subprocess.run([sys.executable, *arguments])` would.

    Args:
        arguments: those of Python: `-c CODE`, `-m MODULE` or a file, after `-I` or `-W ignore` if wanted, and the
            program's own.
        env: the whole environment; that of this process if it is None.
        cwd: the working folder.
        timeout: seconds after which the program is killed and subprocess.TimeoutExpired raised.

    Returns:
        The exit code (minus the number of the signal that ended it), and what it wrote, as text.
    """
    return _server().run(list(map(str, arguments)), dict(os.environ if env is None else env), cwd, timeout)


@functools.cache
def _server() -> "_Server":
    server = _Server()
    atexit.register(server.close)
    return server


class _Server:
    """The client's end: requests and answers are lines of JSON."""

    def __init__(self):
        modules = [name for name in sys.modules if name.split(".")[0] in PRELOADED]
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._write(modules)

    def _write(self, message: Any):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def run(
        self, arguments: list[str], env: dict[str, str], cwd: Any, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            request = {"arguments": arguments, "env": env, "cwd": os.fspath(cwd or os.getcwd()), "folder": folder}
            self._write({**request, "timeout": timeout})
            code = json.loads(self.process.stdout.readline())
            stdout, stderr = ((Path(folder) / name).read_bytes().decode() for name in ("stdout", "stderr"))
        if code is None:
            raise subprocess.TimeoutExpired(arguments, timeout, stdout, stderr)
        return subprocess.CompletedProcess(arguments, code, stdout, stderr)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def serve():
    """The server's end: imports the modules of the first line, then runs a program for each line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a module prints is no answer
    modules = json.loads(sys.stdin.readline())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception:  # a module that its library makes, not a file
                pass
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _become(request)
        print(json.dumps(_wait(child, request["timeout"])), file=answers, flush=True)


def _wait(child: int, timeout: float) -> int | None:
    """The exit code of a child; None if it had to be killed."""

    def kill(*_):
        os.killpg(child, signal.SIGKILL)
        killed.append(child)

    killed: list[int] = []
    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return None if killed else os.waitstatus_to_exitcode(status)


def _become(request: dict[str, Any]):
    """Turns a fork of the server into the process that was asked for; does not return."""
    os.setsid()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(Path(request["folder"]) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    # The server's own objects would write a copy of its pending output.
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    code = 1
    try:
        _run_program(request["arguments"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run_program(arguments: list[str]):
    isolated = arguments[0] == "-I"
    arguments = arguments[isolated:]
    if arguments[0] == "-W":
        warnings.simplefilter(arguments[1])
        arguments = arguments[2:]
    del sys.path[0]  # the folder of this file
    if not isolated:
        sys.path[:0] = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[:0] = [] if isolated else [""]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), main.__dict__)
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    serve()
