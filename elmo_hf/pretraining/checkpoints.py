"""Checkpoints for an exact resume: finding complete ones, and checking that they are of the same run."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from elmo_hf.atomic_files import manifest_problem, write_manifest
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo import States

RUN = "pretraining.json"
# Settings that may change when a run is resumed, because they do not change what is trained.
IGNORED_SETTINGS = (
    "transformers_version",
    "architectures",
    "auto_map",
    "custom_pipelines",
    "card_data",
    "dtype",
    "freeze_bilm",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
)


def newest_checkpoint(folder: str | os.PathLike) -> Path | None:
    """Returns the newest complete checkpoint in a folder, or None; damaged ones are skipped.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.atomic_files import write_manifest
    >>> from elmo_hf.pretraining import newest_checkpoint
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for step in (9, 10, 11):
    ...     (folder / f"checkpoint-{step}").mkdir()
    >>> write_manifest(folder / "checkpoint-9")
    >>> write_manifest(folder / "checkpoint-10")
    >>> newest_checkpoint(folder).name
    'checkpoint-10'

    ```
    """
    return find_checkpoints(folder)[0]


def find_checkpoints(folder: str | os.PathLike) -> tuple[Path | None, list[str]]:
    """Returns the newest complete checkpoint, and why each newer one was skipped."""
    skipped: list[str] = []
    for path in _checkpoints(Path(folder))[::-1]:
        problem = manifest_problem(path)
        if problem is None:
            return path, skipped
        skipped.append(f"{path} is damaged ({problem})")
    return None, skipped


def step_of(checkpoint: Path) -> int:
    """Returns the step after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


def _checkpoints(folder: Path) -> list[Path]:
    paths = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(paths, key=step_of)


def add_checkpoint(unfinished: Path, folder: Path, keep: int | None):
    """Moves a completely written checkpoint to the others of a run, and deletes the oldest."""
    write_manifest(unfinished)
    place = folder / unfinished.name
    if place.exists():  # damaged: otherwise the run would have resumed from it
        shutil.rmtree(place)
    unfinished.rename(place)
    for path in _checkpoints(folder)[: -keep or None] if keep else []:
        # It is renamed first: a half deleted folder must not look like a checkpoint.
        path = path.rename(unfinished.with_name(f"old-{path.name}"))
        shutil.rmtree(path)


def run_facts(
    config: ElmoConfig, vocabulary: Sequence[str], corpus_fingerprint: str, **settings: Any
) -> dict[str, Any]:
    """Returns what must be the same for a run to be resumed, as JSON represents it."""
    written = {key: value for key, value in config.to_dict().items() if key not in IGNORED_SETTINGS}
    words = hashlib.blake2b("\n".join(vocabulary).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    facts = {"config": written, "vocabulary": words, "corpus": corpus_fingerprint, **settings}
    return json.loads(json.dumps(facts))


def check_same_run(checkpoint: Path, facts: dict[str, Any]):
    """Raises ValueError, and names what differs, unless the checkpoint is of a run with the same facts."""
    try:
        before = read_about(checkpoint)["facts"]
    except (OSError, ValueError, KeyError):
        raise ValueError(f"{checkpoint} has no {RUN}: `elmo-hf pretrain` did not write it and cannot go on.") from None
    for name in ("corpus", "vocabulary"):
        if before.get(name) != facts[name]:
            raise ValueError(
                f"The {name} differs from that of {checkpoint}. Expected the same {name} for --resume, or a new "
                "--output-dir for a new run."
            )
    differing = [*_differences(before["config"], facts["config"]), *_differences(before, facts)]
    if differing:
        raise ValueError(
            f"{checkpoint} was trained with {'; '.join(differing)}. Expected the same settings for --resume, or a "
            "new --output-dir for a new run."
        )


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    names = sorted((before.keys() | now.keys()) - {"config", "corpus", "vocabulary"})
    return [
        f"{name} {before.get(name)!r}, and this is {now.get(name)!r}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def write_position(folder: Path, rank: int, about: dict[str, Any], states: States | None):
    """Writes what Trainer does not: the state of the LSTMs, and `about`, with the facts, the position and the time."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(states, folder / f"recurrent_state_{rank}.pt")
    if rank == 0:
        (folder / RUN).write_text(json.dumps(about), encoding="utf-8")


def read_about(folder: Path) -> dict[str, Any]:
    """Reads `about` as `write_position` wrote it."""
    about = json.loads((folder / RUN).read_text(encoding="utf-8"))
    facts = about.get("facts", {})
    if "bf16" in facts:  # written before there were names of precisions
        facts["precision"] = "bf16" if facts.pop("bf16") else "float32"
    return about


def read_states(folder: Path, rank: int) -> States | None:
    """Reads the state of the LSTMs that `write_position` wrote."""
    return torch.load(folder / f"recurrent_state_{rank}.pt", weights_only=True)
