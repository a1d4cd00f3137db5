"""Records of shards: the size and the checksum of each file, for `verify`.

A record lies beside its shard, in a hidden file, until the store is finished. Then the settings hold all of them.
Shards that earlier versions wrote have no records.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmo_hf.atomic_files import file_checksum, write_atomically, write_text_atomically

from .shards import REMEDY, BrokenShard, shard_name

# The entry of the settings that holds the records of a finished store.
RECORDS = "checksums"


class ShardRecord(NamedTuple):
    """What the file of a shard is.

    Args:
        size: its bytes.
        checksum: of these bytes.
        digest: of the sentences that it was made from.
    """

    size: int
    checksum: str
    digest: str

    def check_size(self, path: Path):
        """Raises BrokenShard if the file has another size."""
        size = path.stat().st_size
        if size != self.size:
            raise BrokenShard(f"{path} is damaged: it has {size:,} bytes instead of {self.size:,}. {REMEDY}")

    def matches(self, path: Path) -> bool:
        """Whether the file is what was written, byte for byte."""
        return path.stat().st_size == self.size and file_checksum(path) == self.checksum


def write_recorded(path: Path, digest: str, write: Callable[[Path], Any]):
    """Writes the file of a shard atomically, and its record before the file is in place.

    Args:
        path: the file of the shard.
        digest: of the sentences of the shard.
        write: called with a temporary path; writes the content there.
    """

    def write_both(temporary: Path):
        write(temporary)
        record = ShardRecord(temporary.stat().st_size, file_checksum(temporary), digest)
        write_text_atomically(_record_path(path), json.dumps(record))

    write_atomically(path, write_both)


def read_records(folder: Path, settings: dict[str, Any], ending: str, count: int) -> list[ShardRecord | None]:
    """The records of the first `count` shards of a store; None for a shard without a record."""
    # The files first: whoever finishes the store writes the settings before it removes them.
    records = [_read_record(_record_path(folder / shard_name(number, ending))) for number in range(count)]
    finished = settings.get(RECORDS) or []
    for number, entry in enumerate(finished[:count]):
        if records[number] is None and entry is not None:
            records[number] = ShardRecord(*entry)
    return records


def remove_records(folder: Path):
    """Removes the files of records, which a finished store has in its settings."""
    for path in folder.glob(".part-*.checksum"):
        path.unlink(missing_ok=True)


def check_records(records: Any, shards: Sequence[int]) -> bool:
    """Whether an entry of the settings is a list of records, one for each shard."""
    return isinstance(records, list) and len(records) == len(shards) and all(map(_is_record, records))


def _is_record(entry: Any) -> bool:
    return entry is None or (isinstance(entry, list) and [type(value) for value in entry] == [int, str, str])


def _record_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.checksum")


def _read_record(path: Path) -> ShardRecord | None:
    """The record in a file; None if there is none, or if it is damaged."""
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return ShardRecord(*entry) if entry is not None and _is_record(entry) else None
