"""A whole pretraining run, from text files to a saved model: what `elmo-hf pretrain` does."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed
from transformers.integrations import get_available_reporting_integrations

from elmo_hf.hub.model_card import model_card
from elmo_hf.kernels import KERNELS
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer, read_word_vocabulary
from elmo_hf.pretraining.callbacks import FreezeWarmup, PeriodicEvaluationAndSaving, ProgressReport, TimeLimit
from elmo_hf.pretraining.checkpoints import check_same_run, find_checkpoints, read_about, run_facts, step_of
from elmo_hf.pretraining.corpus import Corpus
from elmo_hf.pretraining.corpus_preparation import check_files, describe_splitting, prepare_corpus
from elmo_hf.pretraining.intervals import duration
from elmo_hf.pretraining.model_initialization import (
    check_trainable,
    config_of_size,
    new_model,
    trained_model,
    with_new_vocabulary,
    with_words,
)
from elmo_hf.pretraining.run_folder import RunFolder
from elmo_hf.pretraining.schedule import SHARE_RISING, Clock, LearningRateSchedule
from elmo_hf.pretraining.settings import Settings
from elmo_hf.pretraining.trainer import ElmoPretrainer
from elmo_hf.pretraining.training_card import card_data
from elmo_hf.pretraining.training_windows import TrainingWindows
from elmo_hf.pretraining.vocabulary import (
    build_vocabulary,
    check_order,
    coverage,
    extend_vocabulary,
    line_counts,
    unigram_perplexity,
)
from elmo_hf.text.inputs import read_lines

Say = Callable[[str], Any]


def pretrain(settings: Settings, say: Say = print) -> dict[str, float]:
    """Runs it all; returns perplexities of the held-out text, `before` and `after` training.

    Args:
        settings: see there.
        say: called with each line that is reported.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import ElmoForPreTraining
    >>> from elmo_hf.pretraining import Settings, pretrain
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "text.txt").write_text("the cat sat on the mat .\\n" * 50)
    >>> settings = Settings(folder / "model", [str(folder / "text.txt")], held_out=[str(folder / "text.txt")],
    ...     size="tiny", batch_size=4, unroll_steps=5, epochs=1)
    >>> found = pretrain(settings, say=lambda line: None)
    >>> found["after"] < found["before"]
    True
    >>> ElmoForPreTraining.from_pretrained(folder / "model").config.vocab_size
    9

    ```
    """
    settings.check()
    _check_what_is_there(settings)
    folder = RunFolder(settings.output_dir)
    args = _arguments(settings, folder.path)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    first = args.process_index == 0
    with folder.locked() if first else nullcontext():
        args.distributed_state.wait_for_everyone()
        return _run(settings, args, folder, say if first else lambda line: None)


def _check_what_is_there(settings: Settings):
    """All that can be known to be wrong before the text is read."""
    check_files(settings)
    if settings.bf16 and KERNELS:
        raise ValueError(
            "Invalid use of --bf16: the training kernels compute in float32. Expected with it: the environment "
            "variable ELMO_HF_KERNELS=0, which trains without them."
        )
    if settings.start is None:
        config_of_size(settings.size)
    else:
        base_tokenizer(settings)
        check_trainable(settings.start)
    if settings.vocabulary is not None:
        _ = ElmoTokenizer(word_vocabulary=read_word_vocabulary(settings.vocabulary)).word_lines
    at_hand = get_available_reporting_integrations()
    for name in settings.report_to:
        if name not in (*at_hand, "all", "none"):
            raise ValueError(f"--report-to is {name!r}; installed here are {', '.join(at_hand) or 'none'}.")


@dataclass
class _Limit:
    """How long a run is."""

    steps: int  # of all epochs, or as many as it may have
    seconds: float  # that it may take; without an end where steps say it
    schedule: LearningRateSchedule

    def is_over(self, steps: int, seconds: float) -> bool:
        timed = self.schedule.name == "constant" and seconds >= self.seconds
        return timed or steps >= (self.schedule.steps or self.steps)


def _run(settings: Settings, args: TrainingArguments, folder: RunFolder, say: Say) -> dict[str, float]:
    checkpoint = _checkpoint(settings, args, folder, say)
    about = {} if checkpoint is None else read_about(checkpoint)
    expected = about.get("facts", {}).get("corpus")
    reading = ElmoTokenizer("whitespace") if settings.tokenized else base_tokenizer(settings)
    with _first_process_first(args):
        corpus = prepare_corpus(settings, folder.path / "corpus", reading, expected, say)
    tokenizer, model = _start(settings, corpus, say)
    say(describe_splitting(tokenizer, corpus))
    held_out: list = list(read_lines(settings.held_out, settings.errors)) if settings.held_out else corpus.held_out
    if settings.tokenized:
        held_out = [line.split() for line in held_out]
    with _first_process_first(args):
        shape = settings.batch_size, settings.unroll_steps, settings.seed, settings.shuffle
        windows = TrainingWindows(corpus, tokenizer, model.config, *shape)
    limit = _limit(settings, windows, folder, checkpoint)
    facts = _facts(settings, args, model.config, tokenizer, corpus, limit)
    if checkpoint is not None:
        check_same_run(checkpoint, facts)
    step, seconds = (0, 0.0) if checkpoint is None else (step_of(checkpoint), about["seconds"])
    over, saved = limit.is_over(step, seconds), folder.finished()
    if over and saved is not None and saved["step"] == step:
        say(f"finished: {folder.output} was trained for {step:,} steps; nothing is changed.")
        return saved["found"]
    _tell(settings, model, windows, held_out, limit, say)
    args.max_steps = limit.schedule.steps or limit.steps
    clock = Clock(limit.seconds, seconds)
    callbacks = _callbacks(settings, limit, clock, folder, held_out, say)
    more = limit.schedule, clock, settings.chosen("fresh_starts")
    trainer = ElmoPretrainer(model, args, windows, tokenizer, held_out, facts, callbacks, *more)
    trainer.remembered = about.get("remembered", {})
    found = _train(trainer, checkpoint, over, say)
    if args.process_index == 0:
        steps = step if over else trainer.state.global_step
        if settings.freeze_steps:
            model.freeze(False)
        said = card_data(settings, model.config, corpus, steps, found, reading.splitting)
        model.config.card_data = said | {"splitting": tokenizer.splitting}
        folder.publish(
            lambda place: _save(model, tokenizer, place, folder.output.name), {"step": steps, "found": found}
        )
    say(f"saved: {settings.output_dir}, the model; {folder.path.name} beside it keeps checkpoints and the text")
    return found


def _save(model: ElmoForPreTraining, tokenizer: ElmoTokenizer, place: Path, name: str):
    # Before the rest, which leaves a card that is there as it is: its name is not that of the folder it is made in.
    (place / "README.md").write_text(model_card(model, name), encoding="utf-8")
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)


def _train(trainer: ElmoPretrainer, checkpoint: Path | None, over: bool, say: Say) -> dict[str, float]:
    """Trains, with perplexities of the held-out text before and after where there is any."""
    held_out, found = trainer.held_out, trainer.remembered
    if checkpoint is not None:
        say(f"going on from {checkpoint}")
        trainer.load_weights(checkpoint)
    if held_out and not over:
        now = trainer.evaluate(metric_key_prefix="before")["before_perplexity"]
        if checkpoint is None:
            found["before"] = now
            unigram = unigram_perplexity(held_out, trainer.processing_class, trainer.train_dataset.corpus)
            say(f"held-out perplexity before: {now:.1f} (from word frequencies alone: {unigram:.1f})")
        else:
            say(f"held-out perplexity at step {step_of(checkpoint):,}: {now:.1f}")
    if not over:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else os.fspath(checkpoint))
    if held_out:
        after = trainer.evaluate(metric_key_prefix="after")["after_perplexity"]
        before = f"before: {found['before']:.1f}, " if "before" in found else ""
        say(f"held-out perplexity {before}after: {after:.1f}")
        return {**found, "after": after}
    return dict(found)


def _checkpoint(settings: Settings, args: TrainingArguments, folder: RunFolder, say: Say) -> Path | None:
    """The checkpoint to go on from; raises where one is there and nobody asked to, or none is whole."""
    folder.check_output()
    newest, skipped = find_checkpoints(folder.path)
    if not settings.resume and (newest is not None or skipped):
        raise ValueError(
            f"{newest or folder.path} is there already; accepted are --resume to go on from it, or a new --output-dir."
        )
    if not settings.resume and folder.finished() is not None:
        raise ValueError(f"{folder.output} is there already; accepted as --output-dir is a new folder.")
    for reason in skipped:
        say(f"passed over: {reason}")
    if skipped and newest is None:
        raise ValueError(f"No checkpoint in {folder.path} is whole; a new run needs a new --output-dir.")
    if args.process_index == 0:
        folder.go_on_publishing()
    return newest


def _arguments(settings: Settings, folder: Path) -> TrainingArguments:
    return TrainingArguments(
        output_dir=os.fspath(folder),
        optim={"adagrad": "adagrad", "adamw": "adamw_torch_fused"}[settings.chosen("optimizer")],
        learning_rate=settings.chosen("learning_rate"),
        max_grad_norm=settings.chosen("max_grad_norm"),
        num_train_epochs=settings.epochs,
        gradient_accumulation_steps=settings.accumulate,
        logging_steps=settings.log_every,
        save_strategy="no",  # PeriodicEvaluationAndSaving decides
        save_total_limit=settings.keep,
        report_to=settings.report_to or "none",
        seed=settings.seed,
        bf16=settings.bf16,
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        # While the biLM is frozen, its parameters have no gradient.
        ddp_find_unused_parameters=settings.freeze_steps > 0,
        use_cpu=not torch.accelerator.is_available(),
    )


def _limit(settings: Settings, windows: TrainingWindows, folder: RunFolder, checkpoint: Path | None) -> _Limit:
    """How many steps, or how much time, and with it the rate of learning of each step."""
    steps = math.ceil(settings.epochs * math.ceil(windows.windows_in_a_pass / settings.accumulate))
    stop = settings.interval("stop_after")
    if stop is not None and stop.steps:
        steps = min(steps, stop.steps)
    timed = stop is not None and stop.seconds > 0
    warmup = settings.chosen("warmup_steps")
    if settings.warmup_steps is None:
        warmup = min(warmup, steps // SHARE_RISING)
    schedule = LearningRateSchedule(settings.chosen("schedule"), warmup, None if timed else steps)
    if timed and schedule.name != "constant":
        if checkpoint is None:
            folder.forget_schedule()
        folder.read_schedule(schedule)
    return _Limit(steps, stop.seconds if timed else math.inf, schedule)


def _tell(
    settings: Settings,
    model: ElmoForPreTraining,
    windows: TrainingWindows,
    held_out: list,
    limit: _Limit,
    say: Say,
):
    """What there is to train, on what, and how."""
    corpus, schedule = windows.corpus, limit.schedule
    say(f"model: {sum(p.numel() for p in model.parameters()):,} parameters; {_softmax(model.config)}")
    epochs = f"{windows.windows_in_a_pass:,} windows of {settings.batch_size} x {settings.unroll_steps} in an epoch"
    say(f"text: {corpus.num_sentences:,} sentences, {corpus.num_words:,} words, {epochs}")
    say(f"held out: {len(held_out):,} sentences")
    length = f"{schedule.steps:,} steps" if schedule.known else f"for {duration(limit.seconds)}"
    rising = f" after {schedule.warmup:,} steps of rising" if schedule.warmup else ""
    say(
        f"training: {settings.chosen('optimizer')} at {settings.chosen('learning_rate'):g}, {schedule.name}{rising}, "
        f"{length}; {torch.get_num_threads()} threads"
    )


@contextmanager
def _first_process_first(args: TrainingArguments) -> Iterator[None]:
    """The first process of each machine writes what the others then find on disk."""
    with args.main_process_first(desc="preparing the corpus"):
        yield


def base_tokenizer(settings: Settings) -> ElmoTokenizer:
    """A tokenizer that splits as the one of the run will."""
    if settings.start is None:
        return ElmoTokenizer(settings.splitting or "whitespace")
    changes = {} if settings.splitting is None else {"splitting": settings.splitting}
    return ElmoTokenizer.from_pretrained(settings.start, **changes)


def _start(settings: Settings, corpus: Corpus, say: Callable[[str], Any]) -> tuple[ElmoTokenizer, ElmoForPreTraining]:
    """The tokenizer with its vocabulary, and the model before its first step."""
    set_seed(settings.seed)
    base = base_tokenizer(settings)
    if settings.start is None:
        config = config_of_size(settings.size)
        vocabulary = _vocabulary(settings, corpus)
        model = new_model(config, vocabulary)
    elif settings.new_vocab:
        vocabulary = _vocabulary(settings, corpus)
        model = with_new_vocabulary(settings.start, base.word_vocabulary, vocabulary, line_counts(vocabulary, corpus))
    else:
        model = trained_model(settings.start, base)
        vocabulary = base.word_vocabulary
        if settings.extend_vocab:
            vocabulary = extend_vocabulary(vocabulary, corpus, settings.min_count, settings.max_size)
            say(f"new words: {len(vocabulary) - model.config.vocab_size:,}")
            model = with_words(model, base.word_vocabulary, vocabulary, line_counts(vocabulary, corpus))
    tokenizer = ElmoTokenizer(
        splitting=base.splitting,
        word_truncation=base.word_truncation,
        word_vocabulary=vocabulary,
        max_characters_per_token=model.config.max_characters_per_token,
        word_input=model.config.word_input,
    )
    _ = tokenizer.word_lines  # complains of missing specials before anything else does
    say(f"vocabulary: {coverage(vocabulary, corpus)}")
    config = model.config
    config.num_sampled = settings.words_drawn(len(vocabulary))
    if settings.dropout is not None:
        config.dropout = settings.dropout
    # Trainer would do this when it trains, but a run that only has its model to save would not come to that.
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(config, name, getattr(tokenizer, name))
    config.validate_architecture()
    if config.num_sampled is not None:
        check_order(vocabulary, corpus)
    return tokenizer, model


def _vocabulary(settings: Settings, corpus: Corpus) -> list[str]:
    if settings.vocabulary is None:
        return build_vocabulary(corpus.words, corpus.counts.tolist(), settings.min_count, settings.max_size)
    return read_word_vocabulary(settings.vocabulary)


def _softmax(config: ElmoConfig) -> str:
    if config.num_sampled is None:
        return f"softmax over all {config.vocab_size:,} words"
    return f"softmax over {config.num_sampled:,} words drawn of {config.vocab_size:,}"


def _facts(
    settings: Settings,
    args: TrainingArguments,
    config: ElmoConfig,
    tokenizer: ElmoTokenizer,
    corpus: Corpus,
    limit: _Limit,
) -> dict[str, Any]:
    schedule = limit.schedule
    # How long the run is decides the rate of each step, unless that is always the same.
    if schedule.name == "constant":
        length = None
    else:
        length = f"{limit.seconds:g} s" if math.isfinite(limit.seconds) else f"{limit.steps} steps"
    return run_facts(
        config,
        tokenizer.word_vocabulary,
        corpus.fingerprint,
        batch_size=settings.batch_size,
        unroll_steps=settings.unroll_steps,
        accumulate=settings.accumulate,
        optimizer=settings.chosen("optimizer"),
        learning_rate=settings.chosen("learning_rate"),
        schedule=schedule.name,
        warmup_steps=schedule.warmup,
        max_grad_norm=settings.chosen("max_grad_norm"),
        length=length,
        bf16=settings.bf16,
        freeze_steps=settings.freeze_steps,
        fresh_starts=settings.chosen("fresh_starts"),
        seed=settings.seed,
        shuffle=settings.shuffle,
        processes=args.world_size,
    )


def _callbacks(
    settings: Settings, limit: _Limit, clock: Clock, folder: RunFolder, held_out: list, say: Say
) -> list[Any]:
    schedule = limit.schedule
    callbacks: list[Any] = [ProgressReport(say, schedule)]
    if math.isfinite(limit.seconds) and not schedule.known:
        if clock.before:
            say(f"of {duration(clock.limit)}, {duration(clock.limit - clock.before)} are left")

        def fixed(schedule: LearningRateSchedule):
            folder.write_schedule(schedule)
            say(f"{duration(limit.seconds)} are {schedule.steps:,} steps at this speed: so many it will be")

        callbacks.append(TimeLimit(clock, schedule, fixed))
    if settings.freeze_steps:
        callbacks.append(FreezeWarmup(settings.freeze_steps))
    evaluate = settings.interval("evaluate_every") if held_out else None
    return [*callbacks, PeriodicEvaluationAndSaving(evaluate, settings.interval("save_every"))]
