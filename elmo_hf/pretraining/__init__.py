"""Training the language model: corpora, vocabularies, windows, the trainer, whole runs.

The public names are listed in `__init__.pyi` and imported when they are first used: the help of the command line shows
`Settings` and loads no trainer for it.
"""

from importlib.util import find_spec
from typing import Any

from elmo_hf.lazy_imports import lazy_imports

_get, __dir__, __all__ = lazy_imports(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in ("ElmoPretrainer", "pretrain") and find_spec("accelerate") is None:
        raise ImportError("Pretraining needs accelerate, which comes with: pip install 'elmo-hf[train]'")
    return _get(name)
