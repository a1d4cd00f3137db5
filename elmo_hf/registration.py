"""Makes transformers know ELMo, and ELMo its native loop: done once, by importing this."""

from typing import TYPE_CHECKING

from .lazy_imports import pause_gc

with pause_gc():
    from .model.fast_native_elmo import set_native
    from .model.hub_elmo import register_auto_classes
    from .model.pipeline_elmo import register_pipelines

    register_auto_classes()
    register_pipelines()

if TYPE_CHECKING:
    from .native.loader import Library


def _find_native() -> "Library | None":
    from .native import find

    return find()


set_native(_find_native)
