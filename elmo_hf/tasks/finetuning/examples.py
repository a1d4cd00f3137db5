"""Examples of a run: read from files, datasets or rows, with a part of train held out where there is no dev."""

import hashlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from elmo_hf.text.files import plural

from .file_formats import dataset_splits, is_dataset
from .task import Task

HELD_OUT = 0.1
# Of the choice of held-out examples and of `limit`: runs with several seeds have the same data.
DATA_SEED = 1
PARTS = ("train", "dev", "test")


def read_parts(
    task: Task, sources: dict[str, Any], limit: int | float | None, say: Callable[[str], Any]
) -> dict[str, Any]:
    """The raw examples of train, dev, and of test if it is there.

    Args:
        task: the task.
        sources: train, dev and test: files, names of datasets, rows, or None.
        limit: number or share of the training examples to use.
        say: called with sentences about what was chosen.
    """
    sources = {part: source for part, source in sources.items() if source is not None}
    name = sources["train"]
    if isinstance(name, (str, os.PathLike)) and is_dataset(os.fspath(name)):
        for part in dataset_splits(os.fspath(name)):
            if sources.setdefault(part, name) is name and part != "train":
                say(f"{part} is the split of that name of {name}.")
    parts = {part: _read(task, sources[part], part) for part in PARTS if part in sources}
    if "dev" not in parts:
        parts["train"], parts["dev"] = _hold_out(task, parts["train"])
        held_out = plural(len(parts["dev"]), task.example_name)
        say(f"No dev data: {held_out} of train are held out to choose the best model.")
    for part in ("dev", "test"):
        if len(parts.get(part, ())) > 2 * len(parts["train"]):
            count = plural(len(parts[part]), task.example_name)
            say(f"Note: {part} has {count}, and train has {len(parts['train']):,}: are the files swapped?")
    if limit is not None:
        total = len(parts["train"])
        size = max(1, round(limit * total)) if limit < 1 else min(int(limit), total)
        parts["train"] = parts["train"].shuffle(seed=DATA_SEED).select(range(size))
        say(f"Training on {size:,} of {plural(total, task.example_name)}.")
    return parts


def _read(task: Task, source: Any, part: str) -> Any:
    return task.read(os.fspath(source), part) if isinstance(source, (str, os.PathLike)) else task.from_rows(source)


def _hold_out(task: Task, examples: Any) -> tuple[Any, Any]:
    """Train and dev. Equal examples stay on one side, or dev would score what was learned by heart."""
    if len(examples) < 20:
        raise ValueError(
            f"{plural(len(examples), task.example_name)} and no dev data: too few to hold some out. Expected dev data "
            "(--dev), or at least 20 training examples."
        )
    order = np.random.default_rng(DATA_SEED).permutation(len(examples)).tolist()
    count = max(2, round(HELD_OUT * len(examples)))
    groups = task.raw_keys(examples)
    held = {groups[number] for number in order[:count]}
    dev = [number for number in range(len(examples)) if groups[number] in held]
    if len(dev) > len(examples) / 2:  # nearly all examples are equal
        dev = sorted(order[:count])
    chosen = {*dev}
    return examples.select([number for number in range(len(examples)) if number not in chosen]), examples.select(dev)


def name_of(source: Any) -> str:
    """How reports call a source of examples."""
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else "memory"


def digest_of_examples(parts: dict[str, Any]) -> str:
    """A digest of all examples: a run is resumed only with the same ones."""
    digest = hashlib.blake2b(digest_size=16)
    for part, examples in parts.items():
        digest.update(f"{part} {len(examples)}\n".encode())
        for example in examples:
            digest.update(repr(example).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


__all__ = ["digest_of_examples", "name_of", "read_parts"]
