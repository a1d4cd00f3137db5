"""The table of formats: in help and README as in the code; and the choice among them."""

import re

import pytest
from golden_files import GOLDEN, TESTS

from elmo_hf.conversion import FORMATS, convert

PLAIN = GOLDEN["plain"]
FILES = TESTS / "conversion"


def plain(text):
    return re.sub(r"[\s│`|]+", " ", text)


def test_help_and_readme_have_the_table_of_formats(command):
    help_text, readme = plain(command("convert", "--help")[1]), plain((TESTS.parent / "README.md").read_text("utf-8"))
    for one in FORMATS.values():
        assert plain(f"{one.have}: {one.type}") in help_text
        for typed in one.type.split(", or "):
            assert f"elmo-hf {typed}" in readme


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
