"""The defects of tests/tools/mutations.py: they still have a line to replace."""

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def mutations():
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "tests" / "tools" / "mutations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MUTATIONS


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.file)
def test_a_mutation_replaces_one_place(mutation):
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.correct) == 1
    assert all(
        (ROOT / test.partition("::")[0]).exists() for test in mutation.tests.split() if not test.startswith("-")
    )


def test_mutations_are_of_many_modules():
    assert len(Counter(mutation.file for mutation in mutations())) >= 20
