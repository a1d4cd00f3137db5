"""The registry of heads: the networks of the paper, by task class and name."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from elmo_hf.model.modeling_elmo_heads import ElmoHead


class Head(NamedTuple):
    """A network that a task class can have on top of the biLM: `head="name"` of the class `owner`.

    Args:
        owner: name of the task class.
        name: type of the head, as in `config.head["type"]`.
        module: module of the class, relative to this package.
        class_name: name of the class.
    """

    owner: str
    name: str
    module: str
    class_name: str


# Linear heads are not here: they travel with every saved model, in modeling_elmo_heads.py.
HEADS = (
    Head("ElmoForTokenClassification", "bilstm-crf", "tagging.head", "BiLstmCrf"),
    Head("ElmoForTokenClassification", "srl", "srl.head", "PredicateLstm"),
    Head("ElmoForSequenceClassification", "bcn", "sentiment.head", "BiattentiveClassifier"),
    Head("ElmoForSequenceClassification", "esim", "inference.head", "InferencePairs"),
    Head("ElmoForQuestionAnswering", "bidaf", "questions.head", "BidafSpans"),
    Head("ElmoForCoreference", "spans", "coreference.head", "SpanRanker"),
)


def head_names(owner: str) -> list[str]:
    """The types of head of a task class.

    Example:

    ```python
    >>> from elmo_hf.tasks import head_names
    >>> head_names("ElmoForTokenClassification")
    ['bilstm-crf', 'srl']

    ```
    """
    return [head.name for head in HEADS if head.owner == owner]


def head_owner(name: Any) -> str | None:
    """The task class that has a type of head, or None."""
    return next((head.owner for head in HEADS if head.name == name), None)


def head_class(owner: str, name: str) -> "type[ElmoHead]":
    """The class of a head; its module is imported here.

    Example:

    ```python
    >>> from elmo_hf.tasks import head_class
    >>> head_class("ElmoForTokenClassification", "bilstm-crf").__name__
    'BiLstmCrf'

    ```
    """
    head = next(head for head in HEADS if (head.owner, head.name) == (owner, name))
    return getattr(import_module(f"elmo_hf.tasks.{head.module}"), head.class_name)


def find_head(name: Any, values: dict[str, Any], owner: str, has_linear: bool) -> tuple[type, dict[str, Any]]:
    """The class of a head and its settings, `"preset": "small"` replaced by the values that it stands for.

    Raises ValueError for names that are not known; `has_linear` says that the task class has a linear head too.
    """
    from elmo_hf.model.configuration_elmo import check, choices

    names = ["linear"] * has_linear + head_names(owner)
    other = f"; {name!r} is a head of {head_owner(name)}" if name not in names and head_owner(name) else ""
    check(name in names, "head", name, f"{choices(name, names)} for {owner}{other}")
    network, values = head_class(owner, name), dict(values)
    presets, preset = network.Settings.presets, values.pop("preset", None)
    if preset is not None:
        expected = " or ".join(map(repr, presets)) or "none: this head has one size"
        check(preset in presets, f"head['preset'] of {name!r}", preset, expected)
        values = {**presets[preset], **values}
    return network, values


__all__ = ["HEADS", "Head", "find_head", "head_class", "head_names", "head_owner"]
