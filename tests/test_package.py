"""The package as a whole: doctests, rules for remote code, directions of imports, the wheel, the command line."""

import ast
import doctest
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import h5py
import pytest
import torch
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
REMOTE = sorted((ROOT / "elmo_hf" / "model").glob("*_elmo*.py"))
PLAIN = GOLDEN["plain"]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    failures, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failures == 0


def test_every_public_function_and_class_shows_how_it_is_used():
    reference = (ROOT / "docs" / "reference" / "model.md").read_text(encoding="utf-8")
    without = [
        f"{package.__name__}.{name}"
        for package in (elmo_hf, conversion, pretraining)
        for name in package.__all__
        if callable(getattr(package, name))
        and ">>> " not in (getattr(package, name).__doc__ or "")
        # Examples of the classes that travel with a model are on a page, to keep their files short.
        and f"\n## {name}\n" not in reference
    ]
    assert without == []


def test_the_examples_of_the_reference_run():
    path = ROOT / "docs" / "reference" / "model.md"
    failures, tried = doctest.testfile(str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failures == 0 and tried > 80


@pytest.mark.parametrize("path", REMOTE, ids=lambda path: path.name)
def test_files_that_travel_with_a_model_need_nothing_else(path):
    text = path.read_text(encoding="utf-8")
    allowed = {"torch", "numpy", "transformers", "tokenizers", "huggingface_hub", "safetensors"}
    for node in _outside_of_try(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                assert node.level == 1 and re.fullmatch(r"\w+_elmo\w*", node.module or ""), ast.unparse(node)
                continue
            names = [node.module]
        else:
            continue
        for name in names:
            top = name.split(".")[0]
            assert top in allowed or top in sys.stdlib_module_names, f"{path.name} imports {name}"


def _outside_of_try(node):
    """All nodes except those in `try:` blocks that handle ImportError."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Try) and any("ImportError" in ast.dump(handler) for handler in child.handlers):
            continue
        yield child
        yield from _outside_of_try(child)


def test_every_save_carries_every_file():
    from transformers.dynamic_module_utils import get_relative_import_files

    for path in REMOTE:
        if "configuration" in path.name or "modeling" in path.name:
            reached = {Path(name).name for name in get_relative_import_files(str(path))} | {path.name}
            assert reached == {other.name for other in REMOTE}


# A folder may import folders of its own layer and of those above it in this list. conversion/ is elmo_hf.conversion.
LAYERS = [
    ["kernels"],
    ["model"],
    ["text"],
    ["hub"],
    ["language_model"],
    ["pretraining", "embedding", "bundled", "conversion"],
    ["analysis", "tasks"],
    ["page", "cli"],
]
RANKS = {folder: rank for rank, folders in enumerate(LAYERS) for folder in folders}


def test_every_folder_belongs_to_a_layer():
    folders = {path.parent.name for path in (ROOT / "elmo_hf").glob("*/*.py")} | {"conversion"}
    assert folders <= set(RANKS), f"add the new folder to LAYERS: {folders - set(RANKS)}"


def _folder_of(module):
    """The folder in LAYERS that a module belongs to, given its full name; None for modules of the package itself."""
    return next((name for name in module.split(".")[1:2] if name in RANKS), None)


@pytest.mark.parametrize("folder", RANKS)
def test_imports_point_one_way(folder):
    """No module imports from a folder further down in LAYERS."""
    for path in (ROOT / folder if folder == "conversion" else ROOT / "elmo_hf" / folder).rglob("*.py"):
        package = ("elmo_hf", *path.relative_to(ROOT if folder == "conversion" else ROOT / "elmo_hf").parts[:-1])
        for imported in _modules(ast.parse(path.read_text(encoding="utf-8")), package):
            other = _folder_of(imported) if imported.startswith("elmo_hf.") else None
            assert other is None or RANKS[other] <= RANKS[folder], f"{path.relative_to(ROOT)} imports {imported}"


def _modules(node, inside):
    """The full names of modules that are always imported at run time, without optional imports."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = ".".join(inside[: len(inside) - child.level + 1]) if child.level else ""
            stem = ".".join(part for part in (base, child.module or "") if part)
            yield from ([f"{stem}.{alias.name}" for alias in child.names] if stem == "elmo_hf" else [stem])
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)) and not (
            isinstance(child, ast.Try) and any("ImportError" in ast.dump(handler) for handler in child.handlers)
        ):
            yield from _modules(child, inside)


# What a dependency brings along in every version: dependencies of its own, and modules of another name than its own.
BROUGHT_ALONG = {"datasets": ["pyarrow"], "gradio": ["starlette"], "scikit_learn": ["sklearn", "threadpoolctl"]}


def test_only_declared_dependencies_are_imported():
    """Other packages may be installed here, but not where a user installs this one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [requirement for each in project["optional-dependencies"].values() for requirement in each]
    names = [re.match(r"\w+", each.replace("-", "_"))[0] for each in (*project["dependencies"], *extras)]
    core = {*names[: len(project["dependencies"])]}
    core |= {module for name in core for module in BROUGHT_ALONG.get(name, ())}
    declared = {*names} | {module for name in names for module in BROUGHT_ALONG.get(name, ())}
    wrong = set()
    for name in MODULES:
        parts = name.split(".")
        folder = ROOT.joinpath(*(parts[1:] if parts[1:2] == ["conversion"] else parts))
        path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        # The folders of whole extras are imported by functions that say what to install.
        at_once = declared if parts[1:2] in (["pretraining"], ["page"]) else core
        for statements, allowed in ((_run_on_import(tree), at_once), (ast.walk(tree), declared)):
            for node in statements:
                tops = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                tops += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
                known = {*allowed, *sys.stdlib_module_names, "elmo_hf"}
                wrong |= {f"{name}: {top}" for top in tops if top.split(".")[0] not in known}
    assert wrong == set()


def _run_on_import(node):
    """All nodes except those inside of functions and of `try:`."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Try)):
            yield child
            yield from _run_on_import(child)


def build_wheel(folder, **environment):
    """Builds a wheel of a copy of the checkout, unpacks it to `folder`, and returns the names of its files."""
    source = folder / "source"  # a copy: the libraries and build folders of the checkout must not get in
    for name in ("elmo_hf", "conversion"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.dylib", "*.dll", "libraries.json")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-cache-dir", "."]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder)],
        cwd=source,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files_of_the_package():
    tree = {path.relative_to(ROOT).as_posix() for path in (ROOT / "elmo_hf").rglob("*.py*")}
    tree |= {f"elmo_hf/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "conversion").rglob("*.py")}
    tree |= {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "elmo_hf" / "bundled").rglob("*.*") if path.is_file()
    }
    tree |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "elmo_hf/kernels/native").glob("*.[ch]")}
    tree.add("elmo_hf/py.typed")
    return {name for name in tree if "__pycache__" not in name}


USE_INSTALLED = """
import elmo_hf, torch
from elmo_hf.kernels import describe
model = elmo_hf.ElmoModel(elmo_hf.ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=16, cell_size=32)).eval()
with torch.no_grad():
    model(**elmo_hf.ElmoTokenizer()(["A sentence"], return_tensors="pt"))
print(elmo_hf.__file__)
print(describe(model))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None or sys.platform == "win32", reason="there is no C compiler here")
def test_an_installed_package_has_the_native_library(tmp_path):
    libraries = build_wheel(tmp_path) - files_of_the_package()
    assert "elmo_hf/kernels/native/libraries.json" in libraries
    assert {Path(name).suffix for name in libraries} <= {".so", ".dylib", ".json"} and len(libraries) > 1
    unpacked = tmp_path / "unpacked"
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", USE_INSTALLED]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    path, description = done.stdout.split("\n", 1)
    assert path.startswith(str(unpacked)) and not (tmp_path / "cache").exists()
    assert "native code for" in description or torch.backends.cpu.get_cpu_capability() == "DEFAULT"


@pytest.mark.slow
def test_an_installation_without_a_working_compiler_holds_the_rest(tmp_path):
    assert build_wheel(tmp_path, CC="false") == files_of_the_package()


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
