"""Outside files for `convert`: broken options, weights and archives are refused in a sentence, and nothing is left."""

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
# Folders of the other formats, with what the conversion does not read.
FOLDERS = [f"tensorflow/{name}" for name in ("two-layers", "word-input", "one-direction", "hub")]
FOLDERS += [f"many_langs/{name}" for name in ("both", "characters", "words")]
NOT_READ = {"expected.npz", "layers.npz"}
HOSTILE_NAMES = ["../outside", "/tmp/fuzz-outside", "a/../../outside", "", ".", "a\0b", "x" * 400]


@cache
def _files(name: str) -> dict[str, bytes]:
    """The files of one source, whole, by their place in its folder."""
    if name in HDF5:
        checkpoint = GOLDEN[name]
        paths = {"options.json": checkpoint.options, "weights.hdf5": checkpoint.weights}
        return {place: path.read_bytes() for place, path in {**paths, "vocab.txt": checkpoint.vocabulary}.items()}
    folder = TESTS / "conversion" / name
    if name == "allennlp":
        with tarfile.open(folder / "model.tar.gz") as archive:
            return {one.name: archive.extractfile(one).read() for one in archive.getmembers() if one.isfile()}
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in NOT_READ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def trial(rng: random.Random, folder: Path) -> str:
    name = rng.choice([*HDF5, *FOLDERS, "allennlp"])
    files = dict(_files(name))
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        _break(rng, files)
    given = folder / "given"
    given.mkdir()
    if rng.random() < 0.4:
        sources, vocabulary = [given / "packed"], None
        packed = rng.choice([_zip, _tar])(rng, files)
        sources[0].write_bytes(damaged(rng, packed) if rng.random() < 0.6 else packed)
    else:
        for place, content in files.items():
            (given / place).parent.mkdir(parents=True, exist_ok=True)
            (given / place).write_bytes(content)
        sources = [given]
        vocabulary = given / "vocab.txt" if name in HDF5 and "vocab.txt" in files else None
        if vocabulary and {"options.json", "weights.hdf5"} <= files.keys():
            sources = [given / "options.json", given / "weights.hdf5"]
    try:
        conversion.convert(*sources, output_dir=folder / "model", vocabulary=vocabulary)
    except (ValueError, OSError) as error:
        left = [path.name for path in folder.iterdir() if path.name != "given"]
        assert not left, f"something was left behind: {left}"
        return str(error)
    assert (folder / "model" / "model.safetensors").exists()
    assert {path.name for path in folder.iterdir()} == {"given", "model"}
    return "accepted"


def _break(rng: random.Random, files: dict[str, bytes]):
    if not files:
        return
    place = rng.choice(sorted(files))
    if rng.random() < 0.1:
        del files[place]
    elif place.endswith(".json") and rng.random() < 0.8:
        try:
            files[place] = damaged_json(rng, json.loads(files[place]))
        except ValueError:  # broken before
            files[place] = damaged(rng, files[place])
    else:
        files[place] = damaged(rng, files[place])


def _named(rng: random.Random, files: dict[str, bytes]) -> list[tuple[str, bytes]]:
    members = list(files.items())
    if members and rng.random() < 0.2:
        members.append((rng.choice([*HOSTILE_NAMES, members[0][0]]), rng.choice(members)[1]))
    return members


def _zip(rng: random.Random, files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    way = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(packed, "w", way) as archive:
        for place, content in _named(rng, files):
            archive.writestr(zipfile.ZipInfo(place), content, way)
    return packed.getvalue()


def _tar(rng: random.Random, files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=rng.choice(["w", "w:gz", "w:xz", "w:bz2"])) as archive:
        for place, content in _named(rng, files):
            member = tarfile.TarInfo(place.replace("\0", ""))
            member.size = len(content)
            if rng.random() < 0.03:
                member.type, member.linkname = (
                    rng.choice([tarfile.SYMTYPE, tarfile.LNKTYPE]),
                    rng.choice(HOSTILE_NAMES),
                )
                member.linkname = member.linkname.replace("\0", "")
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
