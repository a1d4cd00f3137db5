"""Sphinx extension: the reference of the command line, generated from the program itself.

The line `<!-- commands -->` of docs/reference/commands.md is replaced by a section for each command of `elmo-hf`: its
usage, its help text, its arguments and its options.
"""

import re
from collections.abc import Iterator
from typing import Any

import typer.main
from sphinx.application import Sphinx

PLACEHOLDER = "<!-- commands -->"


# Types are Any, because some versions of typer bring a click of their own.
def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """All commands below a group, with their full names, in the order of `--help`."""
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for short in command.list_commands(context):
            below = command.get_command(context, short)
            if below is not None and not below.hidden:
                yield from commands(below, f"{name} {short}")
    else:
        yield name, command


def escape(text: str) -> str:
    """Help text as Markdown: quoted code stays, characters with a meaning in Markdown are escaped.

    Example:

    ```python
    >>> escape("a *.txt file of <S>, see `--x`")
    'a \\\\*.txt file of \\\\<S\\\\>, see `--x`'

    ```
    """
    parts = re.split(r"(`[^`]*`)", text.replace("\\[", "["))
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>\[\]{}|#])", r"\\\1", part) for part in parts)


def help_text(command: Any) -> str:
    """The paragraphs of a command's help; indented ones are examples."""
    paragraphs = (command.help or "").replace("\f", "").split("\n\n")
    converted = []
    for paragraph in paragraphs:
        paragraph = paragraph.replace("\b\n", "")
        if paragraph.startswith(" "):
            converted.append("```text\n" + "\n".join(line.strip() for line in paragraph.splitlines()) + "\n```")
        else:
            converted.append(escape(paragraph))
    return "\n\n".join(converted)


def is_option(parameter: Any) -> bool:
    """Whether a parameter is an option, and not an argument."""
    return parameter.param_type_name == "option"


def parameter_entry(parameter: Any, context: Any) -> str:
    """One argument or option as an entry of a definition list, with its default as `--help` shows it."""
    names, about = parameter.get_help_record(context)
    return f"`{' '.join(names.split())}`\n: {escape(' '.join(about.split())) or 'No description.'}\n"


def section(name: str, command: Any) -> str:
    """The section of one command, as MyST Markdown."""
    context = typer.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"## {name}", "", help_text(command), "", f"```text\n{name} {usage}\n```", ""]
    arguments = [parameter for parameter in command.params if not is_option(parameter)]
    options = [parameter for parameter in command.get_params(context) if is_option(parameter)]
    for title, parameters in (("Arguments", arguments), ("Options", options)):
        visible = [parameter for parameter in parameters if not getattr(parameter, "hidden", False)]
        if visible:
            lines += [f"**{title}**", "", *(parameter_entry(parameter, context) for parameter in visible)]
    return "\n".join(lines)


def insert_commands(app: Sphinx, document: str, content: list[str]) -> None:
    """Handler of `source-read`: replaces the placeholder."""
    if PLACEHOLDER in content[0]:
        from elmo_hf.cli import app as program

        root = typer.main.get_command(program)
        pages = "\n".join(section(name, command) for name, command in commands(root, "elmo-hf"))
        content[0] = content[0].replace(PLACEHOLDER, pages)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the handler."""
    app.connect("source-read", insert_commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
