"""The table of formats: in the help and the guide as in the code; and the choice among them."""

import re

import pytest
from golden_files import GOLDEN, TESTS

from elmo_hf.conversion import FORMATS, convert

PLAIN = GOLDEN["plain"]
FILES = TESTS / "conversion"


def plain(text):
    return re.sub(r"[\s│`|]+", " ", text)


def test_help_and_guide_have_the_table_of_formats(command):
    help_text = plain(command("convert", "--help")[1])
    guide = plain((TESTS.parent / "docs" / "guides" / "convert.md").read_text("utf-8"))
    for format in FORMATS.values():
        assert plain(f"{format.have}: {format.type}") in help_text
        for typed in format.type.split(", or "):
            assert f"elmo-hf {typed}" in guide


@pytest.mark.parametrize(
    "name, source",
    [
        ("bilm-hdf5", PLAIN.options.parent),
        ("tf-checkpoint", FILES / "tensorflow" / "one-layer"),
        ("tf-hub", FILES / "tensorflow" / "hub"),
        ("allennlp", FILES / "allennlp" / "model.tar.gz"),
        ("many-langs", FILES / "many_langs" / "both"),
    ],
)
def test_a_format_is_found_and_another_can_be_insisted_on(name, source, tmp_path):
    said = []
    convert(source, output_dir=tmp_path / "found", say=said.append)
    assert said[0].startswith(f"found {FORMATS[name].title}: ")
    convert(source, output_dir=tmp_path / "named", format=name)
    for other in FORMATS.keys() - {name}:
        with pytest.raises(ValueError):
            convert(source, output_dir=tmp_path / "other", format=other)
    with pytest.raises(ValueError, match="Invalid `format`: 'pdf'. Expected one of tf-hub, allennlp"):
        convert(source, output_dir=tmp_path / "other", format="pdf")
