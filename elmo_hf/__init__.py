"""ELMo for Hugging Face: deep contextualized word vectors from characters.

The public names are listed in `__init__.pyi` and imported when they are first used.
"""

from .hub.registration import register_with_transformers
from .lazy_imports import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__, __file__)

# transformers knows ELMo from here on; it is not loaded by this.
register_with_transformers()
