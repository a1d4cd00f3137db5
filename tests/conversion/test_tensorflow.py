"""TensorFlow checkpoints and Hub modules: equal to TensorFlow's own reading, bit for bit; and what is refused.

tests/conversion/tensorflow was written by benchmarks/workers/tf_checkpoints_worker.py, with bilm's own training code
and TensorFlow's own writers.
"""

import json
import os
import random
import shutil
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_hf import ElmoForPreTraining, ElmoModel, ElmoScorer, perplexity, read_lines
from elmo_hf.conversion import convert, tf_bundle
from elmo_hf.conversion.formats.bilm_hdf5 import softmax_map, weight_map
from elmo_hf.conversion.formats.tensorflow import standard_name
from elmo_hf.conversion.tf_bundle import Checkpoint, crc32c, slice_key, unpack_snappy

FILES = Path(__file__).resolve().parent / "tensorflow"
PERPLEXITY = json.loads((FILES / "perplexity.json").read_text())


def expected_arrays(name):
    with np.load(FILES / name / "expected.npz") as arrays:
        return dict(arrays)


# The format


def test_every_type_slice_and_data_file_is_read_as_tensorflow_reads_it():
    checkpoint, expected = Checkpoint(FILES / "many-types" / "many.index"), expected_arrays("many-types")
    assert set(checkpoint.names()) == expected.keys() and len(expected) == 19
    for name, array in expected.items():
        found = checkpoint.read(name)
        assert (found.dtype, found.shape) == (array.dtype, array.shape) and checkpoint.dtype(name) == array.dtype
        np.testing.assert_array_equal(found, array)


def test_checksums_are_those_of_the_standard():
    # RFC 3720, B.4
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    data = np.random.default_rng(0).integers(0, 256, 300_001, dtype=np.uint8)
    state = 0xFFFFFFFF
    for byte in data.tolist():  # bit by bit, as the standard says it
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    assert crc32c(data) == state ^ 0xFFFFFFFF


def test_snappy():
    # a literal "ab", a copy of 6 from 2 back, a literal of 61 bytes in the long form
    packed = bytes([69, 0b100]) + b"ab" + bytes([0b01001 | 0, 2]) + bytes([60 << 2, 60]) + b"x" * 61
    assert unpack_snappy(packed, 1000) == b"ab" * 4 + b"x" * 61
    for broken in (packed[:-1], packed[:3] + bytes([0b01001, 9]) + packed[6:], b"\xff" * 11):
        with pytest.raises(IndexError):
            unpack_snappy(broken, 1000)


def test_keys_of_slices_keep_the_order_of_numbers():
    places = [0, 1, 63, 64, 65, 127, 8191, 8192, 100_000, 2**20, 2**30, 2**40]
    keys = [slice_key("v", ((place, 3),)) for place in places]
    assert keys == sorted(keys) and len(set(keys)) == len(places)


# Checkpoints of bilm-tf


@pytest.mark.parametrize("case", PERPLEXITY)
def test_weights_and_perplexity_are_tensorflows(case, tmp_path):
    said = []
    model = convert(FILES / case, output_dir=tmp_path / "model", splitting="whitespace", say=said.append)
    assert isinstance(model, ElmoForPreTraining) and model.config.share_embedding_softmax == (case == "shared-softmax")
    assert said[0].startswith("found a TensorFlow checkpoint of bilm-tf: options.json, model.ckpt-2.index and 1 data")
    # The table of names of the HDF5 files is proved elsewhere; here the values, by TensorFlow's own names.
    expected = {standard_name(name): value for name, value in expected_arrays(case).items() if standard_name(name)}
    state = {name.removeprefix("elmo."): value.numpy() for name, value in model.state_dict().items()}
    compared = set()
    for entry in [*weight_map(model.config), *softmax_map(model.config)]:
        if entry.dataset in expected:
            ours = entry.form.to_dataset(*(state[name] for name in entry.parameters))
            np.testing.assert_array_equal(ours, expected[entry.dataset])
            compared.add(entry.dataset)
    assert compared == expected.keys()

    scorer = ElmoScorer.from_pretrained(tmp_path / "model")
    found = perplexity(scorer.model, scorer.tokenizer, read_lines(FILES / "text.txt"), streams=2)
    assert found.perplexity == pytest.approx(PERPLEXITY[case], rel=1e-5)


def test_what_happens_to_the_optimizer_is_said(tmp_path, caplog):
    convert(FILES / "two-layers", output_dir=tmp_path / "model")
    assert "The state of the optimizer (25 variables, as lm/CNN/W_cnn_0/Adagrad) is left out" in caplog.text


def test_index_given_as_a_file_and_checkpoint_in_archives(tmp_path):
    folder = FILES / "one-layer"
    convert(folder / "options.json", folder / "model.ckpt-2.index", output_dir=tmp_path / "files")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"run/{path.name}")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(folder, "run")
    wanted = ElmoModel.from_pretrained(tmp_path / "files").state_dict()
    for kind in ("zip", "tar.gz"):
        convert(tmp_path / f"model.{kind}", output_dir=tmp_path / kind)
        for name, value in ElmoModel.from_pretrained(tmp_path / kind).state_dict().items():
            assert torch.equal(value, wanted[name])


def test_the_checkpoint_that_the_file_names_is_taken(tmp_path):
    shutil.copytree(FILES / "one-layer", tmp_path / "run")
    for path in (tmp_path / "run").glob("model.ckpt-2.*"):
        shutil.copy(path, path.with_name(path.name.replace("ckpt-2", "ckpt-1")))
    said = []
    convert(tmp_path / "run", output_dir=tmp_path / "a", say=said.append)
    assert "model.ckpt-2.index" in said[0]
    (tmp_path / "run" / "checkpoint").unlink()
    with pytest.raises(ValueError, match="holds 2 files that may be the checkpoint .NAME.index.: model.ckpt-1.index"):
        convert(tmp_path / "run", output_dir=tmp_path / "b")


# TensorFlow Hub


@pytest.mark.parametrize("packed", [False, True])
def test_hub_module_with_its_mix(packed, tmp_path):
    source, said = FILES / "hub", []
    if packed:
        with tarfile.open(tmp_path / "elmo.tar.gz", "w:gz") as archive:
            archive.add(source, ".")
        source = tmp_path / "elmo.tar.gz"
    model = convert(source, output_dir=tmp_path / "model", say=said.append)
    assert "found a TensorFlow Hub module" in said[0] and "its mix of layers" in said[0]
    expected = expected_arrays("hub")
    np.testing.assert_array_equal(model.scalar_mix.weight.detach(), expected.pop("aggregation/weights"))
    assert model.scalar_mix.gamma.item() == expected.pop("aggregation/scaling") == 1.5
    state = model.state_dict()
    for entry in weight_map(model.config):
        ours = entry.form.to_dataset(*(state[name].numpy() for name in entry.parameters))
        (name,) = [name for name in expected if standard_name(name) == entry.dataset]
        np.testing.assert_array_equal(ours, expected.pop(name))
    assert not expected
    # The same weights as the checkpoint's: what bilm makes of them is compared there.
    config = convert(FILES / "two-layers", output_dir=tmp_path / "other").config
    for field in ("projection_size", "cell_size", "num_hidden_layers", "character_cnn_filters", "cell_clip"):
        assert getattr(config, field) == getattr(model.config, field)


# What is refused


def cut(name, part):
    def damage(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * part)])

    return damage


def flip(name, at):
    def damage(folder):
        content = bytearray((folder / name).read_bytes())
        content[at] ^= 0x10
        (folder / name).write_bytes(content)

    return damage


def options(**changes):
    def damage(folder):
        content = json.loads((folder / "options.json").read_text())
        content["lstm"].update(changes)
        (folder / "options.json").write_text(json.dumps(content))

    return damage


def rewritten(change):
    """The index with other entries, and right checksums."""

    def damage(folder):
        write_index(folder / INDEX, change(entries_of(folder / INDEX)))

    return damage


def entries_of(path):
    checkpoint = Checkpoint(path)
    data = path.read_bytes()
    _, at = tf_bundle._handle(data, len(data) - 48)
    blocks, _ = tf_bundle._handle(data, at)
    handles = [tf_bundle._handle(value, 0)[0] for _, value in checkpoint._block(data, blocks)]
    return [entry for handle in handles for entry in checkpoint._block(data, handle)]


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def write_index(path, entries):
    def block(entries):
        content = b"".join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in entries)
        content += struct.pack("<II", 0, 1) + b"\0"
        return content + struct.pack("<I", tf_bundle._masked(crc32c(content)))

    first = block(entries)
    second = block([(b"\xff", varint(0) + varint(len(first) - 5))])
    footer = varint(0) + varint(0) + varint(len(first)) + varint(len(second) - 5)
    path.write_bytes(first + second + footer.ljust(40, b"\0") + struct.pack("<Q", tf_bundle.MAGIC))


def twice(entries):
    return [*entries, entries[3]]


def other_shape(entries):
    """The first convolution says that it is 2^40 rows long."""
    changed = b"\x08\x01\x12" + varint(len(dims := b"\x12" + varint(len(d := b"\x08" + varint(1 << 40))) + d)) + dims
    return [(key, changed if key == b"lm/CNN/W_cnn_0" else value) for key, value in entries]


def without(name):
    return lambda entries: [(key, value) for key, value in entries if key != name]


def of_strings(entries):
    return [(k, b"\x08\x07" + v[2:] if k == b"lm/char_embed" else v) for k, v in entries]


def renamed(entries):
    return sorted((key.replace(b"lm/RNN_1", b"lm/RNN_9"), value) for key, value in entries)


INDEX, DATA = "model.ckpt-2.index", "model.ckpt-2.data-00000-of-00001"
MALFORMED = {
    "truncated index": (cut(INDEX, 0.5), "ckpt-2.index is not the index of a TensorFlow checkpoint, or is truncated"),
    "empty index": (cut(INDEX, 0), "ckpt-2.index is not the index of a TensorFlow checkpoint, or is truncated"),
    "flipped byte in the index": (flip(INDEX, 100), "ckpt-2.index is damaged: the block at byte 0 has a wrong checks"),
    "footer that leads nowhere": (flip(INDEX, -44), "ckpt-2.index"),
    "truncated data": (cut(DATA, 0.5), "data-00000-of-00001 is truncated: lm/.* is at the bytes"),
    "flipped byte in the data": (flip(DATA, 3000), "data-00000-of-00001 is damaged: lm/.* has a wrong checksum"),
    "missing data": (lambda folder: (folder / DATA).unlink(), "data-00000-of-00001 is missing, where lm/"),
    "missing options": (lambda folder: (folder / "options.json").unlink(), "does not hold the options file"),
    "something else": (lambda folder: (folder / INDEX).write_bytes(b"<html>404</html>" * 9), "is not the index of a"),
    "more layers than there are": (options(n_layers=3), "Cell2/LSTMCell/W_0 is missing"),
    "fewer layers than there are": (options(n_layers=1), "cell_1/lstm_cell/bias with the shape .* has no place"),
    "another size": (options(dim=9), r"cell_0/lstm_cell/kernel has the shape \(10, 32\); expected is \(10, 36\)"),
    "a name twice": (rewritten(twice), "names b'lm/.*' twice"),
    "a huge shape": (rewritten(other_shape), r"lm/CNN/W_cnn_0 has the shape \(1099511627776,\); expected"),
    "a missing variable": (rewritten(without(b"lm/softmax/W")), "holds lm/softmax/b, but no softmax/W"),
    "strings for numbers": (rewritten(of_strings), "lm/char_embed has the type object; accepted are floating point"),
    "another program's names": (rewritten(renamed), "`bidirectional` is true, but the weights have one direction"),
    "no biLM at all": (
        rewritten(lambda entries: entries[:1] + [e for e in entries if b"softmax" in e[0]]),
        "is not a checkpoint of a biLM: neither char_embed nor embedding",
    ),
    "vocabulary of another length": (
        lambda folder: (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n"),
        "lm/softmax/W has 20 rows, but the vocabulary has 3 words",
    ),
    "vocabulary that is not UTF-8": (
        lambda f: (f / "vocab.txt").write_bytes(b"\xff\xfe"),
        "Invalid vocabulary .*vocab.txt: .* Expected a word per line in UTF-8",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_checkpoints_are_explained_in_a_sentence(name, tmp_path):
    damage, sentence = MALFORMED[name]
    shutil.copytree(FILES / "two-layers", tmp_path / "in")
    damage(tmp_path / "in")
    with pytest.raises(ValueError, match=f"(?s){sentence}"):
        convert(tmp_path / "in", output_dir=tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]


def test_random_damage_to_an_index_is_always_one_error():
    content, chance = (FILES / "many-types" / "many.index").read_bytes(), random.Random(0)
    # With right checksums, so that what lies behind them is reached too.
    entries = entries_of(FILES / "many-types" / "many.index")
    assert len(content) > 1000
    for _ in range(150):
        number = chance.randrange(len(entries))
        key, value = entries[number]
        broken = bytearray(value or b"\0")
        broken[chance.randrange(len(broken))] = chance.randrange(256)
        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"fuzz-{os.getpid()}.index"
        write_index(path, [*entries[:number], (key, bytes(broken)), *entries[number + 1 :]])
        try:
            checkpoint = Checkpoint(path)
            for name in checkpoint.names():
                checkpoint.read(name)
        except ValueError as error:
            assert str(path.parent) in str(error)
        finally:
            path.unlink()


def test_tar_that_leads_outside_holds_a_link_or_a_bomb(tmp_path):
    def tar(name, **changes):
        with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as archive:
            for path in (FILES / "hub").rglob("*.*"):
                archive.add(path, path.relative_to(FILES / "hub"))
            info = tarfile.TarInfo(name)
            for key, value in changes.items():
                setattr(info, key, value)
            archive.addfile(info)
        return tmp_path / "bad.tar.gz"

    for name, changes, sentence in [
        ("../evil", {}, r"bad.tar.gz is refused: its member ../evil would be written outside"),
        ("/etc/evil", {}, "is refused: its member /etc/evil would be written outside"),
        (INDEX_IN_HUB, {}, f"is refused: it has two members {INDEX_IN_HUB}"),
        ("bomb", {"size": 1 << 60}, "its member bomb has 1152921504606846976 bytes, and there is room for"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            convert(tar(name, **changes), output_dir=tmp_path / "out")
    content = (tmp_path / "bad.tar.gz").read_bytes()
    (tmp_path / "bad.tar.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="bad.tar.gz is damaged or truncated"):
        convert(tmp_path / "bad.tar.gz", output_dir=tmp_path / "out")
    assert os.listdir(tmp_path) == ["bad.tar.gz"]


INDEX_IN_HUB = "variables/variables.index"
