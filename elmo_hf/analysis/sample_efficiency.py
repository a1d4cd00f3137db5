"""Sample efficiency: a task's score against the share of its training data, with and without ELMo."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmo_hf.atomic_files import write_text_atomically

from .results import AnalysisResult

NO_ELMO = "none"
SIZE = re.compile(r"\d+|\d+(\.\d+)?%")
LAST_LINES = 5  # of a recipe's output, shown when it fails


@dataclass
class EfficiencyRun:
    """One run of a recipe.

    Args:
        elmo: where ELMo joined the network; `"none"` for nowhere.
        size: how much training data was asked for, as 500 or 10%.
        seed: of the weights and of the order.
        examples: the number that the recipe trained on.
        of: the number that there are.
        score: what is compared.
        scores: all that the recipe measured.
    """

    elmo: str
    size: str
    seed: int
    examples: int
    of: int
    score: float
    scores: dict[str, float]


@dataclass
class Efficiency(AnalysisResult):
    """Scores by the size of the training data.

    Args:
        score: the name of the score.
        runs: of every size, place and seed.
    """

    score: str
    runs: list[EfficiencyRun]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and the rows."""
        places, cells = self._places(), self._cells()
        several = any(len(values) > 1 for values in cells.values())
        compared = [place for place in places if place != NO_ELMO] if NO_ELMO in places else []
        heads = ["examples", "share, %"]
        for place in places:
            heads += [f"{place_name(place)}, {self.score}", "±"] if several else [f"{place_name(place)}, {self.score}"]
        heads += ["gain" if len(compared) == 1 else f"gain, {place}" for place in compared]
        rows = []
        for examples, share in self._sizes():
            row: list[Any] = [examples, share]
            means = {place: statistics.fmean(cells[place, examples]) for place in places if (place, examples) in cells}
            for place in places:
                values = cells.get((place, examples), [])
                row += [means.get(place)] + ([statistics.stdev(values) if values[1:] else None] if several else [])
            without = means.get(NO_ELMO)
            row += [None if without is None or place not in means else means[place] - without for place in compared]
            rows.append(row)
        return heads, rows

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {"score": self.score, "runs": [asdict(run) for run in self.runs]}

    def plot(self, path: str | os.PathLike):
        """Draws into a .png, .svg or .pdf file."""
        from . import plots

        cells, shares = self._cells(), dict(self._sizes())
        lines = {
            place_name(place): {shares[examples]: cells[place, examples] for at, examples in cells if at == place}
            for place in self._places()
        }
        plots.curves(path, lines, "training data, % (logarithmic)", self.score)

    def _places(self) -> list[str]:
        return list(dict.fromkeys(run.elmo for run in self.runs))

    def _sizes(self) -> list[tuple[int, float]]:
        """Numbers of examples and their shares in percent, the smallest first."""
        return sorted({(run.examples, 100 * run.examples / run.of) for run in self.runs})

    def _cells(self) -> dict[tuple[str, int], list[float]]:
        """The scores of all seeds, by place and number of examples, the smallest first."""
        cells: dict[tuple[str, int], list[float]] = {}
        for run in sorted(self.runs, key=lambda run: run.examples):
            cells.setdefault((run.elmo, run.examples), []).append(run.score)
        return cells


def place_name(place: str) -> str:
    """What tables and plots call a network with ELMo there.

    Example:

    ```python
    >>> from elmo_hf.analysis.sample_efficiency import place_name
    >>> place_name("none"), place_name("input")
    ('no ELMo', 'ELMo input')

    ```
    """
    return "no ELMo" if place == NO_ELMO else f"ELMo {place}"


def efficiency(
    recipe: str | os.PathLike,
    model: str | os.PathLike,
    train: str | os.PathLike,
    test: str | os.PathLike,
    folder: str | os.PathLike,
    word_vectors: str | os.PathLike | None = None,
    sizes: Sequence[str | int] = ("1%", "10%", "100%"),
    places: Sequence[str] = (NO_ELMO, "input"),
    seeds: Sequence[int] = (1,),
    score: str | None = None,
    options: Sequence[str] = (),
    say: Callable[[str], None] | None = None,
) -> Efficiency:
    """Runs a recipe for every size of training data, with and without ELMo, each run in a process of its own.

    The result of every run is stored in a file: the same call resumes where it stopped, and one with more sizes,
    places or seeds runs only what is new.

    Args:
        recipe: a script, as those of `examples/tasks`. It takes `--train --test --model --vectors --elmo --limit
            --seed --output` and `--json FILE`, where it writes `{"scores": {"f1": 81.2}, "examples": 30, "of": 300}`.
        model: an ELMo: a folder or a repository of the Hub.
        train: the file to train on.
        test: the file to score.
        folder: for the results, and for the checkpoints of the run that is under way.
        word_vectors: GloVe's or word2vec's text, the input of a network without ELMo, and beside ELMo with it.
        sizes: numbers of training examples, or shares such as `"10%"`.
        places: where ELMo joins the network: `"none"`, `"input"`, and what else the recipe knows.
        seeds: a run for each.
        score: which of the recipe's scores is compared. Default: its first.
        options: more of the recipe's options, as `["--epochs", "8"]`.
        say: called with a sentence before and after each run.

    Example:

    ```python
    >>> import tempfile
    >>> from pathlib import Path
    >>> from elmo_hf.analysis import efficiency
    >>> folder = Path(tempfile.mkdtemp())
    >>> source = "import json, sys; o = dict(zip(sys.argv[1::2], sys.argv[2::2])); size = int(o['--limit'])"
    >>> source += "; score = 50.0 + size / 10 + 20 * (o['--elmo'] == 'input')"
    >>> source += "; result = {'scores': {'f1': score}, 'examples': size, 'of': 200}"
    >>> source += "; open(o['--json'], 'w').write(json.dumps(result))"
    >>> _ = (folder / "recipe.py").write_text(source)
    >>> print(efficiency(folder / "recipe.py", "english", "a", "b", folder, "glove.txt", sizes=[50, 200]))
    examples  share, %  no ELMo, f1  ELMo input, f1   gain
          50     25.00        55.00           75.00  20.00
         200    100.00        70.00           90.00  20.00

    ```
    """
    sizes = checked_sizes(sizes)
    if not places or not seeds:
        raise ValueError("No place of ELMo or no seed was given. Expected at least one of each.")
    for place in places:
        if not place.isidentifier():
            raise ValueError(
                f"{place!r} is not a place of ELMo. Expected a word that the recipe knows, such as 'input'."
            )
    if NO_ELMO in places and word_vectors is None:
        raise ValueError(
            "Without ELMo a network reads word vectors alone, and none were given. Expected word vectors, "
            f"or places without {NO_ELMO!r}."
        )
    if not Path(recipe).is_file():
        raise FileNotFoundError(f"There is no recipe {recipe}. Expected a script.")
    folder = Path(folder)
    usual = ["--train", train, "--test", test, "--model", model, *options]
    usual += [] if word_vectors is None else ["--vectors", word_vectors]
    command = [str(recipe), *map(str, usual)]
    _same_command(folder, command)
    cells = [(place, size, seed) for size in sizes for place in dict.fromkeys(places) for seed in dict.fromkeys(seeds)]
    runs = []
    for number, cell in enumerate(cells, 1):
        named = f"{number} of {len(cells)}: {place_name(cell[0])}, {cell[1]} of the training data, seed {cell[2]}"
        runs.append(_run_or_read(folder, command, cell, score, named, say or (lambda text: None)))
    return Efficiency(score or next(iter(runs[0].scores)), runs)


def checked_sizes(sizes: Sequence[str | int]) -> list[str]:
    """Sizes as recipes are told them.

    Example:

    ```python
    >>> from elmo_hf.analysis.sample_efficiency import checked_sizes
    >>> checked_sizes([100, "2.5%"])
    ['100', '2.5%']

    ```
    """
    checked = list(dict.fromkeys(str(size) for size in sizes))
    for size in checked or [""]:
        number = float(size.rstrip("%")) if SIZE.fullmatch(size) else 0.0
        if number <= 0 or (size.endswith("%") and number > 100):
            raise ValueError(
                f"Invalid size of training data: {size!r}. Expected a number of examples, such as 500, or a share, "
                "such as 10%."
            )
    return checked


def _same_command(folder: Path, command: list[str]):
    """Keeps what is run in a folder, and lets nothing else in."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "command.json"
    if not record.exists():
        _write(record, command)
    before = json.loads(record.read_text(encoding="utf-8"))
    if before != command:
        raise ValueError(
            f"{folder} holds results of `{' '.join(before)}`, and not of `{' '.join(command)}`. Expected the same "
            "recipe, data and options, or another folder."
        )


def _run_or_read(
    folder: Path,
    command: list[str],
    cell: tuple[str, str, int],
    score: str | None,
    named: str,
    say: Callable[[str], None],
) -> EfficiencyRun:
    place, size, seed = cell
    done = folder / f"{place}.{size}.{seed}.json"
    if not done.exists():
        say(f"{named} ...")
        start = time.perf_counter()
        _write(done, _run(command, done.with_name(done.name.removesuffix(".json")), cell))
        took = f"{time.perf_counter() - start:.0f} s"
    else:
        took = "stored"
    result = json.loads(done.read_text(encoding="utf-8"))
    chosen = score or next(iter(result["scores"]))
    if chosen not in result["scores"]:
        raise ValueError(f"{command[0]} does not measure {chosen!r}. Expected one of {', '.join(result['scores'])}.")
    value = result["scores"][chosen]
    say(f"{named}: {chosen} {value:.2f} ({took})")
    return EfficiencyRun(place, size, seed, result["examples"], result["of"], value, result["scores"])


def _run(command: list[str], stem: Path, cell: tuple[str, str, int]) -> dict[str, Any]:
    """One run of the recipe, in the folder of its checkpoints, from which a stopped run goes on."""
    place, size, seed = cell
    folder, log = stem.with_name(stem.name + ".run"), stem.with_name(stem.name + ".log")
    written = folder / "result.json"
    folder.mkdir(exist_ok=True)
    options = ["--elmo", place, "--limit", size, "--seed", str(seed), "--output", str(folder), "--json", str(written)]
    with log.open("ab") as output:
        code = subprocess.call([sys.executable, *command, *options], stdout=output, stderr=subprocess.STDOUT)
    if code:
        last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:])
        raise ValueError(f"{command[0]} ended with exit code {code}; {log} ends with:\n{last}")
    result = _read_result(command[0], written)
    shutil.rmtree(folder)
    log.unlink()
    return result


def _read_result(recipe: str, path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        numbers = [*result["scores"].values(), result["examples"], result["of"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        numbers = []
    if len(numbers) < 3 or not all(isinstance(number, (int, float)) for number in numbers) or result["of"] < 1:
        raise ValueError(
            f'{recipe} has not written its result to {path}. Expected {{"scores": {{"NAME": NUMBER}}, '
            '"examples": NUMBER, "of": NUMBER}.'
        )
    return result


def _write(path: Path, value: Any):
    write_text_atomically(path, json.dumps(value, indent=1) + "\n")
