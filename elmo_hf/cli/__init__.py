"""The command line, `elmo-hf VERB ...`: a file for each group of verbs, thin, one function for each verb."""

import logging
from typing import Annotated

import typer

from elmo_hf import __version__
from elmo_hf.cli.annotate import annotate
from elmo_hf.cli.change import analyse
from elmo_hf.cli.convert import convert, export
from elmo_hf.cli.demo import demo
from elmo_hf.cli.embed import embed
from elmo_hf.cli.errors import run
from elmo_hf.cli.evaluate import evaluate
from elmo_hf.cli.finetune import finetune
from elmo_hf.cli.help import prepare
from elmo_hf.cli.language_model import perplexity, predict, score, substitute
from elmo_hf.cli.page import page
from elmo_hf.cli.pretrain import pretrain

app = typer.Typer(
    name="elmo-hf",
    help="ELMo for Hugging Face: deep contextualized word vectors from characters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool):
    if wanted:
        typer.echo(f"elmo-hf {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
):
    logging.basicConfig(format="%(levelname)s: %(message)s")
    # It prints its own messages, and would say each a second time through the handler above.
    logging.getLogger("huggingface_hub").propagate = False


for verb in (convert, export, perplexity, score, substitute, predict, pretrain, embed, finetune, annotate, evaluate):
    app.command(no_args_is_help=True)(verb)
app.command()(demo)
app.command()(page)
app.add_typer(analyse)


prepare(app)


def main():
    """Runs the command line; what a person can mend is a sentence, not a traceback."""
    run(app)
