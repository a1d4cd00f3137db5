"""Files and folders that are there completely or not at all."""

import os

import pytest
from fork_server import run_forked

from elmo_hf.atomic_files import MANIFEST, atomic_folder, manifest_problem, write_atomically, write_manifest


def test_a_file_has_the_default_permissions_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "vectors[1].hdf5"
    (tmp_path / f".{path.name}.elsewhere-1.tmp").write_text("what a killed process has left")

    def write(temporary):
        temporary.write_bytes(b"new")
        temporary.chmod(0o600)

    write_atomically(path, write)
    (tmp_path / "other").touch()
    assert path.read_bytes() == b"new" and path.stat().st_mode == (tmp_path / "other").stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["other", path.name]


def test_an_error_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(temporary):
        temporary.write_text("half")
        raise ValueError

    with pytest.raises(ValueError):
        write_atomically(path, fail)
    assert os.listdir(tmp_path) == ["file"] and path.read_text() == "old"


def test_folders(tmp_path):
    path = tmp_path / "a" / "folder"
    with pytest.raises(ValueError), atomic_folder(path) as place:
        (place / "half").touch()
        raise ValueError
    assert os.listdir(path.parent) == []
    path.mkdir()
    with atomic_folder(path) as place:
        (place / "old").touch()
    with pytest.raises(OSError), atomic_folder(path) as place:
        pass
    assert os.listdir(path) == ["old"]
    with atomic_folder(path, replace=True) as place:
        (place / "new").touch()
    assert os.listdir(path) == ["new"] and path.stat().st_mode == path.parent.stat().st_mode
    assert os.listdir(path.parent) == ["folder"]


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path):
    code = "import os, sys; from elmo_hf.atomic_files import atomic_folder\n"
    code += "with atomic_folder(sys.argv[1]): os._exit(1)"
    assert run_forked(["-c", code, tmp_path / "folder"]).returncode == 1
    assert len(os.listdir(tmp_path)) == 1
    with atomic_folder(tmp_path / "folder"):
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == ["folder"]


def test_manifests(tmp_path):
    assert manifest_problem(tmp_path) == "manifest.json is missing"
    (tmp_path / "a").write_text("text")
    write_manifest(tmp_path)
    (tmp_path / "b").write_text("more")
    write_manifest(tmp_path, ["b"])
    assert manifest_problem(tmp_path) is None
    (tmp_path / "b").write_text("mora")
    assert manifest_problem(tmp_path) == "the checksum of b is wrong"
    (tmp_path / "b").write_text("mor")
    assert manifest_problem(tmp_path) == "b has 3 bytes instead of 4"
    (tmp_path / "b").unlink()
    assert manifest_problem(tmp_path) == "b is missing"
    (tmp_path / MANIFEST).write_text("[]")
    assert manifest_problem(tmp_path) == "manifest.json cannot be read"
