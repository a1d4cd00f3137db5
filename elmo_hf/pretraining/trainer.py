"""ElmoPretrainer: transformers' Trainer over windows of text, with the state of the LSTMs carried along."""

import math
import os
import shutil
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import DistributedType, reduce
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel
from transformers import PrinterCallback, TrainingArguments

from elmo_hf.hub.trainer import ElmoTrainer
from elmo_hf.language_model.perplexity import Perplexity, count, exponential
from elmo_hf.language_model.scorer import ElmoScorer
from elmo_hf.model.modeling_elmo import States
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer
from elmo_hf.pretraining.batch_shards import add_gradients, join_states, number_of_shards, run_shards, split_rows
from elmo_hf.pretraining.checkpoints import (
    add_checkpoint,
    newest_checkpoint,
    read_about,
    read_states,
    write_position,
)
from elmo_hf.pretraining.optimization import (
    clip_by_global_norm,
    original_adagrad,
    share_sparse_gradient,
    use_sparse_gradients,
)
from elmo_hf.pretraining.schedule import Clock, LearningRateSchedule
from elmo_hf.pretraining.training_windows import TrainingWindows

UNFINISHED = "unfinished"


class ElmoPretrainer(ElmoTrainer):
    """A Trainer for ElmoForPreTraining on `TrainingWindows`.

    With `optim="adagrad"` the optimizer is the original's: `max_grad_norm` and the accumulator are meant for gradients
    of unroll_steps * loss. Any other `optim`, with its schedule, is as in transformers.

    Args:
        model, args, tokenizer: as Trainer's.
        windows: the training text; its streams are divided among the processes.
        held_out: sentences, strings or lists of words, whose perplexity `evaluate` computes.
        facts: what checkpoints record of the run, see `run_facts`.
        schedule: the learning-rate schedule, in place of that of `args`.
        clock: counts the time of the run, resumed runs included.
        fresh_starts: whether the state of a row is reset to zeros where its window starts with a sentence.
        precision: `"float32"`, or `"bf16"` for products in bfloat16, which on processors needs units for it.

    Example:

    ```python
    >>> import tempfile
    >>> from transformers import TrainingArguments
    >>> from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
    >>> from elmo_hf.pretraining import Corpus, ElmoPretrainer, TrainingWindows
    >>> folder, words = tempfile.mkdtemp(), ["<S>", "</S>", "<UNK>", "a", "b"]
    >>> tokenizer = ElmoTokenizer("whitespace", word_vocabulary=words)
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, vocab_size=len(words))
    >>> corpus = Corpus.write(["a b a", "b"] * 10, folder + "/corpus", tokenizer)
    >>> windows = TrainingWindows(corpus, tokenizer, config, streams=2, unroll_steps=5)
    >>> args = TrainingArguments(folder, report_to="none", disable_tqdm=True)
    >>> trainer = ElmoPretrainer(ElmoForPreTraining(config), args, windows, tokenizer, held_out=["a b"])
    >>> "eval_perplexity" in trainer.evaluate()
    True

    ```
    """

    def __init__(
        self,
        model: ElmoForPreTraining,
        args: TrainingArguments,
        windows: TrainingWindows,
        tokenizer: ElmoTokenizer,
        held_out: Sequence[str] | Sequence[list[str]] = (),
        facts: dict[str, Any] | None = None,
        callbacks: list[Any] | None = None,
        schedule: LearningRateSchedule | None = None,
        clock: Clock | None = None,
        fresh_starts: bool = False,
        precision: str = "float32",
    ):
        if args.n_gpu > 1:
            raise ValueError(f"There are {args.n_gpu} GPUs for one process; start one for each of them by torchrun.")
        per_process, rest = divmod(windows.streams, args.world_size)
        if rest:
            raise ValueError(
                f"{windows.streams} streams cannot be divided among {args.world_size} processes. Expected a "
                "--batch-size that is a multiple of their number."
            )
        # Windows follow each other: in order, none left out, each process its own rows.
        args.train_sampling_strategy = "sequential"
        args.dataloader_drop_last = True
        args.remove_unused_columns = False
        args.per_device_train_batch_size = per_process
        self.original = args.optim == "adagrad"
        # All other optimizers want gradients of every row.
        self.sparse_names = use_sparse_gradients(model) if self.original else []
        if self.sparse_names:
            torch.sparse.check_sparse_tensor_invariants.disable()  # said aloud, or torch warns of it
        if self.sparse_names and args.world_size > 1:
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, self.sparse_names)
        self.held_out, self.facts = list(held_out), facts or {}
        self.schedule, self.clock, self.fresh_starts = schedule, clock or Clock(), fresh_starts
        self.precision = precision
        self.remembered: dict[str, Any] = {}  # further values that checkpoints record
        self.past_states: States | None = None
        # Checkpoints are written in a temporary folder, and moved when they are complete.
        self._keep, args.save_total_limit, self._saving = args.save_total_limit, None, False
        self._losses = torch.zeros(3)  # sums of forward and backward loss since the last report, and of how many
        self._reported: tuple[float, int] | None = None  # when the last report was, and after which step
        self._paused = 0.0  # seconds since then that went into evaluation and checkpoints
        super().__init__(
            model=model,
            args=args,
            train_dataset=windows,
            data_collator=_as_it_is,
            processing_class=tokenizer,
            callbacks=callbacks,
        )
        if self.accelerator.num_processes != args.world_size:
            raise ValueError(
                f"There are {args.world_size} processes, but they do not train together; without GPUs, give "
                "TrainingArguments use_cpu=True."
            )
        self.remove_callback(PrinterCallback)  # which prints dictionaries

    @property
    def tokens_per_step(self) -> int:
        """Words, boundaries included, that each direction reads between two updates, in all processes."""
        windows = self.train_dataset
        return windows.streams * windows.unroll_steps * self.args.gradient_accumulation_steps

    # One step

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Computes the loss of a window with the state of the window before."""
        self._start_report()
        loss, output = self._loss_of_rows(model, num_items_in_batch, inputs, self._states_before(inputs))
        states = tuple(tuple(part.detach() for part in layer) for layer in output.past_states)
        backward = output.forward_loss if output.backward_loss is None else output.backward_loss
        self._end_window(loss, states, torch.stack([output.forward_loss, backward]).detach().cpu())
        return (loss, output) if return_outputs else loss

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """Computes the gradients of a window; in one process each thread computes those of some of its rows."""
        shards = self._number_of_shards(inputs)
        if shards == 1 or num_items_in_batch is None:
            return super().training_step(model, inputs, num_items_in_batch)
        model.train()
        inputs = self._prepare_inputs(inputs)
        self._start_report()
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        compute = partial(self._loss_of_rows, model, num_items_in_batch)
        results = run_shards(compute, parameters, split_rows(inputs, self._states_before(inputs), shards))
        loss = sum(result.loss for result in results)
        losses = sum(result.losses for result in results) / len(inputs["input_ids"])
        self._end_window(loss, join_states([result.states for result in results]), losses)
        add_gradients(parameters, results)
        return loss

    def _number_of_shards(self, inputs: dict[str, Any]) -> int:
        alone = self.accelerator.distributed_type == DistributedType.NO and self.accelerator.scaler is None
        return number_of_shards(len(inputs["input_ids"])) if alone and self.args.device.type == "cpu" else 1

    def _loss_of_rows(
        self, model: Any, num_items_in_batch: Any, inputs: dict[str, Any], states: States | None
    ) -> tuple[torch.Tensor, Any]:
        """Returns the loss of some rows of a window, and what the model returned."""
        inputs = {**inputs, "past_states": states, "use_cache": True}
        device_type, mixed = self.args.device.type, self.precision == "bf16"
        # Weights that autocast rounded and cached in one thread would serve another one.
        with torch.autocast(device_type, torch.bfloat16, enabled=mixed, cache_enabled=device_type != "cpu"):
            return super().compute_loss(model, inputs, True, num_items_in_batch)

    def _start_report(self):
        if self._reported is None:
            self._reported, self._paused = (time.perf_counter(), self.state.global_step), 0.0

    def _end_window(self, loss: torch.Tensor, states: States, losses: torch.Tensor):
        """Keeps the states for the next window, and the mean losses of both directions (2,) for the report."""
        if not torch.isfinite(loss.detach()):
            raise ValueError(self._non_finite_message(f"The loss is {loss.item()}"))
        self.past_states = states
        self._losses += torch.cat([losses, torch.ones(1)])

    def _states_before(self, inputs: dict[str, torch.Tensor]) -> States | None:
        """Returns the state of the window before; with `fresh_starts`, it is reset at sentence starts."""
        if not self.fresh_starts or self.past_states is None:
            return self.past_states
        begins = self.train_dataset.begins_sentence(inputs)[:, None, None]  # (rows, 1, 1)
        return tuple(tuple(part.masked_fill(begins, 0.0) for part in layer) for layer in self.past_states)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Creates the original's Adagrad for `optim="adagrad"`, else the optimizer of Trainer."""
        if self.original and self.optimizer is None:
            named = self.model.named_parameters()
            trained = [parameter for name, parameter in named if not name.startswith("elmo.scalar_mix.")]
            unroll_steps = self.train_dataset.unroll_steps
            self.optimizer = original_adagrad(trained, self.args.learning_rate, unroll_steps)
        return super().create_optimizer(model)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Creates a scheduler for `schedule`, or that of Trainer."""
        if self.schedule is not None and self.lr_scheduler is None:
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.schedule)
        return super().create_scheduler(num_training_steps, optimizer)

    def _non_finite_message(self, problem: str) -> str:
        last = newest_checkpoint(self.args.output_dir)
        checkpoint = "there is no checkpoint before it" if last is None else f"{last} is the last good checkpoint"
        return (
            f"{problem} after step {self.state.global_step:,}: training cannot continue, and nothing was saved; "
            f"{checkpoint}. "
            "Start a new run with a lower --learning-rate or a lower --max-grad-norm."
        )

    def _clip_grad_norm(self, model: Any) -> torch.Tensor:
        if not self.original:
            return super()._clip_grad_norm(model)
        self.accelerator.unscale_gradients()
        if self.args.world_size > 1:
            for name in self.sparse_names:
                share_sparse_gradient(self.model.get_parameter(name), self.accelerator)
        # In units of the original, whose gradients are larger by this factor.
        scale = self.train_dataset.unroll_steps
        most = self.args.max_grad_norm or math.inf
        return clip_by_global_norm(self.model, most / scale) * scale

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        if grad_norm is None and self.original:
            return self._clip_grad_norm(model)
        return super()._get_grad_norm(model, grad_norm)

    # Reports

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds perplexities, speed and times to the logs of training."""
        if "loss" in logs:
            logs |= self._progress()
        super().log(logs, start_time)

    def _progress(self) -> dict[str, float]:
        """Perplexities since the last report (of drawn words, where words are drawn), speed, time used and left."""
        forward, backward, number = reduce(self._losses.to(self.args.device), "sum").tolist()
        self._losses.zero_()
        report = {"forward_perplexity": exponential(forward / max(number, 1))}
        if self.model.config.bidirectional:
            report["backward_perplexity"] = exponential(backward / max(number, 1))
        (before, step), now = self._reported, time.perf_counter()
        seconds = (now - before - self._paused) / max(self.state.global_step - step, 1)
        self._reported, self._paused = (now, self.state.global_step), 0.0
        report["tokens_per_second"] = self.tokens_per_step / seconds
        by_steps = seconds * (self.state.max_steps - self.state.global_step)
        # Where the rate of learning falls, the time was made a number of steps.
        by_time = self.clock.left() if self.schedule is not None and not self.schedule.known else math.inf
        report["seconds_left"], report["seconds_used"] = min(by_steps, by_time), self.clock.used()
        report["negative_samples"] = self.model.config.num_sampled or 0
        return report

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Perplexity of the held-out sentences, or of others given as `eval_dataset`."""
        start = time.perf_counter()
        sentences = self.held_out if eval_dataset is None else list(eval_dataset)
        mine = sentences[self.args.process_index :: self.args.world_size]
        numbers = count(ElmoScorer(self.model, self.processing_class), mine).numbers()
        numbers = reduce(torch.tensor(numbers, dtype=torch.float64).to(self.args.device), "sum").tolist()
        result = Perplexity.of_numbers(numbers)
        metrics = {f"{metric_key_prefix}_perplexity": result.perplexity, f"{metric_key_prefix}_loss": result.loss}
        if result.backward is not None:
            metrics |= {f"{metric_key_prefix}_forward_perplexity": result.forward.perplexity}
            metrics |= {f"{metric_key_prefix}_backward_perplexity": result.backward.perplexity}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self._paused += time.perf_counter() - start
        return metrics

    # Checkpoints

    def _get_output_dir(self, trial: Any) -> str:
        folder = super()._get_output_dir(trial)
        return os.path.join(folder, UNFINISHED) if self._saving else folder

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        start = time.perf_counter()
        for name, parameter in self.model.named_parameters():
            if not torch.isfinite(parameter.detach()).all():
                raise ValueError(self._non_finite_message(f"{name} contains NaN or infinite values"))
        folder = Path(super()._get_output_dir(trial), UNFINISHED, f"checkpoint-{self.state.global_step}")
        window = self.state.global_step * self.args.gradient_accumulation_steps
        about = {"facts": self.facts, "position": self.train_dataset.state(window), "seconds": self.clock.used()}
        self._saving = True
        try:
            write_position(folder, self.args.process_index, {**about, "remembered": self.remembered}, self.past_states)
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                add_checkpoint(folder, folder.parent.parent, self._keep)
            self.accelerator.wait_for_everyone()
        except (OSError, RuntimeError, SafetensorError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise OSError(
                f"{folder.name} could not be written completely ({str(error).splitlines()[0]}). The checkpoint "
                "before it is unchanged; free space on the disk and continue with --resume."
            ) from error
        finally:
            self._saving = False
        self._paused += time.perf_counter() - start

    def load_weights(self, checkpoint: Path):
        """Loads the weights of a checkpoint."""
        self.model.load_state_dict(load_file(checkpoint / "model.safetensors"))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            about = read_about(Path(checkpoint))
            self.train_dataset.restore(about["position"])
            self.past_states = _to_device(read_states(Path(checkpoint), self.args.process_index), self.args.device)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Trains as Trainer does, from a zero state."""
        self.past_states, self._reported = None, None
        self.clock.start()
        return super().train(*args, **kwargs)


def _as_it_is(batch: dict[str, Any]) -> dict[str, Any]:
    return batch  # TrainingWindows gives batches


def _to_device(states: States | None, device: torch.device) -> States | None:
    return None if states is None else tuple(tuple(part.to(device) for part in layer) for layer in states)
