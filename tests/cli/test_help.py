"""Help texts, with rich and without it, at any width."""

import os
import re

import pytest
from typer.core import HAS_RICH

from elmo_hf.cli import app


def verbs(group, *before):
    for command in group.registered_commands:
        yield (*before, command.name or command.callback.__name__)
    for inner in group.registered_groups:
        yield from verbs(inner.typer_instance, *before, inner.typer_instance.info.name)


@pytest.mark.parametrize("width", [60, 80, 110, 200])
@pytest.mark.parametrize("verb", list(verbs(app)), ids=" ".join)
def test_lines_are_filled(command, monkeypatch, verb, width):
    """The next line's first word would not have fitted: nothing is broken off where the source's line ended."""
    monkeypatch.setitem(os.environ, "COLUMNS", str(width))
    code, text, _ = command(*(verb), "--help")
    assert code == 0
    description = re.split(r"Usage:.*?\n\s*\n", text, maxsplit=1, flags=re.DOTALL)[1]
    description = re.split(r"\n.{0,2}─|\n(?:Arguments|Options):", description)[0]
    room = (width if HAS_RICH else min(width, 80)) - 2
    lines = description.split("\n")
    for line, following in zip(lines, lines[1:], strict=False):
        words = following.split()
        if line.strip() and words and not following.startswith("    "):
            assert len(line.rstrip()) + 1 + len(words[0]) > room, (line, following)


@pytest.mark.parametrize("verb", list(verbs(app)), ids=" ".join)
def test_arguments_are_capitals_as_the_texts_speak_of_them(command, monkeypatch, verb):
    monkeypatch.setitem(os.environ, "COLUMNS", "200")
    usage = command(*verb, "--help")[1].split("Usage:")[1].splitlines()[0]
    assert "[OPTIONS]" in usage
    named = usage.split("[OPTIONS]")[1].replace("OPTIONS.json WEIGHTS.hdf5", "")
    assert named == named.upper()


def test_what_stands_in_brackets_is_shown(command):
    assert "[onnx]" in command("export", "--help")[1]


@pytest.mark.parametrize("verb", [(), *verbs(app)], ids=" ".join)
def test_options_have_no_type_bool_and_defaults_no_second_brackets(command, monkeypatch, verb):
    monkeypatch.setitem(os.environ, "COLUMNS", "200")
    text = command(*verb, "--help")[1]
    assert "<bool>" not in text.lower() and "default: (" not in text
