"""The command line, `elmo-hf VERB ...`: thin, one function for each verb."""

import logging
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from huggingface_hub.errors import StrictDataclassError

from elmo_hf import __version__
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


@app.command(no_args_is_help=True)
def convert(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="OPTIONS.json WEIGHTS.hdf5 OUTPUT_DIR | FOLDER_OR_ZIP OUTPUT_DIR",
            help="The original files, or one folder or zip that holds them, as paths or http(s) addresses; "
            "and last a new folder for the result.",
            show_default=False,
        ),
    ],
    vocabulary: Annotated[str | None, typer.Option(help="Words of the softmax, one a line.")] = None,
    softmax: Annotated[str | None, typer.Option(help="HDF5 with softmax/W and softmax/b.")] = None,
    splitting: Annotated[
        str, typer.Option(help="How the tokenizer will split raw text: moses-en or whitespace.")
    ] = "moses-en",
    language: Annotated[str | None, typer.Option(help="For the model card, as: en.")] = None,
    license: Annotated[str | None, typer.Option(help="For the model card, as: apache-2.0.")] = None,
    push_to: Annotated[str | None, typer.Option(metavar="REPO", help="Push the result to this repository.")] = None,
    verify: Annotated[
        str | None, typer.Option(metavar="EXPECTED.hdf5", help="Compare with vectors dumped by the original program.")
    ] = None,
    sentences: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The sentences of --verify, one a line, words between spaces.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences that the original ran at once.")] = 1,
    stateless: Annotated[bool, typer.Option("--stateless", help="The original carried no state along.")] = False,
    tolerance: Annotated[float, typer.Option(help="Largest difference that --verify lets pass.")] = 1e-5,
):
    """Turn original ELMo weights (bilm-tf, AllenNLP, NLPL ...) into a Hugging Face folder.

    Example: elmo-hf convert options.json weights.hdf5 my-elmo --license apache-2.0 --language en

    With --verify the new model is compared with vectors that the original program dumped, layer by layer. It
    carried its state from one batch to the next; this is reproduced unless --stateless is given. A difference above
    --tolerance ends with exit code 1.
    """
    from elmo_hf import conversion

    if len(sources) not in (2, 3):
        raise typer.BadParameter(
            f"{len(sources)} arguments were given; accepted are OPTIONS.json WEIGHTS.hdf5 OUTPUT_DIR, "
            "or FOLDER_OR_ZIP OUTPUT_DIR."
        )
    if (verify is None) != (sentences is None):
        raise typer.BadParameter("--verify and --sentences belong together: vectors, and the text that they are of.")
    *files, output_dir = sources
    start = time.perf_counter()
    model = conversion.convert(
        *files,
        output_dir=output_dir,
        vocabulary=vocabulary,
        softmax=softmax,
        splitting=splitting,
        language=language,
        license=license,
        push_to=push_to if verify is None else None,
    )
    typer.echo(f"{output_dir}: {type(model).__name__} of {sum(p.numel() for p in model.parameters()):,} parameters")
    typer.echo(f"converted in {time.perf_counter() - start:.1f} s{_peak_memory()}")
    typer.echo(f"raw text will be split by: {splitting} (words that are already split stay as they are)")
    if verify is not None:
        _verify(output_dir, verify, sentences, batch_size, stateless, tolerance)
        if push_to is not None:
            conversion.push(output_dir, push_to)
    if push_to is not None:
        typer.echo(f"pushed to {push_to}")


@app.command(no_args_is_help=True)
def export(
    model: Annotated[str, typer.Argument(help="A folder, or a repository of the Hub.")],
    output_dir: Annotated[Path, typer.Argument(help="A new folder.")],
):
    """Write a model back as options.json and weights.hdf5, for the original programs.

    Example: elmo-hf export my-elmo original-files
    """
    from elmo_hf import conversion

    for path in conversion.export(model, output_dir):
        typer.echo(path)


Model = Annotated[str, typer.Argument(help="A folder, or a repository of the Hub, with a softmax over words.")]
Splitting = Annotated[
    str | None,
    typer.Option(help="How text becomes words: moses-en or whitespace. Not given: as saved with the model."),
]
Device = Annotated[str | None, typer.Option(help="As cuda or cpu. Not given: a GPU if there is one.")]
Errors = Annotated[str, typer.Option(help="What to do with text that is not UTF-8: strict, replace or ignore.")]
K = Annotated[int, typer.Option("-k", min=1, help="How many words.")]
Specials = Annotated[bool, typer.Option("--specials", help="Let <S>, </S> and <UNK> be proposed too.")]


@app.command(no_args_is_help=True)
def perplexity(
    model: Model,
    files: Annotated[
        list[str], typer.Argument(help="Text, a sentence a line; also .gz, .xz, and patterns in quotes; - is input.")
    ],
    streams: Annotated[
        int | None,
        typer.Option(
            min=1, help="Carry the state along in this many rows; the original has 256. Not given: do not carry it."
        ),
    ] = None,
    window: Annotated[
        int | None, typer.Option(min=1, help="With --streams: tokens that a row takes at a time; not given: 1.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Without --streams: sentences that are read at one time; not given: 32.")
    ] = None,
    splitting: Splitting = None,
    errors: Errors = "strict",
    device: Device = None,
):
    """Measure how well a language model knows a text, with its full softmax.

    Example: elmo-hf perplexity my-elmo held-out.txt.gz

    Every line is a sentence and is read from a fresh state, so that the result depends on nothing but model and text;
    blank lines are passed over. With --streams 256 it is what the original program measures: rows that carry their
    state from sentence to sentence, without the tokens at the end that do not fill all rows. Per word means per
    predicted token: the words, and for each sentence its end (forward) or its beginning (backward). Words that the
    vocabulary does not have are predicted as <UNK>.
    """
    from elmo_hf import ElmoScorer, read_lines
    from elmo_hf import perplexity as measure

    loaded = ElmoScorer.from_pretrained(model, splitting, device)
    lines = read_lines(files, errors, progress=True)
    result = measure(loaded.model, loaded.tokenizer, lines, streams, window, batch_size)
    typer.echo(result)


@app.command(no_args_is_help=True)
def score(
    model: Model,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Text, a sentence a line; also .gz, .xz, and patterns in quotes. Not given: standard input."
        ),
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="A line for each word in place of each sentence.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences that are read at one time.")] = 32,
    splitting: Splitting = None,
    errors: Errors = "strict",
    device: Device = None,
):
    """Print the log probability of sentences, or of each of their words.

    Example: elmo-hf score my-elmo sentences.txt > scores.tsv

    A table with tabs: forward (each word given those before it), backward (given those after it), and both, their
    mean; natural logarithms. A sentence counts with its end (forward) and its beginning (backward); with --words
    these are the lines <S> and </S>. Words that the vocabulary does not have are scored as <UNK>.
    """
    from elmo_hf import ElmoScorer, read_lines

    scorer = ElmoScorer.from_pretrained(model, splitting, device, batch_size)
    directions = ("forward", "backward", "both") if scorer.model.config.bidirectional else ("forward",)
    _print_row("sentence", *directions, "word" if words else "words")
    # A bar between the lines of a table would help nobody.
    lines = read_lines(files or "-", errors, progress=not sys.stdout.isatty())
    for number, found in enumerate(scorer.score_stream(lines), 1):
        each = [getattr(found, name) for name in directions]
        if not words:
            _print_row(number, *(values.sum() for values in each), " ".join(found.tokens[1:-1]))
            continue
        for token, *values in zip(found.tokens, *each, strict=True):
            _print_row(number, *values, token)


@app.command(no_args_is_help=True)
def substitute(
    model: Model,
    sentence: Annotated[str, typer.Argument(help="One sentence, in quotes.")],
    position: Annotated[int, typer.Argument(min=0, help="The word to replace, counted from 0.")],
    k: K = 10,
    specials: Specials = False,
    splitting: Splitting = None,
    device: Device = None,
):
    """Print the words that fit best in the place of one word of a sentence.

    Example: elmo-hf substitute my-elmo "He plays the piano ." 3

    A word's score is log p(word | all to the left) + log p(word | all to the right), normalised over the vocabulary.
    The word that stands there is not looked at.
    """
    from elmo_hf import ElmoScorer

    scorer = ElmoScorer.from_pretrained(model, splitting, device)
    _print_row("score", "forward", "backward", "word")
    for word, *scores in scorer.substitutes(sentence, position, k, specials):
        _print_row(*scores, word)


@app.command(no_args_is_help=True)
def predict(
    model: Model,
    text: Annotated[str, typer.Argument(help="A piece of text, in quotes.")],
    before: Annotated[bool, typer.Option("--before", help="The words before the text, not those after it.")] = False,
    k: K = 10,
    specials: Specials = False,
    splitting: Splitting = None,
    device: Device = None,
):
    """Print the likeliest next words after a text, or with --before the likeliest words before it.

    Example: elmo-hf predict my-elmo "The capital of"
    """
    from elmo_hf import ElmoScorer

    scorer = ElmoScorer.from_pretrained(model, splitting, device)
    _print_row("score", "word")
    for one in (scorer.previous_words if before else scorer.next_words)(text, k, specials):
        _print_row(one.score, one.word)


def _print_row(*cells: str | int | float):
    typer.echo("\t".join(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells))


app.command(no_args_is_help=True)(pretrain)


def _peak_memory() -> str:
    try:
        import resource
    except ImportError:  # Windows
        return ""
    unit = 1 if sys.platform == "darwin" else 1024
    return f", peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6:,.0f} MB"


def _verify(model: str, expected: str, sentences: Path, batch_size: int, stateless: bool, tolerance: float):
    from elmo_hf import conversion

    outcome = conversion.verify(model, conversion.fetch(expected), sentences, batch_size, stateless)
    typer.echo(outcome)
    if not outcome.largest <= tolerance:
        typer.echo(f"The largest difference, {outcome.largest:.2e}, is above {tolerance:.0e}.", err=True)
        raise typer.Exit(1)


def main():
    """Runs the command line; what a person can mend is a sentence, not a traceback."""
    try:
        app()
    except (ValueError, OSError, StrictDataclassError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
