"""What happens while training goes on: evaluating, saving and stopping at times, freezing at first, reporting."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


@dataclass(frozen=True)
class Interval:
    """So many steps, or so many seconds."""

    steps: int = 0
    seconds: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Interval":
        """Reads `"500"` as steps, and `"10min"`, `"30s"` or `"2h"` as time.

        Example:

        ```python
        >>> from elmo_hf.pretraining.callbacks import Interval
        >>> Interval.parse("500"), Interval.parse("10min")
        (Interval(steps=500, seconds=0.0), Interval(steps=0, seconds=600.0))

        ```
        """
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)?\s*", text)
        number = float(found[1]) if found else 0.0
        if not number or (found[2] is None and not number.is_integer()):
            raise ValueError(f"{text!r} is no interval; accepted are steps, as 500, or a time, as 30s, 10min or 2h.")
        if found[2] is None:
            return cls(steps=int(number))
        return cls(seconds=number * {"s": 1, "min": 60, "h": 3600}[found[2]])

    def is_over(self, steps: int, seconds: float) -> bool:
        return steps >= self.steps > 0 or seconds >= self.seconds > 0


class Rhythm(TrainerCallback):
    """Evaluates, saves and stops when it is time; with several processes, the first one's clock counts."""

    def __init__(self, evaluate: Interval | None, save: Interval | None, stop: Interval | None):
        self.intervals = {"evaluate": evaluate, "save": save, "training_stop": stop}
        self.timed = any(interval is not None and interval.seconds for interval in self.intervals.values())

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self.last = {name: (state.global_step, time.monotonic()) for name in self.intervals}

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        now = time.monotonic()
        if self.timed and args.world_size > 1:
            clock = torch.tensor([now], dtype=torch.float64, device=args.device)
            torch.distributed.broadcast(clock, 0)
            now = clock.item()
        for name, interval in self.intervals.items():
            if interval is None:
                continue
            step, then = self.last[name]
            # A number of steps to stop after is counted from the beginning of the run, not from where it went on.
            steps = state.global_step if name == "training_stop" else state.global_step - step
            if interval.is_over(steps, now - then):
                setattr(control, f"should_{name}", True)
                self.last[name] = state.global_step, now
        if control.should_training_stop or state.global_step >= state.max_steps:
            control.should_save = True


class FrozenAtFirst(TrainerCallback):
    """Trains only the softmax for so many steps, until it fits what it is put on."""

    def __init__(self, steps: int):
        self.steps = steps

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ):
        frozen = state.global_step < self.steps
        if frozen != (model.config.freeze_bilm is True):
            model.freeze(frozen)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ):
        model.freeze(False)


class Report(TrainerCallback):
    """A line for each report and each evaluation, on the first process."""

    def __init__(self, write: Callable[[str], Any]):
        self.write = write

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        if not state.is_world_process_zero or not logs:
            return
        where = f"step {state.global_step:,}/{state.max_steps:,}  epoch {state.epoch or 0:.2f}"
        if "loss" in logs:
            self.write(
                f"{where}  loss {logs['loss']:.4f}  perplexity {_perplexities(logs, '')}  "
                f"{logs['tokens_per_second']:,.0f} tokens/s  {duration(logs['seconds_left'])} left"
            )
        elif "eval_perplexity" in logs:
            self.write(f"{where}  held-out perplexity {logs['eval_perplexity']:.1f} ({_perplexities(logs, 'eval_')})")


def _perplexities(logs: dict[str, float], prefix: str) -> str:
    names = [name for name in ("forward", "backward") if f"{prefix}{name}_perplexity" in logs]
    return ", ".join(f"{name} {logs[f'{prefix}{name}_perplexity']:.1f}" for name in names)


def duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    Example:

    ```python
    >>> from elmo_hf.pretraining.callbacks import duration
    >>> duration(3725)
    '1:02:05'

    ```
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
