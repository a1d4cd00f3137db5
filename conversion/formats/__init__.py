"""One file for each outside format: how it is recognised, what it says, and its table of names."""

from ..sources import Bundle, SourceError, only_bundle
from . import allennlp, bilm_hdf5, many_langs, tf_checkpoint, tf_hub
from .source import Format, Given, Source, check

# In this order they are asked whether a source is theirs; the error of the last one explains a source of nobody's.
FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT for module in (tf_hub, allennlp, many_langs, tf_checkpoint, bilm_hdf5)
}

__all__ = ["FORMATS", "Format", "Given", "Source", "check", "choose"]


def choose(bundles: list[Bundle], name: str | None, where: str) -> tuple[Format, Bundle]:
    """The format of a source, and the folder in it that holds the model.

    Args:
        bundles: the folders of the source.
        name: the format that the user says it is, or None to find out.
        where: what to call the source in messages.
    """
    if name is not None and name not in FORMATS:
        raise SourceError(f"`format` is {name!r}; accepted are {', '.join(FORMATS)}.")
    asked = [FORMATS[name]] if name is not None else list(FORMATS.values())
    for one in asked:
        found = [bundle for bundle in bundles if one.recognises(bundle)]
        if found:
            return one, only_bundle(found, bundles, where)
    return asked[-1], only_bundle([], bundles, where)
