"""Arguments that name a model: a folder, a repository of the Hub, or a bundled model such as `english`."""

import os
from typing import Annotated

import typer


def find_model_argument(
    name: str | None,
    parameter: typer.CallbackParam = None,  # type: ignore[assignment]  # typer goes by the annotation
) -> str | None:
    """The callback of every option and argument that names a model: resolves names of bundled models."""
    if name is None:
        return None
    from elmo_hf.hub.model_names import find_model

    if os.path.isfile(name):
        is_option = parameter is not None and parameter.opts[0].startswith("-")
        order = "" if is_option else " MODEL comes before the files that are read."
        raise typer.BadParameter(
            f"{name} is a file. Expected a model: a folder, a repository on the Hub, or english.{order}"
        )
    folder, remark = find_model(name)
    if remark:
        typer.echo(f"Note: {remark}", err=True)
    return folder


AnyModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder, a repository of the Hub, or english (in the package).",
        callback=find_model_argument,
    ),
]
LanguageModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder, a repository of the Hub, or english (in the package), with a softmax over words.",
        callback=find_model_argument,
    ),
]

__all__ = ["AnyModel", "LanguageModel", "find_model_argument"]
