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
from typing import Any

from common import MODEL, PLACES

# Where ELMo joins the network, for each row of the table.
MIXES = {"none": [], "input": ["input"], "output": ["output"], "both": ["input", "output"]}

# The recipe, its score, its files under the data folder, what the paper gained, and the options of a run: a rate with
# which the network learns without ELMo, and as much of the data and as many epochs as take minutes of a free core.
TASKS = {
    "pos": ("accuracy", "pos/en_ewt-ud-train.conllu.gz", "pos/en_ewt-ud-test.conllu.gz", None, "--epochs 1 --lr 0.01"),
    "ner": ("f1", "ner/wnut17train.conll", "ner/emerging.test.annotated", 2.06, "--epochs 6 --lr 0.01"),
    "sentiment": ("accuracy", "sentiment/train.txt.gz", "sentiment/test.txt.gz", 3.3, "--epochs 3 --lr 0.003"),
    "inference": ("accuracy", "nli/snli_dev.jsonl.gz", "nli/snli_test.jsonl.gz", 0.7, "--epochs 2 --lr 0.003"),
    "srl": ("f1", "srl/ewt_srl.train.jsonl.gz", "srl/ewt_srl.test.jsonl.gz", 3.2, "--limit 6000 --epochs 3 --lr 0.01"),
    "questions": ("f1", "qa/squad2_dev_half.json.gz", "qa/xquad.en.json.gz", 4.7, "--epochs 4 --lr 0.005"),
    "coreference": ("conll", *["coref/litbank_conll.tar.xz"] * 2, 3.2, "--epochs 3 --lr 0.001"),
}


def main():
    """Fills the table."""
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
    parser.add_argument("--json", type=Path, help="write all results of --output here, in one file")
    parser.add_argument("--options", default="", help="more options for every recipe, as '--limit 500 --epochs 2'")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    places = [place for place in args.elmo if args.vectors or "input" in MIXES[place]]
    for task in args.tasks:
        for place in places:
            if task == "pos" and "output" in MIXES[place]:
                continue  # a linear layer is all input
            for seed in range(1, args.seeds + 1):
                run(args, task, place, seed)
    results = gather(args.output)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (args.output / "table.md").write_text(table(results), encoding="utf-8")
    print(table(results))


def run(args: argparse.Namespace, task: str, place: str, seed: int):
    """One cell, unless its result is there."""
    done, folder = args.output / f"{task}.{place}.{seed}.json", args.output / f"{task}.{place}.{seed}"
    score, train, test, _, usual = TASKS[task]
    asked = f"{usual} {args.options}".strip()
    # A checkpoint belongs to its options just as a result does.
    begun = folder / "cell.json"
    for path in (done, begun):
        before = json.loads(path.read_text(encoding="utf-8"))["options"] if path.exists() else asked
        if before != asked:
            raise SystemExit(f"{path} was made with {before!r}; expected are the same options, or another --output.")
    if done.exists():
        return
    folder.mkdir(exist_ok=True)
    begun.write_text(json.dumps({"options": asked}), encoding="utf-8")
    print(f"{task}, ELMo {place}, seed {seed}", flush=True)
    options = ["--train", args.data / train, "--test", args.data / test, "--model", args.model, "--output", folder]
    options += ["--elmo", place, "--seed", seed, *asked.split()]
    options += ["--vectors", args.vectors] if args.vectors else []
    results = importlib.import_module(task).main(list(map(str, options)))
    cell = {"options": asked, "score": round(results.pop("scores")[score], 3), **results}
    beside = done.with_suffix(".tmp")
    beside.write_text(json.dumps(cell), encoding="utf-8")
    beside.replace(done)  # a result is whole or not there
    shutil.rmtree(folder)


def gather(folder: Path) -> dict[str, Any]:
    """The results in a folder: of each task its options and data, and the runs of each place, seed by seed."""
    results: dict[str, Any] = {}
    for task in TASKS:
        for place in PLACES:
            for path in sorted(folder.glob(f"{task}.{place}.*.json")):
                run = json.loads(path.read_text(encoding="utf-8"))
                about = {name: run.pop(name) for name in ("options", "examples", "of", "scored")}
                row = results.setdefault(task, {**about, "runs": {}})
                if {**row, **about} != row:
                    raise SystemExit(f"{path} was made of {about}; the runs before it of {row}.")
                row["runs"].setdefault(place, []).append(run)
    return results


def table(results: dict[str, Any]) -> str:
    """The mean and the spread of each cell, the differences to no ELMo, and what the mixes learned.

    >>> mixed = {"score": 33.5, "weights": {"input": [0.2, 0.8]}}
    >>> runs = {"none": [{"score": 30.0}, {"score": 32.0}], "input": [mixed]}
    >>> print(table({"ner": {"options": "--epochs 2", "examples": 90, "of": 100, "scored": 50, "runs": runs}}))
    | task | trained on | scored | score | ELMo none | ELMo input | runs | paper's gain |
    |---|---|---|---|---|---|---|---|
    | ner | 90 of 100 | 50 | f1 | 31.0 ± 1.4 | 33.5 (+2.5) | 2, 1 | +2.06 |
    <BLANKLINE>
    Options:
    <BLANKLINE>
    - ner: `--epochs 2`
    <BLANKLINE>
    Weights of the layers, token vectors first:
    <BLANKLINE>
    - ner, ELMo input, the mix at the input: 0.20 / 0.80
    <BLANKLINE>
    """
    places = [place for place in PLACES if any(place in task["runs"] for task in results.values())]
    names = ["task", "trained on", "scored", "score", *(f"ELMo {place}" for place in places), "runs", "paper's gain"]
    lines, mixes = [_row(names), "|---" * len(names) + "|"], []
    for task, about in results.items():
        runs = about["runs"]
        cells = [_cell(runs.get(place, []), runs.get("none") if place != "none" else None) for place in places]
        score, gain = TASKS[task][0], TASKS[task][3]
        of = about["examples"] if about["examples"] == about["of"] else f"{about['examples']} of {about['of']}"
        counts = [len(runs[place]) for place in places if place in runs]
        seeds = counts[0] if len(set(counts)) == 1 else ", ".join(map(str, counts))
        lines.append(_row([task, of, about["scored"], score, *cells, seeds, "-" if gain is None else f"+{gain}"]))
        for place in runs:
            for at in MIXES[place]:
                weights = zip(*(run["weights"][at] for run in runs[place]), strict=True)
                mean = " / ".join(f"{statistics.mean(layer):.2f}" for layer in weights)
                mixes.append(f"- {task}, ELMo {place}, the mix at the {at}: {mean}")
    options = [f"- {task}: `{about['options']}`" for task, about in results.items()]
    weights = ["Weights of the layers, token vectors first:", "", *mixes, ""]
    return "\n".join([*lines, "", "Options:", "", *options, "", *weights])


def _row(cells: list[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _cell(runs: list[dict], without: list[dict] | None) -> str:
    if not runs:
        return "-"
    mean, *others = (statistics.mean(run["score"] for run in cell) for cell in (runs, without) if cell)
    spread = f" ± {statistics.stdev(run['score'] for run in runs):.1f}" if len(runs) > 1 else ""
    return f"{mean:.1f}{spread}" + (f" ({mean - others[0]:+.1f})" if others else "")


if __name__ == "__main__":
    main()
