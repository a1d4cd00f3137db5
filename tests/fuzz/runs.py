"""Pretraining runs with damaged checkpoints, which `--resume` continues.

A run ends with the weights of the undamaged run, bit for bit, or an error says what is wrong.
"""

import contextlib
import json
import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from small_texts import write_text

from elmo_hf.pretraining import Settings, pretrain
from fuzz.damage import damaged, damaged_json

STEPS = 6


@cache
def _finished_run() -> Path:
    """A finished run, in `model` and `model.run`, with its text."""
    folder = Path(mkdtemp())
    write_text(folder, number=40, dropout=0.2)
    _resume(folder, folder / "made")
    return folder


def _resume(texts: Path, folder: Path):
    settings = Settings(
        folder / "model", [str(texts / "text.txt")], size=str(texts / "config.json"), resume=True, min_count=1
    )
    settings.batch_size, settings.unroll_steps, settings.num_sampled, settings.threads = 4, 5, 4, 1
    settings.stop_after, settings.save_every = str(STEPS), "2"
    pretrain(settings, lambda line: None)


def trial(rng: random.Random, folder: Path) -> str:
    """Damages a run and resumes it."""
    texts = _finished_run()
    shutil.copytree(texts / "made", folder / "made")
    run, weights = folder / "made" / "model.run", folder / "made" / "model" / "model.safetensors"
    if rng.random() < 0.8:
        shutil.rmtree(weights.parent)  # killed before it was saved, or while it was
    newest = max(run.glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        folders = [newest, newest, run] if newest.exists() else [run]
        files = sorted(path for path in rng.choice(folders).rglob("*") if path.is_file())
        _break(rng, rng.choice(files))
    if rng.random() < 0.1:
        shutil.rmtree(newest)
    try:
        _resume(texts, folder / "made")
    except (ValueError, OSError) as error:
        assert "[Errno" not in str(error), error
        return str(error)
    assert weights.read_bytes() == (texts / "made" / "model" / weights.name).read_bytes(), "other weights"
    return "accepted"


def _break(rng: random.Random, path: Path):
    if rng.random() < 0.2:
        path.unlink()
        return
    content = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.7:
        with contextlib.suppress(ValueError):  # broken before
            path.write_bytes(damaged_json(rng, json.loads(content)))
            return
    path.write_bytes(damaged(rng, content))
