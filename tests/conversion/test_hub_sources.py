"""Repositories on the Hub as sources of original files, through the real client and a Hub on loopback."""

import hashlib
import json

import pytest
from golden_files import GOLDEN, TESTS
from local_hub import File, LocalHub
from remote import run_python

PLAIN = GOLDEN["plain"]
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 374434792\n"
RELEASED = "a6b92b9ccbb13fe489faacd2221c795d4bebe84b75f8aded9d85ea464fa5c994"
CONVERT = """
import json, os, sys
from elmo_hf.conversion import convert
os.chdir(folder)
results = {}
for name, arguments in jobs.items():
    said = []
    try:
        model = convert(*arguments, output_dir=f"out-{name}", say=said.append)
        results[name] = [said[0], model.config.card_data["origin"]]
    except ValueError as error:
        results[name] = str(error)
print(json.dumps(results))
"""


def add(hub, repo_id, files):
    """A repository with files {path: content}."""
    from local_hub import Repo

    repo = Repo("model", repo_id, private=False)
    repo.commit("main", {path: File(data, lfs=path.endswith((".hdf5", ".gz"))) for path, data in files.items()})
    hub.repos["model", repo_id] = repo


@pytest.fixture(scope="module")
def results(tmp_path_factory, converted):
    """What conversions of several repositories say, in one process; and the requests that the Hub got."""
    original = {"options.json": PLAIN.options.read_bytes(), "weights.hdf5": PLAIN.weights.read_bytes()}
    own = {path.name: path.read_bytes() for path in converted(PLAIN).iterdir() if path.is_file()}
    archive = (TESTS / "conversion" / "allennlp" / "model.tar.gz").read_bytes()
    folder = tmp_path_factory.mktemp("hub")
    with LocalHub() as hub:
        add(hub, "lysandre/elmo", {**original, "README.md": b"# ELMo", "large.bin": bytes(1000)})
        add(hub, "nlpl/217", {f"217/{name}": content for name, content in original.items()})
        add(hub, "allenai/tagger", {"model.tar.gz": archive, "README.md": b"# Tagger", "config.json": b"{}"})
        add(hub, "me/my-elmo", own)
        add(hub, "me/pointer", {**original, "weights.hdf5": POINTER % RELEASED.encode()})
        add(hub, "me/broken", {**original, "options.json": b"{,"})
        jobs = {
            "original": ["lysandre/elmo"],
            "subfolder": ["nlpl/217"],
            "archive": ["allenai/tagger"],
            "own": ["me/my-elmo"],
            "pointer": ["me/pointer"],
            "broken": ["me/broken"],
            "missing": ["nobody/nothing"],
        }
        first = run_python(CONVERT, hub.env, with_package=True, folder=str(folder), jobs=jobs)
        offline = {"cached": ["lysandre/elmo"], "not cached": ["me/another"]}
        unreachable = {**hub.env, "HF_HUB_OFFLINE": "1"}
        second = run_python(CONVERT, unreachable, with_package=True, folder=str(folder), jobs=offline)
        log = [path for _, path in hub.log]
    last = [text.strip().splitlines()[-1] for text in (first, second)]
    return {**json.loads(last[0]), **json.loads(last[1]), "log": log, "folder": folder}


def test_a_repository_with_options_and_weights(results, converted):
    said, origin = results["original"]
    assert said.startswith("found bilm-tf's options.json and HDF5 weights: options.json, weights.hdf5 (25 datasets")
    assert "`lysandre/elmo`" in origin
    weights = [folder / "model.safetensors" for folder in (results["folder"] / "out-original", converted(PLAIN))]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert not [path for path in results["log"] if "large.bin" in path]  # only what is needed is downloaded


def test_a_model_in_a_folder_of_a_repository_and_an_archive_in_one(results):
    assert "25 datasets" in results["subfolder"][0]
    assert results["archive"][0].startswith("found an ELMo in a model of AllenNLP: weights.th")


def test_a_repository_that_needs_no_conversion(results):
    assert results["own"].startswith("The repository me/my-elmo holds a model of transformers")
    assert "AutoModel.from_pretrained" in results["own"]


def test_messages_name_the_repository(results):
    assert results["broken"].startswith("me/broken/options.json is not JSON")
    assert results["missing"].startswith("There is no file or folder nobody/nothing, and no public repository")
    assert results["pointer"].startswith("me/pointer/weights.hdf5 is a Git LFS pointer and not the file itself")
    assert "374,434,792 bytes, the released 2x4096_512_2048cnn_2xhighway" in results["pointer"]


def test_without_a_connection_the_cache_is_used(results):
    assert "25 datasets" in results["cached"][0]
    assert results["not cached"].startswith("There is no file or folder me/another, and the Hub cannot be asked")


# Pointers and releases


def test_a_pointer_beside_options_and_in_place_of_an_archive(tmp_path, command):
    pointer = POINTER % (b"0" * 64)
    (tmp_path / "weights.hdf5").write_bytes(pointer)
    code, _, err = command("convert", PLAIN.options, tmp_path / "weights.hdf5", tmp_path / "out")
    assert code == 1 and "weights.hdf5 is a Git LFS pointer" in err and "git lfs pull" in err and "released" not in err
    (tmp_path / "model.zip").write_bytes(pointer)
    code, _, err = command("convert", tmp_path / "model.zip", tmp_path / "out")
    assert code == 1 and "model.zip is a Git LFS pointer" in err
    (tmp_path / "options.json").write_bytes(PLAIN.options.read_bytes())
    code, _, err = command("convert", tmp_path, tmp_path.parent / "out")
    assert code == 1 and "weights.hdf5 is a Git LFS pointer" in err


def test_released_weights_are_named(tmp_path, monkeypatch, command):
    from elmo_hf.conversion import known_files

    content = PLAIN.weights.read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    assert set(known_files.RELEASED) == {54_402_456, 374_434_792}
    monkeypatch.setitem(known_files.RELEASED, len(content), (checksum, "2x12_6_test"))
    code, out, _ = command("convert", PLAIN.options, PLAIN.weights, tmp_path / "a")
    assert code == 0 and "the released 2x12_6_test" in out
    assert "released weights 2x12_6_test of Peters et al." in (tmp_path / "a" / "README.md").read_text()
    monkeypatch.setitem(known_files.RELEASED, len(content), ("0" * 64, "2x12_6_test"))
    code, out, _ = command("convert", PLAIN.options, PLAIN.weights, tmp_path / "b")
    assert code == 0 and "the released" not in out
    assert "released weights" not in (tmp_path / "b" / "README.md").read_text()
    _, warning = known_files.released_weights(PLAIN.weights)
    assert "has the size of the released 2x12_6_test, but other content" in warning


def test_only_files_of_a_released_size_are_hashed(monkeypatch):
    from elmo_hf.conversion import known_files

    monkeypatch.setattr(known_files.hashlib, "file_digest", None)
    assert known_files.released_weights(PLAIN.weights) == (None, None)


# The command line


def test_a_missing_output_folder_is_said(tmp_path, command):
    for arguments in (
        (PLAIN.options, PLAIN.weights),
        ("options.json", "weights.hdf5"),
        ("model.zip", "other.zip"),
    ):
        code, _, err = command("convert", *arguments)
        text = " ".join(err.replace("│", " ").split())
        assert code == 2 and "OUTPUT_DIR is missing: the last argument" in text and "my-elmo" in text
    code, _, err = command("convert", "lysandre/elmo")
    assert code == 2 and "1 arguments were given" in err
