"""`elmo-hf annotate`: a corpus labelled by fine-tuned models."""

import itertools
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from elmo_hf.cli.corpus_run import parse_shard, ray_address, resumable_run
from elmo_hf.cli.language_model import Device
from elmo_hf.cli.models import find_model_argument
from elmo_hf.cli.text_input import ErrorHandling, TextInput
from elmo_hf.text.files import PACKED, plural

INPUT, WORK = "What to read", "How to work"
# Sentences that are labelled together for a terminal.
SHOWN_TOGETHER = 64


def annotate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL... INPUT",
            help="Fine-tuned models, then the input: text, a sentence a line; .conll, .conllu, .jsonl or .parquet; "
            f"also {PACKED}; a pattern in quotes; - for standard input.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="A file: .conll, .jsonl, .parquet or .html.",
            show_default="marked text on standard output",
        ),
    ] = None,
    html: Annotated[bool, typer.Option("--html", help="Write HTML, spans in colours.")] = False,
    format: Annotated[
        str | None, typer.Option(help="conll, jsonl, parquet or html.", show_default="by the file's name")
    ] = None,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="Words stand between spaces.", rich_help_panel=INPUT)
    ] = False,
    column: Annotated[
        str | None,
        typer.Option(
            help="Of .jsonl, Parquet or a dataset.",
            show_default="text, sentence, words or tokens",
            rich_help_panel=INPUT,
        ),
    ] = None,
    dataset: Annotated[
        bool, typer.Option("--dataset", help="INPUT is the name or the folder of a dataset.", rich_help_panel=INPUT)
    ] = False,
    split: Annotated[str, typer.Option(help="The dataset's split.", rich_help_panel=INPUT)] = "train",
    errors: ErrorHandling = "strict",
    batch_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens that are read at one time.", rich_help_panel=WORK)
    ] = 8192,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes side by side.", show_default="one for each processor, up to 4", rich_help_panel=WORK
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Of each process.", rich_help_panel=WORK)] = 1,
    shard: Annotated[
        str | None, typer.Option(metavar="K/N", help="Only every N-th part, from the K-th.", rich_help_panel=WORK)
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Write the parts as tasks on Ray, on this machine.", rich_help_panel=WORK)
    ] = False,
    address: Annotated[
        str | None, typer.Option(help="With --ray: that of a cluster, or auto.", rich_help_panel=WORK)
    ] = None,
    device: Device = None,
):
    """Label a corpus with fine-tuned models.

    Example: elmo-hf annotate my-ner my-pos corpus.txt -o labels.jsonl

    The same command resumes after kill -9, Ctrl-C or a full disk, and the file has the same bytes. Models with the
    same frozen biLM share what it computes. Without -o the labels are marked in the text, for reading.
    """
    from elmo_hf import ElmoTokenizer
    from elmo_hf.tasks.annotation.corpus_source import CorpusSource

    *names, input = models
    if not names:
        raise typer.BadParameter(f"{input} alone. Expected one or several models and an input.")
    names = [str(find_model_argument(name)) for name in names]
    source = TextInput(
        CorpusSource(input, tokenized, column, dataset, split, errors),
        input,
        lambda: ElmoTokenizer.from_pretrained(names[0]).splitting,
    )
    source.check_not_empty()
    if output is None:
        if html or format:
            raise typer.BadParameter("--html and --format are for a file. Expected -o too.")
        _show(names, source, device)
        return
    from elmo_hf.tasks import annotate_corpus

    start = time.perf_counter()
    with resumable_run(output.with_name(f"{output.name}.parts")) as progress:
        summary = annotate_corpus(
            names,
            source,
            output,
            format="html" if html else format,
            batch_tokens=batch_tokens,
            threads=threads,
            processes=processes,
            shard=None if shard is None else parse_shard(shard),
            ray=ray_address(ray, address),
            device=device,
            progress=progress,
        )
    seconds = time.perf_counter() - start
    rate = f" in {seconds:,.1f} s ({summary.words / seconds:,.0f} words/s)" if summary.written else ""
    typer.echo(f"{plural(summary.sentences, 'sentence')}, {plural(summary.words, 'word')}{rate}")
    existing = f", {summary.existing:,} there before" if summary.existing else ""
    typer.echo(f"{output}: {summary.written:,} of {plural(summary.parts, 'part')} written{existing}")
    if not summary.finished:
        typer.echo("The file is not finished: other shards have parts to write.")


def _show(names: list[str], source, device: str | None):
    from elmo_hf.tasks import ElmoAnnotator
    from elmo_hf.tasks.annotation.formats import marked_text

    annotator = ElmoAnnotator.from_pretrained(*names, device=device)
    sentences = iter(source)
    while batch := list(itertools.islice(sentences, SHOWN_TOGETHER)):
        for annotation in annotator(batch):
            typer.echo(marked_text(annotation, colors=sys.stdout.isatty()))
