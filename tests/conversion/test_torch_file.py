"""Files of torch.save read without unpickling: equal to torch.load, and what is refused."""

import io
import os
import pickle
import struct
import warnings
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

from elmo_hf.conversion import torch_file
from elmo_hf.conversion.formats.torch_state import TorchWeights
from elmo_hf.conversion.sources import SourceError
from elmo_hf.conversion.torch_file import TorchFile

LEGACY = {"_use_new_zipfile_serialization": False}
VALUES = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0))
STATES = {
    "types": {str(t): (VALUES * 9).to(t) for t in (torch.float64, torch.float16, torch.bfloat16, torch.int64)}
    | {"bool": VALUES > 0, "uint8": (VALUES > 0).to(torch.uint8)},
    "views": {
        "transposed": VALUES.permute(2, 0, 1),
        "sliced": VALUES[1:4, ::2, 1],
        "expanded": VALUES[0, 0, 0].expand(3, 2),
    },
    "shared storages": {"a": VALUES, "b": VALUES, "row": VALUES[2]},
    "parameters": OrderedDict(a=torch.nn.Parameter(VALUES), b=torch.nn.Parameter(VALUES > 0, requires_grad=False)),
    "sizes": {"scalar": torch.tensor(3.0), "empty": torch.zeros(0, 4)},
    "a state dictionary": torch.nn.LSTM(3, 2).state_dict(),
}


def save(path, state, **settings):
    torch.save(state, path, **settings)
    return path


@pytest.mark.parametrize("settings", [{}, LEGACY], ids=["zip", "legacy"])
@pytest.mark.parametrize("name", STATES)
def test_tensors_are_those_that_torch_loads(name, settings, tmp_path):
    path = save(tmp_path / "weights.th", STATES[name], **settings)
    expected, weights = torch.load(path, weights_only=True), TorchWeights(path)
    assert weights.names() == list(expected)
    for key, tensor in expected.items():
        tensor = tensor.detach()
        array = weights.read(key)
        assert weights.shape(key) == tuple(tensor.shape) and weights.dtype(key) == array.dtype
        np.testing.assert_array_equal(array, tensor.float() if tensor.dtype == torch.bfloat16 else tensor)
        assert array.flags.writeable and array.flags.c_contiguous


def test_a_parameter_with_a_gradient_is_a_weight(tmp_path):
    layer = torch.nn.Linear(3, 2)
    layer(torch.ones(1, 3)).sum().backward()
    path = save(tmp_path / "weights.th", {"w": layer.weight})
    np.testing.assert_array_equal(TorchFile(path).read("w"), layer.weight.detach())


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of features of torch that may change
    NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    QUANTIZED = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    CSR = torch.eye(3).to_sparse_csr()
UNUSUAL = {
    "nested": NESTED,
    "quantized": QUANTIZED,
    "sparse": torch.eye(3).to_sparse(),
    "CSR": CSR,
    "meta": torch.zeros(3, device="meta"),
    "negated view": torch.ones(3, dtype=torch.complex64).conj().imag,
    "complex": torch.ones(3, dtype=torch.complex64),
    "number": 3,
    "dictionary": {"a": torch.ones(2)},
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_what_is_not_a_dense_tensor_is_refused_by_its_name(kind, tmp_path):
    path = save(tmp_path / "weights.th", {"fine": torch.ones(2), "encoder.weight": UNUSUAL[kind]})
    with pytest.raises(SourceError, match=r"weights.th: encoder.weight is .*; expected a dense tensor\."):
        TorchFile(path)


class MakesFolder:
    def __reduce__(self):
        return (os.mkdir, ("was-run",))


class Allocates:
    def __reduce__(self):
        return (bytearray, (1 << 33,))


@pytest.mark.parametrize("settings", [{}, LEGACY], ids=["zip", "legacy"])
@pytest.mark.parametrize("value, name", [(MakesFolder(), "mkdir"), (Allocates(), "bytearray")])
def test_nothing_in_a_pickle_is_run(value, name, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path / "weights.th", {"x": value}, **settings)
    with pytest.raises(SourceError, match=f"weights.th is refused: it holds more than weights.*{name}") as error:
        TorchFile(path)
    assert "weights_only" not in str(error.value) and os.listdir(tmp_path) == ["weights.th"]
    path.write_bytes(pickle.dumps({"x": value}))
    with pytest.raises(SourceError, match=f"is refused: it holds more than weights.*{name}"):
        TorchFile(path)


# Bounds


@pytest.mark.parametrize("settings", [{}, LEGACY], ids=["zip", "legacy"])
def test_repeated_values_do_not_make_a_large_model_of_a_small_file(settings, tmp_path):
    state = {f"layer.{k}": torch.zeros(1).expand(1_000_000) for k in range(875)}
    path = save(tmp_path / "weights.th", state, **settings)
    assert path.stat().st_size < 300_000
    with pytest.raises(SourceError, match="weights.th is refused: its tensors have 3,500,000,000 bytes, but the file"):
        TorchFile(path)


def rewritten(path, change):
    """A zip of torch.save with changed members: {name: content}."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_storages_must_have_the_size_that_the_tensors_say(tmp_path):
    """Else a tensor could show memory that nobody has written."""
    for change, message in (
        (lambda members: members.pop("w/data/0"), "w cannot be read"),
        (lambda members: members.update({"w/data/0": bytes(4)}), "w cannot be read .4 bytes"),
        (lambda members: members.update({"w/byteorder": b"big"}), "byte order b'big'"),
    ):
        path = rewritten(save(tmp_path / "w.th", {"w": torch.ones(100)}), change)
        with pytest.raises(SourceError, match=message):
            TorchFile(path).read("w")


def legacy_bytes(keys, num_elements=4):
    """A legacy file of a tensor w whose list of storages is `keys`."""
    content = io.BytesIO()
    torch.save({"w": torch.ones(4)}, content, **LEGACY)
    content.seek(0)
    parts = [pickle.dumps(torch_file.parse_pickle(content), protocol=2) for _ in range(3)]
    begin = content.tell()
    torch_file.parse_pickle(content)
    state = content.getvalue()[begin : content.tell()]
    (key,) = torch_file.parse_pickle(content)
    keys = [key] * keys
    return b"".join([*parts, state, pickle.dumps(keys, protocol=2), struct.pack("<q", num_elements), bytes(16)])


def test_a_legacy_file_that_leaves_out_a_storage(tmp_path):
    """torch.load gives such a tensor uninitialised memory."""
    path = tmp_path / "w.th"
    path.write_bytes(legacy_bytes(keys=1))
    assert TorchFile(path).read("w").tolist() == [0.0] * 4
    for content in (legacy_bytes(keys=0), legacy_bytes(keys=1, num_elements=3), legacy_bytes(keys=1)[:-1]):
        path.write_bytes(content)
        with pytest.raises(SourceError, match="w.th is (not a file of torch.save, or is )?damaged"):
            TorchFile(path).read("w")


def test_compressed_members_and_endless_pickles_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "w.th"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(50 << 20))
    with pytest.raises(SourceError, match="the member data.pkl of 52,428,800 bytes"):
        TorchFile(path)
    monkeypatch.setattr(torch_file, "MAX_OPCODES", 1000)
    with pytest.raises(SourceError, match="more than 1,000 opcodes"):
        TorchFile(save(path, {str(k): torch.ones(1) for k in range(100)}))


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02L" + b"9" * 5000 + b"L\n.",
        b"\x80\x02" + b"(" * 100_000 + b".",
        b"\x80\x02)" + b"\x85" * 100_000 + b".",
        b"\x80\x02}" + b")" + b"\x85" * 100_000 + b"Ns.",  # a key whose hash would need a deep stack
        b"\x80\x02h\xff.",
        b"",
    ],
    ids=["5,000 digits", "marks", "nested tuples", "nested key", "unknown memo", "empty"],
)
def test_odd_pickles_end_in_a_sentence_with_the_file(content, tmp_path):
    path = tmp_path / "weights.th"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="weights.th is not a file of torch.save, or is damaged"):
        TorchFile(path)


@pytest.mark.parametrize("settings", [{}, LEGACY], ids=["zip", "legacy"])
def test_random_damage_is_always_a_sentence_with_the_file(settings, tmp_path):
    content, random = io.BytesIO(), np.random.default_rng(0)
    torch.save(torch.nn.LSTM(3, 2).state_dict(), content, **settings)
    path = tmp_path / "weights.th"
    for _ in range(300):
        broken = bytearray(content.getvalue())
        for place in random.integers(0, len(broken), 4):
            broken[place] = random.integers(256)
        path.write_bytes(broken)
        try:
            weights = TorchFile(path)
            for name in weights.tensors:
                weights.read(name)
        except SourceError as error:
            assert str(path) in str(error)
