"""finetune_seeds: the same fine-tuning with several seeds; keeps the model that is best on dev."""

import json
import os
import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_hf.atomic_files import write_text_atomically
from elmo_hf.kernels.sentence_cache import SentenceCache
from elmo_hf.tasks.load_model import RESULT

from .finetune import finetune
from .task_names import find_task

# The call that the finished seeds of a folder belong to.
CALL = "call.json"
Scores = dict[str, dict[str, float]]


@dataclass(frozen=True)
class SeedScores:
    """Scores of several seeds.

    Args:
        scores: seed -> part -> name -> score.
        best: the seed whose model is kept.

    Example:

    ```python
    >>> from elmo_hf.tasks.finetuning.seeds import SeedScores
    >>> scores = SeedScores({1: {"dev": {"f1": 0.5}}, 2: {"dev": {"f1": 0.6}}}, best=2)
    >>> scores.describe("dev")
    'f1 55.00 ± 7.07'

    ```
    """

    scores: dict[int, Scores]
    best: int

    def values(self, part: str, name: str) -> list[float]:
        """One score of each seed."""
        return [scores[part][name] for scores in self.scores.values()]

    def describe(self, part: str) -> str:
        """The mean and the standard deviation of each score of a part, in percent."""
        described = []
        for name in self.scores[self.best][part]:
            values = [100 * value for value in self.values(part, name)]
            deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            described.append(f"{name} {statistics.mean(values):.2f}{deviation}")
        return ", ".join(described)


def finetune_seeds(
    task: str,
    *,
    seeds: int,
    output: str | os.PathLike,
    seed: int = 1,
    cache_megabytes: float = 2000,
    say: Callable[[str], Any] = print,
    **settings: Any,
) -> SeedScores:
    """Fine-tunes with several seeds and keeps the model that is best on dev.

    The same call resumes an interrupted run: seeds that are finished are not run again.

    Args:
        task: as for `finetune`.
        seeds: how many seeds: `seed`, `seed` + 1 and so on.
        output: the folder of the best model. Until all seeds are finished, their models are in a folder beside it.
        seed: the first seed.
        cache_megabytes: memory for sentences that a frozen biLM has read; the seeds share them.
        say: called with each line of the report.
        settings: as for `finetune`.

    Returns:
        The scores of each seed. The card of the model has their mean and standard deviation.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf.tasks import finetune_seeds
    >>> rows = [{"text": "It rains.", "label": "bad"}, {"text": "The sun shines.", "label": "good"}] * 4
    >>> settings = {"train": rows, "dev": rows, "epochs": 1, "say": lambda line: None}
    >>> result = finetune_seeds("classification", seeds=2, output=tempfile.mkdtemp() + "/weather", **settings)
    >>> sorted(result.scores)
    [1, 2]

    ```
    """
    if seeds < 1:
        raise ValueError(f"Invalid `seeds`: {seeds}. Expected a whole number of at least 1.")
    output = Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"{output} is there already. Expected a new folder (-o), or remove it.")
    folder = output.with_name(f"{output.name}.seeds")
    _check_call(folder, {"task": task, **settings})
    models = {number: folder / str(number) / output.name for number in range(seed, seed + seeds)}
    cache = SentenceCache(cache_megabytes) if cache_megabytes else None

    def say_of_seed(line: str):
        if str(folder) not in line:  # where a model is until all seeds are finished
            say(line)

    for number, model in models.items():
        if not (model / RESULT).exists():
            say(f"Seed {number}:")
            settings |= {"output": model, "seed": number, "cache_megabytes": 0, "sentence_cache": cache}
            finetune(task, say=say_of_seed, **settings)
    scores: dict[int, Scores] = {number: _result(model)["scores"] for number, model in models.items()}
    # The first score is the main one.
    best = max(scores, key=lambda number: next(iter(scores[number]["dev"].values())))
    result = SeedScores(scores, best)
    _keep_best(result, models[best], output)
    shutil.rmtree(folder)
    for part in scores[best]:
        say(f"{part}, {seeds} seeds, mean ± standard deviation: {result.describe(part)}")
    say(f"{output}: the model of seed {best}, the best on dev. {find_task(task).usage(str(output))}")
    return result


def _check_call(folder: Path, call: dict[str, Any]):
    """Raises ValueError if the folder has models of another call."""
    names = {name: value for name, value in call.items() if isinstance(value, (str, int, float, os.PathLike))}
    text = json.dumps({name: os.fspath(v) if isinstance(v, os.PathLike) else v for name, v in names.items()}, indent=1)
    path = folder / CALL
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise ValueError(
            f"{folder} holds seeds of another call, which is in {path}. Expected the same settings, another output, "
            f"or that you remove {folder}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, text)


def _result(model: Path) -> dict[str, Any]:
    return json.loads((model / RESULT).read_text(encoding="utf-8"))


def _keep_best(result: SeedScores, model: Path, output: Path):
    """Adds the scores of all seeds to the card and the result of the best model, and moves it to the output."""
    lines = [f"Mean ± standard deviation of {len(result.scores)} seeds; this is the model of seed {result.best}:", ""]
    lines += [f"- {part}: {result.describe(part)}" for part in result.scores[result.best]]
    card = model / "README.md"
    text = card.read_text(encoding="utf-8").replace(str(model), str(output))
    before, heading, after = text.partition("\nSettings: ")
    if lines[0] not in before:  # killed before the rename
        write_text_atomically(card, "\n".join([before, *lines, ""]) + heading + after)
    write_text_atomically(model / RESULT, json.dumps({**_result(model), "seeds": result.scores}, indent=1) + "\n")
    if output.exists():  # an empty folder
        output.rmdir()
    model.rename(output)


__all__ = ["SeedScores", "finetune_seeds"]
