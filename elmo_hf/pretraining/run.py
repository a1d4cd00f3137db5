"""A whole pretraining run, from text files to a saved model: what `elmo-hf pretrain` does."""

import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed

from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.language_modeling_elmo import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer
from elmo_hf.model.word_rows_elmo import read_word_vocabulary
from elmo_hf.pretraining.callbacks import FrozenAtFirst, Interval, Report, Rhythm
from elmo_hf.pretraining.checkpoints import check_same_run, newest_checkpoint, run_facts
from elmo_hf.pretraining.corpus import Corpus, lines_of_dataset
from elmo_hf.pretraining.starting import (
    config_of_size,
    new_model,
    trained_model,
    with_extended_vocabulary,
    with_new_softmax,
)
from elmo_hf.pretraining.trainer import ElmoPretrainer
from elmo_hf.pretraining.vocabulary import (
    build_vocabulary,
    check_order,
    coverage,
    extend_vocabulary,
    line_counts,
    unigram_perplexity,
)
from elmo_hf.pretraining.windows import TrainingWindows
from elmo_hf.text.files import STANDARD_INPUT, find_files
from elmo_hf.text.lines import read_lines

# The original's number of words drawn; a vocabulary that is not some times larger is cheaper to take whole.
WORDS_DRAWN, WORTH_DRAWING = 8192, 4 * 8192
LEARNING_RATES = {"adagrad": 0.2, "adamw": 1e-3}
GRADIENT_NORMS = {"adagrad": 10.0, "adamw": 1.0}


@dataclass
class Settings:
    """What a run is made of; `elmo-hf pretrain --help` explains each.

    Example:

    ```python
    >>> from elmo_hf.pretraining import Settings
    >>> Settings(output_dir="my-elmo", files=["corpus.txt"], size="tiny").batch_size
    128

    ```
    """

    output_dir: str | os.PathLike
    files: list[str] = field(default_factory=list)
    dataset: str | None = None
    dataset_split: str = "train"
    dataset_column: str = "text"
    held_out: list[str] = field(default_factory=list)
    errors: str = "strict"
    splitting: str | None = None
    size: str = "small"
    start: str | None = None
    vocabulary: str | None = None
    extend_vocab: bool = False
    new_vocab: bool = False
    min_count: int = 3
    max_size: int | None = None
    freeze_steps: int = 0
    batch_size: int = 128
    unroll_steps: int = 20
    accumulate: int = 1
    epochs: float = 10
    stop_after: str | None = None
    optimizer: str = "adagrad"
    learning_rate: float | None = None
    schedule: str = "constant"
    warmup_steps: int = 0
    max_grad_norm: float | None = None
    dropout: float | None = None
    num_sampled: int | None = None
    seed: int = 0
    shuffle: bool = True
    bf16: bool = False
    log_every: int = 50
    evaluate_every: str = "10min"
    save_every: str = "10min"
    keep: int = 2
    report_to: list[str] = field(default_factory=list)
    resume: bool = False


def pretrain(settings: Settings, write: Callable[[str], Any] = print) -> dict[str, float]:
    """Runs it all; returns perplexities of the held-out text, `before` and `after` training.

    Args:
        settings: see there.
        write: gets each line that is reported.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf import ElmoForPreTraining
    >>> from elmo_hf.pretraining import Settings, pretrain
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "text.txt").write_text("the cat sat on the mat .\\n" * 50)
    >>> settings = Settings(folder / "model", [str(folder / "text.txt")], held_out=[str(folder / "text.txt")],
    ...     size="tiny", batch_size=4, unroll_steps=5, epochs=1)
    >>> found = pretrain(settings, write=lambda line: None)
    >>> found["after"] < found["before"]
    True
    >>> ElmoForPreTraining.from_pretrained(folder / "model").config.vocab_size
    9

    ```
    """
    _check(settings)
    output = Path(settings.output_dir)
    checkpoint = _checkpoint(settings)
    args = _arguments(settings)
    say = write if args.process_index == 0 else lambda line: None
    with _first_process_first(args):
        corpus = _corpus(settings, output / "corpus", say)
    tokenizer, model = _start(settings, corpus, say)
    held_out = list(read_lines(settings.held_out, settings.errors)) if settings.held_out else corpus.held_out
    with _first_process_first(args):
        windows = TrainingWindows(
            corpus,
            tokenizer,
            model.config,
            settings.batch_size,
            settings.unroll_steps,
            settings.seed,
            settings.shuffle,
        )
    facts = _facts(settings, args, model.config, tokenizer, corpus)
    if checkpoint is not None:
        check_same_run(checkpoint, facts)
    say(f"model: {sum(p.numel() for p in model.parameters()):,} parameters; {_softmax(model.config)}")
    epochs = f"{windows.windows_in_a_pass:,} windows of {settings.batch_size} x {settings.unroll_steps} in an epoch"
    say(f"text: {corpus.num_sentences:,} sentences, {corpus.num_words:,} words, {epochs}")
    say(f"held out: {len(held_out):,} sentences")
    trainer = ElmoPretrainer(model, args, windows, tokenizer, held_out, facts, _callbacks(settings, held_out, say))
    found = _train(trainer, checkpoint, say)
    if args.process_index == 0:
        model.save_pretrained(output)
        tokenizer.save_pretrained(output)
    say(f"saved: {output}")
    return found


def _train(trainer: ElmoPretrainer, checkpoint: Path | None, say: Callable[[str], Any]) -> dict[str, float]:
    """Trains, with perplexities of the held-out text before and after where there is any."""
    held_out, found = trainer.held_out, {}
    if held_out:
        unigram = unigram_perplexity(held_out, trainer.processing_class, trainer.train_dataset.corpus)
        found["before"] = trainer.evaluate(metric_key_prefix="before")["before_perplexity"]
        say(f"held-out perplexity before: {found['before']:.1f} (from word frequencies alone: {unigram:.1f})")
    if checkpoint is not None:
        say(f"going on from {checkpoint}")
    trainer.train(resume_from_checkpoint=None if checkpoint is None else os.fspath(checkpoint))
    if held_out:
        found["after"] = trainer.evaluate(metric_key_prefix="after")["after_perplexity"]
        say(f"held-out perplexity before: {found['before']:.1f}, after: {found['after']:.1f}")
    return found


def _check(settings: Settings):
    """Raises where settings contradict each other."""
    if bool(settings.files) == (settings.dataset is not None):
        raise ValueError("The text to train on is either FILES or a --dataset: exactly one of the two.")
    if STANDARD_INPUT in settings.files:
        raise ValueError("Standard input cannot be read a second time, to go on or by another process; give a file.")
    if settings.optimizer not in LEARNING_RATES:
        raise ValueError(f"The optimizer is {settings.optimizer!r}; accepted are {', '.join(LEARNING_RATES)}.")
    if settings.start is None and (settings.extend_vocab or settings.new_vocab):
        raise ValueError("--extend-vocab and --new-vocab say what becomes of the vocabulary of a model: give --from.")
    if settings.extend_vocab and settings.new_vocab:
        raise ValueError("--extend-vocab and --new-vocab exclude each other.")
    if settings.start is not None and settings.vocabulary is not None and not settings.new_vocab:
        raise ValueError("The model of --from has a vocabulary; a --vocabulary of its own needs --new-vocab.")


def _checkpoint(settings: Settings) -> Path | None:
    """The checkpoint to go on from; raises where one is there and nobody asked to."""
    newest = newest_checkpoint(settings.output_dir)
    if newest is not None and not settings.resume:
        raise ValueError(f"{newest} is there already; accepted are --resume to go on from it, or a new --output-dir.")
    return newest


def _arguments(settings: Settings) -> TrainingArguments:
    name = settings.optimizer
    norm = GRADIENT_NORMS[name] if settings.max_grad_norm is None else settings.max_grad_norm
    return TrainingArguments(
        output_dir=os.fspath(settings.output_dir),
        optim={"adagrad": "adagrad", "adamw": "adamw_torch"}[name],
        learning_rate=LEARNING_RATES[name] if settings.learning_rate is None else settings.learning_rate,
        lr_scheduler_type=settings.schedule,
        warmup_steps=settings.warmup_steps,
        max_grad_norm=norm,
        num_train_epochs=settings.epochs,
        gradient_accumulation_steps=settings.accumulate,
        logging_steps=settings.log_every,
        save_strategy="no",  # Rhythm says when
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


@contextmanager
def _first_process_first(args: TrainingArguments) -> Iterator[None]:
    """The first process of each machine writes what the others then find on disk."""
    with args.main_process_first(desc="preparing the corpus"):
        yield


def _corpus(settings: Settings, folder: Path, say: Callable[[str], Any]) -> Corpus:
    tokenizer = _base_tokenizer(settings)
    if settings.dataset is None:
        stats = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in find_files(settings.files)]
        source: list[Any] = ["files", stats, settings.errors]
    else:
        source = ["dataset", settings.dataset, settings.dataset_split, settings.dataset_column]
    source += [tokenizer.splitting, not settings.held_out]
    # Where the folder holds another corpus, this may be the same text in other files: the fingerprint will tell.
    for place in (folder, folder.with_name(f"{folder.name}-{zlib.crc32(str(source).encode()):08x}")):
        if Corpus.is_of(place, source):
            return Corpus(place)
        if not place.exists():
            break
    say("reading the text ...")
    return Corpus.write(_lines(settings), place, tokenizer, hold_out=not settings.held_out, source=source)


def _lines(settings: Settings) -> Iterator[str]:
    if settings.dataset is not None:
        from datasets import load_dataset, load_from_disk

        if (
            Path(settings.dataset, "dataset_info.json").exists()
            or Path(settings.dataset, "dataset_dict.json").exists()
        ):
            loaded = load_from_disk(settings.dataset)
            loaded = loaded[settings.dataset_split] if isinstance(loaded, dict) else loaded
        else:
            loaded = load_dataset(settings.dataset, split=settings.dataset_split, streaming=True)
        yield from lines_of_dataset(loaded, settings.dataset_column)
        return
    for path in find_files(settings.files):
        empty = True
        for line in read_lines(path, settings.errors, progress=True):
            empty = False
            yield line
        if empty:
            warnings.warn(f"{path} holds no text.", stacklevel=2)


def _base_tokenizer(settings: Settings) -> ElmoTokenizer:
    """A tokenizer that splits as the one of the run will."""
    if settings.start is None:
        return ElmoTokenizer(settings.splitting or "whitespace")
    changes = {} if settings.splitting is None else {"splitting": settings.splitting}
    return ElmoTokenizer.from_pretrained(settings.start, **changes)


def _start(settings: Settings, corpus: Corpus, say: Callable[[str], Any]) -> tuple[ElmoTokenizer, ElmoForPreTraining]:
    """The tokenizer with its vocabulary, and the model before its first step."""
    set_seed(settings.seed)
    base = _base_tokenizer(settings)
    if settings.start is None:
        config = config_of_size(settings.size)
        vocabulary = _vocabulary(settings, corpus)
        model = new_model(config, vocabulary)
    elif settings.new_vocab:
        vocabulary = _vocabulary(settings, corpus)
        model = with_new_softmax(settings.start, vocabulary)
    else:
        model = trained_model(settings.start, base)
        vocabulary = base.word_vocabulary
        if settings.extend_vocab:
            vocabulary = extend_vocabulary(vocabulary, corpus, settings.min_count, settings.max_size)
            say(f"new words: {len(vocabulary) - model.config.vocab_size:,}")
            model = with_extended_vocabulary(model, vocabulary, line_counts(vocabulary, corpus))
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
    config.num_sampled = _number_sampled(settings, len(vocabulary))
    if settings.dropout is not None:
        config.dropout = settings.dropout
    config.validate_architecture()
    if config.num_sampled is not None:
        check_order(vocabulary, corpus)
    return tokenizer, model


def _vocabulary(settings: Settings, corpus: Corpus) -> list[str]:
    if settings.vocabulary is None:
        return build_vocabulary(corpus.words, corpus.counts.tolist(), settings.min_count, settings.max_size)
    vocabulary = read_word_vocabulary(settings.vocabulary)
    _ = ElmoTokenizer(word_vocabulary=settings.vocabulary).word_lines
    return vocabulary


def _number_sampled(settings: Settings, vocabulary: int) -> int | None:
    if settings.num_sampled is None:
        return WORDS_DRAWN if vocabulary > WORTH_DRAWING else None
    return settings.num_sampled or None


def _softmax(config: ElmoConfig) -> str:
    if config.num_sampled is None:
        return f"softmax over all {config.vocab_size:,} words"
    return f"softmax over {config.num_sampled:,} words drawn of {config.vocab_size:,}"


def _facts(
    settings: Settings, args: TrainingArguments, config: ElmoConfig, tokenizer: ElmoTokenizer, corpus: Corpus
) -> dict[str, Any]:
    return run_facts(
        config,
        tokenizer.word_vocabulary,
        corpus.fingerprint,
        batch_size=settings.batch_size,
        unroll_steps=settings.unroll_steps,
        accumulate=settings.accumulate,
        optimizer=settings.optimizer,
        freeze_steps=settings.freeze_steps,
        seed=settings.seed,
        shuffle=settings.shuffle,
        processes=args.world_size,
    )


def _callbacks(settings: Settings, held_out: list[str], say: Callable[[str], Any]) -> list[Any]:
    evaluate = Interval.parse(settings.evaluate_every) if held_out else None
    stop = None if settings.stop_after is None else Interval.parse(settings.stop_after)
    callbacks: list[Any] = [Report(say), Rhythm(evaluate, Interval.parse(settings.save_every), stop)]
    if settings.freeze_steps:
        callbacks.append(FrozenAtFirst(settings.freeze_steps))
    return callbacks
