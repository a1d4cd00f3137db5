"""The package as a whole: doctests, the rules of remote code, the wheel, the command line."""

import ast
import doctest
import importlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import pytest
from golden_files import GOLDEN

import elmo_hf
from elmo_hf import conversion, pretraining

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    ".".join(("elmo_hf", *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
    for folder in (ROOT / "elmo_hf", ROOT)
    for path in (folder.rglob("*.py") if folder.name == "elmo_hf" else (ROOT / "conversion").rglob("*.py"))
    if path.name != "__main__.py"
)
REMOTE = sorted((ROOT / "elmo_hf" / "model").glob("*_elmo.py"))
PLAIN = GOLDEN["plain"]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    failures, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failures == 0


def test_every_public_function_and_class_shows_how_it_is_used():
    without = [
        name
        for package in (elmo_hf, conversion, pretraining)
        for name in package.__all__
        if name not in ("__version__",) and not (getattr(package, name).__doc__ or "").strip()
    ]
    assert without == []


@pytest.mark.parametrize("path", REMOTE, ids=lambda path: path.name)
def test_files_that_travel_with_a_model_need_nothing_else(path):
    text = path.read_text(encoding="utf-8")
    allowed = {"torch", "numpy", "transformers", "tokenizers", "huggingface_hub"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                assert node.level == 1 and re.fullmatch(r"\w+_elmo", node.module or ""), ast.unparse(node)
                continue
            names = [node.module]
        else:
            continue
        for name in names:
            top = name.split(".")[0]
            assert top in allowed or top in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_every_save_carries_every_file():
    from transformers.dynamic_module_utils import get_relative_import_files

    for path in REMOTE:
        if "configuration" in path.name or "modeling" in path.name:
            reached = {Path(name).name for name in get_relative_import_files(str(path))} | {path.name}
            assert reached == {other.name for other in REMOTE}


def test_arrows_point_one_way():
    """Nothing in a file that travels, and nothing in the package, knows of what is built on top of it."""
    for path in (ROOT / "elmo_hf").rglob("*.py"):
        if path.parent.name != "cli":
            assert "conversion" not in {word for line in _imports(path) for word in re.findall(r"\w+", line)}, (
                path.name
            )


def _imports(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


def test_the_wheel_holds_the_tree(tmp_path):
    source = tmp_path / "source"  # built from a copy: what an earlier build left behind must not get in
    for folder in ("elmo_hf", "conversion"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tree = {path.relative_to(ROOT).as_posix() for path in (ROOT / "elmo_hf").rglob("*.py")}
    tree |= {f"elmo_hf/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "conversion").rglob("*.py")}
    tree |= {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "elmo_hf" / "bundled").rglob("*.*") if path.is_file()
    }
    tree.add("elmo_hf/native/elmo_lstm.c")
    assert names == {name for name in tree if "__pycache__" not in name}


def test_the_command_line_converts_verifies_and_exports(command, tmp_path):
    with h5py.File(tmp_path / "expected.hdf5", "w") as file:
        for number in range(len(PLAIN.sentences)):
            file[str(number)] = PLAIN.expected_layers("stateful", number)
    (tmp_path / "sentences.txt").write_text("\n".join(map(" ".join, PLAIN.sentences)), encoding="utf-8")
    check = ["--verify", tmp_path / "expected.hdf5", "--sentences", tmp_path / "sentences.txt"]
    code, out, err = command("convert", PLAIN.options, PLAIN.weights, tmp_path / "model", *check, "--batch-size", 3)
    assert code == 0, err
    assert "ElmoModel of 4,342 parameters" in out and "split by: moses-en" in out
    assert re.search(r"layer 2  \d\.\d+e-0[67]", out)

    # The same vectors, but as if the original had carried no state: the difference ends with exit code 1.
    code, _, err = command("convert", PLAIN.options, PLAIN.weights, tmp_path / "other", *check, "--stateless")
    assert code == 1 and "is above 1e-05" in err

    code, out, _ = command("export", tmp_path / "model", tmp_path / "back")
    assert code == 0 and "weights.hdf5" in out


def test_the_command_line_explains_itself_and_its_errors(command, tmp_path):
    assert "convert" in command("--help")[1]
    assert f"elmo-hf {elmo_hf.__version__}" in command("--version")[1]
    text = command("convert", "--help")[1]
    for option in ("--vocabulary", "--softmax", "--splitting", "--language", "--license", "--push-to", "--verify"):
        assert option in text
    code, _, err = command("convert", tmp_path / "nothing", tmp_path / "model")
    assert code == 1 and err.startswith("Error: ") and "Traceback" not in err
    code, _, err = command("convert", PLAIN.options)
    assert code == 2 and "1 arguments were given" in re.sub(r"[\s│]+", " ", err)
