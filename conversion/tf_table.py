"""Sorted tables in LevelDB's format: the index file of a TensorFlow checkpoint.

A table consists of blocks of entries whose keys share prefixes. Each block has a checksum. A list of the blocks is a
block itself; the footer at the end of the file points to it.
"""

import struct
from collections.abc import Iterator

import numpy as np

from .downloads import SourceError

MAGIC = 0xDB4775248B80FB57
FOOTER_SIZE = 48  # two handles and the magic number
TRAILER_SIZE = 5  # of a block: its compression and its checksum
NO_COMPRESSION, SNAPPY = 0, 1
# TensorFlow writes blocks of 256 KB. An index of a thousand variables has a few of them.
MAX_TABLE_SIZE = 16 << 20
MAX_UNPACKED_SIZE = 32 << 20

Handle = tuple[int, int]  # the offset and the size of a block

# What damaged bytes raise in the functions of this module.
DECODING_ERRORS = (IndexError, struct.error, OverflowError, TypeError)


def read_table(data: bytes, where: str) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a table.

    Every data block begins behind the previous one, so that no block is read twice.

    Args:
        data: the content of the file.
        where: the name of the file, for messages.
    """
    size = len(data)
    if size < FOOTER_SIZE or struct.unpack_from("<Q", data, size - 8)[0] != MAGIC:
        raise SourceError(
            f"{where} is not the index of a TensorFlow checkpoint, or is truncated: its last bytes are missing "
            f"({size:,} bytes are there)."
        )
    _, position = read_handle(data, size - FOOTER_SIZE)
    block_list, _ = read_handle(data, position)
    next_offset, budget = 0, MAX_UNPACKED_SIZE
    for _, value in _entries(_unpacked_block(data, block_list, budget, where), block_list[0], where):
        handle = read_handle(value, 0)[0]
        if handle[0] < next_offset:
            raise SourceError(f"{where} is damaged: it lists the block at byte {handle[0]:,} twice or out of order.")
        next_offset = sum(handle)
        block = _unpacked_block(data, handle, budget, where)
        budget -= len(block)
        yield from _entries(block, handle[0], where)


def _unpacked_block(data: bytes, handle: Handle, budget: int, where: str) -> bytes:
    """A block without its trailer, uncompressed. It may have at most `budget` bytes."""
    offset, size = handle
    if size < 4 or offset + size + TRAILER_SIZE > len(data):
        raise SourceError(f"{where} is truncated: a block at byte {offset:,} ends outside of the file.")
    block, compression = data[offset : offset + size], data[offset + size]
    checksum = struct.unpack_from("<I", data, offset + size + 1)[0]
    if mask_checksum(crc32c(data[offset : offset + size + 1])) != checksum:
        raise SourceError(f"{where} is damaged: the block at byte {offset:,} has a wrong checksum.")
    if compression == SNAPPY:
        return unpack_snappy(block, budget)
    if compression != NO_COMPRESSION:
        raise SourceError(f"{where} has a block of the unknown compression {compression}.")
    return block


def _entries(block: bytes, offset: int, where: str) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of an uncompressed block."""
    restarts = struct.unpack_from("<I", block, len(block) - 4)[0]
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise SourceError(f"{where} is damaged: the block at byte {offset:,} contradicts its own size.")
    position, key = 0, b""
    while position < end:
        num_shared, position = read_varint(block, position)
        num_own, position = read_varint(block, position)
        value_size, position = read_varint(block, position)
        value_start = position + num_own
        if num_shared > len(key) or value_start + value_size > end:
            raise SourceError(f"{where} is damaged: an entry at byte {offset:,} ends outside of its block.")
        key = key[:num_shared] + block[position:value_start]
        position = value_start + value_size
        yield key, block[value_start:position]


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and the position behind it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise IndexError("a number without an end")


def read_handle(data: bytes, position: int) -> tuple[Handle, int]:
    """The offset and the size of a block, and the position behind them."""
    offset, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return (offset, size), position


def unpack_snappy(data: bytes, max_size: int) -> bytes:
    """Uncompresses a Snappy block of at most `max_size` bytes."""
    size, position = read_varint(data, 0)
    if size > max_size:
        raise IndexError(f"a block of {size:,} bytes")
    out = bytearray()
    while position < len(data) and len(out) <= size:
        tag = data[position]
        position += 1
        if tag & 3 == 0:
            literal, position = _snappy_literal(data, position, tag)
            out += literal
        else:
            length, distance, position = _snappy_copy(data, position, tag)
            if not 1 <= distance <= len(out):
                raise IndexError("a copy from before the beginning")
            pattern = out[-distance:] if distance < length else out[len(out) - distance :][:length]
            out += (pattern * (length // distance + 1))[:length]
    if len(out) != size:
        raise IndexError("a block of another length than it says")
    return bytes(out)


def _snappy_literal(data: bytes, position: int, tag: int) -> tuple[bytes, int]:
    length = 1 + (tag >> 2)
    if length > 60:
        num_bytes = length - 60
        length = 1 + int.from_bytes(data[position : position + num_bytes], "little")
        position += num_bytes
    return data[position : position + length], position + length


def _snappy_copy(data: bytes, position: int, tag: int) -> tuple[int, int, int]:
    """The length of a copy, its distance from the end of the output, and the position behind it."""
    if tag & 3 == 1:
        return 4 + (tag >> 2 & 7), (tag >> 5) << 8 | data[position], position + 1
    num_bytes = 2 if tag & 3 == 2 else 4
    return 1 + (tag >> 2), int.from_bytes(data[position : position + num_bytes], "little"), position + num_bytes


# -- the checksum CRC-32C

LANE = 4096  # bytes of one of many stretches whose checksums are computed side by side
LANES_PER_BATCH, MIN_LANES = 4096, 48


def _crc_table() -> np.ndarray:
    """table[b]: what byte b does to the checksum."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table


CRC_TABLE = _crc_table()
CRC_LIST = CRC_TABLE.tolist()


def _zero_lane_tables() -> list[list[int]]:
    """What a lane of zeros makes of each value of each of a checksum's four bytes."""
    crcs = (np.arange(256, dtype=np.uint32)[None, :] << (8 * np.arange(4, dtype=np.uint32))[:, None]).astype(np.uint32)
    for _ in range(LANE):
        crcs = CRC_TABLE[crcs & 0xFF] ^ (crcs >> 8)
    return crcs.tolist()


ZERO_LANE_TABLES = _zero_lane_tables()


def crc32c(data: bytes | np.ndarray) -> int:
    """The checksum CRC-32C.

    Lanes of the data go through the table side by side, one byte of each at a time. The checksum of the whole is
    combined from theirs: the checksum is linear, so zeros behind a lane act on its checksum as a matrix.
    """
    array = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
    num_lanes = len(array) // LANE
    num_lanes = num_lanes if num_lanes >= MIN_LANES else 0
    state = 0xFFFFFFFF
    for start in range(0, num_lanes, LANES_PER_BATCH):
        lanes = array[start * LANE : min(start + LANES_PER_BATCH, num_lanes) * LANE].reshape(-1, LANE)
        crcs = np.zeros(len(lanes), np.uint32)
        for column in np.ascontiguousarray(lanes.T):
            crcs = CRC_TABLE[(crcs ^ column) & 0xFF] ^ (crcs >> 8)
        for crc in crcs.tolist():
            state = _crc_after_zero_lane(state) ^ crc
    for byte in array[num_lanes * LANE :].tolist():
        state = CRC_LIST[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def _crc_after_zero_lane(crc: int) -> int:
    first, second, third, fourth = ZERO_LANE_TABLES
    return first[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255] ^ fourth[crc >> 24]


def mask_checksum(crc: int) -> int:
    """A checksum as LevelDB and TensorFlow store it."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
