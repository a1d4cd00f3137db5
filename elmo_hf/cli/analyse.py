"""`elmo-hf analyse ...`: what the layers of a model know, as tables, pictures and JSON."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from elmo_hf.cli.models import AnyModel

from .language_model import Device, Errors, Splitting

analyse = typer.Typer(
    name="analyse",
    help="See what the layers know: tables on the terminal, pictures (--plot), numbers (--json).",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Sentences = Annotated[list[str], typer.Argument(help="Sentences, each in quotes.", show_default=False)]
Layer = Annotated[int, typer.Option(help="The layer that is shown, from 0, or from -1 for the top.")]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw into this .png, .svg or .pdf.", show_default=False)
]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Save all numbers here.", show_default=False)
]


@analyse.command(no_args_is_help=True)
def similarity(
    model: AnyModel,
    sentences: Sentences,
    word: Annotated[
        str | None, typer.Option(help="A word of every sentence. Not given: all words of two sentences.")
    ] = None,
    position: Annotated[
        list[int] | None,
        typer.Option(min=0, help="In place of --word, a position for each sentence, from 0.", show_default=False),
    ] = None,
    layer: Layer = -1,
    plot: Plot = None,
    json: Json = None,
    splitting: Splitting = None,
    device: Device = None,
):
    """How alike one word is in several sentences, layer by layer; or all words of two sentences.

    Example: elmo-hf analyse similarity english "The bank lends ." "We sat on the bank ." --word bank
    """
    from elmo_hf.analysis import sentence_similarity, word_similarity

    alone = word is None and not position
    if alone and len(sentences) != 2:
        raise typer.BadParameter(
            f"{len(sentences)} sentences without --word or --position; accepted are two, or a word to compare."
        )
    _check(plot, json)
    reader = _reader(model, splitting, device)
    if alone:
        _show(sentence_similarity(reader, *sentences, layer), plot, json)
    else:
        _show(word_similarity(reader, sentences, word, position or None), plot, json)


@analyse.command(no_args_is_help=True)
def surprise(
    model: AnyModel,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Text, a sentence a line; also .gz, .xz, and patterns. Not given: standard input."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="SENTENCE", help="A sentence in place of FILES; may be given several times."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the coloured text as a page.", show_default=False)
    ] = None,
    plot: Plot = None,
    json: Json = None,
    splitting: Splitting = None,
    errors: Errors = "strict",
    device: Device = None,
):
    """How expected each word is from what stands left of it, right of it, and on both sides, in bits.

    Example: elmo-hf analyse surprise english --text "The cat sat on the moon ."

    A terminal shows the sentence in colours first, the darker the more surprising. --plot draws one sentence. Words
    that the vocabulary does not have are counted as <UNK>.
    """
    from elmo_hf import ElmoScorer, read_lines
    from elmo_hf.analysis import surprise as measure
    from elmo_hf.analysis.surprise import SurpriseOfText

    if text and files:
        raise typer.BadParameter("Both FILES and --text were given; accepted is one of the two.")
    _check(plot, json, html)
    scorer = ElmoScorer.from_pretrained(model, splitting, device)
    lines = text or read_lines(files or "-", errors, progress=not sys.stdout.isatty())
    found = SurpriseOfText(list(measure(scorer, lines)))
    if html is not None:
        html.write_text(found.to_html(), encoding="utf-8")
    _show(found, plot, json)


def _reader(model: str, splitting: str | None, device: str | None) -> Any:
    from elmo_hf.analysis import LayerReader

    return LayerReader.from_pretrained(model, splitting, device)


def _check(plot: Path | None, *others: Path | None):
    """Complains of where results cannot be written before any work is done."""
    if plot is not None:
        from elmo_hf.analysis.plots import check_plot

        check_plot(plot)
    for path in others:
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"There is no folder {path.parent} to write {path.name} to.")


def _show(finding: Any, plot: Path | None, json: Path | None):
    typer.echo(str(finding))
    if json is not None:
        finding.save_json(json)
    if plot is not None:
        finding.plot(plot)
