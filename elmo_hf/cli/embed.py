"""`elmo-hf embed`: the vectors of a corpus."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo_hf.cli.corpus_run import parse_shard, ray_address, resumable_run
from elmo_hf.cli.language_model import Device
from elmo_hf.cli.models import AnyModel
from elmo_hf.cli.native_note import note_missing_library
from elmo_hf.cli.text_input import ErrorHandling, Splitting, TextInput
from elmo_hf.text.files import PACKED, plural

if TYPE_CHECKING:
    from elmo_hf.embedding import RunSummary

INPUT, VECTORS, WORK = "What to read", "Which vectors", "How to work"


def embed(
    model: AnyModel,
    input: Annotated[
        str,
        typer.Argument(
            help=f"Text, a sentence a line; .jsonl or .parquet; also {PACKED}; a pattern in quotes; - for standard "
            "input; with --dataset a dataset's name."
        ),
    ],
    output: Annotated[
        Path, typer.Argument(help="A folder for the store, or an .hdf5 or .h5 file for the HDF5 layouts.")
    ],
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="Words stand between spaces.", rich_help_panel=INPUT)
    ] = False,
    splitting: Splitting = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="Of .jsonl, Parquet or a dataset.",
            show_default="text, sentence, words or tokens",
            rich_help_panel=INPUT,
        ),
    ] = None,
    dataset: Annotated[
        bool,
        typer.Option(
            "--dataset", help="INPUT is a dataset of the Hub, or a saved one's folder.", rich_help_panel=INPUT
        ),
    ] = False,
    split: Annotated[str, typer.Option(help="The dataset's split.", rich_help_panel=INPUT)] = "train",
    errors: ErrorHandling = "strict",
    layers: Annotated[
        str,
        typer.Option(help="mix, average, top, all, a number, or numbers as 0,2.", rich_help_panel=VECTORS),
    ] = "mix",
    pooling: Annotated[
        str | None,
        typer.Option(
            help="mean, max or first_last: one vector for a sentence. Not given: one for each word.",
            rich_help_panel=VECTORS,
        ),
    ] = None,
    boundaries: Annotated[
        bool, typer.Option("--boundaries", help="Vectors of <S> and </S> too.", rich_help_panel=VECTORS)
    ] = False,
    format: Annotated[
        str | None,
        typer.Option(
            help="safetensors, parquet, bilm-hdf5 or allennlp-hdf5.",
            show_default="safetensors, or bilm-hdf5 for an .hdf5 or .h5 file",
            rich_help_panel=VECTORS,
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, float16 or bfloat16.", rich_help_panel=VECTORS)] = "float32",
    batch_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens that are read at one time.", rich_help_panel=WORK)
    ] = 4096,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Sentences, in place of tokens.", rich_help_panel=WORK)
    ] = None,
    stateful: Annotated[
        bool,
        typer.Option(
            "--stateful", help="Carry the state from batch to batch, as the originals.", rich_help_panel=WORK
        ),
    ] = False,
    part_sentences: Annotated[
        int, typer.Option(min=1, help="Most sentences of one part.", rich_help_panel=WORK)
    ] = 1000,
    part_characters: Annotated[int, typer.Option(min=1, help="Most characters of one part.", rich_help_panel=WORK)] = 2
    ** 16,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes side by side.", show_default="one for each processor, up to 4", rich_help_panel=WORK
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of each process.", show_default="1", rich_help_panel=WORK)
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="K/N", help="Only every N-th part, from the K-th.", rich_help_panel=WORK)
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Make the parts as tasks on Ray, on this machine.", rich_help_panel=WORK)
    ] = False,
    address: Annotated[
        str | None, typer.Option(help="With --ray: that of a cluster, or auto.", rich_help_panel=WORK)
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Compare the whole store with its checksums, and write damaged parts again.",
            rich_help_panel=WORK,
        ),
    ] = False,
    revision: Annotated[str | None, typer.Option(help="Of the model's repository.", rich_help_panel=INPUT)] = None,
    device: Device = None,
):
    """Write the vectors of a corpus, in parts that survive whatever ends the run.

    Example: elmo-hf embed my-elmo corpus.txt.gz vectors --dtype float16

    The same command resumes after kill -9, Ctrl-C or a full disk. Line n is sentence n, blank lines too. open_store
    of elmo_hf reads it back: one sentence, some, or all.
    """
    from elmo_hf import ElmoTokenizer
    from elmo_hf.embedding import SentenceSource, embed_corpus

    arguments = {} if revision is None else {"revision": revision}
    source = TextInput(
        SentenceSource(input, tokenized, column, dataset, split, errors),
        input,
        lambda: splitting or ElmoTokenizer.from_pretrained(model, **arguments).splitting,
    )
    source.check_not_empty()
    note_missing_library(device)
    start = time.perf_counter()
    with resumable_run(output) as progress:
        summary = embed_corpus(
            model,
            source,
            output,
            format=format,
            layers=_layers(layers),
            pooling=pooling,
            dtype=dtype,
            boundaries=boundaries,
            splitting=splitting,
            batch_tokens=batch_tokens,
            batch_size=batch_size,
            stateful=stateful,
            part_sentences=part_sentences,
            part_characters=part_characters,
            threads=threads,
            processes=processes,
            shard=None if shard is None else parse_shard(shard),
            ray=ray_address(ray, address),
            device=device,
            verify=verify,
            progress=progress,
            **arguments,
        )
    _report(summary, output, time.perf_counter() - start, verify)


def _report(summary: "RunSummary", output: Path, seconds: float, verified: bool):
    rate = ""
    if summary.written:
        speeds = f"{summary.sentences / seconds:,.0f} sentences/s, {summary.words / seconds:,.0f} words/s"
        rate = f" in {seconds:,.1f} s ({speeds})"
    existing = f", {summary.existing:,} there before{' and intact' * verified}" if summary.existing else ""
    damaged = f", of which {summary.damaged:,} had been damaged" if summary.damaged else ""
    typer.echo(f"{plural(summary.sentences, 'sentence')}, {plural(summary.words, 'word')}{rate}")
    typer.echo(f"{output}: {summary.written:,} of {plural(summary.parts, 'part')} made{damaged}{existing}")
    if not summary.finished:
        typer.echo("The store is not finished: other processes or machines have to write the other parts.")


def _layers(text: str) -> str | int | list[int]:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?\d+(,-?\d+)+", text):
        return [int(number) for number in text.split(",")]
    return text
