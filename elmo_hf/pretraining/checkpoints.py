"""Checkpoints that training goes on from as if nothing had happened: which are whole, and which fit."""

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
# What may change between two runs without changing what is trained.
PASSING = (
    "transformers_version",
    "architectures",
    "auto_map",
    "custom_pipelines",
    "card_data",
    "dtype",
    "freeze_bilm",
)
PASSING += ("bos_token_id", "eos_token_id", "pad_token_id")


def newest_checkpoint(folder: str | os.PathLike) -> Path | None:
    """The newest whole checkpoint in a folder, or None. One that is damaged is passed over.

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
    """The newest whole checkpoint, and of each newer one why it is not."""
    skipped = []
    for path in _checkpoints(Path(folder))[::-1]:
        problem = manifest_problem(path)
        if problem is None:
            return path, skipped
        skipped.append(f"{path} is damaged ({problem})")
    return None, skipped


def step_of(checkpoint: Path) -> int:
    """The step that a checkpoint was written after."""
    return int(checkpoint.name.rpartition("-")[2])


def _checkpoints(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(found, key=step_of)


def add_checkpoint(unfinished: Path, folder: Path, keep: int | None):
    """Puts a checkpoint that is written whole among the others of a run, and takes the oldest away."""
    write_manifest(unfinished)
    place = folder / unfinished.name
    if place.exists():  # damaged, or it would not have been trained up to here once more
        shutil.rmtree(place)
    unfinished.rename(place)
    for path in _checkpoints(folder)[: -keep or None] if keep else []:
        # By another name first: what is half deleted is no checkpoint.
        path = path.rename(unfinished.with_name(f"old-{path.name}"))
        shutil.rmtree(path)


def run_facts(
    config: ElmoConfig, vocabulary: Sequence[str], corpus_fingerprint: str, **settings: Any
) -> dict[str, Any]:
    """What has to be the same for a run to go on, as JSON holds it."""
    written = {key: value for key, value in config.to_dict().items() if key not in PASSING}
    words = hashlib.blake2b("\n".join(vocabulary).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    facts = {"config": written, "vocabulary": words, "corpus": corpus_fingerprint, **settings}
    return json.loads(json.dumps(facts))


def check_same_run(checkpoint: Path, facts: dict[str, Any]):
    """Raises, and names what differs, unless the checkpoint is of a run with the same facts."""
    try:
        before = read_about(checkpoint)["facts"]
    except (OSError, ValueError, KeyError):
        raise ValueError(f"{checkpoint} has no {RUN}: `elmo-hf pretrain` did not write it and cannot go on.") from None
    for name in ("corpus", "vocabulary"):
        if before.get(name) != facts[name]:
            raise ValueError(
                f"The {name} is another one than {checkpoint} was trained with; accepted is the same {name} for "
                "--resume, or a new --output-dir for a new run."
            )
    differing = [*_differences(before["config"], facts["config"]), *_differences(before, facts)]
    if differing:
        raise ValueError(
            f"{checkpoint} was trained with {'; '.join(differing)}. Accepted for --resume are the same settings; a "
            "new run needs a new --output-dir."
        )


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    names = sorted((before.keys() | now.keys()) - {"config", "corpus", "vocabulary"})
    return [
        f"{name} {before.get(name)!r}, and this is {now.get(name)!r}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def write_position(folder: Path, rank: int, about: dict[str, Any], states: States | None):
    """Writes what Trainer does not: the state of the LSTMs, and `about` the run: its facts, where it is, its time."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(states, folder / f"recurrent_state_{rank}.pt")
    if rank == 0:
        (folder / RUN).write_text(json.dumps(about), encoding="utf-8")


def read_about(folder: Path) -> dict[str, Any]:
    """What `write_position` wrote of the run."""
    return json.loads((folder / RUN).read_text(encoding="utf-8"))


def read_states(folder: Path, rank: int) -> States | None:
    """The state of the LSTMs that `write_position` wrote."""
    return torch.load(folder / f"recurrent_state_{rank}.pt", weights_only=True)
