"""A whole pretraining run, from text files to a saved model: what `elmo-hf pretrain` does."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

from elmo_hf.hub.model_card import model_card
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer
from elmo_hf.pretraining.automatic_settings import choose_sizes
from elmo_hf.pretraining.callbacks import FreezeWarmup, PeriodicEvaluationAndSaving, ProgressReport, TimeLimit
from elmo_hf.pretraining.checkpoints import check_same_run, find_checkpoints, read_about, run_facts, step_of
from elmo_hf.pretraining.corpus import Corpus
from elmo_hf.pretraining.corpus_preparation import prepare_corpus
from elmo_hf.pretraining.interruption import InterruptionCallback, TrainingInterrupted
from elmo_hf.pretraining.intervals import duration
from elmo_hf.pretraining.precision import choose_precision
from elmo_hf.pretraining.run_folder import RunFolder
from elmo_hf.pretraining.run_length import RunLength
from elmo_hf.pretraining.schedule import Clock, LearningRateSchedule
from elmo_hf.pretraining.settings import Settings
from elmo_hf.pretraining.splitting_choice import choose_splitting
from elmo_hf.pretraining.starting_point import (
    base_tokenizer,
    check_inputs,
    check_repository,
    publish_to_hub,
    starting_model,
)
from elmo_hf.pretraining.trainer import ElmoPretrainer
from elmo_hf.pretraining.training_card import card_data
from elmo_hf.pretraining.training_windows import TrainingWindows
from elmo_hf.pretraining.vocabulary import unigram_perplexity
from elmo_hf.text.inputs import read_lines

Say = Callable[[str], Any]


def pretrain(settings: Settings, say: Say = print) -> dict[str, float]:
    """Trains a language model and saves it; returns perplexities of the held-out text, `before` and `after` training.

    Args:
        settings: see there.
        say: called with each line of the report.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import ElmoForPreTraining
    >>> from elmo_hf.pretraining import Settings, pretrain
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "text.txt").write_text("the cat sat on the mat .\\n" * 50)
    >>> settings = Settings(folder / "model", [str(folder / "text.txt")], held_out=[str(folder / "text.txt")],
    ...     size="tiny", batch_size=4, unroll_steps=5, epochs=1)
    >>> perplexities = pretrain(settings, say=lambda line: None)
    >>> perplexities["after"] < perplexities["before"]
    True
    >>> ElmoForPreTraining.from_pretrained(folder / "model").config.vocab_size
    9

    ```
    """
    settings.check()
    check_inputs(settings)
    folder = RunFolder(settings.output_dir)
    args = _arguments(settings, folder.path)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    is_first = args.process_index == 0
    if is_first and settings.push_to is not None:
        check_repository(settings.push_to)
    with folder.locked() if is_first else nullcontext():
        args.distributed_state.wait_for_everyone()
        return _run(settings, args, folder, say if is_first else lambda line: None)


def _run(settings: Settings, args: TrainingArguments, folder: RunFolder, say: Say) -> dict[str, float]:
    checkpoint = _checkpoint(settings, args, folder, say)
    about = {} if checkpoint is None else read_about(checkpoint)
    precision = choose_precision(settings.precision, about.get("facts", {}), args.device.type, say)
    settings = choose_splitting(replace(settings, precision=precision), say)
    reading = ElmoTokenizer("whitespace") if settings.tokenized else base_tokenizer(settings)
    with _first_process_first(args):
        corpus = prepare_corpus(settings, folder.path / "corpus", reading, about.get("facts", {}).get("corpus"), say)
    settings = choose_sizes(settings, corpus, say)
    args.learning_rate = settings.chosen("learning_rate")
    tokenizer, model = starting_model(settings, corpus, say)
    held_out = _held_out(settings, corpus)
    with _first_process_first(args):
        shape = settings.batch_size, settings.unroll_steps, settings.seed, settings.shuffle
        windows = TrainingWindows(corpus, tokenizer, model.config, *shape)
    length = RunLength.of(settings, windows, folder, resumes=checkpoint is not None)
    facts = _facts(settings, args, model.config, tokenizer, corpus, length)
    if checkpoint is not None:
        check_same_run(checkpoint, facts)
    step, seconds = (0, 0.0) if checkpoint is None else (step_of(checkpoint), about["seconds"])
    is_over, finished = length.is_over(step, seconds), folder.finished()
    if is_over and finished is not None and finished["step"] == step:
        say(f"finished: {folder.output} was trained for {step:,} steps; nothing is changed.")
        return finished["found"]
    _describe(settings, model, windows, held_out, length, say)
    args.max_steps = length.max_steps
    clock = Clock(length.seconds, seconds)
    interruption = InterruptionCallback()
    callbacks = _callbacks(settings, length, clock, folder, windows, held_out, interruption, say)
    options = length.schedule, clock, settings.chosen("fresh_starts"), precision
    trainer = ElmoPretrainer(model, args, windows, tokenizer, held_out, facts, callbacks, *options)
    trainer.remembered = about.get("remembered", {})
    perplexities = _train(settings, trainer, checkpoint, is_over, interruption, say)
    if args.process_index == 0:
        steps = step if is_over else trainer.state.global_step
        _publish(settings, folder, trainer, reading.splitting, steps, perplexities)
    say(f"saved: {settings.output_dir}, the model; {folder.path.name} beside it has the checkpoints and the text")
    if settings.push_to is not None and args.process_index == 0:
        publish_to_hub(folder.output, settings.push_to)
        say(f"uploaded: {settings.push_to}")
    return perplexities


def _held_out(settings: Settings, corpus: Corpus) -> list:
    """Returns the held-out sentences: texts, or lists of words if the text is tokenised."""
    lines = list(read_lines(settings.held_out, settings.errors)) if settings.held_out else corpus.held_out
    return [line.split() for line in lines] if settings.tokenized else lines


def _publish(
    settings: Settings,
    folder: RunFolder,
    trainer: ElmoPretrainer,
    splitting: str,
    steps: int,
    perplexities: dict[str, float],
):
    """Saves model, tokenizer and card into the output folder."""
    model, tokenizer, corpus = trainer.model, trainer.processing_class, trainer.train_dataset.corpus
    if settings.freeze_steps:
        model.freeze(False)
    facts = card_data(settings, model.config, corpus, steps, perplexities, splitting)
    model.config.card_data = facts | {"splitting": tokenizer.splitting}

    def save(place: Path):
        # Before the model, whose own card would have the name of the temporary folder.
        card = model_card(model, settings.push_to or folder.output.name)
        (place / "README.md").write_text(card, encoding="utf-8")
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)

    folder.publish(save, {"step": steps, "found": perplexities})


def _train(
    settings: Settings,
    trainer: ElmoPretrainer,
    checkpoint: Path | None,
    is_over: bool,
    interruption: InterruptionCallback,
    say: Say,
) -> dict[str, float]:
    """Trains; returns perplexities of the held-out text before and after, if there is any."""
    held_out, perplexities = trainer.held_out, trainer.remembered
    unigram = unigram_perplexity(held_out, trainer.processing_class, trainer.train_dataset.corpus) if held_out else 0
    if checkpoint is not None:
        say(f"resuming from {checkpoint}")
        trainer.load_weights(checkpoint)
    with interruption.handle_signals():
        if held_out and not is_over:
            perplexity = trainer.evaluate(metric_key_prefix="before")["before_perplexity"]
            if checkpoint is None:
                perplexities["before"] = perplexity
                say(f"held-out perplexity before: {perplexity:.1f} (from word frequencies alone: {unigram:.1f})")
            else:
                say(f"held-out perplexity at step {step_of(checkpoint):,}: {perplexity:.1f}")
        if not is_over:
            trainer.train(resume_from_checkpoint=None if checkpoint is None else os.fspath(checkpoint))
    if interruption.signal_number is not None:
        newest, _ = find_checkpoints(trainer.args.output_dir)
        raise TrainingInterrupted(interruption.signal_number, newest)
    if not held_out:
        return dict(perplexities)
    after = trainer.evaluate(metric_key_prefix="after")["after_perplexity"]
    before = f"before: {perplexities['before']:.1f}, " if "before" in perplexities else ""
    say(f"held-out perplexity {before}after: {after:.1f} (from word frequencies alone: {unigram:.1f})")
    if after >= unigram:
        say(_advice(trainer, is_smallest=settings.size == "tiny"))
    return {**perplexities, "after": after}


def _advice(trainer: ElmoPretrainer, is_smallest: bool) -> str:
    """Says what helps a model that has learned less than word frequencies."""
    problem = "The model is worse than word frequencies alone, and its vectors will be of little use."
    epochs = trainer.state.epoch or 0.0
    smaller = "" if is_smallest else ", or with --size tiny"
    if epochs > 3:
        return f"{problem} It has read the text {epochs:.0f} times: train it on more text{smaller}."
    return f"{problem} It has read {epochs:.2g} epochs: train it longer (--minutes){smaller}."


def _checkpoint(settings: Settings, args: TrainingArguments, folder: RunFolder, say: Say) -> Path | None:
    """Returns the checkpoint to resume from, or None; raises if there is one without --resume, or none is complete."""
    folder.check_output()
    newest, skipped = find_checkpoints(folder.path)
    if not settings.resume and (newest is not None or skipped):
        raise ValueError(
            f"{newest or folder.path} exists already. Expected --resume to continue from it, or a new --output-dir."
        )
    if not settings.resume and folder.finished() is not None:
        raise ValueError(f"{folder.output} exists already. Expected a new folder as --output-dir.")
    for reason in skipped:
        say(f"skipped: {reason}")
    if skipped and newest is None:
        raise ValueError(f"No checkpoint in {folder.path} is complete. A new run needs a new --output-dir.")
    if settings.resume and newest is None:
        say(f"--resume: there is no checkpoint in {folder.path}, and training begins at step 0")
    if args.process_index == 0:
        folder.finish_publishing()
    return newest


def _arguments(settings: Settings, folder: Path) -> TrainingArguments:
    return TrainingArguments(
        output_dir=os.fspath(folder),
        optim={"adagrad": "adagrad", "adamw": "adamw_torch_fused"}[settings.chosen("optimizer")],
        learning_rate=settings.chosen("learning_rate"),
        max_grad_norm=settings.chosen("max_grad_norm"),
        gradient_accumulation_steps=settings.accumulate,
        logging_steps=settings.log_every,
        save_strategy="no",  # PeriodicEvaluationAndSaving decides
        save_total_limit=settings.keep,
        report_to=settings.report_to or "none",
        seed=settings.seed,
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        # While the biLM is frozen, its parameters have no gradient.
        ddp_find_unused_parameters=settings.freeze_steps > 0,
        use_cpu=not torch.accelerator.is_available(),
    )


def _describe(
    settings: Settings,
    model: ElmoForPreTraining,
    windows: TrainingWindows,
    held_out: list,
    length: RunLength,
    say: Say,
):
    """Reports the model, the text and the training."""
    corpus, schedule, config = windows.corpus, length.schedule, model.config
    softmax = f"full softmax over {config.vocab_size:,} words"
    if config.num_sampled is not None:
        softmax = f"softmax with {config.num_sampled:,} negative samples of {config.vocab_size:,} words"
    say(f"model: {sum(p.numel() for p in model.parameters()):,} parameters; {softmax}")
    epoch = f"{windows.windows_per_epoch:,} windows of {settings.batch_size} x {settings.unroll_steps} in an epoch"
    say(f"text: {corpus.num_sentences:,} sentences, {corpus.num_words:,} words, {epoch}")
    say(f"held out: {len(held_out):,} sentences")
    amount = f"{schedule.steps:,} steps" if schedule.known else f"for {duration(length.seconds)}"
    warmup = f" after {schedule.warmup:,} warm-up steps" if schedule.warmup else ""
    say(
        f"training: {settings.chosen('optimizer')} at {settings.chosen('learning_rate'):g}, {schedule.name}{warmup}, "
        f"{amount}; {torch.get_num_threads()} threads, {settings.precision}"
    )


@contextmanager
def _first_process_first(args: TrainingArguments) -> Iterator[None]:
    """The first process of each machine writes files that the others then find on disk."""
    with args.main_process_first(desc="preparing the corpus"):
        yield


def _facts(
    settings: Settings,
    args: TrainingArguments,
    config: ElmoConfig,
    tokenizer: ElmoTokenizer,
    corpus: Corpus,
    length: RunLength,
) -> dict[str, Any]:
    return run_facts(
        config,
        tokenizer.word_vocabulary,
        corpus.fingerprint,
        batch_size=settings.batch_size,
        unroll_steps=settings.unroll_steps,
        accumulate=settings.accumulate,
        optimizer=settings.chosen("optimizer"),
        learning_rate=settings.chosen("learning_rate"),
        schedule=length.schedule.name,
        warmup_steps=length.schedule.warmup,
        max_grad_norm=settings.chosen("max_grad_norm"),
        length=length.fact(),
        precision=settings.precision,
        freeze_steps=settings.freeze_steps,
        fresh_starts=settings.chosen("fresh_starts"),
        seed=settings.seed,
        shuffle=settings.shuffle,
        processes=args.world_size,
    )


def _callbacks(
    settings: Settings,
    length: RunLength,
    clock: Clock,
    folder: RunFolder,
    windows: TrainingWindows,
    held_out: list,
    interruption: InterruptionCallback,
    say: Say,
) -> list[Any]:
    schedule = length.schedule
    callbacks: list[Any] = [ProgressReport(say, schedule)]
    if math.isfinite(length.seconds) and not schedule.known:
        if clock.before:
            say(f"{duration(clock.limit - clock.before)} of {duration(clock.limit)} are left")

        def fix(schedule: LearningRateSchedule):
            folder.write_schedule(schedule)
            epochs = schedule.steps * settings.accumulate / windows.windows_per_epoch
            say(f"{duration(length.seconds)} are {schedule.steps:,} steps at this speed, {epochs:.2g} epochs")

        callbacks.append(TimeLimit(clock, schedule, fix))
    if settings.freeze_steps:
        callbacks.append(FreezeWarmup(settings.freeze_steps))
    evaluate = settings.interval("evaluate_every") if held_out else None
    # The last one saves when another one stops the training.
    return [*callbacks, interruption, PeriodicEvaluationAndSaving(evaluate, settings.interval("save_every"))]
