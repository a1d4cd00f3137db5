"""The paper's table 1 on open data: each network without ELMo, with ELMo at its input, at its output, at both.

Every cell is a run of a recipe, kept in a file of its own, so that the same command goes on where it stopped; the run
that was stopped goes on from its last checkpoint.
"""

import argparse
import importlib
import json
import shutil
import statistics
from pathlib import Path

from common import MODEL, PLACES

# The recipe, its score, its files under the data folder, what the paper gained, and the options of a usual run.
TASKS = {
    "pos": ("accuracy", "pos/en_ewt-ud-train.conllu.gz", "pos/en_ewt-ud-test.conllu.gz", None, []),
    "ner": ("f1", "ner/wnut17train.conll", "ner/emerging.test.annotated", 2.06, ["--epochs", "8"]),
    "sentiment": ("accuracy", "sentiment/train.txt.gz", "sentiment/test.txt.gz", 3.3, ["--epochs", "4"]),
    "inference": ("accuracy", "nli/snli_dev.jsonl.gz", "nli/snli_test.jsonl.gz", 0.7, ["--epochs", "5"]),
    "srl": ("f1", "srl/ewt_srl.train.jsonl.gz", "srl/ewt_srl.test.jsonl.gz", 3.2, ["--limit", "8000"]),
    "questions": ("f1", "qa/squad2_dev_half.json.gz", "qa/xquad.en.json.gz", 4.7, []),
    "coreference": ("conll", "coref/litbank_conll.tar.xz", "coref/litbank_conll.tar.xz", 3.2, ["--epochs", "5"]),
}


def main():
    files = "".join(f"\n  {task}: {' and '.join(dict.fromkeys(row[1:3]))}" for task, row in TASKS.items())
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"What --data holds, packed as published:{files}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", required=True, type=Path, help="the folder of the tasks' data")
    parser.add_argument("--model", default="english", help=MODEL)
    parser.add_argument("--vectors", help="word vectors; without them there is no row without ELMo")
    parser.add_argument("--output", required=True, type=Path, help="the folder for results and checkpoints")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="some of the tasks")
    parser.add_argument("--elmo", nargs="+", choices=PLACES, default=list(PLACES), help="some of the places")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each cell")
    parser.add_argument("--options", default="", help="more options for every recipe, as '--limit 500 --epochs 2'")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    places = [place for place in args.elmo if args.vectors or "input" in PLACES[place]]
    for task in args.tasks:
        for place in places:
            if task == "pos" and "output" in PLACES[place]:
                continue  # a linear layer is all input
            for seed in range(1, args.seeds + 1):
                run(args, task, place, seed)
    text = table(args.output, args.tasks, places)
    (args.output / "table.md").write_text(text, encoding="utf-8")
    print(text)


def run(args: argparse.Namespace, task: str, place: str, seed: int):
    """One cell, unless its result is there."""
    done, folder = args.output / f"{task}.{place}.{seed}.json", args.output / f"{task}.{place}.{seed}"
    score, train, test, _, usual = TASKS[task]
    asked = [*usual, *args.options.split()]
    if done.exists():
        before = json.loads(done.read_text(encoding="utf-8"))["options"]
        if before != asked:
            raise SystemExit(f"{done} was made with {before}; accepted are the same options, or another --output.")
        return
    print(f"{task}, ELMo {place}, seed {seed}", flush=True)
    options = ["--train", args.data / train, "--test", args.data / test, "--model", args.model, "--output", folder]
    options += ["--elmo", place, "--seed", seed, *asked]
    options += ["--vectors", args.vectors] if args.vectors else []
    found = importlib.import_module(task).main(list(map(str, options)))
    kept = {"score": found["scores"][score], "weights": found["weights"], "options": asked}
    beside = done.with_suffix(".tmp")
    beside.write_text(json.dumps(kept), encoding="utf-8")
    beside.replace(done)  # a result is whole or not there
    shutil.rmtree(folder)


def table(folder: Path, tasks: list[str], places: list[str]) -> str:
    """The mean and the spread of each cell, the differences to no ELMo, and what the mixes learned."""
    lines = ["| task | score | " + " | ".join(f"ELMo {place}" for place in places) + " | paper's gain |"]
    lines += ["|---" * (len(places) + 3) + "|"]
    mixes = []
    for task in tasks:
        cells = {place: read(folder, task, place) for place in places}
        means = {place: statistics.mean(one["score"] for one in runs) for place, runs in cells.items() if runs}
        shown = [_cell(cells[place], means.get("none") if place != "none" else None) for place in places]
        gain = "-" if TASKS[task][3] is None else f"+{TASKS[task][3]}"
        lines.append(f"| {task} | {TASKS[task][0]} | " + " | ".join([*shown, gain]) + " |")
        for place, runs in cells.items():
            for at in PLACES[place] if runs else ():
                weights = zip(*(one["weights"][at] for one in runs), strict=True)
                mean = " / ".join(f"{statistics.mean(layer):.2f}" for layer in weights)
                mixes.append(f"- {task}, ELMo {place}, the mix at the {at}: {mean}")
    return "\n".join([*lines, "", "Weights of the layers, token vectors first:", "", *mixes, ""])


def read(folder: Path, task: str, place: str) -> list[dict]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"{task}.{place}.*.json"))]


def _cell(runs: list[dict], without: float | None) -> str:
    if not runs:
        return "-"
    scores = [one["score"] for one in runs]
    spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
    gain = "" if without is None else f" ({statistics.mean(scores) - without:+.1f})"
    return f"{statistics.mean(scores):.1f}{spread}{gain}"


if __name__ == "__main__":
    main()
