"""Where the time of a training step of elmo_hf goes, by part; the step is that of training.py.

python benchmarks/training_parts.py --steps 10
"""

import argparse
import resource
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "workers"))

import torch
from setup_peers import PEERS
from training import OPTIONS, write_text
from training_elmo_hf_worker import trainer
from transformers import TrainerCallback


class Parts(TrainerCallback):
    """Adds up seconds between marks that a step passes one after the other."""

    def __init__(self, warm_up: int, steps: int):
        self.warm_up, self.steps = warm_up, steps
        self.seconds: dict[str, float] = defaultdict(float)
        self.last = 0.0

    def mark(self, part: str):
        """The time since the last mark was that of `part`."""
        now = time.perf_counter()
        self.seconds[part] += now - self.last
        self.last = now

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.warm_up:
            self.seconds.clear()
            self.usage = resource.getrusage(resource.RUSAGE_SELF)
            self.last = time.perf_counter()
        self.mark("windows, trainer")

    def on_pre_optimizer_step(self, *_, **__):
        self.mark("clipping")

    def on_optimizer_step(self, *_, **__):
        self.mark("Adagrad")

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == self.warm_up + self.steps
        if control.should_training_stop:
            self.mark("windows, trainer")
            self.show(resource.getrusage(resource.RUSAGE_SELF))

    def show(self, usage):
        whole = sum(self.seconds.values())
        for part, seconds in self.seconds.items():
            print(f"{part:<28}{seconds / self.steps * 1000:8.0f} ms {seconds / whole:6.1%}")
        print(f"{'all':<28}{whole / self.steps * 1000:8.0f} ms")
        faults = (usage.ru_minflt - self.usage.ru_minflt) / self.steps
        system = (usage.ru_stime - self.usage.ru_stime) / self.steps
        user = (usage.ru_utime - self.usage.ru_utime) / self.steps
        print(f"{faults:,.0f} page faults, {system:.2f} s in the system and {user:.2f} s outside of it, a step")


def watch(model: torch.nn.Module, parts: Parts):
    """Marks where parts of the model begin and end, forward and backward."""
    encode, losses = model.elmo.encode_tokens, model._set_losses

    def encode_tokens(*given, **named):
        parts.mark("windows, trainer")
        tokens, mask = encode(*given, **named)
        parts.mark("encoder")
        tokens.register_hook(lambda _: parts.mark("LSTMs, backward"))
        return tokens, mask

    def set_losses(output, tops, *given):
        parts.mark("LSTMs")
        both = tops[0]._base  # of which the two directions are parts
        both.register_hook(lambda _: parts.mark("softmax, backward"))
        losses(output, tops, *given)
        parts.mark("softmax")

    model.elmo.encode_tokens, model._set_losses = encode_tokens, set_losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args()
    parts = Parts(3, given.steps)
    settings = {"options": OPTIONS, "variant": "auto", **write_text(PEERS / "training")}
    with tempfile.TemporaryDirectory() as folder:
        made = trainer(settings, Path(folder), parts)
        watch(made.model, parts)
        clip = made._clip_grad_norm

        def clipped(model):
            parts.mark("encoder, backward")
            return clip(model)

        made._clip_grad_norm = clipped
        made.train()


if __name__ == "__main__":
    main()
