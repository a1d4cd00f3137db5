"""What a type checker sees of the package in a user's program."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")

PROGRAM = """
from typing import assert_type

import torch

from elmo_hf import ElmoConfig, ElmoModel, ElmoScorer, ElmoTokenizer, Perplexity, SentenceScore
from elmo_hf import label_names, perplexity, read_conll, strip_boundaries

tokenizer = ElmoTokenizer("whitespace")
model = ElmoModel(ElmoConfig(projection_size=8))
batch = tokenizer(["A sentence"], padding=True, return_tensors="pt")
output = model(**batch)
vectors, mask = strip_boundaries(output.last_hidden_state, batch["attention_mask"])
assert_type(vectors, torch.Tensor)
assert_type(label_names(read_conll("train.conll")), list[str])

scorer = ElmoScorer.from_pretrained("folder")
assert_type(scorer.score("One text"), SentenceScore)
assert_type(scorer.score(["One", "Two"]), list[SentenceScore])
assert_type(scorer.score(["One", "text"], is_split_into_words=True), SentenceScore)
assert_type(scorer.score([["One", "text"]], is_split_into_words=True), list[SentenceScore])
assert_type(perplexity(scorer.model, tokenizer, ["One text"]), Perplexity)
"""


def test_a_users_program_has_the_types_it_says(root, tmp_path):
    """And what is wrong is found: with everything `Any`, nothing would be."""
    (tmp_path / "program.py").write_text(PROGRAM + "scorer.score(3)\nElmoTokenizer(splitting=3)\n", encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", "--hide-error-context", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(root)},
        capture_output=True,
        text=True,
    )
    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    line = PROGRAM.count("\n") + 1
    assert [error.split(":")[:2] for error in errors] == [["program.py", str(line)], ["program.py", str(line + 1)]], (
        checked.stdout + checked.stderr
    )
