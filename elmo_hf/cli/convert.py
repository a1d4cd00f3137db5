"""`elmo-hf convert` and `export`: the files of other programs into a folder of transformers, and back."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from elmo_hf.cli.models import AnyModel
from elmo_hf.text.splitting import SPLITTING_NAMES

FORMS = "OPTIONS.json WEIGHTS.hdf5 OUTPUT_DIR | SOURCE OUTPUT_DIR"
FILE_SUFFIXES = (".json", ".hdf5", ".h5", ".index", ".th", ".zip", ".tar", ".tar.gz", ".tgz")


def convert(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar=FORMS,
            help="The original files, or one folder, zip, tar or repository on the Hub (OWNER/NAME) that holds them; "
            "files are paths or http(s) addresses. Last, a new folder for the result.",
            show_default=False,
        ),
    ],
    vocabulary: Annotated[str | None, typer.Option(help="Words of the softmax, one a line.")] = None,
    softmax: Annotated[str | None, typer.Option(help="HDF5 with softmax/W and softmax/b.")] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The format of the source, if the names of its files are misleading: bilm-hdf5, tf-checkpoint, "
            "tf-hub, allennlp or many-langs.",
        ),
    ] = None,
    mix: Annotated[int, typer.Option(min=0, help="Which mix of layers to convert, if the source has several.")] = 0,
    splitting: Annotated[
        str | None,
        typer.Option(
            help=f"How the tokenizer will split raw text: {', '.join(SPLITTING_NAMES)} (for SeqVec). "
            "Default: that of the format, or moses-en."
        ),
    ] = None,
    language: Annotated[str | None, typer.Option(help="For the model card, e.g., en.")] = None,
    license: Annotated[str | None, typer.Option(help="For the model card, e.g., apache-2.0.")] = None,
    allow_non_finite: Annotated[
        bool, typer.Option("--allow-non-finite", help="Convert weights that are NaN or infinite too.")
    ] = False,
    push_to: Annotated[str | None, typer.Option(metavar="REPO", help="Push the result to this repository.")] = None,
    verify: Annotated[
        str | None, typer.Option(metavar="EXPECTED.hdf5", help="Compare with vectors dumped by the original program.")
    ] = None,
    sentences: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The sentences of --verify, one a line, words between spaces.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences that the original ran at once.")] = 1,
    stateless: Annotated[
        bool, typer.Option("--stateless", help="The original was run without carried state.")
    ] = False,
    tolerance: Annotated[float, typer.Option(help="The largest difference that --verify allows.")] = 1e-5,
):
    """Turn original ELMo weights (bilm-tf, AllenNLP, NLPL ...) into a Hugging Face folder.

    Example: elmo-hf convert options.json weights.hdf5 my-elmo --license apache-2.0 --language en

    What you have, and what you type:

    options.json and weights.hdf5 (bilm-tf, AllenNLP, SeqVec), or a folder or zip with both (NLPL):
    convert options.json weights.hdf5 OUT, or convert 217.zip OUT

    checkpoint, *.index, *.data-* and options.json (bilm-tf, simple_elmo_training), in one folder:
    convert FOLDER OUT --vocabulary vocab.txt

    any of these in a repository on the Hub:
    convert OWNER/NAME OUT

    the SavedModel of tfhub.dev's elmo/2 or elmo/3, a folder or its .tar.gz:
    convert elmo_3.tar.gz OUT

    AllenNLP's model.tar.gz of a model with an ELMo, or its folder (weights.th or best.th):
    convert model.tar.gz OUT, or convert options.json model.tar.gz OUT

    config.json, encoder.pkl, token_embedder.pkl, char.dic, word.dic (ELMoForManyLangs, NLPL), a folder or zip:
    convert 175.zip OUT

    With --verify the new model is compared with vectors that the original program dumped, layer by layer. It
    carried its state from one batch to the next; this is reproduced unless --stateless is given. A difference above
    --tolerance ends with exit code 1.
    """
    from elmo_hf import conversion

    *files, output_dir = _check_sources(sources)
    if (verify is None) != (sentences is None):
        raise typer.BadParameter("Expected --verify and --sentences together: the vectors and their sentences.")
    start = time.perf_counter()
    model = conversion.convert(
        *files,
        output_dir=output_dir,
        format=format,
        vocabulary=vocabulary,
        softmax=softmax,
        mix=mix,
        splitting=splitting,
        language=language,
        license=license,
        push_to=push_to if verify is None else None,
        allow_non_finite=allow_non_finite,
        say=typer.echo,
    )
    typer.echo(f"{output_dir}: {type(model).__name__} of {sum(p.numel() for p in model.parameters()):,} parameters")
    typer.echo(f"converted in {time.perf_counter() - start:.1f} s{_peak_memory()}")
    if verify is not None and sentences is not None:
        _verify(output_dir, verify, sentences, batch_size, stateless, tolerance)
        if push_to is not None:
            conversion.push(output_dir, push_to)
    if push_to is not None:
        typer.echo(f"pushed to {push_to}")


def _check_sources(sources: list[str]) -> list[str]:
    """The sources, if the output folder is among them."""
    if len(sources) not in (2, 3):
        raise typer.BadParameter(f"{len(sources)} arguments were given. Expected {FORMS}.")
    last = sources[-1]
    if Path(last).is_file() or last.lower().endswith(FILE_SUFFIXES) and not Path(last).exists():
        raise typer.BadParameter(
            f"OUTPUT_DIR is missing: the last argument, {last}, is a file. Expected a new folder behind it, e.g., "
            f"`elmo-hf convert {' '.join(sources)} my-elmo`."
        )
    return sources


def export(
    model: AnyModel,
    output_dir: Annotated[Path, typer.Argument(help="A new folder.")],
    softmax: Annotated[
        bool | None,
        typer.Option("--softmax/--no-softmax", help="Write softmax.hdf5 too. Default: if there is a softmax."),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="bilm-hdf5 for bilm-tf, AllenNLP and simple-elmo; or onnx.")
    ] = "bilm-hdf5",
):
    """Write a model as files of other programs.

    Example: elmo-hf export my-elmo original-files

    options.json, weights.hdf5, and vocab.txt and softmax.hdf5 where the model has them: bilm-tf, AllenNLP and
    simple-elmo load them. With --format onnx, one file model.onnx for batches of any size and length, which
    onnxruntime runs; its inputs are what the tokenizer makes. (Writing it needs elmo-hf[onnx].)
    """
    from elmo_hf import conversion

    for path in conversion.export(model, output_dir, softmax, format):
        typer.echo(path)


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
        typer.echo(
            f"The largest difference, {outcome.largest:.2e}, is above {tolerance:.0e}. Check that --sentences are "
            "those of the dump, in the same order and tokenised in the same way; that --batch-size is that of the "
            "original program; and whether it carried its state along (if not, add --stateless).",
            err=True,
        )
        raise typer.Exit(1)
