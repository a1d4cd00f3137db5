"""Saved models with a damaged file, given to the command line."""

import json
import random
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from small_models import small

from elmo_hf import ElmoForPreTraining, ElmoTokenizer
from fuzz.damage import damaged, damaged_json
from fuzz.running import run

WORDS = ["<S>", "</S>", "<UNK>", "a", "b", "c", "."]


@cache
def _saved() -> dict[str, bytes]:
    folder = Path(mkdtemp())
    small(ElmoForPreTraining, vocab_size=len(WORDS)).save_pretrained(folder)
    ElmoTokenizer(word_vocabulary=WORDS).save_pretrained(folder)
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".txt", ".safetensors")
    }


def trial(rng: random.Random, folder: Path) -> str:
    """Predicts words with a damaged model."""
    files = dict(_saved())
    name = rng.choice(sorted(files))
    is_valid_json = name.endswith(".json") and rng.random() < 0.8
    files[name] = damaged_json(rng, json.loads(files[name])) if is_valid_json else damaged(rng, files[name])
    if rng.random() < 0.05:
        del files[name]
    (folder / "model").mkdir()
    for name, content in files.items():
        (folder / "model" / name).write_bytes(content)
    code, out, err = run("predict", folder / "model", "a b c", "-k", 2)
    if code == 0:
        assert out.startswith("score\tword\n")
        return "accepted"
    assert code == 1 and "Traceback" not in err and "Error: " in err, err
    return err.partition("Error: ")[2]
