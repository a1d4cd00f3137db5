"""Tasks: the networks of the paper, one folder for each task, and fine-tuning, annotation and evaluation with them.

The public names are listed in `__init__.pyi` and imported when they are first used.
"""

from elmo_hf.lazy_imports import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__, __file__)
