"""What the settings of the networks of tasks share."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict

from elmo_hf.model.configuration_elmo import check
from elmo_hf.model.modeling_elmo_heads import HeadSettings


@strict
@dataclass(kw_only=True)
class NetworkSettings(HeadSettings):
    """Settings of a network. Whole numbers are sizes, at least 1, and `dropout` is a probability."""

    # Named sets of values, chosen by head={"type": ..., "preset": "small"}.
    presets: ClassVar[dict[str, dict[str, Any]]] = {}

    def validate_sizes(self):
        """Checks sizes and probabilities."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.type is int:
                check(value >= 1, setting.name, value, "a whole number of at least 1")
            elif setting.name == "dropout":
                check(0 <= value < 1, "dropout", value, "a probability from 0 to below 1")


__all__ = ["NetworkSettings"]
