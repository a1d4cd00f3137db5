"""Checkpoints that training goes on from as if nothing had happened: which are whole, and which fit."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.lstm_elmo import States

# Written last of all, by Trainer: a folder without it is half a checkpoint.
LAST_WRITTEN = "trainer_state.json"
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
    """The newest whole checkpoint of a run, or None. One that a crash or a full disk cut short is passed over.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.pretraining import newest_checkpoint
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for step, state in ((10, "{}"), (20, '{"global_st')):
    ...     (folder / f"checkpoint-{step}").mkdir()
    ...     _ = (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    >>> newest_checkpoint(folder).name
    'checkpoint-10'

    ```
    """
    whole = []
    for path in Path(folder).glob("checkpoint-*"):
        name = re.fullmatch(r"checkpoint-(\d+)", path.name)
        try:
            json.loads((path / LAST_WRITTEN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if name:
            whole.append((int(name[1]), path))
    return max(whole)[1] if whole else None


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
        before = json.loads((checkpoint / RUN).read_text(encoding="utf-8"))["facts"]
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


def write_position(folder: Path, rank: int, facts: dict[str, Any], position: Any, states: States | None):
    """Writes what Trainer does not: the facts of the run, the position in the data, the state of the LSTMs."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(states, folder / f"recurrent_state_{rank}.pt")
    if rank == 0:
        (folder / RUN).write_text(json.dumps({"facts": facts, "position": position}), encoding="utf-8")


def read_position(folder: Path, rank: int) -> tuple[Any, States | None]:
    """The position in the data and the state of the LSTMs that `write_position` wrote."""
    states = torch.load(folder / f"recurrent_state_{rank}.pt", weights_only=True)
    return json.loads((folder / RUN).read_text(encoding="utf-8"))["position"], states
