"""Small files that ask for much memory or time end in a sentence, before the memory is taken or the work is done."""

import contextlib
import gzip
import io
import json
import os
import struct
import sys
import tarfile
import zipfile
import zlib

import h5py
import numpy as np
import pytest
from golden_files import GOLDEN

from elmo_hf.conversion import archives, convert, hdf5, options
from elmo_hf.conversion.options import read_json, read_options
from elmo_hf.conversion.sources import SourceError, open_bundles, open_sources

PLAIN = GOLDEN["plain"]
MEGABYTE = 1 << 20


def memory(name):
    """VmRSS (now) or VmHWM (the peak) of this process in MB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(name))


@pytest.fixture
def bounded():
    """A context in which the process may take 100 MB at most."""

    @contextlib.contextmanager
    def context():
        if not os.access("/proc/self/clear_refs", os.W_OK):
            yield
            return
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = memory("VmRSS")
        yield
        assert memory("VmHWM") - before < 100

    return context


def deflated_zeros(megabytes):
    """A raw deflate stream of zeros; its blocks do not depend on each other, so that it is made at once."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(MEGABYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * megabytes + b"\x03\0"


# HDF5


def write_chunk(path, shape, megabytes, **settings):
    """A dataset of one chunk, which unpacks to so many megabytes."""
    size = megabytes * MEGABYTE
    content = b"\x78\xda" + deflated_zeros(megabytes) + struct.pack(">HH", size % 65521, 1)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", shape, "f4", chunks=shape, compression="gzip", **settings)
        try:
            dataset.id.write_direct_chunk((0,), content)
        except OSError as error:  # of HDF5 1.14, for a chunk that is much longer than its values
            pytest.skip(f"this version of HDF5 does not write such a file: {error}")
    return path


@pytest.mark.parametrize(
    "shape, megabytes, settings, message",
    [
        ((48,), 3900, {}, "x has a chunk of 4,.* bytes for 192 bytes of values"),
        ((48,), 4, {}, "x has a chunk that unpacks to more than its 192 bytes"),
        ((1 << 20,), 3900, {}, "x has a chunk that unpacks to more than its 4,194,304 bytes"),
        ((1 << 20,), 3900, {"shuffle": True, "fletcher32": True}, "x has a chunk that unpacks to more than its 4,194"),
        (
            (1 << 28,),
            1024,
            {},
            r"x has the shape .268435456,., 1,073,741,824 bytes, of which the file of .* stores 1,",
        ),
    ],
)
def test_chunks_that_unpack_to_gigabytes(shape, megabytes, settings, message, tmp_path, bounded):
    path = write_chunk(tmp_path / "x.h5", shape, megabytes, **settings)
    with bounded(), hdf5.open_weights(path) as weights, pytest.raises(hdf5.Hdf5Error, match=f"x.h5: {message}"):
        weights.read("x")


def test_compressed_datasets_are_read(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 37)).astype("f")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("all", data=values, compression="gzip", shuffle=True, fletcher32=True, chunks=(13, 9))
        file.create_dataset("resizable", data=values, maxshape=(None, 37))
        file.create_dataset("zeros", data=np.zeros(100_000, "f"), compression="gzip")
        file.create_dataset("empty", data=values[:0], maxshape=(None, 37))
        file.create_dataset("partial", (100, 4), "f4", chunks=(10, 4))[:50] = 1
        file.create_dataset("lzf", data=values, compression="lzf")
    with hdf5.open_weights(tmp_path / "x.h5") as weights:
        for name in ("all", "resizable"):
            np.testing.assert_array_equal(weights.read(name), values)
        assert not weights.read("zeros").any() and weights.read("empty").shape == (0, 37)
        with pytest.raises(hdf5.Hdf5Error, match="partial was not written completely: 5 of 10 chunks are there"):
            weights.read("partial")
        with pytest.raises(hdf5.Hdf5Error, match=r"lzf is stored with the filters .*32000.* Expected no compression"):
            weights.read("lzf")


def test_more_names_than_a_model_has_are_not_looked_at(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", (3,), "f4")
        for number in range(hdf5.MAX_NAMES):
            file[f"link-{number}"] = dataset
    monkeypatch.setattr(h5py.Group, "get", None)
    with pytest.raises(hdf5.Hdf5Error, match="x.h5 has more than 10,000 names"):
        with hdf5.open_weights(tmp_path / "x.h5"):
            pass


# Descriptions


def test_millions_of_filters_are_counted_and_not_checked(tmp_path, monkeypatch):
    content = json.loads(PLAIN.options.read_text())
    content["char_cnn"]["filters"] = [[1, 1]] * 400_000
    (tmp_path / "options.json").write_text(json.dumps(content))
    monkeypatch.setattr(options, "_is_filter", None)
    with pytest.raises(
        ValueError, match=r"Invalid `char_cnn.filters`: .{60}\. Expected a list of 1 to 1,000 pairs"
    ) as error:
        convert(tmp_path / "options.json", PLAIN.weights, output_dir=tmp_path / "out")
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("depth", [200, 3_000, 100_000])
@pytest.mark.parametrize("limit", [1_000, 20_000], ids=["usual stack", "deep stack"])  # Python 3.13 has a deeper one
def test_descriptions_that_are_nested_deeply(depth, limit, tmp_path):
    path = tmp_path / "options.json"
    path.write_text('{"a":' * depth + "1" + "}" * depth)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        with pytest.raises(ValueError, match="options.json is (not JSON|nested more than 100 deep)"):
            read_options(path)
    finally:
        sys.setrecursionlimit(before)


def test_a_number_of_thousands_of_digits_names_its_file(tmp_path):
    (tmp_path / "options.json").write_text('{"lstm": {"dim": ' + "9" * 5000 + "}}")
    with pytest.raises(ValueError, match="options.json is not JSON .*4300"):
        read_options(tmp_path / "options.json")
    (tmp_path / "options.json").write_text(json.dumps({"x": list(range(100_000)), **{f"k{k}": 1 for k in range(99)}}))
    assert len(read_json(tmp_path / "options.json", "options")) == 100


def test_only_some_unknown_options_are_listed(tmp_path, caplog):
    content = {**PLAIN.options_content, **{f"unknown-{number:05d}" * 9: 1 for number in range(9_000)}}
    (tmp_path / "options.json").write_text(json.dumps(content))
    convert(tmp_path / "options.json", PLAIN.weights, output_dir=tmp_path / "out")
    (record,) = [record for record in caplog.records if "unknown options" in record.message]
    assert record.message.endswith("and 8,988 more.") and len(record.message) < 2000


# Tars


def tar_header(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def padded(content):
    return content + bytes(-len(content) % 512)


def compressed(head, megabytes):
    """A gzip stream of some bytes and so many megabytes of zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    begin = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + begin + deflated_zeros(megabytes) + bytes(8)


def listed(path):
    with open_bundles(path) as (bundles, _):
        return bundles[0].names


HEADER = "it has a header of 3,145,728,000 bytes"


@pytest.mark.parametrize(
    "kind, message",
    [
        (tarfile.XHDTYPE, HEADER),
        (tarfile.XGLTYPE, HEADER),
        (tarfile.GNUTYPE_LONGNAME, HEADER),
        (tarfile.GNUTYPE_LONGLINK, HEADER),
        (tarfile.REGTYPE, ".* unpack to 3,145,7.* with the member x"),
    ],
)
def test_headers_and_members_of_gigabytes_in_tars(kind, message, tmp_path, bounded):
    path = tmp_path / "model.tar.gz"
    path.write_bytes(compressed(tar_header("x", 3000 * MEGABYTE, kind), 3000))
    assert path.stat().st_size < 4 * MEGABYTE
    with (
        bounded(),
        pytest.raises(SourceError, match=f"model.tar.gz is refused: {message}"),
    ):
        listed(path)


def test_thousands_of_headers_before_a_member(tmp_path, monkeypatch):
    record = b"20 comment=a comment\n"
    header = tar_header("x", len(record), tarfile.XHDTYPE) + padded(b"21" + record[2:])
    path = tmp_path / "model.tar"
    path.write_bytes(header * 3_000 + tar_header("file", 0) + bytes(1024))
    assert listed(path) == ("file",)
    monkeypatch.setattr(archives, "MAX_MEMBERS", 1_000)
    with pytest.raises(SourceError, match="model.tar has more than 2,000 headers"):
        listed(path)


def test_sparse_members_are_not_unpacked(tmp_path, bounded):
    """They would write gigabytes of zeros into the temporary folder."""
    sparse = bytearray(tar_header("weights.hdf5", 512, tarfile.GNUTYPE_SPARSE))
    sparse[386:410] = b"%011o\0%011o\0" % (6 << 30, 0)
    sparse[483:495] = b"%011o\0" % (6 << 30)
    sparse[148:156] = b" " * 8
    sparse[148:156] = b"%06o\0 " % sum(sparse)
    members = tar_header("options.json", 2) + padded(b"{}") + bytes(sparse) + bytes(512)
    attributes = b"22 GNU.sparse.major=1\n" + b"30 GNU.sparse.realsize=61e9   "[:29] + b"\n"
    pax = tar_header("options.json", 2) + padded(b"{}") + tar_header("x", len(attributes), tarfile.XHDTYPE)
    pax += padded(attributes) + tar_header("weights.hdf5", 512) + bytes(512)
    for content in (members, pax):
        (tmp_path / "model.tar").write_bytes(content + bytes(1024))
        with pytest.raises(SourceError, match="member weights.hdf5 of the tar .*model.tar is a sparse file"):
            with open_sources(tmp_path / "model.tar"):
                pass


def test_every_way_of_writing_tars_is_read(tmp_path):
    """Long names in both forms, numbers beyond octal digits, and names that begin with `./`."""
    names = ["./options.json", "a/" * 3 + "b" * 60 + ".json", "ü" * 40, "c/" + "d" * 200, "plain/e"]
    for format in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        chosen = [name for name in names if format != tarfile.USTAR_FORMAT or len(name) < 90]
        with tarfile.open(tmp_path / "x.tar.gz", "w:gz", format=format, pax_headers={"comment": "global"}) as archive:
            folder = tarfile.TarInfo("plain")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            for name in chosen:
                member = tarfile.TarInfo(name)
                member.size, member.mtime = len(name), 0.5
                archive.addfile(member, io.BytesIO(b"x" * len(name)))
        with open_bundles(tmp_path / "x.tar.gz") as (bundles, _):
            assert set(bundles[0].names) == {name.removeprefix("./") for name in chosen}
            for name, path in zip(bundles[0].names, bundles[0].paths(*bundles[0].names), strict=True):
                assert path.read_bytes().startswith(b"x" * len(name)) and path.name == name.split("/")[-1]


def test_truncated_tars_are_explained(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name in ("options.json", "weights.hdf5"):
            member = tarfile.TarInfo(name)
            member.size = 5000
            archive.addfile(member, io.BytesIO(os.urandom(5000)))
    whole = (tmp_path / "x.tar").read_bytes()
    for content, message in (
        (whole[:700], "cannot be unpacked|holds a model"),
        (whole[: 512 + 5120 + 100], "x.tar is damaged or truncated"),
        (whole[:512] + b"!" + whole[513:6000], "cannot be unpacked|damaged"),
        (b"\x1f\x8b" + whole[2:], "damaged or truncated"),
        (gzip.compress(whole)[:6000], "damaged or truncated|cannot be unpacked"),
    ):
        (tmp_path / "x.tar").write_bytes(content)
        with pytest.raises(SourceError, match=message), open_sources(tmp_path / "x.tar"):
            pass


# Zips


def test_thousands_of_members_in_deep_folders(tmp_path):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(19_000):
            archive.writestr(f"{number}/" * 60 + "x", b"")
    with open_bundles(path) as (bundles, _):
        assert len(bundles) == 1 and not bundles[0].names
    with pytest.raises(SourceError, match="No folder of the zip .*model.zip holds a model; found nothing"):
        convert(path, output_dir=tmp_path / "out")


def test_weights_of_zeros_are_not_unpacked(tmp_path):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("options.json", b"{}")
        archive.writestr("weights.hdf5", bytes(100 * MEGABYTE))
    with pytest.raises(
        SourceError, match="model.zip is refused: its .* bytes unpack to 104,857,602 or more, with the"
    ):
        convert(path, output_dir=tmp_path / "out")


def test_names_that_begin_with_the_folder_itself_are_read(tmp_path):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(PLAIN.options, "./options.json")
        archive.write(PLAIN.weights, "./weights.hdf5")
    assert convert(path, output_dir=tmp_path / "out").config.hidden_size == 12


def test_messages_and_warnings_name_the_archive(tmp_path, caplog):
    content = json.loads(PLAIN.options.read_text())
    changed = {**content, "lstm": {**content["lstm"], "dim": 0}}
    path = tmp_path / "model.zip"
    for inside, message in (
        ({"a/options.json": json.dumps(changed)}, "model.zip/a/options.json: Invalid `lstm.dim`: 0"),
        ({"a/options.json": "{,"}, "model.zip/a/options.json is not JSON"),
        ({"a/weights.hdf5": "x"}, "model.zip/a/weights.hdf5 is not an HDF5 file"),
        ({"a/vocab.txt": "<S>\n"}, "model.zip/a/vocab.txt has 1 words"),
        ({"a/options.json": json.dumps({**content, "odd": 1})}, None),
    ):
        files = {"a/options.json": json.dumps(content), "a/weights.hdf5": PLAIN.weights.read_bytes(), **inside}
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        if message is None:
            convert(path, output_dir=tmp_path / "out")
            assert f"{path}/a/options.json: unknown options, which are not used: `odd`" in caplog.text
        else:
            with pytest.raises(ValueError, match=f"{tmp_path}/{message}") as error:
                convert(path, output_dir=tmp_path / "out")
            assert "elmo_hf_" not in str(error.value)


def test_a_zip_of_several_disks(tmp_path):
    """`zipfile.is_zipfile` itself raises for it."""
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 2)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0, 0, 0, 0, 0)
    (tmp_path / "model.zip").write_bytes(locator + end)
    with pytest.raises(ValueError, match="model.zip"):
        convert(tmp_path / "model.zip", output_dir=tmp_path / "out")
