"""Trainer callbacks: periodic evaluation and saving, time limit, freeze warm-up, progress report."""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from elmo_hf.pretraining.intervals import Interval, duration
from elmo_hf.pretraining.schedule import Clock, LearningRateSchedule

# Steps over which the speed is measured, after warm-up steps in which memory is allocated and caches are filled.
STEPS_MEASURED, STEPS_BEFORE = 50, 10


def _now(args: TrainingArguments) -> float:
    """Returns the time of the clock of the first process."""
    now = time.monotonic()
    if args.world_size > 1:
        clock = torch.tensor([now], dtype=torch.float64, device=args.device)
        torch.distributed.broadcast(clock, 0)
        now = clock.item()
    return now


class PeriodicEvaluationAndSaving(TrainerCallback):
    """Evaluates and saves at intervals, and saves at the end. It must be the last callback."""

    def __init__(self, evaluate: Interval | None, save: Interval | None):
        self.intervals = {"evaluate": evaluate, "save": save}
        self.timed = any(interval is not None and interval.seconds for interval in self.intervals.values())

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        """Starts the intervals."""
        self.last = {name: (state.global_step, _now(args)) for name in self.intervals}

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        """Evaluates and saves if an interval is over."""
        now = _now(args) if self.timed else time.monotonic()
        for name, interval in self.intervals.items():
            step, then = self.last[name]
            if interval is not None and interval.is_over(state.global_step - step, now - then):
                setattr(control, f"should_{name}", True)
                self.last[name] = state.global_step, now
        if control.should_training_stop or state.global_step >= state.max_steps:
            control.should_save = True


class TimeLimit(TrainerCallback):
    """Ends a run after a time.

    With a constant learning rate, the clock decides. A decaying rate depends on the last step: the speed is measured
    once and the time is converted into a number of steps, which is final. `on_fix` is called with the schedule.
    """

    def __init__(self, clock: Clock, schedule: LearningRateSchedule, on_fix: Callable[[LearningRateSchedule], Any]):
        self.clock, self.schedule, self.on_fix = clock, schedule, on_fix
        self.first: tuple[int, float] | None = None  # the step from which on the speed is measured, and when it was

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        """Stops the run, or fixes its number of steps."""
        if self.schedule.known:
            return
        used, step = self.clock.used(_now(args)), state.global_step
        if self.schedule.name == "constant":
            control.should_training_stop |= used >= self.clock.limit
        elif self.first is None:
            if step >= STEPS_BEFORE or used >= self.clock.limit / 20:
                self.first = step, used
        elif step - self.first[0] >= STEPS_MEASURED or used >= self.clock.limit / 10:
            seconds = (used - self.first[1]) / (step - self.first[0])
            left = max(round((self.clock.limit - used) / seconds), 1)
            state.max_steps = min(step + left, state.max_steps)
            self.schedule.fix(state.max_steps, step)
            self.on_fix(self.schedule)


class FreezeWarmup(TrainerCallback):
    """Trains only the softmax for the first steps, with a frozen biLM."""

    def __init__(self, steps: int):
        self.steps = steps

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ):
        """Freezes or unfreezes the biLM."""
        frozen = state.global_step < self.steps
        if frozen != (model.config.freeze_bilm is True):
            model.freeze(frozen)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ):
        """Unfreezes the biLM."""
        model.freeze(False)


class ProgressReport(TrainerCallback):
    """Writes a line for each report and each evaluation, on the first process."""

    def __init__(self, write: Callable[[str], Any], schedule: LearningRateSchedule | None = None):
        self.write, self.schedule = write, schedule

    def steps(self, state: TrainerState) -> str:
        """Returns the number of the last step, or `?` while it is not known."""
        return f"{state.max_steps:,}" if self.schedule is None or self.schedule.known else "?"

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        """Writes the line."""
        if not state.is_world_process_zero or not logs:
            return
        where = f"step {state.global_step:,}/{self.steps(state)}  epoch {state.epoch or 0:.2f}"
        if "loss" in logs:
            over = "perplexity over samples" if logs["negative_samples"] else "perplexity"
            self.write(
                f"{where}  loss {logs['loss']:.4f}  {over} {_perplexities(logs, '')}  "
                f"rate {logs['learning_rate']:.2g}  {logs['tokens_per_second']:,.0f} tokens/s  "
                f"{duration(logs['seconds_used'])}, {duration(logs['seconds_left'])} left"
            )
        elif "eval_perplexity" in logs:
            self.write(f"{where}  held-out perplexity {logs['eval_perplexity']:.1f} ({_perplexities(logs, 'eval_')})")


def _perplexities(logs: dict[str, float], prefix: str) -> str:
    names = [name for name in ("forward", "backward") if f"{prefix}{name}_perplexity" in logs]
    return ", ".join(f"{name} {logs[f'{prefix}{name}_perplexity']:.1f}" for name in names)
