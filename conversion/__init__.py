"""Outside formats <-> ours: the original programs' files, and proof that nothing changed on the way."""

from .convert import convert, push
from .export import export
from .formats import FORMATS
from .formats.bilm_hdf5 import weight_map
from .options import config_from_options, options_from_config
from .sources import SourceError, SourceFiles, fetch, open_sources
from .verify import Verification, verify

__all__ = [
    "FORMATS",
    "SourceError",
    "SourceFiles",
    "Verification",
    "config_from_options",
    "convert",
    "export",
    "fetch",
    "open_sources",
    "options_from_config",
    "push",
    "verify",
    "weight_map",
]
