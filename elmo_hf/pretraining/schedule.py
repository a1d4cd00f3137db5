"""The learning-rate schedule, and the clock of a run with a time limit."""

import math
import time
from dataclasses import dataclass, field

MAX_WARMUP_SHARE = 10  # at most one step of so many is a warm-up step, once their number is known


@dataclass
class LearningRateSchedule:
    """The learning rate of each step as a share of the peak rate. It depends on the step only, never on a clock.

    Args:
        name: `"constant"`, or `"linear"` or `"cosine"`, which decay to zero at the last step.
        warmup: number of warm-up steps.
        steps: the last step; None while the number of steps of a time limit is not known.
        known_from: the step after which the last one was known; the decay begins after it.

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
        """Whether the last step is known."""
        return self.steps is not None

    def fix(self, steps: int, known_from: int = 0):
        """Sets the last step; `known_from` is the step after which it became known."""
        self.steps, self.known_from = steps, known_from

    def __call__(self, step: int) -> float:
        """Returns the share of the peak rate at a step."""
        warmup = self.warmup
        if self.steps is not None and self.known_from:
            # A run that proves to be short is not a warm-up for most of it.
            warmup = min(warmup, max(self.known_from, self.steps // MAX_WARMUP_SHARE))
        if step < warmup:
            return (step + 1) / (self.warmup + 1)
        begin = max(warmup, self.known_from)
        if self.name == "constant" or self.steps is None or step < begin:
            return 1.0
        done = min((step - begin) / max(self.steps - begin, 1), 1.0)
        return 1.0 - done if self.name == "linear" else (1 + math.cos(math.pi * done)) / 2


@dataclass
class Clock:
    """The time that a run has used, resumed runs included, and its time limit.

    Example:

    ```python
    >>> from elmo_hf.pretraining.schedule import Clock
    >>> clock = Clock(limit=60.0, before=20.0, began=100.0)
    >>> clock.used(now=110.0), clock.left(now=110.0)
    (30.0, 30.0)

    ```
    """

    limit: float = math.inf
    before: float = 0.0  # seconds used before the run was resumed
    began: float = field(default_factory=time.monotonic)

    def start(self):
        """Starts counting."""
        self.began = time.monotonic()

    def used(self, now: float | None = None) -> float:
        """Returns the seconds used so far."""
        return self.before + (time.monotonic() if now is None else now) - self.began

    def left(self, now: float | None = None) -> float:
        """Returns the seconds until the limit."""
        return max(self.limit - self.used(now), 0.0)
