"""Builds the library: for this machine with its own compiler, or for all platforms of a wheel.

`pip install` calls `for_installation`, a checkout `for_this_machine` when it first needs the library.

python elmo_hf/kernels/native/build.py    # all platforms, with ziglang from PyPI
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PRODUCTS = ("elmo_lstm", "float_linear", "int8_linear", "features", "highway")
TRAINING = ("training_cell", "mixed_cell", "strongest")
SOURCES = [HERE / f"{name}.c" for name in (*PRODUCTS, *TRAINING, "hash", "parallel", "units")]
HEADERS = [HERE / f"{name}.h" for name in ("vectors", "products", "hash")]
FLAGS = ["-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden", "-w"]
# Options of gcc and clang for the same processors, in words that old versions of both know.
AVX2 = ["-mavx2", "-mfma", "-mbmi", "-mbmi2"]
# Otherwise clang halves vectors of 512 bits, and products take twice as long.
WIDE_VECTORS = "-mprefer-vector-width=512"
INSTRUCTIONS = {
    "x86_64": AVX2,
    "x86_64-v4": [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", WIDE_VECTORS],
    "arm64": [],
}
# What zig is told for each platform of a wheel. v4 is for processors with AVX-512.
TARGETS = {
    "linux-x86_64": ["x86_64-linux-gnu.2.17", "x86_64_v3"],
    "linux-x86_64-v4": ["x86_64-linux-gnu.2.17", "x86_64_v4"],
    "linux-arm64": ["aarch64-linux-gnu.2.17", "generic"],
    "macos-x86_64": ["x86_64-macos", "x86_64_v3"],
    "macos-arm64": ["aarch64-macos", "apple_m1"],
    "windows-x86_64": ["x86_64-windows-gnu", "x86_64_v3"],
    "windows-x86_64-v4": ["x86_64-windows-gnu", "x86_64_v4"],
    "windows-arm64": ["aarch64-windows-gnu", "generic"],
}


def file_name(target: str) -> str:
    """The library's name in a wheel.

    Example:

    ```python
    >>> from elmo_hf.kernels.native.build import file_name
    >>> file_name("windows-arm64")
    'elmo_lstm-windows-arm64.dll'

    ```
    """
    ending = {"linux": "so", "macos": "dylib", "windows": "dll"}[target.split("-")[0]]
    return f"elmo_lstm-{target}.{ending}"


def for_this_machine() -> Path | None:
    """The library for this processor, built once for each version of the source; None without a compiler."""
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        return None
    # A home directory may be shared by machines with other processors.
    marks = [
        *(file.read_bytes() for file in SOURCES + HEADERS),
        *map(str.encode, (compiler, platform.machine(), _processor(), WIDE_VECTORS, *FLAGS)),
    ]
    key = hashlib.sha256(b"\0".join(marks)).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elmo_hf"
    path = folder / f"elmo_lstm-{key}.so"
    if not path.with_suffix(".sha256").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as made:
            library = Path(made) / path.name
            machine = platform.machine().lower()
            native = ["-mcpu=native"] if machine in ("arm64", "aarch64") else ["-march=native"]
            if machine in ("x86_64", "amd64"):
                native.append(WIDE_VECTORS)
            _compile([compiler, *FLAGS, "-shared", "-fPIC", *native, "-o", str(library)])
            checksum = library.with_suffix(".sha256")
            checksum.write_text(hashlib.sha256(library.read_bytes()).hexdigest(), encoding="ascii")
            library.replace(path)
            checksum.replace(path.with_suffix(".sha256"))
    return path


def for_installation(folder: Path) -> list[str]:
    """Compiles the library into an installed package with the system's compiler.

    The package may be copied to another machine, so each library is for a class of processors, named as in a wheel.

    Args:
        folder: the folder of the installed package that gets the libraries and the list of their checksums.

    Returns:
        The names of the libraries: none on Windows, on other processors and where there is no compiler.
    """
    compiler = shutil.which(os.environ.get("CC") or "cc")
    system = {"Linux": "linux", "Darwin": "macos"}.get(platform.system())
    machine = {"amd64": "x86_64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
    names = [f"{system}-{machine}{version}" for version in ("", "-v4") if f"{system}-{machine}{version}" in TARGETS]
    if compiler is None or not names:
        return []
    sums = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            path = Path(scratch) / file_name(name)
            instructions = INSTRUCTIONS[name.split("-", 1)[1]]
            _compile([compiler, *FLAGS, "-shared", "-fPIC", *instructions, "-o", str(path)])
            sums[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        for name in sums:
            shutil.copy(Path(scratch) / name, folder / name)
    (folder / "libraries.json").write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")
    return list(sums)


def for_all_platforms(folder: Path = HERE):
    """All libraries of a wheel, and the list of their checksums; nothing if one of them cannot be built."""
    sums = {}
    with tempfile.TemporaryDirectory() as made:  # the compiler leaves more than libraries beside them
        for target, (triple, processor) in TARGETS.items():
            path, objects = Path(made) / file_name(target), []
            compiler = [sys.executable, "-m", "ziglang", "cc", "-target", triple]
            position_independent = [] if "windows" in target else ["-fPIC"]
            for source in SOURCES:
                objects.append(str(Path(made) / f"{target}-{source.stem}.o"))
                widths = [WIDE_VECTORS] if target.endswith("-v4") else []
                options = [f"-mcpu={processor}", *widths, *FLAGS, *position_independent, "-c"]
                _run([*compiler, *options, "-o", objects[-1], str(source)])
            # Without -mcpu: zig compiles the C runtime of Windows, a minute of work, for each target and processor.
            _run([*compiler, "-shared", "-s", "-o", str(path), *objects])
            sums[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
            print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)
        for name in sums:
            shutil.copy(Path(made) / name, folder / name)
    (folder / "libraries.json").write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")


def _processor() -> str:
    """What tells this processor's kind from another's."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return "".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
    except OSError:
        return platform.processor()


def _compile(command: list[str]):
    """Compiles the library; by an old compiler, which does not know the units for bfloat16 and int8, without them."""
    sources = [str(source) for source in SOURCES]
    try:
        _run([*command, *sources])
    except OSError:
        _run([*command, "-DFLOAT32_ONLY", *sources])


def _run(command: list[str]):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise OSError(
            f"{Path(command[0]).name} cannot build {SOURCES[0].name}: {said[-1] if said else 'it says nothing'}."
        )


if __name__ == "__main__":
    for_all_platforms()
