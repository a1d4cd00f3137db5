"""What the layers know: similarity, surprisal, neighbours, probes, senses, layer weights, sample efficiency.

The public names are listed in `__init__.pyi` and imported when they are first used. Plots need matplotlib.
"""

from elmo_hf.lazy_imports import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__, __file__)
