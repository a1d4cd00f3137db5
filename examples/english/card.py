"""Writes the bundled model's card, README.md and training.png, from measurements.

    python examples/english/card.py

The text is that of card_template.md. Every number comes from a file of measured/ or from the model's own folder;
COMMANDS says which command writes which file.
"""

import argparse
import json
import math
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODEL = ROOT / "elmo_hf" / "bundled" / "english"
MEASURED = HERE / "measured"
TEXTS = {"held-out-mix": "a mix of the first four", "wikitext-2": "WikiText-2 test"}
SOURCES = {
    "enwik8": "English Wikipedia of March 2006 (enwik8), Wikipedia contributors; GFDL and CC BY-SA 3.0",
    "openstax": "21 textbooks of OpenStax, Rice University; CC BY 4.0",
    "litbank": "90 novels of LitBank, Project Gutenberg; public domain in the US",
    "tatoeba": "Tatoeba, its contributors; CC BY 2.0 FR",
    "wiki_excellent": "Featured and good articles of the English Wikipedia of 2019; CC BY-SA 3.0",
    "wiki_2014": "English Wikipedia of 2014, a part of its articles; CC BY-SA 3.0",
    "wiki_2020": "English Wikipedia of 2020, a part of its articles; CC BY-SA 3.0",
    "novels_new": "88 novels of 1750 to 1937 (ELTeC-eng, computationalstylistics); public domain, mark-up CC BY 4.0",
}
WORDS_PER_STEP = 128 * 20

COMMANDS = {
    "training": "`examples/english/bundle.py english-run/model elmo_hf/bundled/english`",
    "text": "`examples/english/prepare.py DATA text` (choices.json)",
    "perplexity": "`examples/english/evaluate.py english text --wikitext test.txt.gz -o measured/perplexity.json`",
    "kneser_ney": "`benchmarks/kneser_ney.py english text --wikitext test.txt.gz -o measured/kneser_ney.json`",
    "senses": "`examples/english/senses.py english -o measured/senses.json`",
}


def load(name: str) -> dict[str, Any]:
    """A file of measurements.

    >>> load("training")["steps"]
    25000
    """
    return json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))


def card(model: Path = MODEL) -> str:
    """The text of the card."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    values = _architecture(model, config) | _text(load("text")) | _training(load("training")) | _senses(load("senses"))
    counted = load("kneser_ney")
    return (
        (HERE / "card_template.md")
        .read_text(encoding="utf-8")
        .format(
            **values,
            order=counted["order"],
            perplexity=_perplexities(load("perplexity")["perplexity"], counted["perplexity"]),
            commands="\n".join(f"- {name}: {command}" for name, command in COMMANDS.items()),
        )
    )


def _architecture(model: Path, config: dict[str, Any]) -> dict[str, Any]:
    layers = config["num_hidden_layers"] + 1
    return {
        "size": sum(path.stat().st_size for path in model.glob("*") if path.suffix not in (".md", ".png")) / 1e6,
        "parameters": _parameters(model / "model.safetensors"),
        "vector": 2 * config["projection_size"],
        "layers": layers,
        "cell": config["cell_size"],
        "projection": config["projection_size"],
        "filters": ", ".join(f"{number} of width {width}" for width, number in config["character_cnn_filters"]),
        "vocabulary": config["vocab_size"],
        "layer_names": " | ".join(f"layer {number}" for number in range(layers)),
        "layer_rule": "|".join(["---:"] * layers),
    }


def _text(text: dict[str, Any]) -> dict[str, Any]:
    counts, left_out = text["counts"], text["novels_left_out"]
    return {
        "words": sum(counts[f"train/{name}"]["words"] for name in SOURCES) / 1e6,
        "sources": "\n".join(_source(name, counts) for name in SOURCES),
        "dropped": sum(counts[f"train/{name}"].get("dropped", 0) for name in SOURCES),
        "num_left_out": len(left_out),
        "left_out": textwrap.fill(", ".join(sorted(_title(name) for name in left_out)), 116),
    }


def _training(run: dict[str, Any]) -> dict[str, Any]:
    evaluations = [(row["step"], row["eval_perplexity"]) for row in run["history"] if "eval_perplexity" in row]
    words = run["steps"] * WORDS_PER_STEP
    return {
        "hours": run["seconds"] / 3600,
        "rate": max(row["learning_rate"] for row in run["history"] if "learning_rate" in row),
        "steps": run["steps"],
        "read": words / 1e6,
        "epochs": run["epochs"],
        "speed": round(words / run["seconds"] / 100) * 100,
        "curve": f"| step | {' | '.join(f'{step:,}' for step, _ in evaluations)} |\n"
        f"|---|{'---:|' * len(evaluations)}\n"
        f"| perplexity of the held-out mix | {' | '.join(f'{value:.1f}' for _, value in evaluations)} |",
    }


def _senses(senses: dict[str, Any]) -> dict[str, Any]:
    return {
        "num_words": len(senses["share"]) - 1,
        "comparisons": senses["comparisons"],
        "senses": "\n".join(
            f"| {word} | " + " | ".join(f"{share:.1%}" for share in shares) + " |"
            for word, shares in senses["share"].items()
        ),
    }


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


def _perplexities(ours: dict[str, Any], counted: dict[str, Any]) -> str:
    rows = []
    for name, result in ours.items():
        if result["tokens"] != counted[name]["tokens"]:
            raise ValueError(
                f"{name}: the biLM predicted {result['tokens']} tokens and the n-gram {counted[name]['tokens']}."
            )
        values = [result["forward"], result["backward"], result["average"], counted[name]["average"]]
        numbers = " | ".join(f"{value:.1f}" for value in values)
        rows.append(f"| {TEXTS.get(name, name)} | {numbers} | {result['tokens']:,} |")
    return "\n".join(rows)


def plot(path: Path):
    """The training curve."""
    from matplotlib.figure import Figure

    rows = load("training")["history"]
    trained = [(row["step"], math.exp(row["loss"])) for row in rows if "loss" in row]
    held_out = [(row["step"], row["eval_perplexity"]) for row in rows if "eval_perplexity" in row]
    figure = Figure(figsize=(7, 3.6), dpi=100, layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*trained, strict=True), color="#0072B2", label="training text, 2,048 negative samples")
    axes.plot(*zip(*held_out, strict=True), "o-", color="#D55E00", label="held-out mix, full softmax")
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
