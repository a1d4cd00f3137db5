"""`elmo-hf finetune`: a head trained on annotated data."""

import functools
from pathlib import Path
from typing import Annotated

import typer

from elmo_hf.cli.language_model import Device
from elmo_hf.cli.models import find_model_argument

DATA, NETWORK, TRAINING = "Data", "Network", "Training"


def finetune(
    task: Annotated[
        str,
        typer.Argument(
            help="ner, pos, tagging, classification, sentiment, regression, inference, srl, questions or coreference."
        ),
    ],
    train: Annotated[
        str,
        typer.Option(
            help="CoNLL, CoNLL-U, JSON lines, TSV, CSV, Parquet, trees, SQuAD; or a dataset's name.",
            rich_help_panel=DATA,
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="A new folder for the model.")],
    dev: Annotated[
        str | None,
        typer.Option(
            help="Chooses the best model.", show_default="a tenth of the training data", rich_help_panel=DATA
        ),
    ] = None,
    test: Annotated[str | None, typer.Option(help="Scored at the end.", rich_help_panel=DATA)] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="Of labels: a name, or for CoNLL a number from 0 or from -1.",
            show_default="by name",
            rich_help_panel=DATA,
        ),
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Of texts or words.", show_default="by name", rich_help_panel=DATA)
    ] = None,
    pair_column: Annotated[
        str | None, typer.Option(help="Of second texts of pairs.", show_default="by name", rich_help_panel=DATA)
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(help="Train on so many examples, or below 1 on this share.", rich_help_panel=DATA),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="A folder, a repository of the Hub, or english.",
            rich_help_panel=NETWORK,
            callback=find_model_argument,
        ),
    ] = "english",
    head: Annotated[
        str | None,
        typer.Option(
            help="linear, bilstm-crf, srl, bcn, esim, bidaf or spans.",
            show_default="by task and data",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Sizes of the head: small or paper.", rich_help_panel=NETWORK)
    ] = None,
    elmo_at: Annotated[
        str, typer.Option(help="Where ELMo joins: input, output, both or none.", rich_help_panel=NETWORK)
    ] = "input",
    word_vectors: Annotated[
        str | None, typer.Option(help="A file of word vectors beside ELMo.", rich_help_panel=NETWORK)
    ] = None,
    mix_dropout: Annotated[
        float | None,
        typer.Option(help="Dropout of ELMo's vectors.", show_default="by their size", rich_help_panel=NETWORK),
    ] = None,
    tune_bilm: Annotated[
        bool, typer.Option("--tune-bilm", help="Train the biLM too.", rich_help_panel=NETWORK)
    ] = False,
    lora: Annotated[
        bool, typer.Option("--lora", help="Train low-rank adapters of the biLM; needs peft.", rich_help_panel=NETWORK)
    ] = False,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate.", show_default="by task", rich_help_panel=TRAINING)
    ] = None,
    bilm_lr: Annotated[
        float | None,
        typer.Option(help="Of the biLM.", show_default="a tenth of --lr", rich_help_panel=TRAINING),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Epochs, at most.", show_default="by task", rich_help_panel=TRAINING)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Examples in a batch.", show_default="by task", rich_help_panel=TRAINING)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Evaluations without a better one before it stops.",
            show_default="3, and at least 300 steps",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights, dropout and order.", rich_help_panel=TRAINING)] = 1,
    seeds: Annotated[
        int,
        typer.Option(min=1, help="Train with so many seeds; the best on dev is kept.", rich_help_panel=TRAINING),
    ] = 1,
    max_length: Annotated[
        int, typer.Option(help="questions: positions of a question and its passage.", rich_help_panel=TRAINING)
    ] = 300,
    part_sentences: Annotated[
        int, typer.Option(help="coreference: sentences that are read at one time.", rich_help_panel=TRAINING)
    ] = 30,
    phrases: Annotated[
        bool,
        typer.Option("--phrases", help="sentiment: train on the phrases of trees too.", rich_help_panel=TRAINING),
    ] = False,
    answerable_only: Annotated[
        bool,
        typer.Option(
            "--answerable-only", help="questions: leave out those without an answer.", rich_help_panel=TRAINING
        ),
    ] = False,
    cache_megabytes: Annotated[
        float, typer.Option(min=0, help="Memory for sentences of a frozen biLM.", rich_help_panel=TRAINING)
    ] = 2000,
    device: Device = None,
):
    """Train a model for a task on annotated data.

    Example: elmo-hf finetune ner --train train.conll --dev dev.conll --test test.conll -o my-ner

    The format is recognised, the best model on dev is kept, and training stops when dev gets no better. The same
    command resumes a run that was interrupted, and ends with the same bytes.
    """
    from elmo_hf import tasks

    train_task = functools.partial(tasks.finetune_seeds, seeds=seeds) if seeds > 1 else tasks.finetune
    train_task(
        task,
        train=train,
        dev=dev,
        test=test,
        output=output,
        model=model,
        head=head,
        preset=preset,
        elmo_at=elmo_at,
        word_vectors=word_vectors,
        tune_bilm=tune_bilm,
        lora=lora,
        lr=lr,
        bilm_lr=bilm_lr,
        epochs=epochs,
        batch_size=batch_size,
        patience=patience,
        seed=seed,
        limit=limit,
        max_length=max_length,
        part_sentences=part_sentences,
        phrases=phrases,
        answerable_only=answerable_only,
        mix_dropout=mix_dropout,
        column=column,
        text_column=text_column,
        pair_column=pair_column,
        cache_megabytes=cache_megabytes,
        device=device,
        say=typer.echo,
    )
