"""Writes the bundled model's card, README.md and training.png, from what was measured.

    python examples/english/card.py

The words are those of card_template.md. Every number comes from a file of measured/ or of ../tasks/measured/, or from
the model's own folder; CONTENTS says which command writes which file.
"""

import argparse
import json
import math
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODEL = ROOT / "elmo_hf" / "bundled" / "english"
MEASURED, TASKS = HERE / "measured", HERE.parent / "tasks"
NAMES = {"held-out-mix": "a mix of the four below", "wikitext-2": "WikiText-2 test"}
SOURCES = {
    "enwik8": "English Wikipedia of March 2006 (enwik8), Wikipedia contributors; GFDL and CC BY-SA 3.0",
    "openstax": "21 textbooks of OpenStax, Rice University; CC BY 4.0",
    "litbank": "90 novels of LitBank, Project Gutenberg; public domain in the US",
    "tatoeba": "Tatoeba, its contributors; CC BY 2.0 FR",
}

WORDS_A_STEP = 64 * 20

CONTENTS = {
    "training": "`examples/english/bundle.py FIRST SECOND elmo_hf/bundled/english`",
    "text": "`examples/english/prepare.py DATA text` (choices.json)",
    "perplexity": "`examples/english/evaluate.py english text --wikitext test.txt.gz -o measured/perplexity.json`",
    "kneser_ney": "`benchmarks/kneser_ney.py english text --wikitext test.txt.gz -o measured/kneser_ney.json`",
    "senses": "`examples/english/senses.py english -o measured/senses.json`",
    "pos": "`examples/tasks/tagging.py pos DATA --sentences 3000 --vectors GLOVE -o measured/pos.json`",
    "ner": "`examples/tasks/tagging.py ner DATA --vectors GLOVE -o measured/ner.json`",
}


def load(name: str) -> dict[str, Any]:
    """A file of measured numbers."""
    folder = TASKS / "measured" if name in ("pos", "ner") else MEASURED
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def card(model: Path = MODEL) -> str:
    """The text of the card."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    training, text = load("training"), load("text")
    runs = training["runs"]
    hours, epochs = sum(map(_hours, runs)), sum(run["epochs"] for run in runs)
    words = sum(text["counts"][f"train/{name}"]["words"] for name in SOURCES)
    sense = load("senses")
    layers = config["num_hidden_layers"] + 1
    left_out = text["novels_left_out"]
    return (
        (HERE / "card_template.md")
        .read_text(encoding="utf-8")
        .format(
            words=words / 1e6,
            size=sum(path.stat().st_size for path in model.glob("*") if path.suffix not in (".md", ".png")) / 1e6,
            parameters=_parameters(model / "model.safetensors"),
            vector=2 * config["projection_size"],
            layers=layers,
            cell=config["cell_size"],
            projection=config["projection_size"],
            filters=", ".join(f"{number} of width {width}" for width, number in config["character_cnn_filters"]),
            vocabulary=config["vocab_size"],
            sources="\n".join(_source(name, text["counts"]) for name in SOURCES),
            num_left_out=len(left_out),
            left_out=textwrap.fill(", ".join(sorted(_title(name) for name in left_out)), 116),
            runs="\n".join(_run(number, run) for number, run in enumerate(runs, 1)),
            hours=hours,
            share=epochs,
            perplexity=_perplexities(),
            num_words=len(sense["share"]) - 1,
            comparisons=sense["comparisons"],
            layer_names=" | ".join(f"layer {number}" for number in range(layers)),
            layer_rule="|".join(["---:"] * layers),
            senses="\n".join(
                f"| {word} | " + " | ".join(f"{share:.1%}" for share in shares) + " |"
                for word, shares in sense["share"].items()
            ),
            tasks=_tasks(),
            contents="\n".join(f"- {name}: {command}" for name, command in CONTENTS.items()),
        )
    )


def _hours(run: dict[str, Any]) -> float:
    """From the speed that each report states."""
    rows = [row for row in run["history"] if "tokens_per_second" in row]
    steps = [row["step"] - before for row, before in zip(rows, [0, *(row["step"] for row in rows)], strict=False)]
    return sum(count * WORDS_A_STEP / row["tokens_per_second"] for count, row in zip(steps, rows, strict=True)) / 3600


def _run(number: int, run: dict[str, Any]) -> str:
    rated = [row for row in run["history"] if "learning_rate" in row]
    highest = max(rated, key=lambda row: row["learning_rate"])
    reached = [row["eval_perplexity"] for row in run["history"] if "eval_perplexity" in row][-1]
    rate = f"{highest['learning_rate']:.4f} at step {highest['step']}"
    return f"| {number} | {run['steps']:,} | {run['epochs']:.2f} | {rate} | {_hours(run):.1f} | {reached:.1f} |"


def _parameters(weights: Path) -> int:
    """Counted in the file's own header."""
    with open(weights, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(math.prod(about["shape"]) for name, about in header.items() if name != "__metadata__")


def _source(name: str, counts: dict[str, Any]) -> str:
    train, held = counts[f"train/{name}"], counts[f"held-out/{name}"]
    return f"| {SOURCES[name]} | {train['sentences']:,} | {train['words']:,} | {held['words']:,} |"


def _title(name: str) -> str:
    """Title, and number in Project Gutenberg.

    >>> _title("730_oliver_twist_brat.conll")
    'Oliver Twist (730)'
    """
    number, *words = name.removesuffix("_brat.conll").split("_")
    return f"{' '.join(words).title()} ({number})"


def _perplexities() -> str:
    ours, counted = load("perplexity")["perplexity"], load("kneser_ney")["perplexity"]
    rows = []
    for name, one in ours.items():
        if one["tokens"] != counted[name]["tokens"]:
            raise ValueError(
                f"{name}: {one['tokens']} tokens were asked of the biLM and {counted[name]['tokens']} of the 5-gram."
            )
        numbers = [one["forward"], one["backward"], one["average"], counted[name]["average"]]
        rows.append(
            f"| {NAMES.get(name, name)} | " + " | ".join(f"{n:.1f}" for n in numbers) + f" | {one['tokens']:,} |"
        )
    return "\n".join(rows)


def _tasks() -> str:
    sys.path.insert(0, str(TASKS))
    from tagging import table

    titles = {"pos": "Parts of speech, UD English-EWT, UPOS", "ner": "Named entities, WNUT17"}
    parts = []
    for name, title in titles.items():
        found = load(name)
        parts.append(
            f"{title}: the first {found['sentences']:,} training sentences, {found['epochs']} epochs, on the test set."
            f"\n\n{table(found)}"
        )
    return "\n\n".join(parts)


def plot(path: Path):
    """The training curve."""
    from matplotlib.figure import Figure

    trained, held_out, before = [], [], 0
    for run in load("training")["runs"]:
        rows = run["history"]
        trained.append([(before + row["step"], math.exp(row["loss"])) for row in rows if "loss" in row])
        found = [(before + row["step"], row["eval_perplexity"]) for row in rows if "eval_perplexity" in row]
        held_out.append(found)
        before += run["steps"]
    figure = Figure(figsize=(7, 3.6), dpi=100, layout="constrained")
    axes = figure.subplots()
    for number, (text, mix) in enumerate(zip(trained, held_out, strict=True)):
        labels = ("training text, 2,048 words drawn", "held-out mix, full softmax") if number == 0 else (None, None)
        axes.plot(*zip(*text, strict=True), color="#0072B2", label=labels[0])
        axes.plot(*zip(*mix, strict=True), "o-", color="#D55E00", label=labels[1])
        if number:  # another vocabulary: perplexities on its two sides are not the same question
            axes.axvline(text[0][0], color="#999999", linestyle="--", linewidth=1)
    axes.set(yscale="log", xlabel="step", ylabel="perplexity")
    ticks = [30, 50, 100, 200, 500, 1000, 2000]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(color="#e5e5e5")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Software": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    (MODEL / "README.md").write_text(card(), encoding="utf-8")
    plot(MODEL / "training.png")
    print(MODEL / "README.md")
