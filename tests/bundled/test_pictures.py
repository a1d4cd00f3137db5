"""The pictures of the documentation show what the bundled model computes now."""

import importlib.util
import json

import numpy as np
import pytest
from golden_files import TESTS

ROOT = TESTS.parent


def load_module():
    spec = importlib.util.spec_from_file_location("english_pictures", ROOT / "examples" / "english" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PICTURES = load_module()


def flat(value):
    """All numbers and texts of a JSON value, in order."""
    if isinstance(value, dict):
        return [item for key in value for item in [key, *flat(value[key])]]
    return [item for one in value for item in flat(one)] if isinstance(value, list) else [value]


def assert_same_numbers(first, second):
    first, second = flat(first), flat(second)
    assert [one for one in first if not isinstance(one, float)] == [
        one for one in second if not isinstance(one, float)
    ]
    numbers = [[one for one in values if isinstance(one, float)] for values in (first, second)]
    np.testing.assert_allclose(*numbers, atol=0.01, rtol=0.01)


@pytest.mark.parametrize("name", PICTURES.PICTURES)
def test_the_numbers_of_a_picture_are_those_of_the_bundled_model(name, command, tmp_path):
    code, _, err = command(*PICTURES.command(name, None, tmp_path / "now.json"))
    assert code == 0, err
    saved = json.loads((PICTURES.IMAGES / f"{name}.json").read_text(encoding="utf-8"))
    assert_same_numbers(json.loads((tmp_path / "now.json").read_text(encoding="utf-8")), saved)
    assert (PICTURES.IMAGES / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_numbers_of_the_senses_are_those_of_the_bundled_model():
    saved = json.loads((PICTURES.IMAGES / "senses.json").read_text(encoding="utf-8"))
    assert_same_numbers(PICTURES.sense_numbers(), saved)


@pytest.mark.parametrize("name", PICTURES.PICTURES)
def test_the_guide_has_the_commands_of_its_pictures(name):
    text = (ROOT / "docs" / "guides" / "analyse.md").read_text(encoding="utf-8")
    for argument in PICTURES.PICTURES[name]:
        assert argument in text


def test_other_numbers_are_noticed():
    with pytest.raises(AssertionError):
        assert_same_numbers({"a": [0.5, "word"]}, {"a": [0.55, "word"]})
    with pytest.raises(AssertionError):
        assert_same_numbers({"a": [0.5, "word"]}, {"a": [0.5, "other"]})
