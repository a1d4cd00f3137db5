"""`elmo-hf demo`: a minute with the bundled model."""

import time
from pathlib import Path
from typing import Annotated

import typer

from elmo_hf.cli.models import find_model_argument


def demo(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A language model of English: a folder, a repository of the Hub, or english (in the package).",
            callback=find_model_argument,
        ),
    ] = "english",
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the senses into this .png, .svg or .pdf.", show_default=False),
    ] = None,
):
    """Show what ELMo's vectors know: senses, neighbours, substitutes, surprisal, and taggers on top.

    Example: elmo-hf demo --plot senses.png

    Everything is computed now by the model that comes with the package, and its errors are shown too. The sentences of
    the sense test were written before any model read them.
    """
    from transformers.utils import logging

    from elmo_hf import ElmoScorer, bundled_model
    from elmo_hf.bundled.demo import demonstration
    from elmo_hf.bundled.whitespace_reader import WhitespaceReader

    if plot is not None:
        from elmo_hf.analysis.plots import check_plot

        check_plot(plot)
    logging.disable_progress_bar()
    start = time.perf_counter()
    scorer = ElmoScorer.from_pretrained(model)
    typer.echo(
        f"{Path(model).name}: {scorer.model.num_parameters():,} parameters, {scorer.model.config.num_hidden_layers} "
        f"layers over characters, vectors of {scorer.model.config.hidden_size}\n"
    )
    for line in demonstration(scorer, taggers=Path(model) == Path(bundled_model("english"))):
        typer.echo(line)
    if plot is not None:
        from elmo_hf.bundled.sense_plot import plot_senses

        plot_senses(WhitespaceReader(scorer.model, scorer.tokenizer), plot)
        typer.echo(f"{plot}: a picture of the senses")
    typer.echo(f"All of it took {time.perf_counter() - start:.1f} s.")
