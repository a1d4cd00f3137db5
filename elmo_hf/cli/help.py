"""Help texts that fill their lines at any width, and speak of arguments by the names that they show."""

import inspect
import textwrap
from typing import get_args

import typer
from typer.core import HAS_RICH


def prepare(app: typer.Typer):
    """Makes the paragraphs of every verb's docstring one line each, and the names of its arguments capitals."""
    for command in app.registered_commands:
        text = paragraphs(command.help or inspect.getdoc(command.callback) or "")
        # rich would keep the source's line ends, and take [onnx] for a colour.
        command.help = text.replace("[", "\\[") if HAS_RICH else text
        for parameter in inspect.signature(command.callback).parameters.values():
            for about in get_args(parameter.annotation)[1:]:
                if isinstance(about, typer.models.ArgumentInfo) and about.metavar is None:
                    about.metavar = parameter.name.upper()
    for group in app.registered_groups:
        prepare(group.typer_instance)


def paragraphs(text: str) -> str:
    """Text without the line ends inside of its paragraphs; what is indented, as an example, stays as it is.

    Example:

    ```python
    >>> from elmo_hf.cli.help import paragraphs
    >>> paragraphs("One\\nparagraph.\\n\\n    as it\\n    is\\n\\nThe last.")
    'One paragraph.\\n\\n    as it\\n    is\\n\\nThe last.'

    ```
    """
    parts = textwrap.dedent(text).strip("\n").split("\n\n")
    return "\n\n".join(part if part.startswith((" ", "\b")) else " ".join(part.split()) for part in parts)
