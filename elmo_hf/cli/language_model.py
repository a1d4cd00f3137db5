"""The verbs that use a language model: `elmo-hf perplexity`, `score`, `substitute`, `predict`."""

import sys
from itertools import chain, islice
from typing import Annotated

import typer

from elmo_hf.cli.models import LanguageModel
from elmo_hf.cli.native_note import note_missing_library
from elmo_hf.cli.text_input import (
    ErrorHandling,
    Splitting,
    TextInput,
    Tokenized,
    check_sentences,
    choose_splitting,
)
from elmo_hf.text.files import TEXT_FILES

Device = Annotated[
    str | None, typer.Option(help="Where the model runs, e.g. cuda or cpu.", show_default="a GPU if available")
]
K = Annotated[int, typer.Option("-k", min=1, help="How many words.")]
Specials = Annotated[bool, typer.Option("--specials", help="Let <S>, </S> and <UNK> be proposed too.")]


def perplexity(
    model: LanguageModel,
    files: Annotated[
        list[str],
        typer.Argument(help=f"{TEXT_FILES} - is standard input."),
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
    tokenized: Tokenized = False,
    errors: ErrorHandling = "strict",
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

    loaded = ElmoScorer.from_pretrained(model, choose_splitting(splitting, tokenized), device)
    note_missing_library(device)
    lines = TextInput(read_lines(files, errors, progress=True), _join(files), lambda: loaded.tokenizer.splitting)
    result = measure(loaded.model, loaded.tokenizer, lines, streams, window, batch_size)
    typer.echo(result)


def score(
    model: LanguageModel,
    files: Annotated[
        list[str] | None,
        typer.Argument(help=f"{TEXT_FILES} Not given: standard input."),
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="A line for each word in place of each sentence.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences that are read at one time.")] = 32,
    splitting: Splitting = None,
    tokenized: Tokenized = False,
    errors: ErrorHandling = "strict",
    device: Device = None,
):
    """Print the log probability of sentences, or of each of their words.

    Example: elmo-hf score my-elmo sentences.txt > scores.tsv

    A table with tabs: forward (each word given those before it), backward (given those after it), and both, their
    mean; natural logarithms. A sentence counts with its end (forward) and its beginning (backward); with --words
    these are the lines <S> and </S>. Words that the vocabulary does not have are scored as <UNK>.
    """
    from elmo_hf import ElmoScorer, read_lines

    scorer = ElmoScorer.from_pretrained(model, choose_splitting(splitting, tokenized), device, batch_size)
    note_missing_library(device)
    directions = ("forward", "backward", "both") if scorer.model.config.bidirectional else ("forward",)
    # On a terminal a progress bar would appear between the lines of the table.
    lines = read_lines(files or "-", errors, progress=not sys.stdout.isatty())
    scores = scorer.score_stream(TextInput(lines, _join(files or "-"), lambda: scorer.tokenizer.splitting))
    first = list(islice(scores, 1))  # an error in the text comes before the table
    _print_row("sentence", *directions, "word" if words else "words")
    for number, scored in enumerate(chain(first, scores), 1):
        each = [getattr(scored, name) for name in directions]
        if not words:
            _print_row(number, *(values.sum() for values in each), " ".join(scored.tokens[1:-1]))
            continue
        for token, *values in zip(scored.tokens, *each, strict=True):
            _print_row(number, *values, token)


def substitute(
    model: LanguageModel,
    sentence: Annotated[str, typer.Argument(help="One sentence, in quotes.")],
    position: Annotated[int, typer.Argument(min=0, help="The word to replace, counted from 0.")],
    k: K = 10,
    specials: Specials = False,
    splitting: Splitting = None,
    tokenized: Tokenized = False,
    device: Device = None,
):
    """Print the words that fit best in the place of one word of a sentence.

    Example: elmo-hf substitute my-elmo "He plays the piano." 3

    A word's score is log p(word | all to the left) + log p(word | all to the right), normalised over the vocabulary.
    The word that stands there is not looked at.
    """
    from elmo_hf import ElmoScorer

    scorer = ElmoScorer.from_pretrained(model, choose_splitting(splitting, tokenized), device)
    note_missing_library(device)
    check_sentences([sentence], scorer.tokenizer.splitting)
    predictions = scorer.substitutes(sentence, position, k, specials)
    _print_row("score", "forward", "backward", "word")
    for word, *scores in predictions:
        _print_row(*scores, word)


def predict(
    model: LanguageModel,
    text: Annotated[str, typer.Argument(help="A piece of text, in quotes.")],
    before: Annotated[bool, typer.Option("--before", help="The words before the text, not those after it.")] = False,
    k: K = 10,
    specials: Specials = False,
    splitting: Splitting = None,
    tokenized: Tokenized = False,
    device: Device = None,
):
    """Print the likeliest next words after a text, or with --before the likeliest words before it.

    Example: elmo-hf predict my-elmo "The capital of"
    """
    from elmo_hf import ElmoScorer

    scorer = ElmoScorer.from_pretrained(model, choose_splitting(splitting, tokenized), device)
    note_missing_library(device)
    check_sentences([text], scorer.tokenizer.splitting)
    predictions = (scorer.previous_words if before else scorer.next_words)(text, k, specials)
    _print_row("score", "word")
    for prediction in predictions:
        _print_row(prediction.score, prediction.word)


def _join(files: list[str] | str) -> str:
    """The names of files as an error says them."""
    return files if isinstance(files, str) else ", ".join(files)


def _print_row(*cells: str | float | None):
    typer.echo("\t".join(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells))
