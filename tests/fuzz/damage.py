"""Random damage to bytes and JSON."""

import json
import random
from collections.abc import Callable

HOSTILE = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**30,
    0.5,
    -1e308,
    1e308,
    "",
    "relu",
    "x" * 300,
    "\ud800",
    "\0",
]
HOSTILE += [[], {}, [[]], {"": {}}, [1, 2], [[1, 4], [2, -1]], {"a": [None]}, float("nan"), float("inf"), "../../x"]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes with some random damage, as by disks, networks and attackers."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        data = rng.choice(WAYS)(rng, data)
    return data


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(min(rng.choice([1, 1, 4, 64]), len(changed))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _cut_out(rng: random.Random, data: bytes) -> bytes:
    begin = rng.randrange(len(data) + 1)
    return data[:begin] + data[begin + rng.choice([1, 8, 512, 4096]) :]


def _put_in(rng: random.Random, data: bytes) -> bytes:
    place, size = rng.randrange(len(data) + 1), rng.choice([1, 8, 512])
    return data[:place] + rng.choice([bytes(size), b"\xff" * size, rng.randbytes(size)]) + data[place:]


def _zeros(rng: random.Random, data: bytes) -> bytes:
    begin, size = rng.randrange(len(data) + 1), rng.choice([8, 512, 4096])
    return data[:begin] + bytes(len(data[begin : begin + size])) + data[begin + size :]


def _largest(rng: random.Random, data: bytes) -> bytes:
    """Replaces eight bytes by a large number: lengths, offsets and counts become invalid."""
    begin = rng.randrange(max(len(data) - 8, 1))
    return data[:begin] + rng.choice([b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\0\0\0\0\1\0\0\0"]) + data[begin + 8 :]


WAYS: list[Callable[[random.Random, bytes], bytes]] = [_flip, _flip, _cut, _cut_out, _put_in, _zeros, _largest]


def damaged_json(rng: random.Random, value: object) -> bytes:
    """A JSON document with a hostile value, or damaged text."""
    changed = json.loads(json.dumps(value))
    for _ in range(rng.choice([1, 1, 2])):
        changed = _changed(rng, changed)
    text = json.dumps(changed).encode("utf-8", "surrogatepass")
    return damaged(rng, text) if rng.random() < 0.15 else text


def _changed(rng: random.Random, value: object) -> object:
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key, what = rng.choice(sorted(value)), rng.random()
        if what < 0.15:
            return {name: inner for name, inner in value.items() if name != key}
        if what < 0.2:
            return {**value, rng.choice(["", "__class__", "auto_map", key + "_"]): rng.choice(HOSTILE)}
        return {**value, key: _changed(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [*value[:place], _changed(rng, value[place]), *value[place + 1 :]]
    return rng.choice(HOSTILE)
