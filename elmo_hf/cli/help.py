"""Help texts: paragraphs at any width, names of arguments in capitals, defaults in words, no type for switches."""

import inspect
import textwrap
from typing import Any, get_args

import typer
from typer.core import HAS_RICH, TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command whose --help has no type."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help."""
        return without_type(super().get_help_option(ctx))


class Group(TyperGroup):
    """A group of commands whose --help has no type."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help."""
        return without_type(super().get_help_option(ctx))


def without_type(option: Any) -> Any:
    """The option, without `<bool>` in the help text."""
    if option is not None:
        option.metavar = ""
    return option


def prepare_help(app: typer.Typer):
    """Prepares the help texts of all commands of an app: their docstrings, arguments and options."""
    app.info.cls = Group
    if app.registered_callback is not None and app.registered_callback.callback is not None:
        for parameter in inspect.signature(app.registered_callback.callback).parameters.values():
            _prepare_parameter(parameter)
    for command in app.registered_commands:
        assert command.callback is not None  # every command here is a function
        command.cls = Command
        command.help = escape_markup(join_paragraphs(command.help or inspect.getdoc(command.callback) or ""))
        for parameter in inspect.signature(command.callback).parameters.values():
            _prepare_parameter(parameter)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        group.cls = Group
        prepare_help(group.typer_instance)


def _prepare_parameter(parameter: inspect.Parameter):
    kind, *metadata = get_args(parameter.annotation) or [None]
    for info in metadata:
        if isinstance(info, typer.models.ArgumentInfo) and info.metavar is None:
            info.metavar = parameter.name.upper()
        if isinstance(info, typer.models.OptionInfo) and bool in (kind, *get_args(kind)):
            info.metavar = ""
        if isinstance(info, typer.models.ParameterInfo) and isinstance(info.show_default, str):
            # typer would put the words into a second pair of brackets.
            info.help = f"{info.help} {escape_markup(f'[default: {info.show_default}]')}"
            info.show_default = False


def escape_markup(text: str) -> str:
    """The text with its brackets escaped where rich would take [onnx] for a colour."""
    return text.replace("[", "\\[") if HAS_RICH else text


def join_paragraphs(text: str) -> str:
    """Text without the line ends inside of its paragraphs; what is indented, as an example, stays as it is.

    Example:

    ```python
    >>> from elmo_hf.cli.help import join_paragraphs
    >>> join_paragraphs("One\\nparagraph.\\n\\n    as it\\n    is\\n\\nThe last.")
    'One paragraph.\\n\\n    as it\\n    is\\n\\nThe last.'

    ```
    """
    paragraphs = textwrap.dedent(text).strip("\n").split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith((" ", "\b")) else " ".join(paragraph.split()) for paragraph in paragraphs
    )


__all__ = ["Command", "Group", "escape_markup", "join_paragraphs", "prepare_help", "without_type"]
