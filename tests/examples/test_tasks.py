"""The recipes: one is run, stopped results are kept, every one says what it takes."""

import functools
import importlib
import json
import os
import re
import sys
import tarfile

import numpy as np
import pytest
from fork_server import run_forked
from small_models import small

from elmo_hf import ElmoModel, ElmoTokenizer

RECIPES = ["pos", "ner", "uner", "srl", "sentiment", "inference", "questions", "coreference"]


def run(root, *arguments):
    done = run_forked(arguments, {**os.environ, "PYTHONPATH": str(root)}, root / "examples" / "tasks")
    return done.returncode, done.stdout, done.stderr


def test_the_table_is_filled_cell_by_cell_and_goes_on_where_it_stopped(root, recipes, tmp_path, monkeypatch, capsys):
    small(ElmoModel).save_pretrained(tmp_path / "elmo")
    ElmoTokenizer().save_pretrained(tmp_path / "elmo")
    (tmp_path / "ner").mkdir()
    for name in ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"):
        (tmp_path / "ner" / name).write_text("Rome B-LOC\nburns O\n\nAnn B-PER\nLee I-PER\nsleeps O\n\n" * 4)
    vectors = np.random.default_rng(0).normal(size=(3, 4)).round(2)
    lines = (f"{word} {' '.join(map(str, row))}" for word, row in zip(["rome", "ann", "lee"], vectors, strict=True))
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    table = ["table.py", "--data", tmp_path, "--model", tmp_path / "elmo", "--vectors", tmp_path / "vectors.txt"]
    table += ["--output", tmp_path / "out", "--tasks", "ner", "--seeds", "1", "--options", "--epochs 1"]
    code, printed, complaint = run(root, *table, "--elmo", "none", "both")
    assert code == 0, complaint
    assert "| task | trained on | scored | score | ELMo none | ELMo both | runs | paper's gain |" in printed
    assert "| ner | 8 | 8 | f1 | " in printed and " | 1 | +2.06 |" in printed
    assert "- ner, ELMo both, the mix at the output: 0.3" in printed
    done = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")}
    assert set(done) == {"ner.none.1.json", "ner.both.1.json"}
    run_ = json.loads((tmp_path / "out" / "ner.none.1.json").read_text())
    assert run_["weights"] == {} and run_["options"] == recipes("table").TASKS["ner"].options + " --epochs 1"
    (tmp_path / "out" / "ner.both.1.json").unlink()
    table_module = recipes("table")

    def again(*more):
        monkeypatch.setattr(sys, "argv", [str(one) for one in (*table, *more)])
        table_module.main()
        return capsys.readouterr().out

    printed = again("--elmo", "none", "both", "--json", tmp_path / "all.json")
    gathered = json.loads((tmp_path / "all.json").read_text())["ner"]
    assert [gathered[name] for name in ("examples", "of", "scored")] == [8, 8, 8]
    assert {place: [one["score"] for one in runs] for place, runs in gathered["runs"].items()} == {
        place: [json.loads((tmp_path / "out" / f"ner.{place}.1.json").read_text())["score"]]
        for place in ("none", "both")
    }
    assert "ELMo both, seed 1" in printed and "ELMo none, seed 1" not in printed
    assert (tmp_path / "out" / "ner.none.1.json").stat().st_mtime_ns == done["ner.none.1.json"]
    with pytest.raises(SystemExit, match="expected are the same options, or another --output"):
        again("--elmo", "none", "--options", "--epochs 2")
    # Nor does a run that was stopped go on under other options.
    (tmp_path / "out" / "ner.none.1.json").unlink()
    (tmp_path / "out" / "ner.none.1").mkdir()
    (tmp_path / "out" / "ner.none.1" / "cell.json").write_text('{"options": "--epochs 7"}')
    with pytest.raises(SystemExit, match="cell.json was made with '--epochs 7'; expected are the same options"):
        again("--elmo", "none")
    # A row of the table is of one kind of runs.
    other = {**run_, "options": "--epochs 3"}
    for seed, kept in enumerate((run_, other), 1):
        (tmp_path / "out" / f"ner.none.{seed}.json").write_text(json.dumps(kept))
    with pytest.raises(SystemExit, match="ner.none.2.json was made of .*'--epochs 3'.*; the runs before it of "):
        table_module.gather(tmp_path / "out")


@pytest.fixture
def recipes(root, monkeypatch):
    """Modules of the recipes, by their names; forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(root / "examples" / "tasks")
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (root / "examples" / "tasks" / f"{name}.py").exists():
            del sys.modules[name]


def test_coreference_scores_every_tenth_file_of_a_folder_or_an_archive(recipes, tmp_path):
    read, folder = functools.partial(recipes("coreference").read, None), tmp_path / "files"
    folder.mkdir()
    for number in range(30):
        text = f"#begin document (d{number}); part 0\nd{number} 0 0 Ann (0)\n\n#end document\n"
        (folder / f"{number}_novel.conll").write_text(text)
    with tarfile.open(tmp_path / "files.tar.xz", "w:xz") as archive:
        archive.add(folder, arcname=".")
    for place in (folder, tmp_path / "files.tar.xz"):
        train, test = read(place, place)
        assert [one.name for one in test] == [f"d{number}" for number in range(0, 30, 3)]
        assert [one.name for one in train] == [f"d{number}" for number in range(30) if number % 3]
    (tmp_path / "list.txt").write_text("files/7_novel.conll files/5_novel.conll")
    train, test = read(folder, tmp_path / "list.txt")
    assert len(train) == 30 and [one.name for one in test] == ["d5", "d7"]
    with pytest.raises(ValueError, match="holds no file whose name ends in conll"):
        read(folder, tmp_path)


def test_coreference_is_scored_on_novels_that_the_bundled_model_has_not_read(recipes, root):
    litbank = root.parent / "shared" / "data" / "coref" / "litbank_conll.tar.xz"
    if not litbank.exists():
        pytest.skip("LitBank's coreference is not here.")
    text = json.loads((root / "examples" / "english" / "measured" / "text.json").read_text(encoding="utf-8"))
    train, test = recipes("coreference").read(None, litbank, litbank)
    assert {f"{one.name}.conll" for one in test} == set(text["novels_left_out"])
    assert len(train) == 90


def test_no_article_is_both_trained_on_and_scored(recipes, tmp_path):
    def article(title, context, *texts):
        answers = [{"text": text, "answer_start": context.index(text)} for text in texts]
        return {"title": title, "paragraphs": [{"context": context, "qas": [qa(answers), qa([])]}]}

    def qa(answers):
        return {"id": "1", "question": "Who?", "answers": answers}

    # Neither the part that is trained on nor whether a passage has an answer decides which articles are known.
    train = [article("Normans", "Ann came."), article("", "Bob slept.", "Bob")]
    test = [article("Normans", "Eve left.", "Eve"), article("", "Bob slept.", "Bob"), article("", "Ivy ran.", "Ivy")]
    for name, articles in (("train", train), ("test", test)):
        (tmp_path / name).write_text(json.dumps({"data": articles}))
    data, scored = recipes("questions").read(None, tmp_path / "train", tmp_path / "test")
    assert data["context"] == ["Bob slept."] and scored["context"] == ["Ivy ran."]


def test_xquad_has_32_articles_that_squad_lacks(recipes, root):
    folder = root.parent / "shared" / "data" / "qa"
    if not folder.exists():
        pytest.skip("SQuAD is not here.")
    data, scored = recipes("questions").read(None, folder / "squad2_dev_half.json.gz", folder / "xquad.en.json.gz")
    assert (len(data), len(scored), len(set(scored["title"]))) == (2910, 838, 32)


def test_a_linear_layer_is_told_what_it_cannot_do(recipes, capsys):
    with pytest.raises(SystemExit):
        recipes("pos").main(["--train", "a", "--test", "b", "--elmo", "both"])
    assert "invalid choice: 'both'" in capsys.readouterr().err


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_says_what_it_takes(recipe, root):
    source = (root / "examples" / "tasks" / f"{recipe}.py").read_text()
    assert source.startswith('"""') and len(source.splitlines()) < 80
    assert re.search(r'recipe\(\s*"\w+", __doc__', source)
