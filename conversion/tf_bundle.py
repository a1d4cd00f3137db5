"""TensorFlow checkpoints (NAME.index and NAME.data-00000-of-00001) without TensorFlow.

The index is a sorted table of the kind that LevelDB writes: blocks of entries whose keys share beginnings, each with
a checksum, found by a block of blocks that the footer at the end of the file points to. The value of an entry is a
small protocol buffer: type, shape, which file, where in it, how long, which checksum. A variable that was partitioned
has one entry that lists its slices, and one entry for each slice under a key that is derived from its place.
"""

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .downloads import SourceError

MAGIC = 0xDB4775248B80FB57
FOOTER, BLOCK_END = 48, 5  # bytes: two handles and the magic number; compression and checksum
LARGEST_INDEX = 256 << 20
MOST_ENTRIES, MOST_DIMENSIONS = 1_000_000, 8
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
UNREADABLE = {7: "string", 11: "qint8", 12: "quint8", 13: "qint32", 20: "resource", 21: "variant"}

Extent = tuple[int, int | None]  # where a slice begins, and how long it is; None for all


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
    """The tensors of a checkpoint by name; nothing is read that the files do not really have.

    Args:
        index: the .index file; the .data files stand beside it.
    """

    def __init__(self, index: str | os.PathLike):
        self.index = Path(index)
        self.where = str(index)
        self.prefix = self.index.name.removesuffix(".index")
        self._entries: dict[bytes, Tensor] = {}
        self._shards = 1
        try:
            self._read_index()
        except (IndexError, struct.error, OverflowError, MemoryError, TypeError) as error:
            raise SourceError(f"{self.where} is a damaged index of a TensorFlow checkpoint ({error}).") from None
        except UnicodeDecodeError:
            raise SourceError(f"{self.where} has a name that is not UTF-8.") from None

    def _read_index(self):
        size = self.index.stat().st_size
        if size > LARGEST_INDEX:
            raise SourceError(f"{self.where} has {size:,} bytes, and no index of a checkpoint has.")
        data = self.index.read_bytes()
        if size < FOOTER or struct.unpack_from("<Q", data, size - 8)[0] != MAGIC:
            raise SourceError(
                f"{self.where} is not the index of a TensorFlow checkpoint, or is truncated: its {size:,} bytes do "
                "not end as one."
            )
        _, at = _handle(data, size - FOOTER)
        blocks, _ = _handle(data, at)
        for _, value in self._block(data, blocks):
            for key, entry in self._block(data, _handle(value, 0)[0]):
                if key in self._entries or len(self._entries) >= MOST_ENTRIES:
                    raise SourceError(f"{self.where} names {key[:80]!r} twice, or has too many names.")
                if key:
                    self._entries[key] = self._tensor(key, entry)
                else:
                    self._read_header(entry)
        for key, tensor in self._entries.items():
            if not 0 <= tensor.shard < self._shards:
                raise SourceError(
                    f"{self.where}: {_shown(key)} is in the data file {tensor.shard} of {self._shards}, which there "
                    "cannot be."
                )
        self._names = [key.decode("utf-8") for key in self._entries if key[:1] != b"\0"]

    def _read_header(self, entry: bytes):
        header = _message(entry)
        self._shards = header.get(1, [1])[0]
        if header.get(2, [0])[0]:
            raise SourceError(f"{self.where} was written on a machine with the other order of bytes.")
        if not isinstance(self._shards, int) or not 1 <= self._shards <= 99_999:
            raise SourceError(f"{self.where} names {self._shards} data files; accepted are 1 to 99,999.")

    def _block(self, data: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
        offset, size = handle
        if size < 4 or offset + size + BLOCK_END > len(data):
            raise SourceError(f"{self.where} is truncated: a block at byte {offset:,} ends outside of the file.")
        raw, compression = data[offset : offset + size], data[offset + size]
        if _masked(crc32c(data[offset : offset + size + 1])) != struct.unpack_from("<I", data, offset + size + 1)[0]:
            raise SourceError(f"{self.where} is damaged: the block at byte {offset:,} has a wrong checksum.")
        if compression == 1:
            raw = unpack_snappy(raw, LARGEST_INDEX)
        elif compression:
            raise SourceError(f"{self.where} has a block of the unknown compression {compression}.")
        restarts = struct.unpack_from("<I", raw, len(raw) - 4)[0]
        end = len(raw) - 4 - 4 * restarts
        if end < 0:
            raise SourceError(f"{self.where} is damaged: the block at byte {offset:,} contradicts its own size.")
        at, key = 0, b""
        while at < end:
            shared, at = _varint(raw, at)
            own, at = _varint(raw, at)
            length, at = _varint(raw, at)
            if shared > len(key) or at + own + length > end:
                raise SourceError(f"{self.where} is damaged: an entry at byte {offset:,} ends outside of its block.")
            key = key[:shared] + raw[at : at + own]
            yield key, raw[at + own : at + own + length]
            at += own + length

    def _tensor(self, key: bytes, entry: bytes) -> Tensor:
        fields = _message(entry)
        numbers = [fields.get(number, [0])[0] for number in (1, 3, 4, 5, 6)]
        shape = _shape(fields.get(2, [b""])[0])
        slices = tuple(_slice(one) for one in fields.get(7, []))
        if not all(isinstance(number, int) for number in numbers) or len(shape) > MOST_DIMENSIONS:
            raise SourceError(f"{self.where}: the entry of {_shown(key)} is damaged.")
        code, shard, offset, size, checksum = numbers
        return Tensor(code, shape, shard, offset, size, checksum, slices)

    # -- what a source of weights has

    def names(self) -> list[str]:
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entries[name.encode()].shape

    def dtype(self, name: str) -> np.dtype:
        code = self._entries[name.encode()].code
        return np.dtype("<f4" if code == BFLOAT16 else TYPES.get(code, "O"))

    def read(self, name: str) -> np.ndarray:
        """One tensor, its checksum verified; put together, if it was stored in slices."""
        tensor = self._entries[name.encode()]
        if not tensor.slices:
            return self._read(name, tensor)
        parts = [(extents, self._slice_of(name, tensor, extents)) for extents in tensor.slices]
        if sum(_number(part.shape) for _, part in parts) != _number(tensor.shape):
            raise SourceError(f"{self.where}: the slices of {name} do not make up its shape {tensor.shape}.")
        # The slices are there before the whole is made: what is not in the files asks for no memory.
        values = [(_places(extents, tensor.shape), self._read(name, part)) for extents, part in parts]
        whole = np.empty(tensor.shape, values[0][1].dtype)
        for places, one in values:
            whole[places] = one
        return whole

    def _slice_of(self, name: str, tensor: Tensor, extents: tuple[Extent, ...]) -> Tensor:
        part = self._entries.get(slice_key(name, extents))
        if part is None:
            raise SourceError(f"{self.where}: a slice of {name} is missing, {extents}.")
        places = _places(extents, tensor.shape)
        expected = tuple(place.stop - place.start for place in places)
        inside = all(0 <= p.start < p.stop <= size for p, size in zip(places, tensor.shape, strict=False))
        if len(places) != len(tensor.shape) or not inside or part.shape != expected or part.code != tensor.code:
            raise SourceError(
                f"{self.where}: a slice of {name} has the shape {part.shape}; expected is {expected} of "
                f"{tensor.shape}."
            )
        return part

    def _read(self, name: str, tensor: Tensor) -> np.ndarray:
        if tensor.code not in TYPES:
            kind = UNREADABLE.get(tensor.code, f"of code {tensor.code}")
            raise SourceError(f"{self.where}: {name} has the type {kind}; accepted are numbers.")
        kind = np.dtype(TYPES[tensor.code])
        if _number(tensor.shape) * kind.itemsize != tensor.size:
            raise SourceError(
                f"{self.where}: {name} has the shape {tensor.shape} and the type {kind}, but {tensor.size:,} bytes."
            )
        path = self.index.with_name(f"{self.prefix}.data-{tensor.shard:05d}-of-{self._shards:05d}")
        try:
            there = path.stat().st_size
        except OSError:
            raise SourceError(
                f"{path} is missing, where {name} is; {self.where} names {self._shards} such files."
            ) from None
        if tensor.offset + tensor.size > there:
            raise SourceError(
                f"{path} is truncated: {name} is at the bytes {tensor.offset:,} to {tensor.offset + tensor.size:,}, "
                f"but there are {there:,}."
            )
        values = np.fromfile(path, np.uint8, tensor.size, offset=tensor.offset)
        if _masked(crc32c(values)) != tensor.checksum:
            raise SourceError(f"{path} is damaged: {name} has a wrong checksum.")
        values = values.view(kind).reshape(tensor.shape)
        return (values.astype("<u4") << 16).view("<f4") if tensor.code == BFLOAT16 else values


def data_names(index_name: str, names: list[str]) -> list[str]:
    """Those of `names` that hold the data of a checkpoint."""
    pattern = re.compile(re.escape(index_name.removesuffix(".index")) + r"\.data-\d{5}-of-\d{5}")
    return [name for name in names if pattern.fullmatch(name)]


# -- protocol buffers: numbers of seven bits a byte; a message is a row of fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise IndexError("a number without an end")


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return (offset, size), at


def _message(data: bytes) -> dict[int, list]:
    """The values of each field by its number: whole numbers, or bytes."""
    if not isinstance(data, bytes):
        raise IndexError("a number where a message belongs")
    fields: dict[int, list] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise IndexError("a field that ends outside of its message")
            value, at = data[at : at + size], at + size
        elif kind in (1, 5):
            value = struct.unpack_from("<Q" if kind == 1 else "<I", data, at)[0]
            at += 8 if kind == 1 else 4
        else:
            raise IndexError(f"a field of the unknown kind {kind}")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _shape(data: bytes) -> tuple[int, ...]:
    return tuple(_message(dimension).get(1, [0])[0] for dimension in _message(data).get(2, []))


def _slice(data: bytes) -> tuple[Extent, ...]:
    extents = [_message(one) for one in _message(data).get(1, [])]
    return tuple((one.get(1, [0])[0], one.get(2, [None])[0]) for one in extents)


def _places(extents: tuple[Extent, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(
        slice(start, size if length is None else start + length)
        for (start, length), size in zip(extents, shape, strict=False)
    )


def _number(shape: tuple[int, ...]) -> int:
    number = 1
    for size in shape:
        number *= size
    return number


def _shown(key: bytes) -> str:
    return key[:80].decode("utf-8", "replace")


# -- the keys of slices: numbers written so that their order as bytes is their order


def slice_key(name: str, extents: tuple[Extent, ...]) -> bytes:
    """The key under which a slice of a variable stands."""
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
        raise OverflowError("a place in a slice that no variable has")
    digits = bytearray((number & ((1 << (8 * length)) - 1)).to_bytes(length, "big"))
    digits[0] ^= (0xFF << (8 - length)) & 0xFF
    return bytes(digits)


# -- checksums and compression


def _tables() -> np.ndarray:
    """tables[k][b]: what byte b does to the checksum from k bytes on."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table


CRC_TABLE = _tables()
LANE = 4096  # bytes of one of many stretches whose checksums are worked out side by side


def crc32c(data: bytes | np.ndarray) -> int:
    """The checksum CRC-32C.

    Stretches of the data go through the table side by side, one byte of each at a time; the checksum of the whole is
    put together from theirs, because the checksum is linear: zeros after a stretch act on its checksum as a matrix.
    """
    array = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
    lanes = len(array) // LANE
    lanes = lanes if lanes >= FEWEST_LANES else 0
    state = 0xFFFFFFFF
    for start in range(0, lanes, LANES_AT_ONCE):
        many = array[start * LANE : min(start + LANES_AT_ONCE, lanes) * LANE].reshape(-1, LANE)
        columns = np.ascontiguousarray(many.T)
        crcs = np.zeros(len(many), np.uint32)
        for column in columns:
            crcs = CRC_TABLE[(crcs ^ column) & 0xFF] ^ (crcs >> 8)
        for crc in crcs.tolist():
            state = _after_zeros(state) ^ crc
    table = CRC_LIST
    for byte in array[lanes * LANE :].tolist():
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


LANES_AT_ONCE, FEWEST_LANES = 4096, 48
CRC_LIST = CRC_TABLE.tolist()


def _zero_columns() -> list[list[int]]:
    """What a lane of zeros makes of each value of each of a checksum's four bytes."""
    crcs = (np.arange(256, dtype=np.uint32)[None, :] << (8 * np.arange(4, dtype=np.uint32))[:, None]).astype(np.uint32)
    for _ in range(LANE):
        crcs = CRC_TABLE[crcs & 0xFF] ^ (crcs >> 8)
    return crcs.tolist()


ZEROS = _zero_columns()


def _after_zeros(crc: int) -> int:
    first, second, third, fourth = ZEROS
    return first[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255] ^ fourth[crc >> 24]


def _masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def unpack_snappy(data: bytes, most: int) -> bytes:
    """What Snappy packed, if it is not more than `most` bytes."""
    size, at = _varint(data, 0)
    if size > most:
        raise IndexError(f"a block of {size:,} bytes")
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        kind, length = tag & 3, 1 + (tag >> 2)
        if kind == 0:
            if length > 60:
                extra = length - 60
                length = 1 + int.from_bytes(data[at : at + extra], "little")
                at += extra
            out += data[at : at + length]
            at += length
        else:
            if kind == 1:
                length, back, at = 4 + (tag >> 2 & 7), (tag >> 5) << 8 | data[at], at + 1
            else:
                width = 2 if kind == 2 else 4
                back, at = int.from_bytes(data[at : at + width], "little"), at + width
            if not 1 <= back <= len(out):
                raise IndexError("a copy from before the beginning")
            for _ in range(length):
                out.append(out[-back])
        if len(out) > size:
            break
    if len(out) != size:
        raise IndexError("a block of another length than it says")
    return bytes(out)
