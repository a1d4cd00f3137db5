"""transformers' own test suites, for the classes of this package.

They are not in the wheel. The sdist of the version that is installed has the files `tests/test_*.py`, but none of the
folders below `tests/`: the pipelines' tests, the suites of export and of generation, and the files of tokenizers are
missing. It is downloaded once, by pip, into the user's cache.
"""

import importlib
import os
import subprocess
import sys
import tarfile
import tempfile
import types
from pathlib import Path

import pytest
import transformers
from filelock import FileLock

PACKAGE = "transformers_tests"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elmo-hf" / "tests"
# The suites import it; it is no dependency of ours, nor of transformers without its extras.
PARAMETERIZED = "parameterized==0.9.0"
# Fields that any configuration has, with other values than their defaults.
CONFIG_FIELDS = {
    "return_dict": False,
    "output_hidden_states": True,
    "dtype": "float16",
    "chunk_size_feed_forward": 5,
    "architectures": ["BertModel"],
    "id2label": {0: "label"},
    "label2id": {"label": "0"},
    "problem_type": "regression",
}


def suite(name: str) -> types.ModuleType:
    """A module of transformers' tests, e.g. "test_modeling_common". Skips where they cannot be had."""
    if PACKAGE not in sys.modules:
        folder = _folder()
        sys.path.append(str(folder / "site"))
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(folder / "tests")]
        sys.modules[PACKAGE] = package
        # What the sdist has not.
        _stand_in("exporters.test_export", ExportTesterMixin=type("ExportTesterMixin", (), {}))
        _stand_in("generation.test_utils", GenerationTesterMixin=type("GenerationTesterMixin", (), {}))
        _stand_in("utils.test_configuration_utils", config_common_kwargs=CONFIG_FIELDS)
    return importlib.import_module(f"{PACKAGE}.{name}")


def _stand_in(name: str, **contents):
    """A module in place of one that is missing."""
    parent, _, _ = name.rpartition(".")
    sys.modules[f"{PACKAGE}.{parent}"] = types.ModuleType(f"{PACKAGE}.{parent}")
    module = sys.modules[f"{PACKAGE}.{name}"] = types.ModuleType(f"{PACKAGE}.{name}")
    vars(module).update(contents)


def _folder() -> Path:
    """Where the tests of the installed version are: tests/, and site/ with what they import."""
    folder = CACHE / f"transformers-{transformers.__version__}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            try:
                _fetch(folder)
            except subprocess.CalledProcessError as error:
                why = (error.stderr or "").strip().splitlines()[-1:]
                pytest.skip(f"transformers' tests cannot be downloaded: {' '.join(why)}", allow_module_level=True)
    return folder


def _fetch(folder: Path):
    version = transformers.__version__
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        local = Path(temporary)
        sdist = ["--no-binary=transformers", "--no-build-isolation", f"transformers=={version}"]
        _pip("download", "--no-deps", "--dest", local, *sdist)
        _pip("install", "--no-deps", "--target", local / "site", PARAMETERIZED)
        with tarfile.open(local / f"transformers-{version}.tar.gz") as archive:
            top = f"transformers-{version}/"
            expected = [first for first in archive.getmembers() if first.name.startswith(f"{top}tests/")]
            archive.extractall(local / "sdist", expected, filter="data")
        tests = local / "sdist" / top / "tests"
        (tests / "__init__.py").touch()  # the suites look for it
        tests.rename(local / "tests")
        for leftover in [*local.glob("*.tar.gz")]:
            leftover.unlink()
        whole = Path(tempfile.mkdtemp(dir=folder.parent))
        for name in ("tests", "site"):
            (local / name).rename(whole / name)
        whole.rename(folder)


def _pip(*arguments):
    command = [
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "--retries",
        "1",
        "--timeout",
        "20",
    ]
    subprocess.run([*command, *map(str, arguments)], check=True, capture_output=True, text=True)


def not_applicable(reasons: dict[str, str], suite_class: type):
    """Decorates a class of tests: those named in `reasons` are skipped with the reason that stands there."""

    def decorate(cls):
        for name, reason in reasons.items():
            actual = [each for each in dir(suite_class) if each == name or each.startswith(f"{name}_")]
            if not actual:
                raise AttributeError(f"{suite_class.__name__} has no test {name}")
            for each in actual:
                setattr(cls, each, pytest.mark.skip(reason=reason)(lambda self: None))
        return cls

    return decorate
