"""Vectors for sentences, and for corpora in stores on disk.

The public names are listed in `__init__.pyi` and imported when they are first used: embedding a sentence takes none of
the modules that read and write stores.
"""

from elmo_hf.lazy_imports import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__, __file__)
