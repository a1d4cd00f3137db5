"""The settings of a head: `config.head`, read, checked and completed."""

import difflib
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError

from .hub_elmo import HEADS, heads_of, load_class


@strict
@dataclass(kw_only=True)
class HeadSettings:
    """What every head can be told. A head's own settings derive from this, in the head's file.

    `presets` names sets of values: `head={"type": ..., "preset": "small"}`. Each method `validate_...` is a check;
    whole numbers and `dropout` are checked here.

    Args:
        elmo_at: where a mix of the biLM's layers joins the vectors of the network: at its `"input"`, `[x; ELMo]`, at
            its `"output"`, `[h; ELMo]`, both, or none. Each has weights of its own.
        word_vectors: rows and size of a table of word vectors that join the input; None for none.
        tune_word_vectors: train the table too.
        output_mix_dropout, output_mix_l2: of the mix at the output; None for the config's `mix_dropout`, `mix_l2`.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    places: ClassVar[tuple[str, ...]] = ("input", "output")

    elmo_at: list = field(default_factory=lambda: ["input"])
    word_vectors: list | None = None
    tune_word_vectors: bool = False
    output_mix_dropout: float | int | None = None
    output_mix_l2: float | int | None = None

    def validate_sizes(self):
        """Sizes of a network, its whole numbers, are at least 1, and its dropout is a share."""
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type is int:
                require(value >= 1, one.name, value, "a whole number of at least 1")
            elif one.name == "dropout":
                require(0 <= value < 1, "dropout", value, "a number from 0 to below 1")

    def validate_inputs(self):
        known = all(place in self.places for place in self.elmo_at) and len(set(self.elmo_at)) == len(self.elmo_at)
        require(known, "elmo_at", self.elmo_at, f"a list of none or some of {', '.join(map(repr, self.places))}")
        table = self.word_vectors
        whole = table is None or (len(table) == 2 and all(isinstance(n, int) and n >= 1 for n in table))
        require(whole, "word_vectors", table, "None, or [number of words, size of a vector]")
        require(
            table is not None or "input" in self.elmo_at,
            "elmo_at",
            self.elmo_at,
            "a list with 'input', or word_vectors: the network would have nothing to read",
        )
        dropout, l2 = self.output_mix_dropout, self.output_mix_l2
        require(dropout is None or 0 <= dropout < 1, "output_mix_dropout", dropout, "None, or 0 to below 1")
        require(l2 is None or l2 >= 0, "output_mix_l2", l2, "None, or a number of at least 0")


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
