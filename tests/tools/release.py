"""Checks of a release, and its notes.

python tests/tools/release.py check v0.1.0      # the tag is the version, which has a dated section in CHANGELOG.md
python tests/tools/release.py notes v0.1.0      # prints this section
python tests/tools/release.py install           # installs the wheel of dist/ in a clean environment and runs it
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def package_version() -> str:
    """The version in elmo_hf/version.py, without importing the package."""
    text = (ROOT / "elmo_hf" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError("elmo_hf/version.py does not set __version__.")
    return found[1]


def release_notes(version: str, changelog: str) -> str:
    """The section of a version in the changelog.

    Raises:
        ValueError: if the version has no section with a date.
    """
    found = re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no section '## {version} - YYYY-MM-DD'.")
    return found[1].strip() + "\n"


def check_tag(tag: str):
    """Raises ValueError if a tag is not that of the package's version, or if the changelog lacks it."""
    if tag != f"v{package_version()}":
        raise ValueError(f"The tag is {tag}, but elmo_hf/version.py says {package_version()}.")
    release_notes(package_version(), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def check_installed_wheel():
    """Installs the newest wheel of dist/ into a clean environment and runs its command there."""
    wheel = max((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        pinned = re.search(r"^torch==\S+$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        for packages in ([pinned[0]] if pinned else [], [*constraints, str(wheel)]):
            subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *packages], check=True)
        run = subprocess.run(
            [programs / "elmo-hf", "--version"], capture_output=True, text=True, check=True, cwd=folder
        )
        if run.stdout.split() != ["elmo-hf", package_version()]:
            raise ValueError(f"The installed command says {run.stdout!r}, not {package_version()}.")
        command = [programs / "elmo-hf", "predict", "english", "He drank a cup of", "-k", "1"]
        subprocess.run(command, check=True, cwd=folder)


def main():
    """Runs the named step."""
    step, *tag = sys.argv[1:]
    if step == "check":
        check_tag(tag[0])
    elif step == "notes":
        print(release_notes(tag[0].removeprefix("v"), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")), end="")
    elif step == "install":
        check_installed_wheel()
    else:
        raise ValueError(f"Invalid step: {step!r}. Expected 'check', 'notes' or 'install'.")


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"Error: {error}")
