"""`elmo-hf pretrain`: the options, and their explanation."""

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from elmo_hf.cli.models import find

TEXT, MODEL, WORDS = "What to read", "What to train", "Vocabulary"
LEARNING, RUN = "How to train", "The run"


def pretrain(
    output_dir: Annotated[
        Path, typer.Option("--output-dir", "-o", help="A new folder for the model and its checkpoints.")
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Text, a sentence a line; names or patterns, also packed (.gz, .xz, .zst).", show_default=False
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="A dataset in place of FILES: a repository, or a saved folder.", rich_help_panel=TEXT),
    ] = None,
    dataset_split: Annotated[str, typer.Option(help="Its split.", rich_help_panel=TEXT)] = "train",
    dataset_column: Annotated[str, typer.Option(help="Its column with the text.", rich_help_panel=TEXT)] = "text",
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Text to measure perplexity on; may be given several times. Without it, up to 1,000 sentences of the "
            "corpus are kept out of training.",
            rich_help_panel=TEXT,
            show_default=False,
        ),
    ] = None,
    errors: Annotated[
        str, typer.Option(help="Lines that are not UTF-8: strict, replace or ignore.", rich_help_panel=TEXT)
    ] = "strict",
    splitting: Annotated[
        str | None,
        typer.Option(
            help="How a line becomes words: whitespace or moses-en. Saved with the model.",
            show_default="whitespace, or that of --from",
            rich_help_panel=TEXT,
        ),
    ] = None,
    size: Annotated[
        str, typer.Option(help="tiny, small, medium, original, or a config.json.", rich_help_panel=MODEL)
    ] = "small",
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="A trained model to tune to this text; english is the one in the package.",
            callback=find,
            rich_help_panel=MODEL,
        ),
    ] = None,
    freeze_steps: Annotated[
        int, typer.Option(min=0, help="Train only the softmax for so many steps at first.", rich_help_panel=MODEL)
    ] = 0,
    dropout: Annotated[
        float | None, typer.Option(show_default="that of the configuration", rich_help_panel=MODEL)
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Words to predict, one a line, by frequency. Without it, they are counted.",
            rich_help_panel=WORDS,
        ),
    ] = None,
    min_count: Annotated[
        int, typer.Option(min=1, help="How often a word must occur to be counted in.", rich_help_panel=WORDS)
    ] = 3,
    max_size: Annotated[
        int | None, typer.Option(min=4, help="Most lines of the vocabulary.", rich_help_panel=WORDS)
    ] = None,
    extend_vocab: Annotated[
        bool,
        typer.Option(
            "--extend-vocab", help="Add the text's words to the vocabulary of --from.", rich_help_panel=WORDS
        ),
    ] = False,
    new_vocab: Annotated[
        bool,
        typer.Option(
            "--new-vocab",
            help="Give the model of --from the vocabulary of this text and a fresh softmax.",
            rich_help_panel=WORDS,
        ),
    ] = False,
    num_sampled: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Words drawn for the softmax of a step; 0 for all words.",
            show_default="8192 for more than 32,768 words",
            rich_help_panel=WORDS,
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Streams of text side by side, in all processes.", rich_help_panel=LEARNING)
    ] = 128,
    unroll_steps: Annotated[
        int, typer.Option(min=1, help="Words of each stream in a step.", rich_help_panel=LEARNING)
    ] = 20,
    accumulate: Annotated[
        int, typer.Option(min=1, help="Windows whose gradients make one update.", rich_help_panel=LEARNING)
    ] = 1,
    epochs: Annotated[float, typer.Option(help="Passes over the text.", rich_help_panel=LEARNING)] = 10,
    stop_after: Annotated[
        str | None,
        typer.Option(
            help="Stop earlier, after so many steps (500) or a time (30s, 10min, 2h).", rich_help_panel=LEARNING
        ),
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="adagrad, as the original, or adamw.", rich_help_panel=LEARNING)
    ] = "adagrad",
    learning_rate: Annotated[
        float | None, typer.Option(show_default="0.2, or 0.001 for adamw", rich_help_panel=LEARNING)
    ] = None,
    schedule: Annotated[
        str, typer.Option(help="Of the learning rate: constant, linear, cosine ...", rich_help_panel=LEARNING)
    ] = "constant",
    warmup_steps: Annotated[int, typer.Option(min=0, rich_help_panel=LEARNING)] = 0,
    max_grad_norm: Annotated[
        float | None,
        typer.Option(
            help="Global norm at which gradients are clipped; 0 for never.",
            show_default="10, or 1 for adamw",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    bf16: Annotated[bool, typer.Option("--bf16", help="Mixed precision.", rich_help_panel=LEARNING)] = False,
    seed: Annotated[int, typer.Option(rich_help_panel=LEARNING)] = 0,
    shuffle: Annotated[
        bool, typer.Option(help="Sentences in a new order each epoch.", rich_help_panel=LEARNING)
    ] = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest whole checkpoint.", rich_help_panel=RUN)
    ] = False,
    log_every: Annotated[int, typer.Option(min=1, help="Steps between reports.", rich_help_panel=RUN)] = 50,
    evaluate_every: Annotated[str, typer.Option(help="Steps or a time.", rich_help_panel=RUN)] = "10min",
    save_every: Annotated[str, typer.Option(help="Steps or a time.", rich_help_panel=RUN)] = "10min",
    keep: Annotated[int, typer.Option(min=1, help="Checkpoints that are kept.", rich_help_panel=RUN)] = 2,
    report_to: Annotated[
        list[str] | None,
        typer.Option(help="tensorboard, wandb ...: what Trainer reports to.", rich_help_panel=RUN, show_default=False),
    ] = None,
):
    """Train a language model on your own text, or tune a trained one to a domain.

    A small model in an hour on a laptop:

        elmo-hf pretrain corpus.txt -o my-elmo --size tiny --stop-after 1h

    Perplexity on held-out text is printed as it falls; word frequencies alone give the mark to beat.

    Whatever ends the run, the same command with --resume goes on, with the very same result.

    Tune a model to a domain; its vocabulary is kept, extended, or new (for a converted model without a softmax):

        elmo-hf pretrain domain.txt -o tuned --from my-elmo --extend-vocab

        elmo-hf pretrain domain.txt -o tuned --from converted --new-vocab --freeze-steps 500

    Several processes or machines take the same command, and divide the streams among themselves:

        torchrun --nproc-per-node 4 -m elmo_hf.cli pretrain corpus.txt -o my-elmo --size original
    """
    settings = dict(locals())
    try:
        from elmo_hf import pretraining
    except ImportError as error:
        raise ValueError(str(error)) from None
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.showwarning = lambda message, *args, **kwargs: typer.echo(f"Warning: {message}", err=True)
    lists = {name: settings[name] or [] for name in ("files", "held_out", "report_to")}
    pretraining.pretrain(pretraining.Settings(**{**settings, **lists}), write=_write)
    _leave()


def _write(line: str):
    typer.echo(line)
    sys.stdout.flush()


def _leave():
    """Ends a process of several in order; without it, torch now and then aborts at the very end."""
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
