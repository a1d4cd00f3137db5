"""`elmo-hf analyse ...`: what the layers of a model know, as tables, pictures and JSON."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from elmo_hf.text.files import TEXT_FILES

from .language_model import Device
from .models import AnyModel, LanguageModel, find_model_argument
from .native_note import note_missing_library
from .text_input import ErrorHandling, Splitting, TextInput, Tokenized, check_sentences, choose_splitting

# Sentences between two movements of a progress bar.
SENTENCES_PER_STEP = 64

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
Store = Annotated[
    Path | None,
    typer.Option(help="Keep vectors in this folder: an interrupted run goes on with them.", show_default=False),
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
    tokenized: Tokenized = False,
    device: Device = None,
):
    """How alike one word is in several sentences, layer by layer; or all words of two sentences.

    Example: elmo-hf analyse similarity english "The bank lends." "We sat on the bank." --word bank
    """
    from elmo_hf.analysis import sentence_similarity, word_similarity

    alone = word is None and not position
    if alone and len(sentences) != 2:
        raise typer.BadParameter(
            f"{len(sentences)} sentences without --word or --position. Expected two sentences, or a word to compare."
        )
    check_outputs(plot, json)
    reader = _reader(model, choose_splitting(splitting, tokenized), device)
    check_sentences(sentences, reader.embedder.tokenizer.splitting)
    if alone:
        show_result(sentence_similarity(reader, sentences[0], sentences[1], layer), plot, json)
    else:
        show_result(word_similarity(reader, sentences, word, position or None), plot, json)


@analyse.command(no_args_is_help=True)
def surprise(
    model: LanguageModel,
    files: Annotated[
        list[str] | None,
        typer.Argument(help=f"{TEXT_FILES} Not given: standard input."),
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
    tokenized: Tokenized = False,
    errors: ErrorHandling = "strict",
    device: Device = None,
):
    """How expected each word is from what stands left of it, right of it, and on both sides, in bits.

    Example: elmo-hf analyse surprise english --text "The cat sat on the moon."

    A terminal shows the sentence in colours first, the darker the more surprising. --plot draws one sentence. Words
    that the vocabulary does not have are counted as <UNK>.
    """
    from tqdm import tqdm

    from elmo_hf import ElmoScorer, read_lines
    from elmo_hf.analysis.surprisal import TextSurprisal

    if text and files:
        raise typer.BadParameter("Both FILES and --text were given. Expected one of the two.")
    check_outputs(plot, json, html)
    lines = list(text or read_lines(files or "-", errors))
    if plot is not None and len(lines) > 1:
        raise ValueError(f"Invalid `--plot`: the text has {len(lines):,} sentences. Expected one sentence.")
    scorer = ElmoScorer.from_pretrained(model, choose_splitting(splitting, tokenized), device)
    note_missing_library(device)
    sentences = TextInput(lines, ", ".join(files or ["-"]), lambda: scorer.tokenizer.splitting)
    result = TextSurprisal(
        list(tqdm(_surprisal_in_steps(scorer, list(sentences)), "", len(lines), unit=" sentences", disable=None))
    )
    if html is not None:
        html.write_text(result.to_html(), encoding="utf-8", errors="xmlcharrefreplace")
    show_result(result, plot, json)


@analyse.command(no_args_is_help=True)
def index(
    model: AnyModel,
    files: Annotated[list[str], typer.Argument(help=f"{TEXT_FILES} - is standard input.")],
    output_dir: Annotated[
        Path, typer.Option("--output-dir", "-o", help="A new folder, or one to go on with after an interruption.")
    ],
    layer: Annotated[int, typer.Option(help="The layer that is kept, from 0, or from -1 for the top.")] = -1,
    limit: Annotated[int, typer.Option(min=1, help="Stop after so many words.")] = 1_000_000,
    num_words: Annotated[int, typer.Option(min=1, help="Frequent words that are kept without context too.")] = 50_000,
    splitting: Splitting = None,
    tokenized: Tokenized = False,
    errors: ErrorHandling = "strict",
    device: Device = None,
):
    """Read a corpus once, for `elmo-hf analyse neighbours`: its words' vectors in files that are mapped into memory.

    Example: elmo-hf analyse index english corpus.txt.gz -o corpus-index

    The same command goes on where it was interrupted.
    """
    from tqdm import tqdm

    from elmo_hf import read_lines
    from elmo_hf.analysis import NeighbourIndex

    reader = _reader(model, choose_splitting(splitting, tokenized), device)
    with tqdm(total=limit, unit=" words", unit_scale=True, disable=None) as bar:
        lines = TextInput(read_lines(files, errors), ", ".join(files), lambda: reader.embedder.tokenizer.splitting)
        made = NeighbourIndex.build(
            output_dir, reader, lines, layer, limit, num_words, lambda done: bar.update(done - bar.n)
        )
    typer.echo(
        f"{output_dir}: {len(made):,} words in {made.num_sentences:,} sentences, {made.vectors.nbytes / 1e6:,.0f} MB; "
        f"{len(made.words):,} words without context"
    )


@analyse.command(no_args_is_help=True)
def neighbours(
    model: AnyModel,
    index: Annotated[Path, typer.Argument(help="What `elmo-hf analyse index` has made with the same model.")],
    sentence: Annotated[str, typer.Argument(help="One sentence, in quotes.")],
    word: Annotated[str | None, typer.Option(help="The word to look for; its first place in the sentence.")] = None,
    position: Annotated[int | None, typer.Option(min=0, help="In place of --word, its position, from 0.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many neighbours.")] = 10,
    other_words: Annotated[bool, typer.Option("--other-words", help="Leave out the word itself.")] = False,
    plot: Plot = None,
    json: Json = None,
    splitting: Splitting = None,
    tokenized: Tokenized = False,
    device: Device = None,
):
    """The nearest words of a corpus, in their sentences, beside the nearest words without context.

    Example: elmo-hf analyse neighbours english corpus-index "They did a play at school." --word play
    """
    from elmo_hf.analysis import NeighbourIndex
    from elmo_hf.analysis import neighbours as find

    check_outputs(plot, json)
    opened = NeighbourIndex(index)
    reader = _reader(model, choose_splitting(splitting, tokenized), device)
    check_sentences([sentence], reader.embedder.tokenizer.splitting)
    show_result(find(opened, reader, sentence, word, position, k, other_words), plot, json)


@analyse.command(no_args_is_help=True)
def probe(
    model: AnyModel,
    train: Annotated[Path, typer.Argument(help="Labelled words: CoNLL-U (.conllu), or any CoNLL; also packed.")],
    dev: Annotated[Path, typer.Argument(help="The same, to choose the epoch by.")],
    test: Annotated[list[Path] | None, typer.Argument(help="The same, to measure on.", show_default=False)] = None,
    column: Annotated[
        list[str], typer.Option(help="A column to predict, by name (CoNLL-U) or number; may be given several times.")
    ] = ["-1"],  # noqa: B006  # typer copies it
    word_vectors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="GloVe's or word2vec's text, probed too.", show_default=False)
    ] = None,
    store: Store = None,
    epochs: Annotated[int, typer.Option(min=1, help="Times that the training data is read.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the first weights and of the order.")] = 0,
    plot: Plot = None,
    json: Json = None,
    device: Device = None,
):
    """Linear probes: what can be read off each layer, their average, and a learned mix; F1 of each label.

    Example: elmo-hf analyse probe english train.conllu dev.conllu test.conllu --column upos --word-vectors glove.txt

    With several columns the results are printed one after the other, and --plot and --json write a file for each, the
    column's name before the ending.
    """
    from elmo_hf.analysis import probe as measure
    from elmo_hf.analysis.probing import read_labelled

    check_outputs(plot, json)
    reader = _reader(model, None, device)
    files = {"train": train, "dev": dev, **{_stem(path): path for path in test or []}}
    for column_name in column:
        data = {name: read_labelled(path, column_name) for name, path in files.items()}
        say = lambda name: typer.echo(f"{name} ...", err=True)  # noqa: E731
        result = measure(reader, data, column_name, word_vectors, store, epochs, seed, say)
        show_result(result, *(_for_column(path, column_name, column) for path in (plot, json)))


@analyse.command(no_args_is_help=True)
def senses(
    model: AnyModel,
    train: Annotated[Path, typer.Argument(help="Words with senses: NAME.data.xml with its keys, or a table.")],
    test: Annotated[list[Path], typer.Argument(help="The same, to measure on.", show_default=False)],
    first_senses: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="WordNet's index.sense, for words without an example.", show_default=False),
    ] = None,
    store: Store = None,
    plot: Plot = None,
    json: Json = None,
    device: Device = None,
):
    """Tell senses of words apart by the nearest example, and by the nearest mean of examples, with every layer.

    Example: elmo-hf analyse senses english semcor.data.xml.xz ALL.data.xml --first-senses index.sense.xz

    A table has tabs: word, sense, sentence (words between spaces) and, where it is not the first of that spelling, the
    word's position from 0.
    """
    from elmo_hf.analysis import read_senses
    from elmo_hf.analysis import senses as measure
    from elmo_hf.analysis.sense_files import read_first_senses

    check_outputs(plot, json)
    known = None if first_senses is None else read_first_senses(first_senses)
    data, tests = read_senses(train), {_stem(path): read_senses(path) for path in test}
    show_result(measure(_reader(model, None, device), data, tests, known, store), plot, json)


@analyse.command(no_args_is_help=True)
def weights(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Folders or repositories of fine-tuned models.",
            callback=lambda names: [find_model_argument(name) for name in names],
        ),
    ],
    plot: Plot = None,
    json: Json = None,
):
    """The layer weights of every mix of one or several models.

    Example: elmo-hf analyse weights my-tagger my-ner --plot weights.png
    """
    from elmo_hf.analysis import mix_weights

    check_outputs(plot, json)
    show_result(mix_weights(models), plot, json)


@analyse.command(no_args_is_help=True)
def efficiency(
    model: AnyModel,
    recipe: Annotated[Path, typer.Argument(help="A script that trains and scores, as those of examples/tasks.")],
    train: Annotated[str, typer.Argument(help="What the recipe trains on.")],
    test: Annotated[str, typer.Argument(help="What it scores.")],
    output_dir: Annotated[
        Path, typer.Option("--output-dir", "-o", help="A new folder, or one to go on with after an interruption.")
    ],
    word_vectors: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="GloVe's or word2vec's text: the input without ELMo, and beside it."),
    ] = None,
    size: Annotated[
        list[str], typer.Option(help="A number of training examples or a share; may be given several times.")
    ] = ["1%", "10%", "100%"],  # noqa: B006
    elmo: Annotated[
        list[str], typer.Option(help="Where ELMo joins the network: none, input, output, both; several times too.")
    ] = ["none", "input"],  # noqa: B006
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 1,
    score: Annotated[
        str | None, typer.Option(help="Which of the recipe's scores. Not given: its first.", show_default=False)
    ] = None,
    options: Annotated[str, typer.Option(help="More options for the recipe, in quotes.", show_default=False)] = "",
    plot: Plot = None,
    json: Json = None,
):
    """A task's score against the share of its training data, with and without ELMo.

    Example: elmo-hf analyse efficiency english pos.py train.conllu test.conllu -o kept --word-vectors glove.txt

    Every run is a process of its own, and its result is kept: the same command goes on where it was interrupted, and
    one with more sizes or seeds runs only what is new. With the same --epochs, less data also means fewer steps of
    training: --options "--epochs 60" lets the smallest size learn enough too.
    """
    import shlex

    from elmo_hf.analysis import efficiency as measure

    check_outputs(plot, json)
    say = lambda text: typer.echo(text, err=True)  # noqa: E731
    result = measure(
        *(recipe, model, train, test, output_dir, word_vectors, size, elmo, range(1, seeds + 1), score),
        shlex.split(options),
        say,
    )
    show_result(result, plot, json)


def _surprisal_in_steps(scorer: Any, sentences: list[str]) -> Iterator[Any]:
    """The surprisal of each sentence, computed for a few at a time so that a progress bar moves."""
    from elmo_hf.analysis import word_surprisal

    for start in range(0, len(sentences), SENTENCES_PER_STEP):
        yield from word_surprisal(scorer, sentences[start : start + SENTENCES_PER_STEP])


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _for_column(path: Path | None, column: str, columns: list[str]) -> Path | None:
    return path if path is None or len(columns) == 1 else path.with_name(f"{path.stem}.{column}{path.suffix}")


def _reader(model: str, splitting: str | None, device: str | None) -> Any:
    from elmo_hf.analysis import LayerReader

    reader = LayerReader.from_pretrained(model, splitting, device)
    note_missing_library(device)
    return reader


def check_outputs(plot: Path | None, *others: Path | None):
    """Complains of where results cannot be written before any work is done."""
    if plot is not None:
        from elmo_hf.analysis.plots import check_plot

        check_plot(plot)
    for path in others:
        if path is not None and path.is_dir():
            raise ValueError(f"{path} is a folder. Expected the name of a file to write.")
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"There is no folder {path.parent} to write {path.name} to.")


def show_result(finding: Any, plot: Path | None, json: Path | None):
    """Prints a result, and saves its numbers and its plot where they were asked for."""
    typer.echo(str(finding))
    if json is not None:
        finding.save_json(json)
    if plot is not None:
        finding.plot(plot)
