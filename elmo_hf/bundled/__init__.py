"""The English model that comes with the package, and what the demonstration reads."""

import json
import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAMES = ("english",)


def bundled_model(name: str = "english") -> str:
    """The folder of a model that comes with the package: nothing is downloaded.

    Its tensors are float16 on disk, and float32 once they are loaded.

    Args:
        name: `"english"` is the one there is.

    Example:

    ```python
    >>> from pathlib import Path
    >>> from elmo_hf import bundled_model
    >>> Path(bundled_model("english")).parts[-3:]
    ('elmo_hf', 'bundled', 'english')

    ```
    """
    if name not in NAMES:
        raise ValueError(f"No model {name!r} comes with the package; accepted are {', '.join(map(repr, NAMES))}.")
    return str(FOLDER / name)


def find_model(name: str) -> tuple[str, str | None]:
    """What a model's name stands for, and a sentence where that may surprise.

    A folder of the name in the working directory wins over a model that comes with the package.

    Example:

    ```python
    >>> from elmo_hf.bundled import find_model
    >>> find_model("someone/their-elmo")
    ('someone/their-elmo', None)

    ```
    """
    if name not in NAMES:
        return name, None
    if not os.path.isdir(name):
        return bundled_model(name), None
    return name, (
        f"{name} is the folder {os.path.abspath(name)}, not the model that comes with the package, "
        f"which is at {bundled_model(name)}"
    )


def senses() -> dict[str, dict[str, list[str]]]:
    """Words with two senses in one spelling: {word: {sense: sentences}}.

    Example:

    ```python
    >>> from elmo_hf.bundled import senses
    >>> list(senses()["bank"])
    ['money', 'river']

    ```
    """
    return json.loads((FOLDER / "senses.json").read_text(encoding="utf-8"))


def sentences() -> list[str]:
    """A few thousand sentences of tokenised English, to look for neighbours in.

    Example:

    ```python
    >>> from elmo_hf.bundled import sentences
    >>> len(sentences()) > 1000
    True

    ```
    """
    return (FOLDER / "sentences.txt").read_text(encoding="utf-8").splitlines()
