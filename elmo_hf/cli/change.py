"""`elmo-hf analyse change` and `elmo-hf analyse induce`: the use of words in corpora."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo_hf.text.files import PACKED

from .analyse import Json, Plot, analyse, check_outputs, show_result
from .language_model import Device
from .models import AnyModel
from .text_input import ErrorHandling, Splitting, TextInput, Tokenized

if TYPE_CHECKING:
    from elmo_hf.analysis import LayerReader
    from elmo_hf.language_model.scorer import ElmoScorer
    from elmo_hf.text.inputs import SentenceSource

INPUTS = f"text (a sentence per line), .jsonl or .parquet, also {PACKED}"
Layer = Annotated[str, typer.Option(metavar="LAYER", help="top, average, mix, or the index of a layer.")]
Column = Annotated[
    str | None, typer.Option(help="The column of .jsonl or .parquet files. Default: text, sentence, words or tokens.")
]
Uses = Annotated[int, typer.Option(min=2, help="Uses that are drawn of each word, from each corpus.")]
MinUses = Annotated[int, typer.Option(min=2, help="Words with fewer uses are left out.")]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]


@analyse.command(no_args_is_help=True)
def change(
    model: AnyModel,
    corpora: Annotated[
        list[str],
        typer.Argument(help=f"OLD NEW, or several corpora in order: {INPUTS}. Quote a pattern of several files."),
    ],
    words: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Words to compare, one per line with its forms: plane,planes. Default: frequent words.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[str, typer.Option(help="Ranks the words and is tested: apd, prt or jsd.")] = "apd",
    layer: Layer = "top",
    uses: Uses = 200,
    min_uses: MinUses = 20,
    top: Annotated[int, typer.Option(min=2, help="Without --words: how many frequent words are compared.")] = 500,
    permutations: Annotated[int, typer.Option(min=2, help="Resamples of the permutation test.")] = 9999,
    details: Annotated[int, typer.Option(min=0, help="Words with clusters, sentences and substitutes.")] = 10,
    seed: Seed = 0,
    tsv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a table with tabs.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a self-contained report.", show_default=False)
    ] = None,
    plot: Plot = None,
    json: Json = None,
    column: Column = None,
    tokenized: Tokenized = False,
    splitting: Splitting = None,
    errors: ErrorHandling = "strict",
    device: Device = None,
):
    """Measure how much the use of words differs between two corpora, or along several.

    Example: elmo-hf analyse change english novels.txt wikipedia.txt --words words.txt --html report.html

    Uses of each word are drawn at random, the same number from each corpus, and embedded in their sentences. apd is
    the average cosine distance between uses of both corpora, prt the cosine distance of their means, jsd the
    Jensen-Shannon divergence of the shares of clusters. p is the result of a permutation test, q is p corrected for
    the number of words.
    """
    from elmo_hf.analysis import ChangeOptions, read_targets
    from elmo_hf.analysis import change as compare
    from elmo_hf.analysis.semantic_change import check_sources

    if len(corpora) < 2:
        raise typer.BadParameter(f"Only one corpus was given: {corpora[0]}. Expected OLD and NEW.")
    check_outputs(plot, json, tsv, html)
    options = ChangeOptions(measure, _layer(layer), uses, min_uses, top, permutations, details=details, seed=seed)
    targets = None if words is None else read_targets(words)
    sources = [_source(corpus, tokenized, column, errors) for corpus in corpora]
    check_sources(sources)
    reader, scorer = _reader_and_scorer(model, splitting, device)
    names = _corpus_names(corpora)
    inputs = [_checked(source, reader) for source in sources]
    result = compare(reader, *inputs, words=targets, names=names, scorer=scorer, options=options, progress=True)
    if tsv is not None:
        tsv.write_text(result.to_tsv(), encoding="utf-8", errors="backslashreplace")
    if html is not None:
        html.write_text(result.to_html(), encoding="utf-8", errors="xmlcharrefreplace")
    show_result(result, plot, json)


@analyse.command(no_args_is_help=True)
def induce(
    model: AnyModel,
    corpus: Annotated[str, typer.Argument(help=f"One corpus: {INPUTS}.")],
    words: Annotated[list[str], typer.Argument(help="Words, each with its forms separated by commas: plane,planes.")],
    layer: Layer = "top",
    uses: Uses = 200,
    min_uses: MinUses = 20,
    max_clusters: Annotated[int, typer.Option(min=2, help="The largest number of clusters that is tried.")] = 6,
    seed: Seed = 0,
    plot: Plot = None,
    json: Json = None,
    column: Column = None,
    tokenized: Tokenized = False,
    splitting: Splitting = None,
    errors: ErrorHandling = "strict",
    device: Device = None,
):
    """Induce the senses of words: clusters of their uses in a corpus, with typical sentences and substitutes.

    Example: elmo-hf analyse induce english corpus.txt spring,springs match,matches --plot senses.png

    The number of clusters is the one with the largest mean silhouette, or a single cluster if none reaches 0.1.
    """
    from elmo_hf.analysis import Target
    from elmo_hf.analysis import induce as cluster

    check_outputs(plot, json)
    forms = [tuple(form.strip() for form in word.split(",") if form.strip()) for word in words]
    if not all(forms):
        raise typer.BadParameter(f"Invalid words: {words}. Expected words such as plane,planes.")
    targets = [Target(of_word[0], of_word) for of_word in forms]
    source = _source(corpus, tokenized, column, errors)
    reader, scorer = _reader_and_scorer(model, splitting, device)
    result = cluster(
        *(reader, _checked(source, reader), targets, scorer, _layer(layer), uses, min_uses, max_clusters),
        seed=seed,
        progress=True,
    )
    show_result(result, plot, json)


def _layer(name: str) -> str | int:
    return int(name) if name.lstrip("-").isdigit() else name


def _source(corpus: str, tokenized: bool, column: str | None, errors: str) -> "SentenceSource":
    from elmo_hf import SentenceSource

    return SentenceSource(corpus, tokenized, column, errors=errors)


def _checked(source: "SentenceSource", reader: "LayerReader") -> TextInput:
    """The corpus, with a note if it looks tokenised, and an error if it is empty."""
    return TextInput(source, source.input, lambda: reader.embedder.tokenizer.splitting)


def _corpus_names(corpora: list[str]) -> list[str]:
    """Short names: of each file without its endings, or of two files with the same name their paths."""
    short = [Path(corpus).name.partition(".")[0] or corpus for corpus in corpora]
    return short if len(set(short)) == len(short) else corpora


def _reader_and_scorer(
    model: str, splitting: str | None, device: str | None
) -> "tuple[LayerReader, ElmoScorer | None]":
    """One model for both; without a softmax over words there are no substitutes, and this is said."""
    from elmo_hf import ElmoConfig, ElmoScorer
    from elmo_hf.analysis import LayerReader

    config: Any = ElmoConfig.from_pretrained(model)
    if "ElmoForPreTraining" in (config.architectures or []):
        scorer = ElmoScorer.from_pretrained(model, splitting, device)
        return LayerReader(scorer.model, scorer.tokenizer), scorer
    typer.echo(f"Note: {model} has no softmax over words, so no substitutes are reported.", err=True)
    return LayerReader.from_pretrained(model, splitting, device), None
