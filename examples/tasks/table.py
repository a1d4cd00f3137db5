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
from typing import Any, NamedTuple

from common import MODEL, PLACES

from elmo_hf import SentenceCache

# Memory for what the frozen biLM computes, once for all cells of a row.
CACHE_MEGABYTES = 4000

# Where ELMo joins the network, for each row of the table.
MIXES = {"none": [], "input": ["input"], "output": ["output"], "both": ["input", "output"]}


class Row(NamedTuple):
    """A row of the table.

    Args:
        recipe: the script that is run.
        score: which of its scores is shown.
        train, test, dev: files under the data folder; without `dev` a tenth of the training data is held out.
        options: of a run: a rate with which the network learns without ELMo, and as much of the data and as many
            epochs as take minutes of a free core.
        gain: of the paper, or None.
    """

    recipe: str
    score: str
    train: str
    test: str
    dev: str | None
    options: str
    gain: float | None = None


EWT, UNER = "pos/en_ewt-ud-{}.conllu.gz", "ner/uner_en_ewt/en_ewt-ud-{}.iob2.gz"
SST, SNLI, SRL = "sentiment/{}.txt.gz", "nli/snli_{}.jsonl.gz", "srl/ewt_srl.{}.jsonl.gz"
WNUT = ("ner/wnut17train.conll", "ner/emerging.test.annotated", "ner/emerging.dev.conll")
SQUAD, LITBANK = ("qa/squad2_dev_half.json.gz", "qa/xquad.en.json.gz"), "coref/litbank_conll.tar.xz"


def files(pattern: str, *parts: str) -> tuple[str, ...]:
    """The files of some parts of a data set."""
    return tuple(pattern.format(part) for part in parts)


TASKS = {
    "pos": Row("pos", "accuracy", *files(EWT, "train", "test", "dev"), "--epochs 1 --lr 0.01"),
    "ner": Row("ner", "f1", *WNUT, "--epochs 6 --lr 0.01", 2.06),
    "uner": Row("uner", "f1", *files(UNER, "train.first-commit-2022", "test", "dev"), "--epochs 3 --lr 0.01", 2.06),
    "sentiment": Row("sentiment", "accuracy", *files(SST, "train", "test", "dev"), "--epochs 3 --lr 0.003", 3.3),
    "phrases": Row(
        "sentiment", "accuracy", *files(SST, "train", "test", "dev"), "--phrases --epochs 1 --lr 0.003", 3.3
    ),
    "inference": Row("inference", "accuracy", *files(SNLI, "dev", "test"), None, "--epochs 2 --lr 0.003", 0.7),
    "inference-100k": Row(
        "inference", "accuracy", *files(SNLI, "train_100k", "test", "dev"), "--epochs 1 --lr 0.003", 0.7
    ),
    "srl": Row("srl", "f1", *files(SRL, "train", "test"), None, "--limit 6000 --epochs 3 --lr 0.01", 3.2),
    "questions": Row("questions", "f1", *SQUAD, None, "--epochs 4 --lr 0.005", 4.7),
    "coreference": Row("coreference", "conll", LITBANK, LITBANK, None, "--epochs 3 --lr 0.001", 3.2),
}


def main():
    """Fills the table."""
    names = {
        task: dict.fromkeys(name for name in (row.train, row.test, row.dev) if name) for task, row in TASKS.items()
    }
    listed = "".join(f"\n  {task}: {', '.join(own)}" for task, own in names.items())
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"What --data holds, packed as published:{listed}",
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
        cache = SentenceCache(CACHE_MEGABYTES)
        for place in places:
            if task == "pos" and "output" in MIXES[place]:
                continue  # a linear layer is all input
            for seed in range(1, args.seeds + 1):
                run(args, task, place, seed, cache)
    results = gather(args.output)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (args.output / "table.md").write_text(table(results), encoding="utf-8")
    print(table(results))


def run(args: argparse.Namespace, task: str, place: str, seed: int, cache: SentenceCache):
    """One cell, unless its result is there; `cache` has the sentences of the cells before."""
    done, folder = args.output / f"{task}.{place}.{seed}.json", args.output / f"{task}.{place}.{seed}"
    row = TASKS[task]
    asked = f"{row.options} {args.options}".strip()
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
    options = ["--train", args.data / row.train, "--test", args.data / row.test]
    options += ["--dev", args.data / row.dev] if row.dev else []
    options += ["--model", args.model, "--output", folder]
    options += ["--elmo", place, "--seed", seed, *asked.split()]
    options += ["--vectors", args.vectors] if args.vectors else []
    results = importlib.import_module(row.recipe).main(list(map(str, options)), cache)
    cell = {"options": asked, "score": round(results.pop("scores")[row.score], 3), **results}
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
        score, gain = TASKS[task].score, TASKS[task].gain
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
