"""The tools of a release: tag, version and changelog agree; workflows are checked and call existing targets."""

import importlib.util
import re
import shutil

import pytest
from golden_files import TESTS

from elmo_hf import __version__

ROOT = TESTS.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGELOG = "# Changelog\n\n## Unreleased\n\n- b\n\n## 0.2.0 - 2026-12-01\n\n- a\n\n## 0.1.0 - 2026-11-19\n\nFirst.\n"


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, TESTS / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = load_tool("release")
check_workflows = load_tool("check_workflows")


def test_the_version_is_written_once():
    assert release.package_version() == __version__
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_notes_are_the_section_of_the_version():
    assert release.release_notes("0.2.0", CHANGELOG) == "- a\n"
    assert release.release_notes("0.1.0", CHANGELOG) == "First.\n"
    with pytest.raises(ValueError, match="has no section '## 0.3.0 - YYYY-MM-DD'"):
        release.release_notes("0.3.0", CHANGELOG)


def test_a_wrong_tag_is_refused():
    with pytest.raises(ValueError, match=f"The tag is v9.9.9, but elmo_hf/version.py says {__version__}"):
        release.check_tag("v9.9.9")


def test_the_changelog_has_the_version():
    release.check_tag(f"v{__version__}")


def test_workflows_call_existing_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    called = {name for path in WORKFLOWS for name in re.findall(r"\bmake ([a-z-]+)", path.read_text(encoding="utf-8"))}
    assert {"lint", "test", "test-slow", "docs", "fuzz", "release-check"} <= called <= targets


def test_actions_are_pinned_to_commits():
    for path in WORKFLOWS:
        for action in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), f"{path.name}: {action}"


def test_the_check_of_workflows_finds_a_mistake(tmp_path, monkeypatch, capfd):
    """With a program that reports every file, and without any program."""
    program = tmp_path / "actionlint"
    program.write_text('#!/bin/sh\necho "found: $1"\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(check_workflows.shutil, "which", lambda name, path=None: str(program))
    if shutil.which("sh"):
        assert check_workflows.main() == 1
        assert "found: " in capfd.readouterr().out
    monkeypatch.setattr(check_workflows.shutil, "which", lambda name, path=None: None)
    monkeypatch.delenv("CI", raising=False)
    assert check_workflows.main() == 0
    assert "the workflows are not checked" in capfd.readouterr().err
    monkeypatch.setenv("CI", "true")
    assert check_workflows.main() == 1
