"""Which model a verb is given: a folder, a repository of the Hub, or `english`, which comes with the package."""

from typing import Annotated

import typer


def find(name: str | None) -> str | None:
    """For options and arguments that name a model: the callback that every one of them has."""
    if name is None:
        return None
    from elmo_hf.bundled import find_model

    found, remark = find_model(name)
    if remark:
        typer.echo(f"Note: {remark}", err=True)
    return found


AnyModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A folder, a repository of the Hub, or english (in the package).", callback=find
    ),
]
LanguageModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder, a repository of the Hub, or english (in the package), with a softmax over words.",
        callback=find,
    ),
]
