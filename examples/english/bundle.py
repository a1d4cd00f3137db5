"""Makes the model that comes with the package from a finished training run.

    python examples/english/bundle.py first second elmo_hf/bundled/english

Runs are named in their order; the last one has the model, those before it only add to the history. The tensors are
written as float16, which halves them, and config.json says float32, so that they load as float32: on a CPU computing
in float16 would be slow. The files of code that a saved model carries are left out: the package has them. The history
goes to measured/training.json, from which the card draws its curve; of a run whose checkpoints are gone it stays.
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
LARGEST_FOLDER = 20e6
# What the card of a model says that somebody tunes from this one.
ORIGIN = {
    "language": "en",
    "license": "cc-by-sa-3.0",
    "origin": "The English model that comes with elmo_hf, trained on Wikipedia (2006; GFDL, CC BY-SA 3.0), OpenStax "
    "textbooks (CC BY 4.0), novels of LitBank (public domain in the US) and Tatoeba (CC BY 2.0 FR).",
}


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
        kept = [path for path in sorted(Path(folder).iterdir()) if path.suffix not in (".py", ".md")]
        size = sum(path.stat().st_size for path in kept)
        if size > LARGEST_FOLDER:
            raise ValueError(f"The model takes {size / 1e6:.1f} MB; accepted are at most {LARGEST_FOLDER / 1e6:.0f}.")
        output.mkdir(parents=True, exist_ok=True)
        for path in kept:
            # Not as the temporary folder has it: everybody may read an installed file.
            shutil.copyfile(path, output / path.name)
    print(f"{output}: {model.num_parameters():,} parameters, {size / 1e6:.1f} MB")


def keep_history(runs: list[Path]):
    """What the newest checkpoint of each run remembers: losses, and perplexities of the held-out mix."""
    before = json.loads(TRAINING.read_text(encoding="utf-8"))["runs"] if TRAINING.exists() else []
    found = []
    for number, run in enumerate(runs):
        own = history(run)
        if own is None:
            print(f"{run} has no checkpoint: what {TRAINING.name} has of it stays as it is")
            own = before[number]
        found.append(own)
    TRAINING.parent.mkdir(exist_ok=True)
    TRAINING.write_text(json.dumps({"runs": found}, indent=1) + "\n", encoding="utf-8")


def history(run: Path) -> dict[str, Any] | None:
    """Steps, epochs and reports of a run; None if it has no checkpoint."""
    found = (path for folder in (run, Path(f"{run}.run")) for path in folder.glob("checkpoint-*/trainer_state.json"))
    states = sorted(found, key=lambda path: int(path.parent.name.split("-")[1]))
    if not states:
        return None
    state = json.loads(states[-1].read_text(encoding="utf-8"))
    rows = [{name: row[name] for name in sorted(row) if name in KEPT} for row in state["log_history"]]
    epochs = state["epoch"] * state["max_steps"] / state["global_step"]  # the state's own is rounded up
    return {"steps": state["max_steps"], "epochs": round(epochs, 4), "history": rows}


KEPT = ("step", "epoch", "loss", "learning_rate", "tokens_per_second", "eval_perplexity", "after_perplexity")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="The folders that elmo-hf pretrain wrote, in their order.")
    parser.add_argument("output", type=Path, help="Where the model goes.")
    given = parser.parse_args()
    bundle(given.runs[-1], given.output)
    keep_history(given.runs)
