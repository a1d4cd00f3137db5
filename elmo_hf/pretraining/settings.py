"""Settings of a pretraining run, with defaults and help texts; the options of the command are made of them."""

import math
import os
import re
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NamedTuple

from elmo_hf.pretraining.intervals import Interval
from elmo_hf.pretraining.precision import PRECISIONS
from elmo_hf.text.files import TEXT_FILES
from elmo_hf.text.splitting import SPLITTING_NAMES

TEXT, MODEL, WORDS = "What to read", "What to train", "Vocabulary"
LEARNING, RUN, CARD = "How to train", "The run", "The model card"


class Recipe(NamedTuple):
    """Settings that belong together; each can also be set by itself."""

    optimizer: str
    schedule: str
    negative_samples: int
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
# The full softmax is cheaper for a vocabulary that has fewer words than this for each negative sample.
MIN_WORDS_PER_SAMPLE = 4
# Language, script, region and variants: se, zh-Hant, sr-Latn-RS.
LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")


def option(default: Any, text: str, panel: str, **more: Any) -> Any:
    """A field with the metadata of its option: `least` value, `shown` default, `metavar`, `names`."""
    metadata = {"help": text, "panel": panel, **more}
    if isinstance(default, list):
        return field(default_factory=list, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Settings:
    """The settings of a run; `elmo-hf pretrain --help` explains each.

    Example:

    ```python
    >>> from elmo_hf.pretraining import Settings
    >>> settings = Settings(output_dir="my-elmo", files=["corpus.txt"], size="tiny")
    >>> settings.chosen("optimizer"), settings.chosen("learning_rate")
    ('adamw', 0.002)

    ```
    """

    output_dir: str | os.PathLike = field(
        metadata={
            "help": "A new folder for the model. Checkpoints and the encoded text are in a folder beside it, which "
            "ends in .run.",
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
        f"How raw text is split into words: {', '.join(SPLITTING_NAMES)}. Saved with the model.",
        TEXT,
        shown="that of --from, or what suits the text",
    )
    tokenized: bool | None = option(
        None,
        "The text is tokenised already: its words stand between spaces, and --splitting is only for later raw text.",
        TEXT,
        names=("--tokenized/--no-tokenized",),
        shown="if the text looks like it",
    )
    size: str | None = option(
        None,
        "tiny, small, medium, original, or a config.json.",
        MODEL,
        shown="by the amount of text and the time; small without --minutes",
    )
    start: str | None = option(
        None,
        "A trained model to tune to this text; english is the one in the package.",
        MODEL,
        names=("--from",),
        metavar="MODEL",
    )
    freeze_steps: int = option(0, "Train only the softmax for so many steps at first.", MODEL, least=0)
    dropout: float | None = option(None, "Dropout probability in training.", MODEL, shown="that of the configuration")
    vocabulary: str | None = option(
        None, "Words to predict, one a line, by frequency. Without it, they are counted.", WORDS, metavar="FILE"
    )
    min_count: int | None = option(
        None, "How often a word of the vocabulary must occur.", WORDS, least=1, shown="3, or 2 for small texts"
    )
    max_size: int | None = option(
        None, "Maximum size of the vocabulary.", WORDS, least=4, shown="by the time; no maximum without --minutes"
    )
    extend_vocab: bool = option(False, "Add the text's words to the vocabulary of --from.", WORDS)
    new_vocab: bool = option(
        False, "Replace the vocabulary of --from by that of this text; words that it knows keep their weights.", WORDS
    )
    num_sampled: int | None = option(
        None,
        "Negative samples of the softmax in a step; 0 for the full softmax.",
        WORDS,
        least=0,
        shown="2048 (original: 8192) for more than four times as many words",
    )
    recipe: str = option(
        "laptop",
        "laptop: AdamW, 0.002, cosine decay, 2048 negative samples. original: Adagrad, 0.2, constant, 8192 samples.",
        LEARNING,
    )
    batch_size: int | None = option(
        None, "Streams of text side by side, in all processes.", LEARNING, least=1, shown="128, less for small texts"
    )
    unroll_steps: int = option(20, "Words of each stream in a step.", LEARNING, least=1)
    accumulate: int = option(1, "Windows whose gradients make one update.", LEARNING, least=1)
    epochs: float | None = option(
        None, "Passes over the text.", LEARNING, shown="10; no maximum if a time or a number of steps is given"
    )
    minutes: float | None = option(
        None, "How long to train. Size, vocabulary and learning rate follow from it, unless they are given.", LEARNING
    )
    stop_after: str | None = option(
        None,
        "A number of steps (500), or a time (30s, 10min, 2h). The learning rate has decayed by then: a time is "
        "converted into a number of steps once the speed is known.",
        LEARNING,
    )
    optimizer: str | None = option(None, "adagrad, as the original, or adamw.", LEARNING, shown="the recipe's")
    learning_rate: float | None = option(None, "Peak learning rate.", LEARNING, shown="0.2, or 0.002 for adamw")
    schedule: str | None = option(
        None, "Of the learning rate: constant, linear or cosine.", LEARNING, shown="the recipe's"
    )
    warmup_steps: int | None = option(
        None,
        "Warm-up steps of the learning rate.",
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
    precision: str = option(
        "auto",
        "float32; or bf16, mixed precision: products in bfloat16, weights and sums in float32, for processors with "
        "AVX-512 BF16 or AMX; or auto, bf16 on these processors. A resumed run keeps its precision.",
        LEARNING,
    )
    seed: int = option(0, "Random seed of weights, order of sentences, dropout and negative samples.", LEARNING)
    fresh_starts: bool | None = option(
        None,
        "Reset the state of a row whose window starts with a sentence, or carry it over from the sentence before, as "
        "the original does.",
        LEARNING,
        names=("--fresh-starts/--carried-starts",),
        shown="the recipe's: laptop resets, original carries",
    )
    shuffle: bool = option(True, "Sentences in a new order each epoch.", LEARNING, names=("--shuffle/--no-shuffle",))
    resume: bool = option(False, "Resume from the newest complete checkpoint.", RUN)
    threads: int | None = option(None, "Threads of the processor.", RUN, least=1, shown="a thread for each core")
    log_every: int = option(50, "Steps between reports.", RUN, least=1)
    evaluate_every: str = option("10min", "Steps or a time.", RUN)
    save_every: str = option("10min", "Steps or a time.", RUN)
    keep: int = option(2, "Number of checkpoints to keep.", RUN, least=1)
    report_to: list[str] = option([], "tensorboard, wandb ...: what Trainer reports to.", RUN)
    push_to: str | None = option(None, "Upload the finished model to this repository of the Hub.", RUN, metavar="REPO")
    corpus_name: str | None = option(
        None, "What the text is, in a line.", CARD, shown="the names of the files, or of the dataset"
    )
    language: str | None = option(None, "Language of the text as a BCP 47 tag, e.g. en, se, zh-Hant.", CARD)
    license: str | None = option(None, "Licence of the model, e.g. apache-2.0.", CARD)

    def chosen(self, name: str) -> Any:
        """Returns a setting, or its default by the recipe or the optimizer."""
        value = getattr(self, name)
        if value is not None:
            return value
        if name in ("optimizer", "schedule", "fresh_starts"):
            return getattr(RECIPES[self.recipe], name)
        by_optimizer: dict[str, Any] = {
            "learning_rate": LEARNING_RATES,
            "max_grad_norm": GRADIENT_NORMS,
            "warmup_steps": WARMUP,
        }
        return by_optimizer[name][self.chosen("optimizer")]

    def negative_samples(self, vocabulary_size: int) -> int | None:
        """Returns the number of negative samples for a vocabulary of this size, or None for the full softmax."""
        if self.num_sampled is not None:
            return self.num_sampled or None
        samples = RECIPES[self.recipe].negative_samples
        return samples if vocabulary_size > MIN_WORDS_PER_SAMPLE * samples else None

    @property
    def limit(self) -> Interval | None:
        """The time or the number of steps after which training stops."""
        return self.interval("stop_after") if self.minutes is None else Interval(seconds=60 * self.minutes)

    def interval(self, name: str) -> Interval | None:
        """Parses a setting that is a number of steps or a time; None if it was not given."""
        text = getattr(self, name)
        if text is None:
            return None
        try:
            return Interval.parse(str(text))
        except ValueError as error:
            raise ValueError(f"Invalid {_option_name(name)}: {error}") from None

    def check(self):
        """Raises ValueError for settings that are out of range or contradict each other; reads no file."""
        for setting in fields(self):
            self._check_minimum(setting.name, getattr(self, setting.name), setting.metadata.get("least"))
        self._check_choices()
        for name in ("epochs", "minutes", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"Invalid {_option_name(name)}: {value}. Expected a number above 0.")
        for name in ("stop_after", "evaluate_every", "save_every"):
            self.interval(name)
        if self.minutes is not None and self.stop_after is not None:
            raise ValueError("--minutes and --stop-after both limit the run. Expected one of the two.")
        self._check_card()
        if bool(self.files) == (self.dataset is not None):
            raise ValueError("The text to train on is either FILES or a --dataset. Expected exactly one of the two.")
        if "-" in [*self.files, *self.held_out]:
            raise ValueError("Standard input cannot be read a second time, e.g. by --resume. Expected a file.")
        self._check_vocabulary()

    def _check_choices(self):
        for name, choices in (
            ("recipe", RECIPES),
            ("optimizer", LEARNING_RATES),
            ("schedule", SCHEDULES),
            ("precision", PRECISIONS),
            ("errors", ("strict", "replace", "ignore")),
            ("splitting", SPLITTING_NAMES),
        ):
            value = getattr(self, name)
            if value not in choices and not (value is None and name not in ("recipe", "errors", "precision")):
                raise ValueError(f"Invalid {_option_name(name)}: {value!r}. Expected one of {', '.join(choices)}.")

    def _check_card(self):
        for name in ("corpus_name", "language", "license"):
            value = getattr(self, name)
            if value is not None and (not value.strip() or not value.isprintable()):
                raise ValueError(f"Invalid {_option_name(name)}: {value!r}. Expected one line of text.")
        if self.language is not None and not LANGUAGE_TAG.fullmatch(self.language):
            raise ValueError(f"Invalid --language: {self.language!r}. Expected a BCP 47 tag, e.g. en, se or zh-Hant.")

    def _check_vocabulary(self):
        if self.start is None and (self.extend_vocab or self.new_vocab):
            raise ValueError("--extend-vocab and --new-vocab change the vocabulary of a model. Expected --from.")
        if self.extend_vocab and self.new_vocab:
            raise ValueError("--extend-vocab and --new-vocab exclude each other.")
        if self.start is not None and self.vocabulary is not None and not self.new_vocab:
            raise ValueError("The model of --from has a vocabulary. Expected --new-vocab with a --vocabulary.")

    @staticmethod
    def _check_minimum(name: str, value: Any, minimum: int | None):
        if minimum is not None and value is not None and not value >= minimum:
            raise ValueError(f"Invalid {_option_name(name)}: {value}. Expected a number of at least {minimum}.")


def _option_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def has_default(name: str) -> bool:
    """Whether a setting may be left out."""
    setting = Settings.__dataclass_fields__[name]
    return setting.default is not MISSING or setting.default_factory is not MISSING
