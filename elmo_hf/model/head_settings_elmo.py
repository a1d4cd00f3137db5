"""The settings of a head: `config.head`, read, checked and completed."""

import difflib
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError

from .hub_elmo import HEADS, heads_of, load_class


@strict
@dataclass(kw_only=True)
class HeadSettings:
    """What every head can be told. A head's own settings derive from this, in the head's file.

    `presets` names sets of values: `head={"type": ..., "preset": "small"}`.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {}


def require(condition: Any, name: str, found: Any, accepted: str):
    """Raises a sentence about a setting of a head unless the condition holds."""
    if not condition:
        raise ValueError(f"`{name}` is {found!r}; accepted is {accepted}.")


def read_head(head: str | dict | None, owner: str) -> tuple[str, type, HeadSettings]:
    """What `config.head` means for the task class `owner`: the head's name, its class, all its settings.

    Example:

    ```python
    >>> from elmo_hf.model.head_settings_elmo import read_head
    >>> name, _, settings = read_head({"pooling": "max"}, "ElmoForSequenceClassification")
    >>> name, settings.pooling, settings.sentence_pairs
    ('linear', 'max', False)

    ```
    """
    given = {"type": head} if isinstance(head, str) else dict(head or {})
    rows = heads_of(owner)
    name = given.pop("type", next(iter(rows)))
    if name not in rows:
        raise ValueError(_unknown_type(name, owner))
    head_class = load_class(rows[name].module, rows[name].class_name)
    return name, head_class, _settings(name, head_class.Settings, given)


def head_dict(name: str, settings: HeadSettings) -> dict[str, Any]:
    """The settings as they are saved, all of them."""
    return {"type": name, **asdict(settings)}


def _settings(name: str, settings_class: type[HeadSettings], given: dict[str, Any]) -> HeadSettings:
    preset = given.pop("preset", None)
    if preset is not None:
        known = settings_class.presets
        accepted = " or ".join(map(repr, known)) or "none: this head has only one size"
        require(preset in known, f"head['preset'] of {name!r}", preset, accepted)
        given = {**known[preset], **given}
    names = [field.name for field in fields(settings_class)]
    for key in given:
        if key not in names:
            raise ValueError(f"The head {name!r} has no setting {key!r}{_instead(key, names)}")
    try:
        return settings_class(**given)
    except StrictDataclassError as error:
        raise ValueError(f"The head {name!r}: {_one_line(error)}") from error


def _unknown_type(name: Any, owner: str) -> str:
    accepted = list(heads_of(owner))
    others = [head.owner for head in HEADS if head.name == name]
    if others:
        return f"`head` is {name!r}, a head of {others[0]}; accepted for {owner} are {', '.join(map(repr, accepted))}."
    return f"`head` is {name!r}, which {owner} does not have{_instead(name, accepted)}"


def _instead(name: Any, accepted: list[str]) -> str:
    close = difflib.get_close_matches(str(name), accepted, 1)
    meant = f"; did you mean {close[0]!r}" if close else ""
    known = ", ".join(map(repr, accepted)) if accepted else "none"
    return f"{meant}? Accepted: {known}." if close else f"; accepted: {known}."


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


__all__ = ["HeadSettings", "head_dict", "read_head", "require"]
