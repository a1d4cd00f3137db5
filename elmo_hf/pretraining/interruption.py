"""Ctrl-C and SIGTERM during training: a checkpoint is written before the run ends."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class TrainingInterrupted(KeyboardInterrupt):
    """Training was interrupted by a signal, after a checkpoint was written.

    Args:
        signal_number: the signal.
        checkpoint: the newest checkpoint, or None if there is none.
    """

    def __init__(self, signal_number: int, checkpoint: Path | None):
        super().__init__(signal_number, checkpoint)
        self.signal_number, self.checkpoint = signal_number, checkpoint

    def __str__(self) -> str:
        if self.checkpoint is None:
            return "Training was interrupted before its first step."
        place = f"{self.checkpoint.parent.name}/{self.checkpoint.name}"
        return f"Training was interrupted; {place} holds its state. The same command with --resume continues from it."


class InterruptionCallback(TrainerCallback):
    """Stops training after the step in which Ctrl-C or SIGTERM arrives; a second signal stops it at once."""

    def __init__(self):
        self.signal_number: int | None = None

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Handles the signals inside of the `with` block; other threads than the main thread cannot."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.signal(number, self._handle) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: Any):
        if self.signal_number is not None:
            raise KeyboardInterrupt
        self.signal_number = number

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        """Ends training if any of the processes got a signal."""
        if args.world_size > 1:
            number = torch.tensor(self.signal_number or 0, device=args.device)
            torch.distributed.all_reduce(number, torch.distributed.ReduceOp.MAX)
            self.signal_number = int(number) or None
        if self.signal_number is not None:
            control.should_training_stop = control.should_save = True
