"""A run of `finetune`: reads data, reports on them, trains, scores and saves."""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from elmo_hf.atomic_files import atomic_folder, write_text_atomically
from elmo_hf.device import choose_device
from elmo_hf.kernels import constant_weights
from elmo_hf.kernels.sentence_cache import SentenceCache
from elmo_hf.tasks.load_model import RESULT, quiet

from .data_report import check_labels, describe_examples, warnings_about
from .examples import digest_of_examples, name_of, read_parts
from .result_card import add_scores
from .settings import FinetuneSettings, has_preset
from .task import Task, TrainingDefaults

# Steps between two evaluations, at most; an epoch has fewer in small data.
EVALUATION_STEPS = 500
PATIENCE_STEPS = 300
# Settings that only some tasks have, see `Task.switches`.
SWITCHES = ("phrases", "answerable_only")


class FinetuneRun:
    """Trains a head for a task.

    Args:
        task: the task.
        sources: `train`, `dev` and `test`.
        settings: checked settings.
        output: the folder of the model, or None.
        say: called with each line of the report.
    """

    def __init__(
        self,
        task: Task,
        sources: dict[str, Any],
        settings: FinetuneSettings,
        output: str | os.PathLike | None,
        say: Callable[[str], Any],
    ):
        self.task, self.sources, self.settings, self.say = task, sources, settings, say
        self.output = None if output is None else Path(output)

    def __call__(self, cache: SentenceCache | None, device: str | None) -> Any:
        """Runs, or resumes, or loads what is finished; returns the Trainer."""
        if find_spec("accelerate") is None:
            raise ImportError("Fine-tuning needs accelerate, which comes with: pip install 'elmo-hf[train]'.")
        self._check_output()
        for name in SWITCHES:
            if getattr(self.settings, name) and name not in self.task.switches:
                raise ValueError(f"Invalid `{name}`: the task {self.task.name!r} has no such setting.")
        self.task.configure(self.settings)
        if self.settings.phrases and self.sources["dev"] is None:
            raise ValueError("`phrases` needs dev data: phrases of held-out sentences would be trained on (--dev).")
        raw = read_parts(self.task, self.sources, self.settings.limit, self.say)
        check_labels(self.task, raw, {part: self._name_of(part) for part in raw})
        labels = self.task.label_names(raw["train"]) if self.task.has_labels else None
        self.task.use_labels(labels or [])
        facts = {
            **self.settings.to_dict(),
            "task": self.task.name,
            "columns": self.task.columns.to_dict(),
            "data": digest_of_examples(raw),
        }
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) if self.output is None else self._begin(facts)
            try:
                trainer = self._trainer(raw, labels, folder, device)
                # What a frozen biLM computes is cached; the block saves hashing its weights at every step.
                with nullcontext() if self._trains_bilm else constant_weights():
                    self._train(trainer, folder, cache)
                    self._score_and_save(trainer, facts)
            finally:
                # A mistake that is found here must not leave a run that the corrected command cannot resume.
                if self.output is not None and not has_checkpoints(folder):
                    shutil.rmtree(folder, ignore_errors=True)
            if self.output is not None:
                shutil.rmtree(folder, ignore_errors=True)
        return trainer

    # -- folders

    @property
    def _run_folder(self) -> Path:
        return self.output.with_name(f"{self.output.name}.run")

    def _check_output(self):
        """Before anything is read: a folder of something else would be found out after the training."""
        if self.output is not None and self.output.exists():
            if not self.output.is_dir() or any(self.output.iterdir()):
                is_finished = (self.output / RESULT).exists()
                if is_finished:  # killed after the last rename
                    shutil.rmtree(self._run_folder, ignore_errors=True)
                kind = "holds a finished model" if is_finished else "is there already"
                raise ValueError(f"{self.output} {kind}. Expected a new folder (-o), or remove it.")

    def _begin(self, facts: dict[str, Any]) -> Path:
        """The folder of checkpoints, which belongs to one choice of settings and data."""
        folder, text = self._run_folder, json.dumps(facts, indent=1)
        begun = folder / RESULT
        if begun.exists() and has_checkpoints(folder):
            before = json.loads(begun.read_text(encoding="utf-8"))
            changed = [name for name in facts if before.get(name) != facts[name]]
            if changed:
                name = changed[0]
                raise ValueError(
                    f"{folder} is an interrupted run with {name} = {before.get(name)!r}, and now it is "
                    f"{facts[name]!r}. Expected the same command, another output, or that you remove {folder}."
                )
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_text_atomically(begun, text)
        return folder

    # -- training

    @property
    def _trains_bilm(self) -> bool:
        return self.settings.lora or self.settings.tune_bilm

    def _trainer(self, raw: dict[str, Any], labels: list[str] | None, folder: Path, device: str | None) -> Any:
        from transformers import set_seed

        from .model_setup import add_adapters, load_model, optimizer_of
        from .trainer import EarlyStopping, EpochOrder, FinetuneTrainer, Report

        quiet()
        settings, task = self.settings, self.task
        defaults = self._defaults(len(raw["train"]))
        self.parts: dict[str, Any] = {}
        set_seed(settings.seed)
        model, tokenizer = load_model(
            task, settings, defaults, labels, self.say, lambda tokenizer: self._vocabulary(raw, tokenizer), device
        )
        self._prepare(raw, tokenizer)
        self._report()
        task.initialize(model, self.parts["train"])
        self.tuner = add_adapters(model) if settings.lora else None
        self._say_choice(model, defaults)
        data = task.training_set(self.parts["train"], tokenizer, model)
        optimizer = optimizer_of(model, defaults.lr, settings.bilm_lr or defaults.lr / 10)
        trainer = FinetuneTrainer(
            task=task,
            model=model,
            args=self._arguments(defaults, len(data), folder, device),
            train_dataset=data,
            eval_dataset=self.parts["dev"],
            processing_class=tokenizer,
            data_collator=lambda examples: task.collate(examples, tokenizer, model),
            optimizers=(optimizer, None),
            callbacks=[EpochOrder(), EarlyStopping(self._patience(defaults, len(data))), Report(task.score, self.say)],
        )
        remove_printers(trainer)
        return trainer

    def _train(self, trainer: Any, folder: Path, cache: SentenceCache | None):
        from transformers import set_seed

        from .model_setup import cache_sentences
        from .trainer import last_checkpoint

        if cache is not None and not self._trains_bilm:
            model, tokenizer = trainer.model, trainer.processing_class
            cache_sentences(self.task, model, tokenizer, trainer.train_dataset, self.parts["dev"], cache)
        set_seed(self.settings.seed)
        checkpoint = last_checkpoint(folder)
        for path in folder.glob("checkpoint-*"):
            if checkpoint is None or int(path.name.rpartition("-")[2]) > int(checkpoint.name.rpartition("-")[2]):
                shutil.rmtree(path)
        if checkpoint is not None:
            self.say(f"Resuming from {checkpoint}.")
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        if self.tuner is not None:
            trainer.model = trainer.model_wrapped = self.tuner.merge_and_unload()

    def _vocabulary(self, raw: dict[str, Any], tokenizer: Any) -> set[str]:
        self._prepare(raw, tokenizer)
        return {
            word
            for examples in self.parts.values()
            for example in examples
            for words in self.task.texts(example)
            for word in words
        }

    def _prepare(self, raw: dict[str, Any], tokenizer: Any):
        if not self.parts:
            self.parts = {part: self.task.prepare(examples, tokenizer) for part, examples in raw.items()}

    def _defaults(self, count: int) -> TrainingDefaults:
        """The defaults of the task, with the settings that the user chose."""
        settings, defaults = self.settings, self.task.defaults(count)
        if settings.head is not None and settings.head != defaults.head:
            preset = "small" if has_preset(settings.head, "small") else None
            defaults = defaults._replace(head=settings.head, preset=preset)
        for name in ("preset", "lr", "epochs", "batch_size"):
            if getattr(settings, name) is not None:
                defaults = defaults._replace(**{name: getattr(settings, name)})
        if defaults.preset is not None and not has_preset(defaults.head, defaults.preset):
            raise ValueError(f"Invalid `preset`: {defaults.preset!r}. The head {defaults.head!r} has no presets.")
        return defaults

    def _name_of(self, part: str) -> str:
        """Of the file of a part; dev may be held out of train."""
        source = self.sources.get(part)
        return name_of(self.sources["train"] if source is None else source)

    def _report(self):
        for part, examples in self.parts.items():
            self.say(describe_examples(self.task, part, examples, self._name_of(part)))
        for warning in warnings_about(self.task, self.parts):
            self.say(f"Note: {warning}")

    def _say_choice(self, model: Any, defaults: TrainingDefaults):
        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        sizes = f", preset {defaults.preset}" if defaults.preset else ""
        self.say(
            f"Head {defaults.head}{sizes} on {self.settings.model}: {trained:,} weights to train, learning rate "
            f"{defaults.lr:g}, at most {defaults.epochs:g} epochs of batches of {defaults.batch_size}, seed "
            f"{self.settings.seed}."
        )

    def _patience(self, defaults: TrainingDefaults, count: int) -> int:
        """Evaluations without a better one: in the few steps of an epoch of a small file a head learns little."""
        steps = min(math.ceil(count / defaults.batch_size), EVALUATION_STEPS)
        return self.settings.patience or max(3, math.ceil(PATIENCE_STEPS / steps))

    def _arguments(self, defaults: TrainingDefaults, count: int, folder: Path, device: str | None) -> Any:
        from transformers import TrainingArguments

        steps = min(math.ceil(count / defaults.batch_size), EVALUATION_STEPS)
        return TrainingArguments(
            str(folder),
            num_train_epochs=defaults.epochs,
            per_device_train_batch_size=defaults.batch_size,
            eval_strategy="steps",
            eval_steps=steps,
            save_strategy="steps",
            save_steps=steps,
            logging_steps=steps,
            save_total_limit=2,
            load_best_model_at_end=True,
            metric_for_best_model=f"eval_{self.task.score}",
            greater_is_better=True,
            restore_callback_states_from_checkpoint=True,
            seed=self.settings.seed,
            report_to="none",
            train_sampling_strategy="group_by_length",
            remove_unused_columns=False,
            lr_scheduler_type="linear",
            warmup_steps=0.1,  # below 1: a share of all steps
            max_grad_norm=5.0,
            use_cpu=choose_device(device).type == "cpu",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )

    # -- results

    def _score_and_save(self, trainer: Any, facts: dict[str, Any]):
        from .trainer import score_model

        task, tokenizer = self.task, trainer.processing_class
        trainer.model.eval()
        trainer.scores = {
            part: score_model(task, trainer.model, tokenizer, examples)
            for part, examples in self.parts.items()
            if part != "train"
        }
        for part, scores in trainer.scores.items():
            self.say(f"{part}: " + ", ".join(f"{name} {100 * value:.2f}" for name, value in scores.items()))
        if self.output is None:
            return
        # The folders of this machine are nobody's business.
        names = {name: os.path.basename(facts[name]) for name in ("model", "word_vectors") if is_path(facts[name])}
        result = {**facts, **names, "scores": trainer.scores, "examples": {k: len(v) for k, v in self.parts.items()}}
        with atomic_folder(self.output) as folder:
            trainer.model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            files = {part: name_of(source) for part, source in self.sources.items() if source is not None}
            add_scores(trainer.model, self.output, folder, task, result, files)
            (folder / RESULT).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        self.say(f"{self.output}: the best model, with a card. {task.usage(str(self.output))}")


def is_path(name: str | None) -> bool:
    """Whether a name is that of a file or a folder of this machine."""
    return name is not None and os.path.exists(name)


def has_checkpoints(folder: Path) -> bool:
    """Whether a run has saved anything that it could resume from."""
    return any(folder.glob("checkpoint-*"))


def remove_printers(trainer: Any):
    """Removes the callbacks of transformers that print or draw."""
    from transformers import PrinterCallback
    from transformers.trainer_callback import ProgressCallback

    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)


__all__ = ["RESULT", "FinetuneRun"]
