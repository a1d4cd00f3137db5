"""FinetuneTrainer: a Trainer that scores a task on development data and resumes bit for bit."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from elmo_hf.hub.trainer import ElmoTrainer

from .task import Task

EPOCH_GENERATOR = "epoch_rng_state.pth"


class FinetuneTrainer(ElmoTrainer):
    """A Trainer whose `evaluate` predicts prepared examples and computes the scores of a task.

    Args:
        task: the task.
        keywords: as for transformers' Trainer; `eval_dataset` holds prepared examples.
    """

    def __init__(self, *, task: Task, **keywords: Any):
        self.task = task
        super().__init__(**keywords)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """The scores of the model on prepared examples, by default on the development data."""
        examples = self.eval_dataset if eval_dataset is None else eval_dataset
        start = time.perf_counter()
        scores = score_model(self.task, self.model, self.processing_class, examples)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in scores.items()}
        metrics[f"{metric_key_prefix}_runtime"] = round(time.perf_counter() - start, 2)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def score_model(task: Task, model: Any, tokenizer: Any, examples: Any) -> dict[str, float]:
    """The scores of a model on prepared examples."""
    was_training = model.training
    model.eval()
    predictions = task.predict(model, tokenizer, examples)
    model.train(was_training)
    sums = task.counts(examples, predictions).sum(0)
    return {name: float(value) for name, value in task.scores(sums).items()}


class EpochOrder(TrainerCallback):
    """Restores the order of an epoch when a run is resumed in the middle of it.

    Grouping by length draws the order from torch's generator, whose state the Trainer saves as it is at the
    checkpoint, not as it was when the epoch began.
    """

    def __init__(self):
        self.state_at_begin: torch.Tensor | None = None

    @staticmethod
    def _file(args: TrainingArguments, state: TrainerState) -> Path:
        return Path(args.output_dir or "", f"checkpoint-{state.global_step}", EPOCH_GENERATOR)

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any):
        """Restores the state of the generator once, in the epoch of the checkpoint."""
        if self.state_at_begin is None and self._file(args, state).exists():
            torch.set_rng_state(torch.load(self._file(args, state)))
        self.state_at_begin = torch.get_rng_state()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any):
        """Saves the state that the epoch began with, or that the next one begins with."""
        ended = state.epoch == int(state.epoch)
        torch.save(torch.get_rng_state() if ended else self.state_at_begin, self._file(args, state))


class Report(TrainerCallback):
    """Prints loss, scores and the time that is left after each evaluation; on a terminal there is a progress bar."""

    def __init__(self, score: str, say: Callable[[str], Any]):
        self.score, self.say = score, say
        self.loss: float | None = None
        self.best = -float("inf")
        self.bar: Any = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any):
        """Opens the progress bar."""
        from tqdm import tqdm

        self.start, self.first_step = time.monotonic(), state.global_step
        self.best = state.best_metric if state.best_metric is not None else self.best
        # disable=None: no bar if the output is not a terminal
        self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit=" steps", disable=None, leave=False)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any):
        """Moves the progress bar."""
        self.bar.update(state.global_step - self.bar.n)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any
    ):
        """Remembers the training loss."""
        self.loss = (logs or {}).get("loss", self.loss)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Any = None, **_: Any
    ):
        """Prints one line."""
        name = f"eval_{self.score}"
        if name not in (metrics or {}) or self.bar is None:
            return
        value, self.best = metrics[name], max(self.best, metrics[name])
        loss = "" if self.loss is None else f"loss {self.loss:.3f}, "
        done = max(state.global_step - self.first_step, 1)
        left = (state.max_steps - state.global_step) * (time.monotonic() - self.start) / done
        line = (
            f"step {state.global_step:,} of {state.max_steps:,}, epoch {state.epoch:.1f}: {loss}dev {self.score} "
            f"{100 * value:.2f} (best {100 * self.best:.2f}), at most {_duration(left)} left"
        )
        self.bar.clear()
        self.say(line)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any):
        """Closes the progress bar and says why the training ended."""
        self.bar.close()
        self.bar = None
        if state.global_step < state.max_steps:
            self.say(f"Stopped early after {state.global_step:,} steps: the dev score rose no more.")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was saved completely; a killed run may leave one that was not.

    `EpochOrder` writes its file after the Trainer has written all others.
    """
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    return next((path for path in checkpoints[::-1] if _is_complete(path)), None)


def _is_complete(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        torch.load(checkpoint / EPOCH_GENERATOR)
    except Exception:  # whatever a file that breaks off makes a reader raise
        return False
    return True


class EarlyStopping(EarlyStoppingCallback):
    """Stops a run when `early_stopping_patience` evaluations in a row are not better than the best."""

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **keywords: Any):
        """Stops a resumed run at once if it had stopped before it was killed."""
        super().on_train_begin(args, state, control, **keywords)
        if self.early_stopping_patience_counter >= self.early_stopping_patience:
            control.should_training_stop = True
        return control


__all__ = ["EarlyStopping", "EpochOrder", "FinetuneTrainer", "Report", "last_checkpoint", "score_model"]
