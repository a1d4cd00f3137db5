"""`transformers.pipeline` builds the pipelines of this package for an ELMo, and its own for any other model."""

from typing import Any

from transformers import Pipeline
from transformers.pipelines import PIPELINE_REGISTRY, _resolve_impl

from elmo_hf.model.modeling_elmo_heads import ElmoTextClassificationPipeline, ElmoTokenClassificationPipeline

PIPELINES = {
    "token-classification": ElmoTokenClassificationPipeline,
    "text-classification": ElmoTextClassificationPipeline,
}


class PipelineDispatch:
    """The entry of a task in transformers' registry: one pipeline for ELMo, the former entry for other models.

    A class that took the place of transformers' own would be built for every model of the task.
    """

    def __init__(self, elmo: type[Pipeline], other: type[Pipeline] | str):
        self.elmo, self.other = elmo, other

    def __call__(self, model: Any = None, **kwargs: Any) -> Pipeline:
        """Builds the pipeline of the model."""
        is_elmo = model is not None and model.config.model_type == "elmo"
        return (self.elmo if is_elmo else self._resolved())(model=model, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("elmo", "other") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._resolved(), name)

    def _resolved(self) -> type[Pipeline]:
        # transformers names its pipelines by strings until they are used.
        return _resolve_impl(self.other)


def register_pipelines():
    """Adds the pipelines to transformers' registry; calling it again changes nothing.

    Example:

    ```python
    >>> from elmo_hf.hub.pipelines import register_pipelines
    >>> register_pipelines()

    ```
    """
    for name, pipeline_class in PIPELINES.items():
        task = PIPELINE_REGISTRY.supported_tasks.get(name)
        if task is not None and not isinstance(task["impl"], PipelineDispatch):
            task["impl"] = PipelineDispatch(pipeline_class, task["impl"])  # type: ignore[type-abstract]


__all__ = ["PIPELINES", "PipelineDispatch", "register_pipelines"]
