"""Settings: what a pretraining run is made of, with defaults and explanations. The command is made of them."""

import math
import os
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NamedTuple

from elmo_hf.pretraining.intervals import Interval
from elmo_hf.text.files import TEXT_FILES
from elmo_hf.text.splitting import SPLITTING_NAMES

TEXT, MODEL, WORDS = "What to read", "What to train", "Vocabulary"
LEARNING, RUN, CARD = "How to train", "The run", "The model card"


class Recipe(NamedTuple):
    """Settings that belong together; each can be given by itself too."""

    optimizer: str
    schedule: str
    words_drawn: int
    fresh_starts: bool


# Measured at equal time on a processor, AdamW reached a third of the perplexity of the original's Adagrad.
RECIPES = {
    "laptop": Recipe("adamw", "cosine", 2048, fresh_starts=True),
    "original": Recipe("adagrad", "constant", 8192, fresh_starts=False),
}
LEARNING_RATES = {"adagrad": 0.2, "adamw": 2e-3}
GRADIENT_NORMS = {"adagrad": 10.0, "adamw": 1.0}
WARMUP = {"adagrad": 0, "adamw": 100}
SCHEDULES = ("constant", "linear", "cosine")
# A vocabulary that is not some times larger than the words drawn is cheaper to take whole.
WORTH_DRAWING = 4


def option(default: Any, text: str, panel: str, **more: Any) -> Any:
    """A field with what the command line says of it: `least` value, `shown` default, `metavar`, `names`."""
    about = {"help": text, "panel": panel, **more}
    if isinstance(default, list):
        return field(default_factory=list, metadata=about)
    return field(default=default, metadata=about)


@dataclass
class Settings:
    """What a run is made of; `elmo-hf pretrain --help` explains each.

    Example:

    ```python
    >>> from elmo_hf.pretraining import Settings
    >>> settings = Settings(output_dir="my-elmo", files=["corpus.txt"], size="tiny")
    >>> settings.batch_size, settings.chosen("optimizer")
    (128, 'adamw')

    ```
    """

    output_dir: str | os.PathLike = field(
        metadata={
            "help": "A new folder for the model. Beside it, in a folder that ends in .run, the run keeps what it "
            "needs to go on: checkpoints, and the text as numbers.",
            "panel": None,
            "names": ("--output-dir", "-o"),
        }
    )
    files: list[str] = option([], TEXT_FILES, TEXT)
    dataset: str | None = option(None, "A dataset in place of FILES: a repository, or a saved folder.", TEXT)
    split: str = option("train", "The dataset's split.", TEXT)
    column: str = option("text", "The dataset's column with the text.", TEXT)
    held_out: list[str] = option(
        [],
        "Text to measure perplexity on; may be given several times. Without it, up to 1,000 sentences of the corpus "
        "are kept out of training.",
        TEXT,
        metavar="FILE",
    )
    errors: str = option("strict", "What to do with text that is not UTF-8: strict, replace or ignore.", TEXT)
    splitting: str | None = option(
        None,
        f"How a line becomes words: {', '.join(SPLITTING_NAMES)}. Saved with the model.",
        TEXT,
        shown="whitespace, or that of --from",
    )
    tokenized: bool = option(
        False,
        "The text is tokenised already: its words stand between spaces, and --splitting is for raw text, later.",
        TEXT,
    )
    size: str = option("small", "tiny, small, medium, original, or a config.json.", MODEL)
    start: str | None = option(
        None,
        "A trained model to tune to this text; english is the one in the package.",
        MODEL,
        names=("--from",),
        metavar="MODEL",
    )
    freeze_steps: int = option(0, "Train only the softmax for so many steps at first.", MODEL, least=0)
    dropout: float | None = option(
        None, "Share of values that are zeroed in training.", MODEL, shown="that of the configuration"
    )
    vocabulary: str | None = option(
        None, "Words to predict, one a line, by frequency. Without it, they are counted.", WORDS, metavar="FILE"
    )
    min_count: int = option(3, "How often a word must occur to be counted in.", WORDS, least=1)
    max_size: int | None = option(None, "Most lines of the vocabulary.", WORDS, least=4)
    extend_vocab: bool = option(False, "Add the text's words to the vocabulary of --from.", WORDS)
    new_vocab: bool = option(
        False, "Give the model of --from the vocabulary of this text; what its softmax knows of a word stays.", WORDS
    )
    num_sampled: int | None = option(
        None,
        "Words drawn for the softmax of a step; 0 for all words.",
        WORDS,
        least=0,
        shown="2048 (original: 8192) for more than four times as many words",
    )
    recipe: str = option(
        "laptop",
        "laptop: AdamW, 0.002, falling as a cosine, 2048 words drawn. original: Adagrad, 0.2, constant, 8192 drawn.",
        LEARNING,
    )
    batch_size: int = option(128, "Streams of text side by side, in all processes.", LEARNING, least=1)
    unroll_steps: int = option(20, "Words of each stream in a step.", LEARNING, least=1)
    accumulate: int = option(1, "Windows whose gradients make one update.", LEARNING, least=1)
    epochs: float = option(10, "Passes over the text.", LEARNING)
    stop_after: str | None = option(
        None,
        "Stop earlier, after so many steps (500) or a time (30s, 10min, 2h). A rate that falls has fallen by then: a "
        "time is made a number of steps once the speed is known.",
        LEARNING,
    )
    optimizer: str | None = option(None, "adagrad, as the original, or adamw.", LEARNING, shown="the recipe's")
    learning_rate: float | None = option(
        None, "The highest rate of learning.", LEARNING, shown="0.2, or 0.002 for adamw"
    )
    schedule: str | None = option(
        None, "Of the learning rate: constant, linear or cosine.", LEARNING, shown="the recipe's"
    )
    warmup_steps: int | None = option(
        None,
        "Steps in which the rate rises.",
        LEARNING,
        least=0,
        shown="0, or 100 for adamw, but a tenth of the steps at most",
    )
    max_grad_norm: float | None = option(
        None,
        "Global norm at which gradients are clipped; 0 for never.",
        LEARNING,
        least=0,
        shown="10, or 1 for adamw",
    )
    bf16: bool = option(
        False, "Mixed precision, with ELMO_HF_KERNELS=0 only: the training kernels compute in float32.", LEARNING
    )
    seed: int = option(0, "Of the weights, the order of sentences and all that is drawn.", LEARNING)
    fresh_starts: bool | None = option(
        None,
        "A row whose window begins with a sentence begins from zeros, as texts do in use; else the state of the "
        "sentence before it, as in the original.",
        LEARNING,
        names=("--fresh-starts/--carried-starts",),
        shown="the recipe's: laptop fresh, original carried",
    )
    shuffle: bool = option(True, "Sentences in a new order each epoch.", LEARNING, names=("--shuffle/--no-shuffle",))
    resume: bool = option(False, "Go on from the newest whole checkpoint.", RUN)
    threads: int | None = option(None, "Threads of the processor.", RUN, least=1, shown="a thread for each core")
    log_every: int = option(50, "Steps between reports.", RUN, least=1)
    evaluate_every: str = option("10min", "Steps or a time.", RUN)
    save_every: str = option("10min", "Steps or a time.", RUN)
    keep: int = option(2, "Checkpoints that are kept.", RUN, least=1)
    report_to: list[str] = option([], "tensorboard, wandb ...: what Trainer reports to.", RUN)
    corpus_name: str | None = option(
        None, "What the text is, in a line.", CARD, shown="the names of the files, or of the dataset"
    )
    language: str | None = option(None, "Of the text, as: en.", CARD)
    license: str | None = option(None, "Of the model, as: apache-2.0.", CARD)

    def chosen(self, name: str) -> Any:
        """A setting that was not given: that of the recipe, or of the optimizer."""
        given = getattr(self, name)
        if given is not None:
            return given
        if name in ("optimizer", "schedule", "fresh_starts"):
            return getattr(RECIPES[self.recipe], name)
        by_optimizer = {"learning_rate": LEARNING_RATES, "max_grad_norm": GRADIENT_NORMS, "warmup_steps": WARMUP}
        return by_optimizer[name][self.chosen("optimizer")]

    def words_drawn(self, vocabulary: int) -> int | None:
        """How many words stand for a vocabulary of this size in a step of training; None for all."""
        if self.num_sampled is not None:
            return self.num_sampled or None
        drawn = RECIPES[self.recipe].words_drawn
        return drawn if vocabulary > WORTH_DRAWING * drawn else None

    def interval(self, name: str) -> Interval | None:
        """A setting that is a number of steps or a time; None if it was not given."""
        text = getattr(self, name)
        if text is None:
            return None
        try:
            return Interval.parse(str(text))
        except ValueError as error:
            raise ValueError(f"--{name.replace('_', '-')}: {error}") from None

    def check(self):
        """Raises where settings are out of range or contradict each other; looks at no file."""
        for one in fields(self):
            self._check_range(one.name, getattr(self, one.name), one.metadata.get("least"))
        for name, accepted in (
            ("recipe", RECIPES),
            ("optimizer", LEARNING_RATES),
            ("schedule", SCHEDULES),
            ("errors", ("strict", "replace", "ignore")),
            ("splitting", SPLITTING_NAMES),
        ):
            value = getattr(self, name)
            if value not in accepted and not (value is None and name not in ("recipe", "errors")):
                raise ValueError(f"The {name} is {value!r}; accepted are {', '.join(accepted)}.")
        for name in ("epochs", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"--{name.replace('_', '-')} is {value}; accepted is a number above 0.")
        for name in ("stop_after", "evaluate_every", "save_every"):
            self.interval(name)
        for name in ("corpus_name", "language", "license"):
            value = getattr(self, name)
            if value is not None and (not value.strip() or not value.isprintable()):
                raise ValueError(f"--{name.replace('_', '-')} is {value!r}; accepted is one line of text.")
        if bool(self.files) == (self.dataset is not None):
            raise ValueError("The text to train on is either FILES or a --dataset: exactly one of the two.")
        if "-" in [*self.files, *self.held_out]:
            raise ValueError(
                "Standard input cannot be read a second time, to go on or by another process; give a file."
            )
        if self.start is None and (self.extend_vocab or self.new_vocab):
            raise ValueError(
                "--extend-vocab and --new-vocab say what becomes of the vocabulary of a model: give --from."
            )
        if self.extend_vocab and self.new_vocab:
            raise ValueError("--extend-vocab and --new-vocab exclude each other.")
        if self.start is not None and self.vocabulary is not None and not self.new_vocab:
            raise ValueError("The model of --from has a vocabulary; a --vocabulary of its own needs --new-vocab.")

    @staticmethod
    def _check_range(name: str, value: Any, least: int | None):
        if least is not None and value is not None and not value >= least:
            raise ValueError(f"--{name.replace('_', '-')} is {value}; accepted is a number of at least {least}.")


def has_default(name: str) -> bool:
    """Whether a setting may be left out."""
    one = Settings.__dataclass_fields__[name]
    return one.default is not MISSING or one.default_factory is not MISSING
