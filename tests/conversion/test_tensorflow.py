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
from elmo_hf.conversion import convert, tf_table
from elmo_hf.conversion.formats.bilm_hdf5 import softmax_map, weight_map
from elmo_hf.conversion.formats.tensorflow import standard_name
from elmo_hf.conversion.tf_bundle import Checkpoint, slice_key
from elmo_hf.conversion.tf_table import crc32c, read_table, unpack_snappy

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
        read = checkpoint.read(name)
        assert (read.dtype, read.shape) == (array.dtype, array.shape) and checkpoint.dtype(name) == array.dtype
        np.testing.assert_array_equal(read, array)


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
    result = perplexity(scorer.model, scorer.tokenizer, read_lines(FILES / "text.txt"), streams=2)
    assert result.perplexity == pytest.approx(PERPLEXITY[case], rel=1e-5)


def test_what_happens_to_the_optimizer_is_said(tmp_path, caplog):
    convert(FILES / "two-layers", output_dir=tmp_path / "model")
    assert "The state of the optimizer (25 variables, e.g., lm/CNN/W_cnn_0/Adagrad) is left out" in caplog.text


def test_index_given_as_a_file_and_checkpoint_in_archives(tmp_path):
    folder = FILES / "one-layer"
    convert(folder / "options.json", folder / "model.ckpt-2.index", output_dir=tmp_path / "files")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"run/{path.name}")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(folder, "run")
    expected = ElmoModel.from_pretrained(tmp_path / "files").state_dict()
    for kind in ("zip", "tar.gz"):
        convert(tmp_path / f"model.{kind}", output_dir=tmp_path / kind)
        for name, value in ElmoModel.from_pretrained(tmp_path / kind).state_dict().items():
            assert torch.equal(value, expected[name])


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
    return list(read_table(path.read_bytes(), str(path)))


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def write_index(path, entries):
    write_table(path, [block_of(entries)])


def block_of(entries):
    """The content of a block of a table."""
    content = b"".join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in entries)
    return content + struct.pack("<II", 0, 1)


def write_table(path, blocks, compression=0, repeat=1):
    """A table of some blocks; its list of blocks names each of them `repeat` times."""

    def stored(block, compression):
        content = block + bytes([compression])
        return content + struct.pack("<I", tf_table.mask_checksum(crc32c(content)))

    data, handles = b"", []
    for block in blocks:
        handles.append(varint(len(data)) + varint(len(block)))
        data += stored(block, compression)
    listed = block_of([(b"\xff", handle) for handle in handles for _ in range(repeat)])
    footer = varint(0) + varint(0) + varint(len(data)) + varint(len(listed))
    path.write_bytes(data + stored(listed, 0) + footer.ljust(40, b"\0") + struct.pack("<Q", tf_table.MAGIC))


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
    "missing data": (lambda folder: (folder / DATA).unlink(), "data-00000-of-00001 is missing, which holds lm/"),
    "missing options": (lambda folder: (folder / "options.json").unlink(), "does not hold the options file"),
    "something else": (lambda folder: (folder / INDEX).write_bytes(b"<html>404</html>" * 9), "is not the index of a"),
    "more layers than there are": (options(n_layers=3), "Cell2/LSTMCell/W_0 is missing"),
    "fewer layers than there are": (options(n_layers=1), "cell_1/lstm_cell/bias with the shape .* has no place"),
    "another size": (options(dim=9), r"cell_0/lstm_cell/kernel has the shape \(10, 32\); expected \(10, 36\)"),
    "a name twice": (rewritten(twice), "names b'lm/.*' twice"),
    "a huge shape": (rewritten(other_shape), r"lm/CNN/W_cnn_0 has the shape \(1099511627776,\); expected"),
    "a missing variable": (rewritten(without(b"lm/softmax/W")), "holds lm/softmax/b, but no softmax/W"),
    "strings for numbers": (rewritten(of_strings), "lm/char_embed has the type object; expected floating-point"),
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


# Slices, and bytes that several entries share


def field(number, value):
    """A field of a protocol buffer: an integer, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed32(number, value):
    return varint(number << 3 | 5) + struct.pack("<I", value)


def shape_of(*sizes):
    return b"".join(field(2, field(1, size)) for size in sizes)


def write_checkpoint(path, variables):
    """NAME.index of {key: (shape, offset, size, slices)} and a data file of 64 numbers."""
    data = np.arange(64, dtype="<f4")
    path.with_name("x.data-00000-of-00001").write_bytes(data.tobytes())
    entries = [(b"", field(1, 1))]
    for key, (shape, offset, size, slices) in sorted(variables.items()):
        checksum = tf_table.mask_checksum(crc32c(data.tobytes()[offset : offset + size]))
        entry = field(1, 1) + field(2, shape_of(*shape)) + field(4, offset) + field(5, size) + fixed32(6, checksum)
        for extents in slices:
            entry += field(7, b"".join(field(1, field(1, start) + field(2, length)) for start, length in extents))
        entries.append((key, entry))
    write_index(path, entries)
    return path


def sliced(path, *places):
    """A variable of the shape (8,) in slices of the given places; the slice at k holds k, k + 1, ..."""
    variables = {b"v": ((8,), 0, 0, [(place,) for place in places])}
    for start, length in places:
        variables[slice_key("v", ((start, length),))] = ((length,), 4 * start, 4 * length, [])
    return Checkpoint(write_checkpoint(path / "x.index", variables))


def test_slices_must_cover_a_variable_once(tmp_path):
    """Otherwise the rest of the variable would be whatever was in memory."""
    assert sliced(tmp_path, (0, 4), (4, 4)).read("v").tolist() == list(range(8))
    assert sliced(tmp_path, (4, 4), (0, 3), (3, 1)).read("v").tolist() == list(range(8))
    with pytest.raises(ValueError, match=r"x.index: the slices of v overlap.*expected slices that cover"):
        sliced(tmp_path, (0, 4), (0, 4)).read("v")
    variables = {b"v": ((8,), 0, 0, [((0, 4),), ((2, 4),)])}
    variables |= {slice_key("v", ((start, 4),)): ((4,), 16 * start, 16, []) for start in (0, 2)}
    with pytest.raises(ValueError, match="the slices of v overlap"):
        Checkpoint(write_checkpoint(tmp_path / "x.index", variables)).read("v")
    with pytest.raises(ValueError, match="the slices of v do not add up"):
        sliced(tmp_path, (0, 4)).read("v")


@pytest.mark.parametrize("start", [1 << 48, 1 << 62, (1 << 64) - 1])
def test_a_slice_at_a_place_that_no_variable_has(tmp_path, start):
    variables = {b"v": ((8,), 0, 0, [((start, 4),), ((4, 4),)])}
    with pytest.raises(ValueError, match="x.index: the entry of v is damaged"):
        Checkpoint(write_checkpoint(tmp_path / "x.index", variables))


def test_variables_that_share_bytes_of_a_data_file(tmp_path):
    """A hundred variables in the same bytes would make a large model of a small file."""
    variables = {b"a": ((8,), 0, 32, []), b"b": ((8,), 28, 32, [])}
    with pytest.raises(ValueError, match="a and b share bytes of data file 0"):
        Checkpoint(write_checkpoint(tmp_path / "x.index", variables))


def snappy_zeros(size):
    """A Snappy block of zeros: a literal of one byte, and copies of 64 from one byte back."""
    copies = (size - 1) // 64
    return varint(1 + 64 * copies) + b"\0\0" + bytes([63 << 2 | 2, 1, 0]) * copies


def test_blocks_that_unpack_to_more_than_an_index_has(tmp_path, monkeypatch):
    assert unpack_snappy(snappy_zeros(1000), 1000) == bytes(961)
    unpacked = []

    def recorded(data, max_size):
        unpacked.append(unpack_snappy(data, max_size))
        return unpacked[-1]

    monkeypatch.setattr(tf_table, "unpack_snappy", recorded)
    write_table(tmp_path / "large.index", [snappy_zeros(200 << 20)], compression=1)
    assert (tmp_path / "large.index").stat().st_size < 11 << 20
    with pytest.raises(ValueError, match="large.index is a damaged index .*a block of 209,7"):
        Checkpoint(tmp_path / "large.index")
    write_table(tmp_path / "repeated.index", [snappy_zeros(1 << 20)], compression=1, repeat=500)
    with pytest.raises(ValueError, match="repeated.index"):
        Checkpoint(tmp_path / "repeated.index")
    assert sum(map(len, unpacked)) <= tf_table.MAX_UNPACKED_SIZE


def test_a_block_is_read_once(tmp_path):
    write_table(tmp_path / "x.index", [block_of([(b"", field(1, 1))])], repeat=500)
    with pytest.raises(ValueError, match="x.index is damaged: it lists the block at byte 0 twice or out of order"):
        Checkpoint(tmp_path / "x.index")


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
            archive.fileobj.write(info.tobuf())  # a header alone; addfile of Python 3.13 asks for the content
        return tmp_path / "bad.tar.gz"

    for name, changes, sentence in [
        ("../evil", {}, r"bad.tar.gz is refused: its member ../evil would be written outside"),
        ("/etc/evil", {}, "is refused: its member /etc/evil would be written outside"),
        (INDEX_IN_HUB, {}, f"is refused: it has two members {INDEX_IN_HUB}"),
        ("bomb", {"size": 1 << 60}, "bytes unpack to 1,152,921,504,606,\\d+,\\d+ or more, with the member bomb"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            convert(tar(name, **changes), output_dir=tmp_path / "out")
    content = (tmp_path / "bad.tar.gz").read_bytes()
    (tmp_path / "bad.tar.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="bad.tar.gz is damaged or truncated"):
        convert(tmp_path / "bad.tar.gz", output_dir=tmp_path / "out")
    assert os.listdir(tmp_path) == ["bad.tar.gz"]


INDEX_IN_HUB = "variables/variables.index"
