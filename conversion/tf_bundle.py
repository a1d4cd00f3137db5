"""TensorFlow checkpoints (NAME.index and NAME.data-00000-of-00001) without TensorFlow.

The index is a sorted table (see `tf_table`). The value of an entry is a small protocol buffer: type, shape, number of
the data file, offset, size, checksum. A partitioned variable has one entry that lists its slices, and one entry for
each slice, whose key is derived from the place of the slice.
"""

import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .downloads import SourceError
from .tf_table import DECODING_ERRORS, MAX_TABLE_SIZE, crc32c, mask_checksum, read_table, read_varint

MAX_ENTRIES, MAX_DIMENSIONS, MAX_DATA_FILES = 100_000, 8, 99_999
MAX_INTEGER = 1 << 48  # sizes, offsets and places of slices; larger ones have no key
# The types of tensors that are plain numbers, by TensorFlow's codes.
TYPES = {
    1: "<f4",
    2: "<f8",
    3: "<i4",
    4: "u1",
    5: "<i2",
    6: "i1",
    8: "<c8",
    9: "<i8",
    10: "?",
    14: "<u2",  # bfloat16, widened when it is read
    17: "<u2",
    18: "<c16",
    19: "<f2",
    22: "<u4",
    23: "<u8",
}
BFLOAT16 = 14
OTHER_TYPES = {7: "string", 11: "qint8", 12: "quint8", 13: "qint32", 20: "resource", 21: "variant"}

Extent = tuple[int, int | None]  # where a slice begins in one dimension, and its length; None for the whole dimension


@dataclass(frozen=True)
class Tensor:
    """One entry of the index."""

    code: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    slices: tuple[tuple[Extent, ...], ...]


class Checkpoint:
    """The tensors of a checkpoint by name. Memory is allocated only for bytes that the files contain.

    Args:
        index: the .index file. The .data files are in the same folder.
        where: the name of the index in messages; default: its path.
    """

    def __init__(self, index: str | os.PathLike, where: str | None = None):
        self.index = Path(index)
        self.where = where or str(index)
        self.prefix = self.index.name.removesuffix(".index")
        self._entries: dict[bytes, Tensor] = {}
        self._num_shards = 1
        try:
            self._read_index()
            self._names = [key.decode("utf-8") for key in self._entries if key[:1] != b"\0"]
        except (*DECODING_ERRORS, MemoryError) as error:
            raise SourceError(f"{self.where} is a damaged index of a TensorFlow checkpoint ({error}).") from None
        except UnicodeDecodeError:
            raise SourceError(f"{self.where} has a name that is not UTF-8.") from None

    def _read_index(self):
        size = self.index.stat().st_size
        if size > MAX_TABLE_SIZE:
            raise SourceError(f"{self.where} has {size:,} bytes; expected at most {MAX_TABLE_SIZE:,} for an index.")
        for key, entry in read_table(self.index.read_bytes(), self.where):
            if key in self._entries or len(self._entries) >= MAX_ENTRIES:
                raise SourceError(f"{self.where} names {key[:80]!r} twice, or has more than {MAX_ENTRIES:,} names.")
            if key:
                self._entries[key] = self._parse_tensor(key, entry)
            else:
                self._read_header(entry)
        self._check_data_ranges()

    def _read_header(self, entry: bytes):
        header = _parse_message(entry)
        self._num_shards = header.get(1, [1])[0]
        if header.get(2, [0])[0]:
            raise SourceError(f"{self.where} was written on a big-endian machine; expected little-endian numbers.")
        if not isinstance(self._num_shards, int) or not 1 <= self._num_shards <= MAX_DATA_FILES:
            raise SourceError(f"{self.where} names {self._num_shards} data files; expected 1 to {MAX_DATA_FILES:,}.")

    def _parse_tensor(self, key: bytes, entry: bytes) -> Tensor:
        fields = _parse_message(entry)
        numbers = [fields.get(number, [0])[0] for number in (1, 3, 4, 5, 6)]
        shape = _parse_shape(fields.get(2, [b""])[0])
        slices = tuple(_parse_slice(value) for value in fields.get(7, []))
        places = [number for extents in slices for extent in extents for number in extent if number is not None]
        integers = [*numbers, *shape, *places]
        valid = all(isinstance(number, int) and number < MAX_INTEGER for number in integers)
        if not valid or len(shape) > MAX_DIMENSIONS:
            raise SourceError(f"{self.where}: the entry of {_printable(key)} is damaged.")
        code, shard, offset, size, checksum = numbers
        return Tensor(code, shape, shard, offset, size, checksum, slices)

    def _check_data_ranges(self):
        """Tensors are in data files that exist, and no two share bytes: a small file does not become a large model."""
        ranges = []
        for key, tensor in self._entries.items():
            if tensor.shard >= self._num_shards:
                raise SourceError(
                    f"{self.where}: {_printable(key)} is in data file {tensor.shard} of {self._num_shards}."
                )
            if not tensor.slices and tensor.size:
                ranges.append((tensor.shard, tensor.offset, tensor.offset + tensor.size, key))
        ranges.sort()
        for (shard, _, end, key), (next_shard, start, _, next_key) in zip(ranges, ranges[1:], strict=False):
            if shard == next_shard and start < end:
                raise SourceError(
                    f"{self.where}: {_printable(key)} and {_printable(next_key)} share bytes of data file {shard}."
                )

    # -- the protocol `Weights`

    def names(self) -> list[str]:
        """The variables, without the entries of single slices."""
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a variable."""
        return self._entries[name.encode()].shape

    def dtype(self, name: str) -> np.dtype:
        """The type of a variable as it is read; object for types that are not numbers."""
        code = self._entries[name.encode()].code
        return np.dtype("<f4" if code == BFLOAT16 else TYPES.get(code, "O"))

    def read(self, name: str) -> np.ndarray:
        """A variable, with verified checksums. Slices are assembled."""
        tensor = self._entries[name.encode()]
        if not tensor.slices:
            return self._read_tensor(name, tensor)
        parts = [(extents, self._find_slice(name, tensor, extents)) for extents in tensor.slices]
        if sum(_num_elements(part.shape) for _, part in parts) != _num_elements(tensor.shape):
            raise SourceError(f"{self.where}: the slices of {name} do not add up to its shape {tensor.shape}.")
        # All slices are read before the result is allocated: missing data requires no memory.
        arrays = [(_to_slices(extents, tensor.shape), self._read_tensor(name, part)) for extents, part in parts]
        result = np.zeros(tensor.shape, arrays[0][1].dtype)
        is_filled = np.zeros(tensor.shape, bool)
        for place, array in arrays:
            # The sizes add up, so slices that do not overlap also cover the variable.
            if is_filled[place].any():
                raise SourceError(
                    f"{self.where}: the slices of {name} overlap, so that other parts of it are missing; expected "
                    f"slices that cover the shape {tensor.shape} once."
                )
            result[place], is_filled[place] = array, True
        return result

    def _find_slice(self, name: str, tensor: Tensor, extents: tuple[Extent, ...]) -> Tensor:
        part = self._entries.get(slice_key(name, extents))
        if part is None:
            raise SourceError(f"{self.where}: a slice of {name} is missing, {extents}.")
        place = _to_slices(extents, tensor.shape)
        expected = tuple(s.stop - s.start for s in place)
        is_inside = all(0 <= s.start < s.stop <= size for s, size in zip(place, tensor.shape, strict=False))
        if len(place) != len(tensor.shape) or not is_inside or part.shape != expected or part.code != tensor.code:
            raise SourceError(
                f"{self.where}: a slice of {name} has the shape {part.shape}; expected {expected} inside of "
                f"{tensor.shape}."
            )
        return part

    def _read_tensor(self, name: str, tensor: Tensor) -> np.ndarray:
        if tensor.code not in TYPES:
            kind = OTHER_TYPES.get(tensor.code, f"of code {tensor.code}")
            raise SourceError(f"{self.where}: {name} has the type {kind}; expected numbers.")
        dtype = np.dtype(TYPES[tensor.code])
        if _num_elements(tensor.shape) * dtype.itemsize != tensor.size:
            raise SourceError(
                f"{self.where}: {name} has the shape {tensor.shape} and the type {dtype}, but {tensor.size:,} bytes."
            )
        path, shown = self._data_file(tensor.shard)
        try:
            file_size = path.stat().st_size
        except OSError:
            raise SourceError(
                f"{shown} is missing, which holds {name}. Expected all data files of {self.where} "
                f"({self._num_shards}) beside it."
            ) from None
        end = tensor.offset + tensor.size
        if end > file_size:
            raise SourceError(
                f"{shown} is truncated: {name} is at the bytes {tensor.offset:,} to {end:,}, but there are "
                f"{file_size:,}."
            )
        content = np.fromfile(path, np.uint8, tensor.size, offset=tensor.offset)
        if mask_checksum(crc32c(content)) != tensor.checksum:
            raise SourceError(f"{shown} is damaged: {name} has a wrong checksum.")
        values = content.view(dtype).reshape(tensor.shape)
        return (values.astype("<u4") << 16).view("<f4") if tensor.code == BFLOAT16 else values

    def _data_file(self, shard: int) -> tuple[Path, str]:
        """The path of a data file, and its name in messages."""
        suffix = f".data-{shard:05d}-of-{self._num_shards:05d}"
        return self.index.with_name(self.prefix + suffix), self.where.removesuffix(".index") + suffix


def data_names(index_name: str, names: list[str]) -> list[str]:
    """Those of `names` that are data files of the checkpoint with this index."""
    pattern = re.compile(re.escape(index_name.removesuffix(".index")) + r"\.data-\d{5}-of-\d{5}")
    return [name for name in names if pattern.fullmatch(name)]


# -- protocol buffers


def _parse_message(data: bytes) -> dict[int, list]:
    """The values of each field by its number: integers, or bytes."""
    if not isinstance(data, bytes):
        raise IndexError("a number where a message belongs")
    fields: dict[int, list] = {}
    position = 0
    while position < len(data):
        key, position = read_varint(data, position)
        kind = key & 7
        value: int | bytes
        if kind == 0:
            value, position = read_varint(data, position)
        elif kind == 2:
            size, position = read_varint(data, position)
            if position + size > len(data):
                raise IndexError("a field that ends outside of its message")
            value, position = data[position : position + size], position + size
        elif kind in (1, 5):
            value = struct.unpack_from("<Q" if kind == 1 else "<I", data, position)[0]
            position += 8 if kind == 1 else 4
        else:
            raise IndexError(f"a field of the unknown kind {kind}")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _parse_shape(data: bytes) -> tuple[int, ...]:
    return tuple(_parse_message(dimension).get(1, [0])[0] for dimension in _parse_message(data).get(2, []))


def _parse_slice(data: bytes) -> tuple[Extent, ...]:
    extents = [_parse_message(extent) for extent in _parse_message(data).get(1, [])]
    return tuple((extent.get(1, [0])[0], extent.get(2, [None])[0]) for extent in extents)


def _to_slices(extents: tuple[Extent, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(
        slice(start, size if length is None else start + length)
        for (start, length), size in zip(extents, shape, strict=False)
    )


def _num_elements(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def _printable(key: bytes) -> str:
    return key[:80].decode("utf-8", "replace")


# -- keys of slices: numbers encoded so that the bytes sort like the numbers


def slice_key(name: str, extents: tuple[Extent, ...]) -> bytes:
    """The key of the entry of a slice."""
    key = _ordered(0) + name.encode() + b"\0\1" + _ordered(len(extents))
    for start, length in extents:
        key += _ordered_signed(start) + _ordered_signed(-1 if length is None else length)
    return key


def _ordered(number: int) -> bytes:
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([len(digits)]) + digits


def _ordered_signed(number: int) -> bytes:
    """Six bits fit in a byte, thirteen in two, ...: the first byte begins with as many ones as there are bytes."""
    bits = (~number if number < 0 else number).bit_length()
    length = bits // 7 + 1
    if length > 7:
        raise OverflowError(f"Invalid place of a slice: {number}. Expected less than {MAX_INTEGER}.")
    digits = bytearray((number & ((1 << (8 * length)) - 1)).to_bytes(length, "big"))
    digits[0] ^= (0xFF << (8 - length)) & 0xFF
    return bytes(digits)
