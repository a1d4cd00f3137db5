"""The learning-rate schedule, and the clock of a run with a time limit."""

import math
import time
from dataclasses import dataclass, field

SHARE_RISING = 10  # at most one step in so many, once their number is known


@dataclass
class LearningRateSchedule:
    """The learning rate of each step as a share of the highest one. It depends on the step only, never on a clock.

    Args:
        name: `"constant"`, or `"linear"` or `"cosine"`, which fall to zero at the last step.
        warmup: warm-up steps, in which the rate rises.
        steps: the last step; None as long as nobody knows how many steps a time will be.
        known_from: the step after which the last one was known; until then nothing falls.

    Example:

    ```python
    >>> from elmo_hf.pretraining.schedule import LearningRateSchedule
    >>> schedule = LearningRateSchedule("linear", warmup=1, steps=5)
    >>> [round(schedule(step), 2) for step in range(5)]
    [0.5, 1.0, 0.75, 0.5, 0.25]

    ```
    """

    name: str
    warmup: int = 0
    steps: int | None = None
    known_from: int = 0

    @property
    def known(self) -> bool:
        return self.steps is not None

    def fix(self, steps: int, known_from: int = 0):
        self.steps, self.known_from = steps, known_from

    def __call__(self, step: int) -> float:
        rising = self.warmup
        if self.steps is not None and self.known_from:
            # A run that proves to be short does not rise for most of it.
            rising = min(rising, max(self.known_from, self.steps // SHARE_RISING))
        if step < rising:
            return (step + 1) / (self.warmup + 1)
        begin = max(rising, self.known_from)
        if self.name == "constant" or self.steps is None or step < begin:
            return 1.0
        done = min((step - begin) / max(self.steps - begin, 1), 1.0)
        return 1.0 - done if self.name == "linear" else (1 + math.cos(math.pi * done)) / 2


@dataclass
class Clock:
    """The time that a run has used, of all its pieces, and how much it may.

    Example:

    ```python
    >>> from elmo_hf.pretraining.schedule import Clock
    >>> clock = Clock(limit=60.0, before=20.0, began=100.0)
    >>> clock.used(now=110.0), clock.left(now=110.0)
    (30.0, 30.0)

    ```
    """

    limit: float = math.inf
    before: float = 0.0  # used until the run last ended
    began: float = field(default_factory=time.monotonic)

    def start(self):
        self.began = time.monotonic()

    def used(self, now: float | None = None) -> float:
        return self.before + (time.monotonic() if now is None else now) - self.began

    def left(self, now: float | None = None) -> float:
        return max(self.limit - self.used(now), 0.0)
