"""Files of other programs for `convert`: damaged ones end in an error with a clear message and without leftovers."""

import io
import json
import random
import tarfile
import zipfile
from functools import cache
from pathlib import Path

from golden_files import GOLDEN, TESTS

from elmo_hf import conversion
from fuzz.damage import damaged, damaged_json

HDF5 = ("plain", "word-input", "no-highway", "one-layer")
# Folders of the other formats, and their files that the conversion does not read.
FOLDERS = [f"tensorflow/{name}" for name in ("two-layers", "word-input", "one-direction", "hub")]
FOLDERS += [f"many_langs/{name}" for name in ("both", "characters", "words")]
NOT_READ = {"expected.npz", "layers.npz"}
HOSTILE_NAMES = ["../outside", "/tmp/fuzz-outside", "a/../../outside", "", ".", "a\0b", "x" * 400]


@cache
def _files(name: str) -> dict[str, bytes]:
    """The undamaged files of a source by their path in its folder."""
    if name in HDF5:
        checkpoint = GOLDEN[name]
        paths = {"options.json": checkpoint.options, "weights.hdf5": checkpoint.weights}
        return {
            path_in_source: path.read_bytes()
            for path_in_source, path in {**paths, "vocab.txt": checkpoint.vocabulary}.items()
        }
    folder = TESTS / "conversion" / name
    if name == "allennlp":
        with tarfile.open(folder / "model.tar.gz") as archive:
            return {
                member.name: archive.extractfile(member).read() for member in archive.getmembers() if member.isfile()
            }
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in NOT_READ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def trial(rng: random.Random, folder: Path) -> str:
    """Converts damaged files, in a folder or an archive."""
    name = rng.choice([*HDF5, *FOLDERS, "allennlp"])
    files = dict(_files(name))
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        _break(rng, files)
    source = folder / "source"
    source.mkdir()
    if rng.random() < 0.4:
        sources, vocabulary = [source / "packed"], None
        packed = rng.choice([_zip, _tar])(rng, files)
        sources[0].write_bytes(damaged(rng, packed) if rng.random() < 0.6 else packed)
    else:
        for path_in_source, content in files.items():
            (source / path_in_source).parent.mkdir(parents=True, exist_ok=True)
            (source / path_in_source).write_bytes(content)
        sources = [source]
        vocabulary = source / "vocab.txt" if name in HDF5 and "vocab.txt" in files else None
        if vocabulary and {"options.json", "weights.hdf5"} <= files.keys():
            sources = [source / "options.json", source / "weights.hdf5"]
    try:
        conversion.convert(*sources, output_dir=folder / "model", vocabulary=vocabulary)
    except (ValueError, OSError) as error:
        left = [path.name for path in folder.iterdir() if path.name != "source"]
        assert not left, f"something was left behind: {left}"
        message = str(error)
        assert "elmo_hf_" not in message and "weights_only" not in message and len(message) < 5000, message
        return message
    assert (folder / "model" / "model.safetensors").exists()
    assert {path.name for path in folder.iterdir()} == {"source", "model"}
    return "accepted"


def _break(rng: random.Random, files: dict[str, bytes]):
    if not files:
        return
    path_in_source = rng.choice(sorted(files))
    if rng.random() < 0.1:
        del files[path_in_source]
    elif path_in_source.endswith(".json") and rng.random() < 0.8:
        try:
            files[path_in_source] = damaged_json(rng, json.loads(files[path_in_source]))
        except ValueError:  # broken before
            files[path_in_source] = damaged(rng, files[path_in_source])
    else:
        files[path_in_source] = damaged(rng, files[path_in_source])


def _named(rng: random.Random, files: dict[str, bytes]) -> list[tuple[str, bytes]]:
    members = list(files.items())
    if members and rng.random() < 0.2:
        members.append((rng.choice([*HOSTILE_NAMES, members[0][0]]), rng.choice(members)[1]))
    return members


def _zip(rng: random.Random, files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    way = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(packed, "w", way) as archive:
        for path_in_source, content in _named(rng, files):
            archive.writestr(zipfile.ZipInfo(path_in_source), content, way)
    return packed.getvalue()


def _tar(rng: random.Random, files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=rng.choice(["w", "w:gz", "w:xz", "w:bz2"])) as archive:
        for path_in_source, content in _named(rng, files):
            member = tarfile.TarInfo(path_in_source.replace("\0", ""))
            member.size = len(content)
            if rng.random() < 0.03:
                member.type, member.linkname = (
                    rng.choice([tarfile.SYMTYPE, tarfile.LNKTYPE]),
                    rng.choice(HOSTILE_NAMES),
                )
                member.linkname = member.linkname.replace("\0", "")
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
