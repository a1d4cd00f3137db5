"""Makes the model that comes with the package from a finished training run.

    python examples/english/bundle.py english-run/model elmo_hf/bundled/english

The tensors are written as float16, which halves them, and config.json says float32, so that they load as float32: on a
CPU computing in float16 would be slow. The Python files of a saved model are left out: the package has them. The run's
history of losses and perplexities goes to measured/training.json, from which card.py draws the training curve.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from elmo_hf import ElmoForPreTraining, ElmoTokenizer

TRAINING = Path(__file__).resolve().parent / "measured" / "training.json"
LARGEST_FOLDER = 20e6  # bytes
# What the card of a model says that somebody tunes from this one.
ORIGIN = {
    "language": "en",
    "license": "cc-by-sa-3.0",
    "origin": "The English model that comes with elmo_hf, trained on Wikipedia (2006, 2014, 2019 and 2020; GFDL, "
    "CC BY-SA 3.0), OpenStax textbooks (CC BY 4.0), novels (public domain; mark-up of ELTeC CC BY 4.0) and Tatoeba "
    "(CC BY 2.0 FR).",
}
HISTORY_FIELDS = ("step", "epoch", "loss", "learning_rate", "tokens_per_second", "eval_perplexity")


def bundle(run: Path, output: Path):
    """Writes weights, configuration, tokenizer and vocabulary of a saved model; replaces what stood there."""
    model, tokenizer = ElmoForPreTraining.from_pretrained(run), ElmoTokenizer.from_pretrained(run)
    largest = max(float(value.abs().max()) for value in model.state_dict().values())
    if largest > torch.finfo(torch.float16).max:
        raise ValueError(f"{run} has a weight of {largest:g}, which float16 cannot hold.")
    model.config.card_data = ORIGIN
    with tempfile.TemporaryDirectory() as folder:
        model.half().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        config["dtype"] = "float32"
        (Path(folder) / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        files = [path for path in sorted(Path(folder).iterdir()) if path.suffix not in (".py", ".md")]
        size = sum(path.stat().st_size for path in files)
        if size > LARGEST_FOLDER:
            raise ValueError(f"The model takes {size / 1e6:.1f} MB; the most is {LARGEST_FOLDER / 1e6:.0f} MB.")
        output.mkdir(parents=True, exist_ok=True)
        for path in files:
            # Unlike files of a temporary folder, an installed file is readable for everybody.
            shutil.copyfile(path, output / path.name)
    print(f"{output}: {model.num_parameters():,} parameters, {size / 1e6:.1f} MB")


def history(run: Path) -> dict[str, Any]:
    """Steps, epochs, seconds, and the reports of a run, from the newest trainer_state.json that it wrote."""
    checkpoints = [path for folder in (run, Path(f"{run}.run")) for path in folder.glob("checkpoint-*")]
    newest_first = sorted(checkpoints, key=lambda path: -int(path.name.split("-")[1]))
    states = [path / "trainer_state.json" for path in (run, *newest_first)]
    path = next((path for path in states if path.exists()), None)
    if path is None:
        raise ValueError(f"{run} has no trainer_state.json, and no checkpoint with one: its history is unknown.")
    state = json.loads(path.read_text(encoding="utf-8"))
    if state["global_step"] != state["max_steps"]:
        raise ValueError(f"{path}: the run stopped at step {state['global_step']} of {state['max_steps']}.")
    rows = [{name: _rounded(row[name]) for name in HISTORY_FIELDS if name in row} for row in state["log_history"]]
    seconds = max((row.get("seconds_used", 0) for row in state["log_history"]), default=0)
    return {
        "steps": state["max_steps"],
        "epochs": round(state["epoch"], 4),
        "seconds": round(seconds),
        "history": rows,
    }


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.5g}")


def write_history(run: Path):
    """Writes measured/training.json, a report per line."""
    facts = history(run)
    rows = ",\n".join("  " + json.dumps(row) for row in facts.pop("history"))
    head = json.dumps(facts, indent=1).removesuffix("\n}")
    TRAINING.parent.mkdir(exist_ok=True)
    TRAINING.write_text(f'{head},\n "history": [\n{rows}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="The folder that elmo-hf pretrain wrote.")
    parser.add_argument("output", type=Path, help="Where the model goes.")
    arguments = parser.parse_args()
    bundle(arguments.run, arguments.output)
    write_history(arguments.run)
