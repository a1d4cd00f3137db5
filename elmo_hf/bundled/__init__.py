"""The English model and its taggers in the package, and the sentences of the demonstration."""

import json
from pathlib import Path

from elmo_hf.hub.model_names import bundled_folder, find_model

FOLDER = Path(__file__).resolve().parent


def bundled_model(name: str = "english") -> str:
    """The folder of a model that comes with the package: nothing is downloaded.

    Its tensors are float16 on disk, and float32 once they are loaded.

    Args:
        name: `"english"`, or a tagger on it: `"english-pos"`, `"english-xpos"`, `"english-ner"`.

    Example:

    ```python
    >>> from pathlib import Path
    >>> from elmo_hf import bundled_model
    >>> Path(bundled_model("english")).parts[-3:]
    ('elmo_hf', 'bundled', 'english')

    ```
    """
    return bundled_folder(name)


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


__all__ = ["FOLDER", "bundled_model", "find_model", "senses", "sentences"]
