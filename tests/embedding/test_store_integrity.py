"""Damage and repair of stores: --verify, incomplete settings, writers side by side, stores of former versions."""

import json

import pytest

from elmo_hf import embed_corpus, open_store
from elmo_hf.embedding.shard_writer import ShardWriter

FORMATS = ("safetensors", "parquet")
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


def test_verify_needs_checksums(command, model_folder, text_file, embedder, tmp_path):
    with pytest.raises(ValueError, match="Invalid `verify`: True with `format` 'bilm-hdf5'.*no checksums"):
        embed_corpus(embedder, ["a"], tmp_path / "store.hdf5", verify=True)
    arguments = ("embed", model_folder, text_file, tmp_path / "store", "--part-sentences", 4, "--processes", 1)
    assert command(*arguments)[0] == 0
    path = tmp_path / "store" / "part-000002.safetensors"
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    code, out, _ = command(*arguments, "--verify")
    assert code == 0 and "1 of 8 parts made, of which 1 had been damaged, 7 there before" in out


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
