"""Settings that follow from the amount of text and the time: model size, vocabulary, learning rate, batch size."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from elmo_hf.pretraining.corpus import MARKS, Corpus
from elmo_hf.pretraining.intervals import duration
from elmo_hf.pretraining.settings import Settings

DEFAULT_SIZE, DEFAULT_BATCH_SIZE, DEFAULT_EPOCHS = "small", 128, 10.0
# A text gets smaller batches until an epoch has this many windows.
MIN_WINDOWS = 50
# From this many words of text on, a word of the vocabulary must occur three times, and twice in smaller texts.
MIN_WORDS_FOR_THREE = 200_000


class Plan(NamedTuple):
    """Settings for a time and an amount of text.

    Args:
        size: a name of SIZES.
        minutes: the shortest run that this size is for.
        words: the smallest text that this size is for.
        vocabulary: maximum size of the vocabulary.
        learning_rate: of AdamW.
        batch_size: streams of text.
        tokens_per_second: about how many tokens each direction reads on one core of a laptop.
        is_measured: whether this size was trained with these settings; if not, the row is an estimate.
    """

    size: str
    minutes: float
    words: int
    vocabulary: int
    learning_rate: float
    batch_size: int
    tokens_per_second: int
    is_measured: bool


# Size tiny is measured: 7,575 tokens in a second of processor time with batches of 32 and 25,000 words. On 0.96
# million words of German novels it reached, after 512,000 tokens, a held-out perplexity of 229 with batches of 32 and
# of 388 with batches of 128 (word frequencies: 575), because smaller batches make more steps. With batches of 16,
# 20,000 words and 6,000 steps (1.92 million tokens, 400 seconds of processor time in all) it reached 159 on 4.6
# million words of Northern Sámi (word frequencies: 717) and 138 on 0.8 million words of Ukrainian (413). Size small is
# measured on the same text: 2,700 tokens in a second of one core, and 109 after 6.5 million tokens (word frequencies:
# 1,172). Taggers on it are ten points ahead of those on the tiny model above, and four ahead of those on a tiny one
# that read as much. The other rows are estimates, with lower learning rates for larger models.
PLANS = (
    Plan("tiny", 0, 0, 20_000, 2e-3, 32, 7_500, True),
    Plan("small", 30, 500_000, 50_000, 2e-3, 64, 2_700, True),
    Plan("medium", 12 * 60, 10_000_000, 100_000, 1e-3, 128, 800, False),
    Plan("original", 7 * 24 * 60, 100_000_000, 800_000, 5e-4, 128, 200, False),
)


def choose_plan(words: int, minutes: float) -> Plan:
    """Returns the plan of the largest model that the text and the time are enough for.

    Example:

    ```python
    >>> from elmo_hf.pretraining.automatic_settings import choose_plan
    >>> choose_plan(5_000_000, 60).size, choose_plan(5_000_000, 3).size, choose_plan(50_000, 60).size
    ('small', 'tiny', 'tiny')

    ```
    """
    return [plan for plan in PLANS if minutes >= plan.minutes and words >= plan.words][-1]


def choose_sizes(settings: Settings, corpus: Corpus, say: Callable[[str], Any]) -> Settings:
    """Returns the settings with those that were not given chosen by the amount of text and the time."""
    limit = settings.limit
    choices: dict[str, Any] = {}
    if settings.min_count is None:
        choices["min_count"] = _min_count(corpus)
    batch_size = DEFAULT_BATCH_SIZE
    if limit is not None and limit.seconds and settings.size is None and settings.start is None:
        plan = choose_plan(corpus.num_words, limit.seconds / 60)
        choices |= {"size": plan.size}
        if settings.max_size is None:
            choices["max_size"] = plan.vocabulary
        if settings.learning_rate is None and settings.chosen("optimizer") == "adamw":
            choices["learning_rate"] = plan.learning_rate
        batch_size = plan.batch_size
    elif settings.size is None:
        choices["size"] = DEFAULT_SIZE
    if settings.batch_size is None:
        choices["batch_size"] = _largest_batch_size(corpus, settings.unroll_steps, batch_size)
    if settings.epochs is None and limit is None:
        choices["epochs"] = DEFAULT_EPOCHS
    settings = replace(settings, **choices)
    if limit is not None and limit.seconds:
        _say_plan(settings, corpus, limit.seconds, say)
    return settings


def _min_count(corpus: Corpus) -> int:
    # <UNK> is trained on words below the minimum count; without any of them, unseen words would be impossible.
    if corpus.num_words >= MIN_WORDS_FOR_THREE:
        return 3
    return 2 if corpus.counts[len(MARKS) :].max() >= 2 else 1


def _largest_batch_size(corpus: Corpus, unroll_steps: int, largest: int) -> int:
    windows = corpus.num_pairs / unroll_steps / MIN_WINDOWS
    return min(largest, 2 ** max(math.floor(math.log2(windows)), 0)) if windows > 1 else 1


def _say_plan(settings: Settings, corpus: Corpus, seconds: float, say: Callable[[str], Any]):
    say(
        f"plan: {duration(seconds)} on {corpus.num_words:,} words: size {settings.size}, batches of "
        f"{settings.batch_size} x {settings.unroll_steps}, learning rate {settings.chosen('learning_rate'):g}"
    )
    plan = next((plan for plan in PLANS if plan.size == settings.size), None)
    if plan is not None and settings.start is None:
        tokens = plan.tokens_per_second * torch.get_num_threads() * seconds
        epochs = tokens / corpus.num_pairs
        number = f"{epochs:,.0f}" if epochs >= 10 else f"{epochs:.1f}"
        estimate = "" if plan.is_measured else f" (an estimate: size {plan.size} was not measured)"
        say(
            f"expect: about {number} epochs on an idle machine{estimate}; the speed is measured in the first minutes. "
            "Runs fell to 40% of the perplexity of word frequencies after 0.5 million tokens, to 22-33% after 1.9 "
            "million (size tiny), and to 9% after 6.5 million (size small)"
        )
