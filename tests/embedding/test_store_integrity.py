"""Damage and repair of stores: --verify, incomplete settings, writers side by side, stores of former versions."""

import hashlib
import json
import shutil
from random import Random

import h5py
import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from elmo_hf import embed_corpus, open_store
from elmo_hf.embedding.shard_writer import ShardWriter
from elmo_hf.embedding.shards import BrokenShard

FORMATS = ("safetensors", "parquet")
LAYOUTS = ("bilm-hdf5", "allennlp-hdf5")
SETTINGS = {"part_sentences": 4, "layers": "all"}


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("format", FORMATS)
def test_verify_writes_damaged_shards_again(format, embedder, sentences, tmp_path):
    """A flipped bit in the vectors; without `verify` only headers and sizes are read."""
    store = tmp_path / "store"
    embed_corpus(embedder, sentences, store, format, **SETTINGS)
    whole = contents(store)
    damaged = sorted(store.glob("part-*"))[1:6]
    for path, share in zip(damaged, (0.3, 0.4, 0.5, 0.6, 0.2), strict=True):
        content = bytearray(path.read_bytes())
        content[int(share * len(content))] ^= 4
        path.write_bytes(content)
    damaged[4].write_bytes(whole[damaged[4].name][:-20])
    with pytest.raises(ValueError, match=r"part-00000\d.\w+ is damaged.* repeat the command"):
        embed_corpus(embedder, sentences, store, format, **SETTINGS)
    summary = embed_corpus(embedder, sentences, store, format, verify=True, **SETTINGS)
    assert (summary.damaged, summary.written, summary.existing) == (5, 5, 3) and contents(store) == whole
    summary = embed_corpus(embedder, sentences, store, format, verify=True, **SETTINGS)
    assert (summary.damaged, summary.existing) == (0, 8)


def test_verify_finds_changed_words(embedder, sentences, tmp_path):
    """They have no checksums, and are compared with the input."""
    store = tmp_path / "store"
    embed_corpus(embedder, sentences, store, **SETTINGS)
    path = store / "part-000000.safetensors"
    content = path.read_bytes()
    assert content.count(b"mat") >= 2
    path.write_bytes(content.replace(b"mat", b"mad"))
    assert embed_corpus(embedder, sentences, store, verify=True, **SETTINGS).damaged == 1
    assert path.read_bytes() == content


def test_verify_does_not_overwrite_another_input(embedder, sentences, tmp_path):
    embed_corpus(embedder, sentences, tmp_path / "store", **SETTINGS)
    before = contents(tmp_path / "store")
    with pytest.raises(ValueError, match="was made from other sentences"):
        embed_corpus(embedder, ["Other .", *sentences], tmp_path / "store", verify=True, **SETTINGS)
    assert contents(tmp_path / "store") == before


def test_verify_at_the_command_line(command, model_folder, text_file, tmp_path):
    arguments = ("embed", model_folder, text_file, tmp_path / "store", "--part-sentences", 4, "--processes", 1)
    assert command(*arguments)[0] == 0
    path = tmp_path / "store" / "part-000002.safetensors"
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    code, out, _ = command(*arguments, "--verify")
    assert code == 0 and "1 of 8 parts made, of which 1 had been damaged, 7 there before and intact" in out


@pytest.mark.parametrize("format", [*FORMATS, *LAYOUTS])
def test_verify_notices_every_flipped_bit(format, embedder, sentences, tmp_path):
    """Also those in metadata that our reader does not use, but another one may."""
    store = tmp_path / "store"
    embed_corpus(embedder, sentences[:6], store, format, pooling="mean")
    path = store if format in LAYOUTS else next(store.glob("part-*"))
    content, random = path.read_bytes(), Random(0)
    for place in random.sample(range(len(content)), 12):
        damaged = bytearray(content)
        damaged[place] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        try:
            summary = embed_corpus(embedder, sentences[:6], store, format, pooling="mean", verify=True)
        except BrokenShard as error:  # of an HDF5 file that cannot be recognised any more
            assert format in LAYOUTS and "Remove" in str(error).replace("remove", "Remove"), error
            path.unlink()
            embed_corpus(embedder, sentences[:6], store, format, pooling="mean")
        else:
            assert (summary.damaged, summary.written, summary.finished) == (1, 1, True), (place, len(content))
        assert path.read_bytes() == content


@pytest.mark.parametrize("format", FORMATS)
def test_another_size_is_noticed_without_verify(format, embedder, sentences, tmp_path):
    """The same content, written by another program."""
    embed_corpus(embedder, sentences, tmp_path / "store", format, **SETTINGS)
    path = sorted((tmp_path / "store").glob("part-*"))[2]
    size = path.stat().st_size
    if format == "parquet":
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pq.read_table(path), path, compression="none")
    else:
        with safe_open(path, "pt") as file:
            tensors, notes = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()
        save_file(tensors, path, {**notes, "comment": "copied"})
    complaint = f"part-000002.* is damaged: it has {path.stat().st_size:,} bytes instead of {size:,}. Remove the file"
    for call in (
        lambda: open_store(tmp_path / "store")[:],
        lambda: embed_corpus(embedder, sentences, tmp_path / "store", format, **SETTINGS),
    ):
        with pytest.raises(BrokenShard, match=complaint):
            call()


@pytest.mark.parametrize("when", ["finished", "unfinished", "after the settings"])
def test_records_of_shards(when, embedder, sentences, tmp_path):
    """Hidden files while the store grows, an entry of the settings in the end."""
    store, whole = tmp_path / "store", tmp_path / "whole"
    embed_corpus(embedder, sentences, whole, **SETTINGS)
    settings = json.loads((whole / "_store.json").read_text())
    for path, (size, checksum, digest) in zip(sorted(whole.glob("part-*")), settings["checksums"], strict=True):
        content = path.read_bytes()
        assert (size, checksum) == (len(content), hashlib.blake2b(content, digest_size=16).hexdigest())
        with safe_open(path, "pt") as file:
            assert json.loads(file.metadata()["elmo_hf_part"])["digest"] == digest
    assert {path.name for path in whole.iterdir()} == {"_store.json", *(f"part-{n:06d}.safetensors" for n in range(8))}
    if when == "unfinished":
        embed_corpus(embedder, sentences, store, shard=(2, 2), **SETTINGS)
        assert len(list(store.glob(".part-*.checksum"))) == 4
        path = store / "part-000003.safetensors"
        path.write_bytes(path.read_bytes()[:-4] + b"\0\1\2\3")
        assert embed_corpus(embedder, sentences, store, shard=(2, 2), verify=True, **SETTINGS).damaged == 1
        embed_corpus(embedder, sentences, store, **SETTINGS)
    elif when == "after the settings":  # killed before the files of the records were removed
        shutil.copytree(whole, store)
        (store / ".part-000001.safetensors.checksum").write_text(json.dumps(settings["checksums"][1]))
        embed_corpus(embedder, sentences, store, **SETTINGS)
    else:
        shutil.copytree(whole, store)
        (store / "part-000005.safetensors").unlink()
        assert embed_corpus(embedder, sentences, store, verify=True, **SETTINGS).written == 1
    assert contents(store) == contents(whole)


@pytest.mark.parametrize("format", FORMATS)
def test_a_store_without_records(format, embedder, sentences, tmp_path):
    """Earlier versions wrote none: shards are verified by their content, and get no records until they are written."""
    store = tmp_path / "store"
    embed_corpus(embedder, sentences, store, format, **SETTINGS)
    settings = json.loads((store / "_store.json").read_text())
    whole = settings.pop("checksums")
    (store / "_store.json").write_text(json.dumps(settings))
    assert len(open_store(store)) == len(sentences)
    assert embed_corpus(embedder, sentences, store, format, verify=True, **SETTINGS).existing == 8
    assert "checksums" not in json.loads((store / "_store.json").read_text())
    path = sorted(store.glob("part-*"))[4]
    path.write_bytes(path.read_bytes()[:-50])
    assert embed_corpus(embedder, sentences, store, format, verify=True, **SETTINGS).damaged == 1
    records = json.loads((store / "_store.json").read_text())["checksums"]
    assert records == [None] * 4 + [whole[4]] + [None] * 3
    for records in ([1], [None] * 7, [["a"] * 3] * 8, "many"):
        (store / "_store.json").write_text(json.dumps(settings | {"checksums": records}))
        with pytest.raises(ValueError, match="_store.json is damaged: `checksums` is not a list"):
            open_store(store)


def test_an_hdf5_file_without_a_checksum_cannot_be_verified(embedder, tmp_path):
    """Earlier versions wrote none."""
    path = tmp_path / "store.hdf5"
    embed_corpus(embedder, ["a b"], path)
    with h5py.File(path, "r+") as file:
        settings = json.loads(file.attrs["elmo_hf_store"])
        del settings["checksum"]
        file.attrs["elmo_hf_store"] = json.dumps(settings)
        vectors = file["0"][()]
    # h5py leaves the old attribute in free space.
    path.write_bytes(path.read_bytes().replace(b'"checksum": ', b'"-"       : '))
    assert embed_corpus(embedder, ["a b"], path).finished and (open_store(path)[0] == vectors).all()
    with pytest.raises(BrokenShard, match=r"store.hdf5 has no checksum: .* an earlier version .* remove this one"):
        embed_corpus(embedder, ["a b"], path, verify=True)


def test_verify_does_not_overwrite_the_hdf5_file_of_another_command(embedder, tmp_path):
    path = tmp_path / "store.hdf5"
    embed_corpus(embedder, ["a b"], path)
    with pytest.raises(ValueError, match="was made from other sentences"):
        embed_corpus(embedder, ["a c"], path, verify=True)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(BrokenShard, match=r"store.hdf5 is damaged: .* cannot be told whether this command wrote it"):
        embed_corpus(embedder, ["a c"], path, verify=True)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"parts": ...}, r"_store.json is damaged: `parts` is missing"),
        ({"sentences": ...}, r"_store.json is damaged: `sentences` is missing"),
        ({"threads": ...}, r"_store.json is damaged: `threads` is missing"),
        ({"parts": "many"}, r"`parts` and `sentences` do not fit"),
        ({"parts": None}, r"`parts` and `sentences` do not fit"),
        ({"sentences": 7}, r"`parts` and `sentences` do not fit"),
        ({"format": "csv"}, r"does not describe a store of vectors in safetensors or parquet"),
    ],
)
def test_incomplete_settings_are_a_sentence(change, complaint, embedder, sentences, tmp_path):
    embed_corpus(embedder, sentences, tmp_path / "store", **SETTINGS)
    path = tmp_path / "store" / "_store.json"
    settings = json.loads(path.read_text()) | change
    path.write_text(json.dumps({name: value for name, value in settings.items() if value is not ...}))
    with pytest.raises(ValueError, match=complaint):
        open_store(tmp_path / "store")
    with pytest.raises(ValueError, match=complaint):
        embed_corpus(embedder, sentences, tmp_path / "store", **SETTINGS)


def test_other_readers_see_the_shards_only(embedder, sentences, tmp_path):
    embed_corpus(embedder, sentences, tmp_path / "store", "parquet", pooling="mean", part_sentences=4)
    dataset = pytest.importorskip("pyarrow.dataset").dataset(
        tmp_path / "store", format="parquet"
    )  # as pandas opens it
    assert dataset.to_table(columns=["text"])["text"].to_pylist() == sentences


@pytest.mark.parametrize("finished", [True, False])
def test_a_store_of_a_former_version(finished, embedder, sentences, tmp_path):
    """Its settings have the name store.json, and keep it."""
    store = tmp_path / "store"
    embed_corpus(embedder, sentences, store, shard=None if finished else (1, 2), **SETTINGS)
    (store / "_store.json").rename(store / "store.json")
    assert embed_corpus(embedder, sentences, store, **SETTINGS).finished
    assert len(open_store(store)) == len(sentences) and not (store / "_store.json").exists()


@pytest.mark.parametrize("format", ["safetensors", "parquet", "allennlp-hdf5"])
def test_lone_surrogates_are_the_same_in_every_format(format, embedder, tmp_path):
    """What is not Unicode is stored as U+FFFD."""
    sentences = ["a \ud800 b\udc00", ["c\ud800", "d"], "plain"]
    embed_corpus(embedder, sentences, tmp_path / "store", format)
    store = open_store(tmp_path / "store")
    assert [store.text(number) for number in range(3)] == ["a \ufffd b\ufffd", "c\ufffd d", "plain"]
    assert store.words(0) == ["a", "\ufffd", "b\ufffd"] and store.words(1) == ["c\ufffd", "d"]
    if format != "allennlp-hdf5":
        assert embed_corpus(embedder, sentences, tmp_path / "store", format, verify=True).existing == 1


def test_the_name_decides_between_file_and_folder(embedder, tmp_path):
    for name in ("a.h5", "b.hdf5", "c.H5"):
        embed_corpus(embedder, ["a b"], tmp_path / name)
        assert (tmp_path / name).is_file() and len(open_store(tmp_path / name)) == 1
    with pytest.raises(
        ValueError, match=r"Invalid `output`: .*d.h5 with `format` 'safetensors'. Expected a name without"
    ):
        embed_corpus(embedder, ["a b"], tmp_path / "d.h5", "safetensors")
    assert not (tmp_path / "d.h5").exists()


@pytest.mark.parametrize("step", ["write", "write_file"])
def test_two_writers_of_one_hdf5_file(step, embedder, sentences, tmp_path, monkeypatch):
    """The slower one finds the file finished, and its shards removed."""
    output = tmp_path / "vectors.hdf5"
    embed_corpus(embedder, sentences, tmp_path / "expected.hdf5", **SETTINGS)
    from elmo_hf.embedding import hdf5_layouts

    owner = ShardWriter if step == "write" else hdf5_layouts
    original = getattr(owner, step)

    def overtaken(*arguments):
        monkeypatch.setattr(owner, step, original)
        embed_corpus(embedder, sentences, output, **SETTINGS)
        return original(*arguments)

    monkeypatch.setattr(owner, step, overtaken)
    with pytest.raises(ValueError, match=r"vectors.hdf5 was finished by another process"):
        embed_corpus(embedder, sentences, output, **SETTINGS)
    assert output.read_bytes() == (tmp_path / "expected.hdf5").read_bytes()
    assert embed_corpus(embedder, sentences, output, **SETTINGS).finished
