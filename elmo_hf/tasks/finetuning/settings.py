"""Settings of a fine-tuning, with their checks."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmo_hf.hub.model_names import BUNDLED
from elmo_hf.model.configuration_elmo import check, choices
from elmo_hf.tasks.heads import HEADS

# Where ELMo joins the network.
PLACES = {"none": [], "input": ["input"], "output": ["output"], "both": ["input", "output"]}


@dataclass(kw_only=True)
class FinetuneSettings:
    """Settings of `finetune`, which describes them; None: the default for the task and the data."""

    model: str = "english"
    head: str | None = None
    preset: str | None = None
    elmo_at: str = "input"
    word_vectors: str | None = None
    tune_bilm: bool = False
    lora: bool = False
    lr: float | None = None
    bilm_lr: float | None = None
    epochs: float | None = None
    batch_size: int | None = None
    patience: int | None = None
    seed: int = 1
    limit: int | float | None = None
    max_length: int = 300
    part_sentences: int = 30
    phrases: bool = False
    answerable_only: bool = False
    mix_dropout: float | None = None

    def __post_init__(self):
        # The command line gives the folder of a bundled model; its name is what reports and cards show.
        if Path(self.model).parent == BUNDLED:
            self.model = Path(self.model).name

    def check(self, heads: tuple[str, ...]):
        """Raises ValueError for values that cannot be; `heads` are those of the task."""
        check(self.head is None or self.head in heads, "head", self.head, choices(self.head, list(heads)))
        check(self.preset in (None, "paper", "small"), "preset", self.preset, "'paper' or 'small'")
        check(self.elmo_at in PLACES, "elmo_at", self.elmo_at, ", ".join(map(repr, PLACES)))
        for name in ("lr", "bilm_lr", "epochs"):
            value = getattr(self, name)
            check(value is None or 0 < value < math.inf, name, value, "a number above 0")
        for name in ("batch_size", "patience", "max_length", "part_sentences"):
            value = getattr(self, name)
            check(value is None or value >= 1, name, value, "a whole number of at least 1")
        dropout = self.mix_dropout
        check(dropout is None or 0 <= dropout < 1, "mix_dropout", dropout, "a probability from 0 to below 1")
        check(self.limit is None or self.limit > 0, "limit", self.limit, "a number of examples, or a share below 1")
        check(0 <= self.seed < 2**32, "seed", self.seed, "a whole number from 0 to below 2**32")
        if self.lora and self.tune_bilm:
            raise ValueError("`lora` trains adapters of the biLM and `tune_bilm` all of it. Expected one of the two.")
        if self.bilm_lr is not None and not (self.lora or self.tune_bilm):
            raise ValueError(
                "`bilm_lr` is the learning rate of a biLM that is trained: it needs `tune_bilm` or `lora`."
            )
        if self.elmo_at == "none" and self.word_vectors is None:
            raise ValueError(
                "Without ELMo (`elmo_at='none'`) the network reads word vectors: it needs `word_vectors`."
            )

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds them."""
        return asdict(self)


def has_preset(head: str, preset: str) -> bool:
    """Whether a head has a preset of this name."""
    from elmo_hf.tasks.heads import head_class

    row = next((row for row in HEADS if row.name == head), None)
    return row is not None and preset in head_class(row.owner, head).Settings.presets


__all__ = ["PLACES", "FinetuneSettings", "has_preset"]
