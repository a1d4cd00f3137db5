"""`elmo-hf evaluate`: the scores of a fine-tuned model."""

import json
from pathlib import Path
from typing import Annotated

import typer

from elmo_hf.cli.language_model import Device
from elmo_hf.cli.models import find_model_argument


def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            help="A fine-tuned model: a folder, a repository of the Hub, or a bundled tagger.",
            callback=find_model_argument,
        ),
    ],
    file: Annotated[
        str, typer.Argument(help="Annotated data of any format that `elmo-hf finetune` reads, or a dataset's name.")
    ],
    compare: Annotated[
        str | None, typer.Option(metavar="OTHER_MODEL", help="Another model for the same task: a paired test.")
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Of labels: a name, or for CoNLL a number.", show_default="as in training, else by name"),
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Of texts or words.", show_default="as in training, else by name")
    ] = None,
    pair_column: Annotated[
        str | None, typer.Option(help="Of second texts of pairs.", show_default="as in training, else by name")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Bootstrap samples.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the samples.")] = 0,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst examples to list.")] = 20,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results here too.")] = None,
    device: Device = None,
):
    """Score a fine-tuned model: 95% intervals, scores of each label, confusions, the worst examples.

    Example: elmo-hf evaluate my-ner test.conll --compare other-ner
    """
    from elmo_hf.atomic_files import write_text_atomically
    from elmo_hf.tasks import evaluate as evaluate_model

    result = evaluate_model(
        model,
        file,
        compare=compare,
        column=column,
        text_column=text_column,
        pair_column=pair_column,
        samples=samples,
        seed=seed,
        worst=worst,
        device=device,
    )
    typer.echo(str(result))
    if json_file is not None:
        write_text_atomically(json_file, json.dumps(result.to_dict(), indent=1, ensure_ascii=False) + "\n")
