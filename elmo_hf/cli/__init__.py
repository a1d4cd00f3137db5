"""The command line, `elmo-hf COMMAND ...`: a file for each group of commands, a thin function for each command."""

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
from elmo_hf.cli.help import prepare_help
from elmo_hf.cli.language_model import perplexity, predict, score, substitute
from elmo_hf.cli.page import page
from elmo_hf.cli.pretrain import pretrain
from elmo_hf.cli.splitting import splitting

app = typer.Typer(
    name="elmo-hf",
    help="ELMo for Hugging Face: deep contextualized word vectors from characters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool):
    if requested:
        typer.echo(f"elmo-hf {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
):
    logging.basicConfig(format="%(levelname)s: %(message)s")
    # It has its own handler; with the one above, each message would be printed twice.
    logging.getLogger("huggingface_hub").propagate = False


for command in (
    convert,
    export,
    perplexity,
    score,
    substitute,
    predict,
    pretrain,
    splitting,
    embed,
    finetune,
    annotate,
    evaluate,
):
    app.command(no_args_is_help=True)(command)
app.command()(demo)
app.command()(page)
app.add_typer(analyse)
prepare_help(app)


def main():
    """Runs the command line; errors that users can fix are one sentence, not a traceback."""
    run(app)
