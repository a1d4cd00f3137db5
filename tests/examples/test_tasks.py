"""The recipes: one is run, stopped results are kept, every one says what it takes."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from small_models import small

from elmo_hf import ElmoModel, ElmoTokenizer

RECIPES = ["pos", "ner", "srl", "sentiment", "inference", "questions", "coreference"]


def run(root, *arguments):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=root / "examples" / "tasks",
        env={**os.environ, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_table_is_filled_cell_by_cell_and_goes_on_where_it_stopped(root, tmp_path):
    small(ElmoModel).save_pretrained(tmp_path / "elmo")
    ElmoTokenizer().save_pretrained(tmp_path / "elmo")
    (tmp_path / "ner").mkdir()
    for name in ("wnut17train.conll", "emerging.test.annotated"):
        (tmp_path / "ner" / name).write_text("Rome B-LOC\nburns O\n\nAnn B-PER\nLee I-PER\nsleeps O\n\n" * 4)
    vectors = np.random.default_rng(0).normal(size=(3, 4)).round(2)
    lines = (f"{word} {' '.join(map(str, row))}" for word, row in zip(["rome", "ann", "lee"], vectors, strict=True))
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    table = ["table.py", "--data", tmp_path, "--model", tmp_path / "elmo", "--vectors", tmp_path / "vectors.txt"]
    table += ["--output", tmp_path / "out", "--tasks", "ner", "--seeds", "1", "--options", "--epochs 1"]
    code, printed, complaint = run(root, *table, "--elmo", "none", "both")
    assert code == 0, complaint
    assert "| task | score | ELMo none | ELMo both | paper's gain |" in printed
    assert "- ner, ELMo both, the mix at the output: 0.3" in printed
    done = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")}
    assert set(done) == {"ner.none.1.json", "ner.both.1.json"}
    assert json.loads((tmp_path / "out" / "ner.none.1.json").read_text())["weights"] == {}
    (tmp_path / "out" / "ner.both.1.json").unlink()
    code, printed, complaint = run(root, *table, "--elmo", "none", "both")
    assert code == 0, complaint
    assert "ELMo both, seed 1" in printed and "ELMo none, seed 1" not in printed
    assert (tmp_path / "out" / "ner.none.1.json").stat().st_mtime_ns == done["ner.none.1.json"]
    code, _, complaint = run(root, *table, "--elmo", "none", "--options", "--epochs 2")
    assert code == 1 and "accepted are the same options, or another --output" in complaint


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_says_what_it_takes(recipe, root):
    source = (root / "examples" / "tasks" / f"{recipe}.py").read_text()
    assert source.startswith('"""') and "parse_args" in source and len(source.splitlines()) < 80
