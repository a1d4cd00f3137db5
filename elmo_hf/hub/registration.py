"""Registers ELMo with the Auto classes and the pipelines of transformers.

`import elmo_hf` calls `register_with_transformers`. If transformers is loaded, it registers at once, else when
transformers is imported. So `import elmo_hf` and `elmo-hf --help` do not wait for torch and transformers.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from elmo_hf.lazy_imports import pause_gc


def register():
    """Registers the classes of this package; calling it again changes nothing.

    Example:

    ```python
    >>> from transformers import AutoModel
    >>> from elmo_hf import ElmoConfig
    >>> from elmo_hf.hub.registration import register
    >>> register()
    >>> type(AutoModel.from_config(ElmoConfig(projection_size=8, cell_size=8))).__name__
    'ElmoModel'

    ```
    """
    with pause_gc():
        import transformers

        from elmo_hf.hub.pipelines import register_pipelines
        from elmo_hf.model.configuration_elmo import ElmoConfig
        from elmo_hf.model.modeling_elmo import ElmoModel
        from elmo_hf.model.modeling_elmo_heads import (
            ElmoForQuestionAnswering,
            ElmoForSequenceClassification,
            ElmoForTokenClassification,
        )
        from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
        from elmo_hf.model.tokenization_elmo import ElmoTokenizer

        transformers.AutoConfig.register("elmo", ElmoConfig, exist_ok=True)
        transformers.AutoTokenizer.register(ElmoConfig, tokenizer_class=ElmoTokenizer, exist_ok=True)
        transformers.AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
        transformers.AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining, exist_ok=True)
        for auto_class, model_class in (
            (transformers.AutoModelForTokenClassification, ElmoForTokenClassification),
            (transformers.AutoModelForSequenceClassification, ElmoForSequenceClassification),
            (transformers.AutoModelForQuestionAnswering, ElmoForQuestionAnswering),
        ):
            auto_class.register(ElmoConfig, model_class, exist_ok=True)
        register_pipelines()


def register_with_transformers():
    """Registers now if transformers is loaded, else at the end of its import."""
    if "transformers" in sys.modules:
        register()
    elif not any(isinstance(finder, _TransformersFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TransformersFinder())


class _TransformersFinder(MetaPathFinder):
    """Finds transformers as the other finders do, and makes its import end with the registration."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "transformers":
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None:
            spec.loader = _RegisteringLoader(spec.loader, self)
        return spec


class _RegisteringLoader(Loader):
    def __init__(self, loader: Any, finder: MetaPathFinder):
        self.loader, self.finder = loader, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType):
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        register()


__all__ = ["register", "register_with_transformers"]
