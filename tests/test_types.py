"""What a type checker sees of the package in a user's program."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")

PROGRAM = """
from typing import assert_type

import numpy as np
import torch

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoForTokenClassification, ElmoModel, ElmoScorer, ElmoTokenizer
from elmo_hf import Perplexity, Prediction, SentenceScore, embed, label_names, perplexity, read_conll, strip_boundaries

tokenizer = ElmoTokenizer("whitespace")
model = ElmoModel(ElmoConfig(projection_size=8))
batch = tokenizer(["A sentence"], padding=True, return_tensors="pt")
output = model(**batch)
vectors, mask = strip_boundaries(output.last_hidden_state, batch["attention_mask"])
assert_type(vectors, torch.Tensor)
assert_type(label_names(read_conll("train.conll")), list[str])
assert_type(read_conll("train.conll")[0], dict[str, list[str]])
for sentence in read_conll("train.conll"):
    assert_type(sentence["tokens"], list[str])

assert_type(ElmoModel.from_pretrained("folder"), ElmoModel)
assert_type(ElmoTokenizer.from_pretrained("folder").tokenize("One text"), list[str])
assert_type(ElmoForTokenClassification.from_pretrained("folder", num_labels=3), ElmoForTokenClassification)

embedder = ElmoEmbedder.from_pretrained("folder")
assert_type(embedder.encode("One text"), np.ndarray)
assert_type(embedder.encode(["One", "Two"], "all", batch_size=8), list[np.ndarray])
assert_type(embedder.encode(["One", "Two"], pooling="mean"), np.ndarray)
assert_type(embedder.encode(["One", "text"], is_split_into_words=True), np.ndarray)
assert_type(embed("folder", ["One", "Two"]), list[np.ndarray])

scorer = ElmoScorer.from_pretrained("folder")
assert_type(scorer.score("One text"), SentenceScore)
assert_type(scorer.score(["One", "Two"]), list[SentenceScore])
assert_type(scorer.score(["One", "text"], is_split_into_words=True), SentenceScore)
assert_type(scorer.score([["One", "text"]], is_split_into_words=True), list[SentenceScore])
assert_type(scorer.next_words("One"), list[Prediction])
assert_type(scorer.previous_words(["One", "Two"], k=3), list[list[Prediction]])
assert_type(scorer.substitutes("One text", 1), list[Prediction])
assert_type(scorer.substitutes(["One text", "Two"], [1, 0]), list[list[Prediction]])
assert_type(perplexity(scorer.model, tokenizer, ["One text"]), Perplexity)
"""


@pytest.mark.slow
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
