"""A person's first minute: the wheel in a clean environment, then the demonstration without a network.

    python benchmarks/first_minute.py

Prints the wheel's size, how long the environment took to make, and of `elmo-hf demo`, run twice: the time to its first
lines and to its last, and its peak memory. Where the system lets a process have a network of its own (`unshare`), the
demonstration gets one in which nothing is reachable; otherwise proxies that refuse stand in the way.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALONE = ["unshare", "--map-root-user", "--net"]
REFUSING = "http://127.0.0.1:9"


def make_environment(folder: Path) -> Path:
    """Builds the wheel and installs it, with what it needs, into a new environment; returns its programs' folder."""
    source = folder / "source"  # a copy: what an earlier build left behind must not get in
    for name in ("elmo_hf", "conversion"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    print(f"wheel: {wheel.stat().st_size / 1e6:.1f} MB")
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    programs = folder / "venv" / "bin"
    constraints = ROOT / "constraints.txt"
    torch = next(line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
    for what in (
        torch,
        str(wheel),
    ):  # torch first and by its exact version, or the newest build with all of CUDA comes
        subprocess.run([programs / "pip", "install", "-q", "-c", str(constraints), what], check=True)
    print(f"installed in {time.perf_counter() - start:.0f} s")
    return programs


def without_network() -> tuple[list[str], dict[str, str]]:
    """What a command begins with, and its environment, so that it reaches nothing."""
    environment = {"PATH": os.environ["PATH"], "HOME": tempfile.mkdtemp()}
    # Threads that wait for each other by spinning collapse on a busy machine; whoever measures there may say so.
    environment |= {name: value for name, value in os.environ.items() if name.startswith(("OMP_", "GOMP_"))}
    if subprocess.run([*ALONE, "true"], capture_output=True).returncode == 0:
        return ALONE, environment
    return [], environment | {"http_proxy": REFUSING, "https_proxy": REFUSING, "HF_ENDPOINT": REFUSING}


def run_demo(programs: Path) -> tuple[float, float, int, float]:
    """Seconds to the first result and to the end, lines printed, and the most memory in MB."""
    before, environment = without_network()
    start, first, lines = time.perf_counter(), None, 0
    command = [*before, str(programs / "elmo-hf"), "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=environment["HOME"]) as run:
        for line in run.stdout:
            lines += 1
            if first is None and "[play]" in line:
                first = time.perf_counter() - start
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode or first is None:
        raise SystemExit(f"elmo-hf demo ended with {run.returncode} after {lines} lines")
    return first, time.perf_counter() - start, lines, usage.ru_maxrss / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--environment", type=Path, help="Programs of an environment that is there already: .venv/bin."
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = given.environment.absolute() if given.environment else make_environment(Path(folder))
        print("network: " + ("none" if without_network()[0] else "proxies that refuse"))
        for number in ("first", "second"):
            first, whole, lines, peak = run_demo(programs)
            print(
                f"{number} time: first result after {first:.1f} s, {lines} lines in {whole:.1f} s, "
                f"peak memory {peak:,.0f} MB"
            )


if __name__ == "__main__":
    main()
