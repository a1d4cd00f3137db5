"""One file for each format: how it is recognised, and its table of names."""

from ..sources import Bundle, SourceError, only_bundle
from . import allennlp, bilm_hdf5, many_langs, tf_checkpoint, tf_hub
from .source import Extras, Format, Source, check

# Formats recognise a source in this order. If none does, the error of the last one explains what is missing.
FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT for module in (tf_hub, allennlp, many_langs, tf_checkpoint, bilm_hdf5)
}

__all__ = ["FORMATS", "Format", "Extras", "Source", "check", "choose"]


def choose(bundles: list[Bundle], name: str | None, where: str) -> tuple[Format, Bundle]:
    """The format of a source, and the folder in it that holds the model.

    Args:
        bundles: the folders of the source.
        name: the format that the user says it is, or None to find out.
        where: what to call the source in messages.
    """
    if name is not None and name not in FORMATS:
        raise SourceError(f"Invalid `format`: {name!r}. Expected one of {', '.join(FORMATS)}.")
    candidates = [FORMATS[name]] if name is not None else list(FORMATS.values())
    for candidate in candidates:
        matches = [bundle for bundle in bundles if candidate.recognises(bundle)]
        if matches:
            return candidate, only_bundle(matches, bundles, where)
    return candidates[-1], only_bundle([], bundles, where)
