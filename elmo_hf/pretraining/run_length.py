"""How long a run is, in steps or in seconds, and the learning-rate schedule that follows from it."""

import math
from dataclasses import dataclass

from elmo_hf.pretraining.run_folder import RunFolder
from elmo_hf.pretraining.schedule import MAX_WARMUP_SHARE, LearningRateSchedule
from elmo_hf.pretraining.settings import Settings
from elmo_hf.pretraining.training_windows import TrainingWindows

# More steps than any run has: Trainer needs a number where only the time limits a run.
UNLIMITED_STEPS = 10**9


@dataclass
class RunLength:
    """The maximum number of steps, the maximum time in seconds (infinite without a time limit), and the schedule."""

    steps: int
    seconds: float
    schedule: LearningRateSchedule

    @classmethod
    def of(cls, settings: Settings, windows: TrainingWindows, folder: RunFolder, resumes: bool) -> "RunLength":
        """Computes the length of a run; a given time or number of steps replaces the default number of epochs."""
        limit, steps = settings.limit, UNLIMITED_STEPS
        if settings.epochs is not None:
            steps = math.ceil(settings.epochs * math.ceil(windows.windows_per_epoch / settings.accumulate))
        if limit is not None and limit.steps:
            steps = min(steps, limit.steps)
        seconds = 0.0 if limit is None else limit.seconds
        has_time_limit = seconds > 0
        warmup = settings.chosen("warmup_steps")
        if settings.warmup_steps is None:
            warmup = min(warmup, steps // MAX_WARMUP_SHARE)
        schedule = LearningRateSchedule(settings.chosen("schedule"), warmup, None if has_time_limit else steps)
        if has_time_limit and schedule.name != "constant":
            if not resumes:
                folder.forget_schedule()
            folder.read_schedule(schedule)
        return cls(steps, seconds if has_time_limit else math.inf, schedule)

    @property
    def max_steps(self) -> int:
        """The last step as far as it is known."""
        return self.schedule.steps or self.steps

    def is_over(self, steps: int, seconds: float) -> bool:
        """Whether a run that has made these steps in this time is finished."""
        out_of_time = self.schedule.name == "constant" and seconds >= self.seconds
        return out_of_time or steps >= self.max_steps

    def fact(self) -> str | None:
        """Returns what must stay the same when the run is resumed: all that the learning rates depend on."""
        if self.schedule.name == "constant":
            return None
        return f"{self.seconds:g} s" if math.isfinite(self.seconds) else f"{self.steps} steps"
