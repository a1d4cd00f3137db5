"""Stores: what is written is read back, whoever wrote it wrote the same bytes, and what is wrong is refused."""

import errno
import json
import os
import shutil
import signal
import sys

import h5py
import numpy as np
import pytest
import torch
from golden_files import BATCH_SIZE, GOLDEN
from kill_harness import killed_at_rename
from safetensors.torch import load_file

from elmo_hf import (
    ElmoConfig,
    ElmoEmbedder,
    ElmoModel,
    ElmoTokenizer,
    SentenceSource,
    atomic_files,
    embed_corpus,
    open_store,
)
from elmo_hf.embedding import safetensors_shards
from elmo_hf.embedding.corpus_embedder import explain_full_disk
from elmo_hf.embedding.shard_writer import ShardWriter
from elmo_hf.model.tokenization_elmo import ElmoDictionary

FOLDERS = ("safetensors", "parquet")
FILES = ("bilm-hdf5", "allennlp-hdf5")
SMALL = {"part_sentences": 4, "layers": "all"}


def contents(path):
    """The bytes of all files of a store."""
    if path.is_file():
        return {"file": path.read_bytes()}
    return {one.name: one.read_bytes() for one in path.iterdir()}


@pytest.mark.parametrize("format", [*FOLDERS, *FILES])
def test_write_and_read(format, embedder, sentences, tmp_path):
    expected = embedder.encode(sentences, layers="all")
    summary = embed_corpus(embedder, sentences, tmp_path / "store", format, **SMALL)
    assert summary.finished and summary.written == summary.parts == 8
    assert summary.words == sum(len(sentence.split()) for sentence in sentences)
    store = open_store(tmp_path / "store")
    assert len(store) == len(sentences) and store[1].shape == (3, 0, 16)
    for some in (list(store), store[:], [store[n] for n in range(len(sentences))], store[::-1][::-1]):
        for one, other in zip(some, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(store[-1], store[len(sentences) - 1])
    assert [len(one) for one in (store[3:11], store[5:5], store[:100])] == [8, 0, 30]
    with pytest.raises(IndexError, match="There is no sentence 30"):
        store[30]
    if format != "bilm-hdf5":
        # AllenNLP's file names equal sentences once, by the last of them.
        known = [n for n, one in enumerate(sentences) if format in FOLDERS or one not in sentences[n + 1 :]]
        for number, sentence in ((n, sentences[n]) for n in known):
            assert store.text(number) == sentence and store.words(number) == sentence.split()
    # The same command once more finds everything done and changes nothing.
    before = contents(tmp_path / "store")
    again = embed_corpus(embedder, sentences, tmp_path / "store", format, **SMALL)
    assert (again.written, again.existing, again.finished) == (0, 8, True)
    assert contents(tmp_path / "store") == before and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("format", FOLDERS)
@pytest.mark.parametrize(
    "settings", [{}, {"layers": "all", "pooling": "mean"}, {"layers": 1, "boundaries": True}, {"pooling": "max"}]
)
def test_other_vectors(format, settings, embedder, sentences, tmp_path):
    embed_corpus(embedder, sentences, tmp_path / "store", format, part_sentences=7, **settings)
    expected = embedder.encode(sentences, **settings)
    store = open_store(tmp_path / "store")
    for one, other in zip(store, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(store[9], store[9:10][0])


@pytest.mark.parametrize("format", [*FOLDERS, *FILES])
def test_half_precision_no_sentences_and_long_ones(format, embedder, tmp_path):
    texts = ["One two .", "word " * (10_000 if format == "safetensors" else 1_000)]
    expected = embedder.encode(texts)
    for dtype in ("float16", "bfloat16")[: 2 if format == "safetensors" else 1]:
        embed_corpus(embedder, texts, tmp_path / dtype, format, dtype=dtype)
        for one, exact in zip(open_store(tmp_path / dtype), expected, strict=True):
            assert one.shape == exact.shape
            bound = 1e-3 if dtype == "float16" else 1e-2
            assert np.linalg.norm(one - exact) < bound * np.linalg.norm(exact)
    assert embed_corpus(embedder, [], tmp_path / "none", format).finished
    store = open_store(tmp_path / "none")
    assert len(store) == 0 and list(store) == [] and store[:] == []
    if format != "safetensors":
        with pytest.raises(ValueError, match="Invalid `dtype`: .* Expected float32, float16 for"):
            embed_corpus(embedder, texts, tmp_path / "refused", format, dtype="bfloat16")


def test_words_that_no_file_should_trip_over(embedder, tmp_path):
    lists = [["New York", "a\nb", "", "\ud800x", "/", "."], [], ["\0", "é"]]
    for format in FOLDERS:
        embed_corpus(embedder, lists, tmp_path / format, format)
        store = open_store(tmp_path / format)
        assert store.words(0) == ["New York", "a\nb", "", "\ufffdx", "/", "."]
        assert [store.words(number) for number in (1, 2)] == lists[1:]


@pytest.mark.parametrize("format", [*FOLDERS, "bilm-hdf5"])
def test_shards_processes_and_resumed_runs_write_the_same_bytes(format, model_folder, embedder, sentences, tmp_path):
    settings = {"format": format, "device": "cpu", **SMALL}
    embed_corpus(model_folder, sentences, tmp_path / "whole", **settings)
    expected = contents(tmp_path / "whole")
    for shard in (3, 1, 4, 2):
        summary = embed_corpus(model_folder, sentences, tmp_path / "sharded", shard=(shard, 4), **settings)
        assert summary.written == 2 and summary.finished == (shard == 2)
    assert contents(tmp_path / "sharded") == expected

    def run():
        embed_corpus(model_folder, sentences, tmp_path / "killed", **settings)

    for number, after in ((0, False), (0, True), (1, False), (0, True), (3, False)):
        assert killed_at_rename(run, "/part-", number, after)
    if format in FOLDERS:
        with pytest.raises(ValueError, match="is not finished"):
            open_store(tmp_path / "killed")
    assert killed_at_rename(run, r"/_store\.json$")
    assert killed_at_rename(run, r"/_store\.json$", 0, True)  # before the file of the first one is removed
    if format in FILES:
        assert killed_at_rename(run, "/killed$") and killed_at_rename(run, "/killed$", 0, True)
    run()
    assert contents(tmp_path / "killed") == expected
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "sharded", "killed"}
    if format == "safetensors":
        embed_corpus(model_folder, sentences, tmp_path / "processes", processes=2, **settings)
        assert contents(tmp_path / "processes") == expected


def test_a_short_text_is_work_for_several_processes(embedder, tmp_path):
    sentences = ["A sentence of thirty letters ."] * 200
    summary = embed_corpus(embedder, sentences, tmp_path / "store", part_characters=31 * 80, pooling="mean")
    assert json.loads((tmp_path / "store" / "_store.json").read_text())["parts"] == [20, 40, 60, 80]
    assert summary.parts == 4 and len(open_store(tmp_path / "store")) == 200


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])  # forked, and started anew
def test_processes_after_this_one_has_computed_with_threads(threads, model_folder, sentences, tmp_path):
    settings = {"device": "cpu", "threads": threads, **SMALL}
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() > 0  # OpenMP's threads wait from here on
        embed_corpus(model_folder, sentences[:8], tmp_path / "alone", processes=1, **settings)
        embed_corpus(model_folder, sentences[:8], tmp_path / "processes", processes=2, **settings)
    finally:
        torch.set_num_threads(before)
    assert contents(tmp_path / "processes") == contents(tmp_path / "alone")


@pytest.mark.skipif(sys.platform != "linux", reason="only forked processes have what this one was told")
def test_a_process_that_dies_costs_the_part_it_was_at(model_folder, sentences, tmp_path, monkeypatch):
    settings = {"device": "cpu", **SMALL}
    embed_corpus(model_folder, sentences, tmp_path / "whole", processes=1, **settings)
    plain, main = ShardWriter.write, os.getpid()

    def deadly(writer, chunk):
        if chunk.number == 2 and os.getpid() != main and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(writer, chunk)

    monkeypatch.setattr(ShardWriter, "write", deadly)
    assert embed_corpus(model_folder, sentences, tmp_path / "killed", processes=2, **settings).finished
    assert (tmp_path / "died").exists()
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")

    def always(writer, chunk):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(ShardWriter, "write", always)
    with pytest.raises(ValueError, match="Processes died 3 times in a row"):
        embed_corpus(model_folder, sentences, tmp_path / "never", processes=2, **settings)


def test_stateful_stores_go_on_with_their_state(embedder, sentences, tmp_path):
    settings = {"stateful": True, "batch_size": 3, "layers": "all", "part_sentences": 7}
    expected = embedder.encode(sentences, layers="all", stateful=True, batch_size=3)
    embed_corpus(embedder, sentences, tmp_path / "whole", **settings)
    for one, other in zip(open_store(tmp_path / "whole"), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)

    def run():
        embed_corpus(embedder, sentences, tmp_path / "killed", **settings)

    for place, number, after in (
        (r"/\.state-", 0, True),
        ("/part-", 1, False),
        (r"/\.state-", 1, True),
        ("/part-", 0, True),
        (r"/_store\.json$", 0, False),
    ):
        assert killed_at_rename(run, place, number, after)
    run()
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    for other in ({"shard": (1, 2)}, {"processes": 2}, {"ray": True}):
        with pytest.raises(ValueError, match="every batch goes on from the one before"):
            embed_corpus("somewhere", sentences, tmp_path / "refused", **settings, **other)


@pytest.mark.parametrize("name", ["plain", "one-layer", "allennlp"])
def test_the_golden_sentences_in_both_layouts(name, converted, tmp_path):
    """Read as users of bilm-tf and of AllenNLP read their files."""
    golden = GOLDEN[name]
    if not golden.available:
        pytest.skip(f"the files of {name} are not here")
    embedder = ElmoEmbedder.from_pretrained(converted(golden), device="cpu")
    settings = {"stateful": True, "batch_size": BATCH_SIZE, "layers": "all"}
    for layout in FILES:
        embed_corpus(embedder, golden.sentences, tmp_path / layout, layout, **settings)
    expected = [golden.expected_layers("stateful", number) for number in range(len(golden.sentences))]

    with h5py.File(tmp_path / "bilm-hdf5", "r") as fin:
        assert sorted(fin, key=int) == [str(number) for number in range(len(expected))]
        for number, layers in enumerate(expected):
            np.testing.assert_allclose(fin[str(number)][...], layers, rtol=0, atol=2.4e-6)

    with h5py.File(tmp_path / "allennlp-hdf5", "r") as fin:
        sentence_to_index = json.loads(fin["sentence_to_index"][0])
        for words, layers in zip(golden.sentences, expected, strict=True):
            if golden.sentences.count(words) == 1:
                found = fin[sentence_to_index[" ".join(words)]][()]
                np.testing.assert_allclose(found, layers, rtol=0, atol=2.4e-6)


def test_datasets_reads_the_parquet(embedder, sentences, tmp_path):
    from datasets import load_dataset

    embed_corpus(embedder, sentences, tmp_path / "store", "parquet", **SMALL)
    loaded = load_dataset(
        "parquet", data_files=str(tmp_path / "store" / "*.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded["sentence"][:] == list(range(len(sentences))) and loaded[0]["words"] == sentences[0].split()
    np.testing.assert_allclose(loaded[2]["vectors"], embedder.encode(sentences[2], layers="all"), atol=1e-5)


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits of files")
@pytest.mark.parametrize("format", FOLDERS)
def test_what_a_library_says_of_a_full_disk_is_told_in_a_sentence(format, embedder, sentences, tmp_path):
    import resource

    settings = {"format": format, "layers": "all", "part_sentences": 5}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # _store.json has some 600 bytes, a part some thousands.
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(OSError) as error:
            embed_corpus(embedder, sentences, tmp_path / "store", **settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "with more room the same command goes on" in str(explain_full_disk(error.value, tmp_path / "store"))
    assert list(contents(tmp_path / "store")) == ["_store.json"]
    assert embed_corpus(embedder, sentences, tmp_path / "store", **settings).finished


def test_no_library_makes_files_of_its_own_beside_a_part(tmp_path):
    """After a kill nobody would take them away."""
    path = tmp_path / "numbers"
    path.touch()
    here = path.stat().st_ino
    safetensors_shards.save_tensors({"numbers": torch.arange(5)}, path)
    assert path.stat().st_ino == here and load_file(path)["numbers"].tolist() == [0, 1, 2, 3, 4]


def test_the_same_part_made_by_two_commands(tmp_path):
    part = tmp_path / "part-000000.safetensors"

    def write_while_another_does(path):
        path.write_bytes(b"whole")
        atomic_files.write_atomically(part, lambda other: other.write_bytes(b"whole"))

    atomic_files.write_atomically(part, write_while_another_does)
    assert contents(tmp_path) == {part.name: b"whole"}
    part.unlink()
    with pytest.raises(FileNotFoundError):
        atomic_files.write_atomically(part, lambda path: path.unlink())


@pytest.mark.parametrize("file", ["record", "part"])
def test_a_full_disk_leaves_whole_parts(file, embedder, sentences, tmp_path, monkeypatch):
    """At the fourth part: the settings are written first, then of each part its record and itself."""
    fsync, count = os.fsync, iter(range(100))

    def full(handle):
        if next(count) == (7 if file == "record" else 8):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(atomic_files.os, "fsync", full)
    with pytest.raises(OSError) as error:
        embed_corpus(embedder, sentences, tmp_path / "store", **SMALL)
    assert "with more room the same command goes on" in str(explain_full_disk(error.value, tmp_path / "store"))
    assert sorted(contents(tmp_path / "store")) == [
        *(f".part-00000{number}.safetensors.checksum" for number in range(3 if file == "record" else 4)),
        "_store.json",
        *(f"part-00000{number}.safetensors" for number in range(3)),
    ]
    assert embed_corpus(embedder, sentences, tmp_path / "store", **SMALL).existing == 3


@pytest.mark.parametrize("format", [*FOLDERS, *FILES])
def test_another_input_model_or_wish_is_refused(format, embedder, model_folder, sentences, tmp_path):
    store = tmp_path / "store"
    embed_corpus(embedder, sentences, store, format, **SMALL)
    before = contents(store)
    changed = [*sentences[:-1], "another"]
    for other in (changed, sentences[:-1], [*sentences, "more"], sentences[:8], [s.split() for s in sentences]):
        with pytest.raises(ValueError, match="other sentences|another input"):
            embed_corpus(embedder, other, store, format, **SMALL)
    for wish in ({"layers": "mix"}, {"pooling": "mean"}, {"dtype": "float16"}, {"part_sentences": 5}, {"threads": 2}):
        with pytest.raises(ValueError, match=f"was made with {next(iter(wish))}|was made with several"):
            embed_corpus(embedder, sentences, store, format, **{**SMALL, **wish})
    with pytest.raises(ValueError, match="splitting"):
        embed_corpus(model_folder, sentences, store, format, splitting="moses-en", device="cpu", **SMALL)
    other = ElmoEmbedder.from_pretrained(model_folder, device="cpu")
    other.model.bilm.forward_layers[0].bias.data += 1
    with pytest.raises(ValueError, match="weights"):
        embed_corpus(other, sentences, store, format, **SMALL)
    assert set(contents(store)) == set(before)


def test_another_dictionary_is_another_model(tmp_path):
    # The same weights read a letter by another id, so the vectors are others.
    sizes = {"characters": 8, "words": 0, "word_dim": 0}
    sizes = {"dictionary": sizes, "character_vocab_size": 9, "character_cnn_filters": [[1, 8]]}
    model = ElmoModel(ElmoConfig(**sizes, projection_size=8, cell_size=8, num_hidden_layers=1))
    marks = {"<bow>": 0, "<eow>": 1, "<bos>": 2, "<eos>": 3, "<oov>": 4, "<pad>": 5}
    ab, ba = (
        ElmoEmbedder(model, ElmoTokenizer("whitespace", dictionary=ElmoDictionary({**marks, **letters}, None)))
        for letters in ({"a": 6, "b": 7}, {"a": 7, "b": 6})
    )
    embed_corpus(ab, ["a b b"], tmp_path / "store")
    with pytest.raises(ValueError, match="was made with weights"):
        embed_corpus(ba, ["a b b"], tmp_path / "store")
    assert embed_corpus(ab, ["a b b"], tmp_path / "store").existing == 1


@pytest.mark.parametrize("format", FOLDERS)
def test_broken_and_foreign_parts_are_refused(format, embedder, sentences, tmp_path):
    store = tmp_path / "store"
    embed_corpus(embedder, sentences, store, format, **SMALL)
    path = sorted(store.glob("part-*"))[1]
    whole = path.read_bytes()

    def refused(content, complaint):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path.name}.*({complaint})"):
            list(open_store(store))

    for length in (0, 1, 7, 100, len(whole) // 2, len(whole) - 1):
        refused(whole[:length], "damaged")
    middle = len(whole) // 2
    refused(whole[:middle] + bytes([whole[middle] ^ 64]) + whole[middle + 1 :], "damaged")
    refused((store / path.name.replace("1", "2")).read_bytes(), "another store")
    refused(b"not at all", "damaged")
    with pytest.raises(ValueError, match=path.name):
        embed_corpus(embedder, sentences, store, format, **SMALL)
    path.unlink()
    with pytest.raises(ValueError, match="is missing"):
        list(open_store(store))
    assert embed_corpus(embedder, sentences, store, format, **SMALL).written == 1
    assert path.read_bytes() == whole


def test_folders_and_files_that_are_no_stores(embedder, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    (tmp_path / "some.hdf5").write_bytes(b"something")
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        file["char_embed"] = np.zeros((2, 2))
    with pytest.raises(ValueError, match="holds other files"):
        embed_corpus(embedder, ["a"], tmp_path / "other")
    for name, complaint in (
        ("other", "is not a store of vectors"),
        ("missing", "does not exist"),
        ("some.hdf5", "damaged, or no HDF5 file"),
        ("weights.hdf5", "no vectors of sentences"),
    ):
        with pytest.raises(ValueError, match=complaint):
            open_store(tmp_path / name)
    with pytest.raises(ValueError, match="was not written by this program"):
        with h5py.File(tmp_path / "dump.hdf5", "w") as file:
            file["0"] = np.zeros((3, 2, 16), np.float32)
        assert open_store(tmp_path / "dump.hdf5")[0].shape == (3, 2, 16)
        embed_corpus(embedder, ["a"], tmp_path / "dump.hdf5", "bilm-hdf5")
    (tmp_path / "other" / "_store.json").write_text("{")
    with pytest.raises(ValueError, match="_store.json is damaged"):
        open_store(tmp_path / "other")


def test_the_command_line(command, model_folder, embedder, text_file, sentences, tmp_path):
    store = tmp_path / "store"
    arguments = ["embed", model_folder, text_file, store, "--part-sentences", 4, "--layers", "0,2", "--processes", 1]
    code, out, err = command(*arguments)
    assert code == 0, err
    assert "30 sentences" in out and "8 of 8 parts made" in out and "words/s" in out
    for one, other in zip(open_store(store), embedder.encode(sentences, layers=[0, 2]), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    shutil.rmtree(store)
    for shard in ("2/2", "1/2"):
        code, out, _ = command(*arguments, "--shard", shard)
        assert code == 0 and ("is not finished" in out) == (shard == "2/2")
    (store / "part-000005.safetensors").unlink()
    code, out, _ = command(*arguments)
    assert "1 of 8 parts made, 7 there before" in out
    code, _, err = command(*arguments, "--dtype", "float16")
    assert code == 1 and err.startswith("Error: ") and 'was made with dtype = "float32"' in err
    code, out, _ = command("embed", model_folder, text_file, tmp_path / "x.hdf5")
    assert code == 0 and len(open_store(tmp_path / "x.hdf5")) == 30
    assert command(*arguments, "--shard", "3")[0] == 2
    assert command(*arguments, "--address", "auto")[0] == 2
    code, _, err = command(*arguments, "--stateful", "--shard", "1/2")
    assert code == 1 and "every batch goes on from the one before" in err


def test_sources(tmp_path, sentences, text_file):
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq
    from datasets import Dataset

    assert list(SentenceSource(text_file)) == sentences
    assert list(SentenceSource(text_file, tokenized=True)) == [sentence.split() for sentence in sentences]
    lines = "\n".join(json.dumps(one) for one in ["a b", ["New York"], {"tokens": ["c"]}, {"body": "x", "text": "y"}])
    (tmp_path / "some.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    assert list(SentenceSource(tmp_path / "some.jsonl.gz")) == ["a b", ["New York"], ["c"], "y"]
    pq.write_table(pa.table({"id": [1, 2], "sentence": ["a b", "c"], "w": [["a"], []]}), tmp_path / "t.parquet")
    assert list(SentenceSource(tmp_path / "t.parquet")) == ["a b", "c"]
    assert list(SentenceSource(tmp_path / "t.parquet", column="w")) == [["a"], []]
    assert list(SentenceSource(tmp_path / "t.parquet", tokenized=True)) == [["a", "b"], ["c"]]
    Dataset.from_dict({"text": ["a b", "c"]}).save_to_disk(tmp_path / "saved")
    assert list(SentenceSource(tmp_path / "saved", dataset=True)) == ["a b", "c"]
    for name, settings, complaint in (
        ("t.parquet", {"column": "id"}, "t.parquet, row 0 holds 1"),
        ("t.parquet", {"column": "none"}, "its columns are 'id', 'sentence', 'w'"),
        ("missing.txt", {}, "There is no file"),
    ):
        with pytest.raises(ValueError, match=complaint):
            list(SentenceSource(tmp_path / name, **settings))
    (tmp_path / "bad.jsonl").write_text('"a"\n{')
    with pytest.raises(ValueError, match="bad.jsonl, line 2 is not JSON"):
        list(SentenceSource(tmp_path / "bad.jsonl"))
    (tmp_path / "bad.parquet").write_text("x")
    with pytest.raises(ValueError, match="damaged, or no Parquet"):
        list(SentenceSource(tmp_path / "bad.parquet"))
