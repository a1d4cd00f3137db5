"""ELMo for Hugging Face: deep contextualized word vectors from characters.

The public names are listed in `__init__.pyi` and imported when they are first used.
"""

import sys
from pathlib import PurePath

from .lazy_imports import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__, __file__)


def _is_command_line() -> bool:
    """Whether this process is `elmo-hf ...`, which registers only if it has more to do than to explain itself."""
    program = [*sys.orig_argv[1:3], "", ""][:2]
    return PurePath(program[0]).stem == "elmo-hf" or program == ["-m", "elmo_hf.cli"]


# transformers knows ELMo as soon as this package is imported.
if not _is_command_line():
    from . import registration  # noqa: F401
