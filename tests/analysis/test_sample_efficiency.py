"""Scores by the size of the training data: a small recipe that counts its runs, and one of the real ones."""

import json
import os
import statistics

import pytest
from small_models import small

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.analysis import efficiency

# Scores follow from what it is told; each run leaves a line; with ELMo it fails while the file of --fault exists.
RECIPE = """
import argparse, json, math, pathlib, sys
parser = argparse.ArgumentParser()
for name in "train test model vectors elmo limit seed output json bonus fault".split():
    parser.add_argument("--" + name)
given = parser.parse_args()
here = pathlib.Path(__file__).parent
with (here / "runs.txt").open("a") as runs:
    runs.write(f"{given.elmo} {given.limit} {given.seed}\\n")
if given.fault and pathlib.Path(given.fault).exists() and given.elmo == "input":
    sys.exit("the disk is full")
of = 2000
examples = round(of * float(given.limit[:-1]) / 100) if given.limit.endswith("%") else int(given.limit)
assert pathlib.Path(given.output).is_dir() and given.model and given.test
f1 = 10 * math.log10(examples) + 20 * (given.elmo != "none") + int(given.seed) + float(given.bonus or 0)
found = {"scores": {"f1": f1, "exact": f1 / 2}, "examples": examples, "of": of}
pathlib.Path(given.json).write_text(json.dumps(found))
"""


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "recipe.py").write_text(RECIPE)
    return tmp_path / "recipe.py"


def runs(recipe):
    path = recipe.parent / "runs.txt"
    return path.read_text().splitlines() if path.exists() else []


def measure(recipe, **others):
    given = {"word_vectors": "glove.txt", "sizes": [20, "10%"], **others}
    return efficiency(recipe, "some-elmo", "train", "test", recipe.parent / "kept", **given)


def test_table_and_numbers_follow_from_the_runs(recipe, tmp_path):
    found = measure(recipe, seeds=[1, 4])
    heads, rows = found.table()
    assert heads == ["examples", "share, %", "no ELMo, f1", "±", "ELMo input, f1", "±", "gain"]
    # log10(20) = 1.30103, log10(200) = 2.30103; seeds add 1 and 4
    spread = statistics.stdev([1, 4])
    assert rows[0] == pytest.approx([20, 1.0, 15.5103, spread, 35.5103, spread, 20], abs=1e-4)
    assert rows[1] == pytest.approx([200, 10.0, 25.5103, spread, 45.5103, spread, 20], abs=1e-4)
    saved = found.to_dict()
    assert saved["score"] == "f1" and len(saved["runs"]) == 8
    assert {(run["elmo"], run["size"], run["seed"]) for run in saved["runs"]} == {
        (elmo, size, seed) for elmo in ("none", "input") for size in ("20", "10%") for seed in (1, 4)
    }
    assert len(runs(recipe)) == 8


def test_goes_on_after_a_failure_and_runs_only_what_is_new(recipe, tmp_path):
    fault = tmp_path / "fault"
    fault.touch()
    options = ["--fault", str(fault)]
    with pytest.raises(ValueError, match="exit code 1(.|\n)*the disk is full"):
        measure(recipe, options=options)
    assert runs(recipe) == ["none 20 1", "input 20 1"]
    fault.unlink()
    said = []
    whole = measure(recipe, options=options, say=said.append)
    assert runs(recipe)[2:] == ["input 20 1", "none 10% 1", "input 10% 1"]
    assert said[0] == "1 of 4: no ELMo, 20 of the training data, seed 1: f1 14.01 (stored)"
    assert measure(recipe, options=options).to_dict() == whole.to_dict() and len(runs(recipe)) == 5
    measure(recipe, options=options, sizes=[20, "2.5%"], places=["input"], seeds=[1, 2], score="exact")
    assert runs(recipe)[5:] == ["input 20 2", "input 2.5% 1", "input 2.5% 2"]
    left = {path.name for path in (tmp_path / "kept").iterdir()}
    assert left == {"command.json", *(f"{line.replace(' ', '.')}.json" for line in runs(recipe))}


def test_other_options_need_another_folder(recipe):
    measure(recipe, sizes=[20])
    with pytest.raises(ValueError, match="--bonus 5.*Expected the same recipe, data and options, or another fold"):
        measure(recipe, sizes=[20], options=["--bonus", "5"])
    assert len(runs(recipe)) == 2


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"sizes": ["0%"]}, "Invalid size of training data: '0%'. Expected a number"),
        ({"sizes": ["101%"]}, "Invalid size of training data: '101%'"),
        ({"sizes": ["some"]}, "Invalid size of training data: 'some'"),
        ({"sizes": []}, "Invalid size of training data"),
        ({"word_vectors": None}, "none were given. Expected word vectors, or places without 'none'"),
        ({"places": ["../input"]}, "'../input' is not a place of ELMo"),
        ({"seeds": []}, "at least one of each"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(recipe, given, sentence):
    with pytest.raises(ValueError, match=sentence.replace(".", r"\.")):
        measure(recipe, **given)
    assert runs(recipe) == []


@pytest.mark.parametrize("written", ["", "[]", '{"scores": {}}', '{"scores": {"f1": 1}, "examples": 3}'])
def test_a_recipe_without_a_result_is_named(recipe, written):
    recipe.write_text(
        f"import sys; open(sys.argv[sys.argv.index('--json') + 1], 'w').write({written!r})", encoding="utf-8"
    )
    with pytest.raises(ValueError, match=r"recipe\.py has not written its result to .*Expected"):
        measure(recipe)


def test_an_unknown_score_is_named(recipe):
    with pytest.raises(ValueError, match="does not measure 'bleu'. Expected one of f1, exact"):
        measure(recipe, score="bleu")


def test_the_command_prints_saves_and_draws(command, recipe, tmp_path):
    model = tmp_path / "elmo"
    model.mkdir()
    arguments = ["analyse", "efficiency", model, recipe, "train", "test", "-o", tmp_path / "kept", "--seeds", "2"]
    arguments += ["--word-vectors", "glove.txt", "--size", "20", "--size", "100%", "--options", "--bonus 7"]
    code, out, err = command(*arguments, "--json", tmp_path / "e.json", "--plot", tmp_path / "e.svg")
    assert code == 0, err
    found = json.loads((tmp_path / "e.json").read_text())
    means = {
        (size, elmo): statistics.mean(
            run["score"] for run in found["runs"] if (run["size"], run["elmo"]) == (size, elmo)
        )
        for size in ("20", "100%")
        for elmo in ("none", "input")
    }
    assert means["20", "none"] == pytest.approx(13.0103 + 1.5 + 7, abs=1e-4)
    for line, size in zip(out.splitlines()[1:], ("20", "100%"), strict=True):
        without, with_elmo = means[size, "none"], means[size, "input"]
        assert line.split()[2::2] == [f"{without:.2f}", f"{with_elmo:.2f}", "20.00"]
    assert "8 of 8: ELMo input, 100% of the training data, seed 2: f1" in err
    assert (tmp_path / "e.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_a_real_recipe_tells_its_share(command, root, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.fspath(root))
    small(ElmoModel).save_pretrained(tmp_path / "elmo")
    ElmoTokenizer().save_pretrained(tmp_path / "elmo")
    words = "Rome B-LOC\nburns O\n\nAnn B-PER\nLee I-PER\nsleeps O\n\n"
    (tmp_path / "data.conll").write_text(words * 4)
    arguments = ["analyse", "efficiency", tmp_path / "elmo", root / "examples" / "tasks" / "ner.py"]
    arguments += [tmp_path / "data.conll", tmp_path / "data.conll", "-o", tmp_path / "kept"]
    arguments += ["--elmo", "input", "--size", "25%", "--options", "--epochs 1", "--json", tmp_path / "e.json"]
    code, out, err = command(*arguments)
    assert code == 0, err
    (run,) = json.loads((tmp_path / "e.json").read_text())["runs"]
    assert (run["examples"], run["of"]) == (2, 8) and next(iter(run["scores"])) == "f1"
    assert out.splitlines()[0].split() == ["examples", "share,", "%", "ELMo", "input,", "f1"]
