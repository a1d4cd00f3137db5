"""The README's commands and examples: found, run, and, by `make readme`, what they print put in their places.

Two forms are known: a ```console block whose first line is a command after `$ `, and a ```python block, a line that
ends with "prints", and a ```text block.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from golden_files import TESTS

README = TESTS.parent / "README.md"
EXAMPLE = re.compile(r"```python\n((?:(?!```).)*)```\n\n[^\n]*prints\n\n```text\n(.*?)```", re.DOTALL)
SESSION = re.compile(r"```console\n\$ ([^\n]*)\n(.*?)```", re.DOTALL)
ORIGINAL = TESTS.parent / "examples" / "original"


def same_but_for_measurements(text: str) -> str:
    """Times, memory and the last digits of differences are what they are."""
    text = re.sub(r"in \d+\.\d s, peak memory [\d,]+ MB", "in T s, peak memory M MB", text)
    text = re.sub(r"in [\d.,]+ s \([\d,]+ sentences/s, [\d,]+ words/s\)", "in T s", text)
    text = re.sub(r"All of it took [\d.]+ s", "All of it took T s", text)
    return re.sub(r"\d\.\d\de-0(\d)", r"D e-0\1", text)


def provide(folder: Path):
    """What the README's reader has at hand: original files, and vectors dumped from them."""
    for file in ORIGINAL.iterdir():
        if file.suffix != ".md":
            shutil.copy(file, folder)


def run_example(code: str, folder: Path) -> str:
    """What an example prints; the Trainer's own log, lines of dictionaries that begin with a score, left out."""
    lines = _run([sys.executable, "-c", code], folder).splitlines(keepends=True)
    return "".join(line for line in lines if not re.match(r"\{'(loss|eval_|train_)", line))


def _run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, env=environment)
    if run.returncode:
        raise RuntimeError(f"{command} ended with {run.returncode}:\n{run.stderr}")
    return run.stdout


def remade(text: str, folder: Path) -> str:
    """The README with what its commands and examples print now; where only measurements differ it stays."""

    def put(match: re.Match, printed: str) -> str:
        if same_but_for_measurements(printed) == same_but_for_measurements(match[2]):
            return match[0]
        print(f"changed: {match[1].splitlines()[0]}")
        return match[0][: match.start(2) - match.start()] + printed + match[0][match.end(2) - match.start() :]

    def session(match: re.Match) -> str:
        return put(match, _run(["sh", "-c", match[1]], folder))

    text = SESSION.sub(session, text)
    return EXAMPLE.sub(lambda match: put(match, run_example(match[1], folder)), text)


if __name__ == "__main__":
    # `elmo-hf` is the one beside this Python.
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as temporary:
        provide(Path(temporary))
        README.write_text(remade(README.read_text(encoding="utf-8"), Path(temporary)), encoding="utf-8")
