"""Help texts that fill their lines at any width."""

import inspect
import textwrap

import typer


def fill_lines(app: typer.Typer):
    """Makes the paragraphs of every verb's docstring one line each: rich would keep the source's line ends."""
    for command in app.registered_commands:
        command.help = paragraphs(command.help or inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        fill_lines(group.typer_instance)


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
