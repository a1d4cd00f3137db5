"""A fence around what transformers does not promise: methods that are overridden here must still exist there."""

from collections.abc import Callable
from typing import TypeVar

import transformers

WORKS_WITH = "5.23"

Class = TypeVar("Class", bound=type)


def overrides(*names: str) -> Callable[[Class], Class]:
    """Decorates a class whose methods of these names take the place of those of a base class.

    An override of a method that the base class has no longer would never be called, and nothing would say so.

    Example:

    ```python
    >>> from transformers import TokenClassificationPipeline
    >>> from elmo_hf.model.overriding_elmo import overrides
    >>> @overrides("postprocess")
    ... class Pipeline(TokenClassificationPipeline):
    ...     pass

    ```
    """

    def check(decorated: Class) -> Class:
        bases = decorated.__mro__[1:]
        for name in names:
            if not any(name in vars(base) for base in bases):
                raise ImportError(
                    f"transformers {transformers.__version__} has no {decorated.__base__.__name__}.{name}, which "
                    f"{decorated.__name__} replaces; it is known to work with transformers {WORKS_WITH}."
                )
        return decorated

    return check


__all__ = ["overrides"]
