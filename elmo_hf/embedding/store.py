"""Stores of vectors: a folder of shards and a _store.json that describes them; or one finished HDF5 file."""

import bisect
import json
import os
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np

from elmo_hf.atomic_files import write_text_atomically

from .output_spec import OutputSpec
from .parquet_shards import PARQUET
from .safetensors_shards import SAFETENSORS
from .shard_records import RECORDS, ShardRecord, check_records
from .shards import BrokenShard, ShardFormat, ShardReader, shard_name, starts_of

# Readers of Parquet folders (pandas, pyarrow, datasets) skip names that begin with an underscore.
SETTINGS = "_store.json"
FORMER_SETTINGS = "store.json"
FORMATS = {format.name: format for format in (SAFETENSORS, PARQUET)}
# What the settings say once all shards are there.
TOTALS = ("sentences", "words", "parts")
# Names by which a model was called may differ between machines; its weights may not.
NOT_COMPARED = ("model", "revision", RECORDS, *TOTALS)
OPEN_PARTS = 16


class EmbeddingStore(Sequence):
    """The vectors of a corpus, read as a list: `store[n]`, `store[n:m]`, or one after the other. No more is loaded.

    Vectors of a sentence are as ElmoEmbedder.encode gives them: (words, size), with several layers (layers, words,
    size), pooled without the axis of words. bfloat16 comes as float32.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.embedding import embed_corpus, open_store
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16))
    >>> folder = tempfile.mkdtemp() + "/vectors"
    >>> _ = embed_corpus(ElmoEmbedder(model, ElmoTokenizer()), ["One sentence.", "Two"], folder)
    >>> store = open_store(folder)
    >>> len(store), store[1].shape, store.words(0), store.text(0)
    (2, (1, 16), ['One', 'sentence', '.'], 'One sentence.')

    ```
    """

    settings: dict[str, Any]

    def vectors(self, start: int, stop: int) -> list[np.ndarray]:
        """(layers, rows, size) of some sentences."""
        raise NotImplementedError

    def words(self, number: int) -> list[str]:
        """The words of a sentence, one for each of its vectors unless these are pooled or have boundaries."""
        raise NotImplementedError

    def text(self, number: int) -> str:
        """A sentence as it came in; words that came in with a space between them."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.settings["sentences"]

    @overload
    def __getitem__(self, number: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, number: slice) -> list[np.ndarray]: ...

    def __getitem__(self, number: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(number, slice):
            start, stop, step = number.indices(len(self))
            if step != 1:
                return [self[index] for index in range(start, stop, step)]
            return [self._shown(vectors) for vectors in self.vectors(start, stop)]
        number = self._place(number)
        return self._shown(self.vectors(number, number + 1)[0])

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self), 256):
            yield from self[start : start + 256]

    def _place(self, number: int) -> int:
        if not -len(self) <= number < len(self):
            raise IndexError(f"There is no sentence {number}; the store has {len(self):,}.")
        return number % len(self)

    @cached_property
    def _spec(self) -> OutputSpec:
        layers = self.settings["layers"]
        chosen = layers if isinstance(layers, str) else tuple(layers)
        return OutputSpec(chosen, self.settings["several"], self.settings["pooling"], self.settings["boundaries"])

    def _shown(self, vectors: np.ndarray) -> np.ndarray:
        return self._spec.squeeze(vectors)


class ShardStore(EmbeddingStore):
    """A folder of shards."""

    def __init__(self, folder: Path):
        self.folder, self.settings = folder, read_settings(folder)
        if self.settings["sentences"] is None:
            count = len(finished_shards(folder, self.format.ending))
            raise ValueError(
                f"{folder} is not finished: {count} parts are there. The command that began it goes on with it."
            )
        self._starts = starts_of(self.settings["parts"]).tolist()
        self._open: OrderedDict[int, ShardReader] = OrderedDict()

    @property
    def format(self) -> ShardFormat:
        """The format of the shards."""
        return FORMATS[self.settings["format"]]

    def vectors(self, start: int, stop: int) -> list[np.ndarray]:
        """The vectors (layers, rows, size) of each sentence from `start` to `stop`."""
        arrays = []
        while start < stop:
            part, first = self._part_of(start)
            until = min(stop, self._starts[part + 1])
            arrays += self.reader(part).vectors(start - first, until - first)
            start = until
        return arrays

    def words(self, number: int) -> list[str]:
        """The words of a sentence."""
        part, first = self._part_of(number := self._place(number))
        return self.reader(part).words(number - first, number - first + 1)[0]

    def text(self, number: int) -> str:
        """The text of a sentence."""
        part, first = self._part_of(number := self._place(number))
        return self.reader(part).texts(number - first, number - first + 1)[0]

    def _part_of(self, number: int) -> tuple[int, int]:
        part = bisect.bisect_right(self._starts, number) - 1
        return part, self._starts[part]

    def reader(self, part: int) -> ShardReader:
        """An open shard."""
        if part not in self._open:
            path = self.folder / shard_name(part, self.format.ending)
            if not path.exists():
                raise BrokenShard(f"{path} is missing; the command that made the store makes it again.")
            reader = self.format.read(path)
            check_notes(reader.notes, path, part, self.settings)
            records = self.settings.get(RECORDS)
            if records and records[part] is not None:
                ShardRecord(*records[part]).check_size(path)
            self._open[part] = reader
            if len(self._open) > OPEN_PARTS:
                self._open.popitem(last=False)
        self._open.move_to_end(part)
        return self._open[part]


def settings_path(folder: Path) -> Path:
    """The file of a store's settings; stores of former versions keep its former name."""
    former = folder / FORMER_SETTINGS
    return former if former.exists() else folder / SETTINGS


def read_settings(folder: Path, formats: Collection[str] = FORMATS, content: str = "vectors") -> dict[str, Any]:
    """The settings of a store. `formats` are the names of formats that shards of this `content` may have."""
    path = settings_path(folder)
    if not path.exists():
        raise ValueError(f"{folder} is not a store of {content}. Expected a folder with the file {SETTINGS}.")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}.") from None
    if not isinstance(settings, dict) or settings.get("format") not in formats:
        raise ValueError(f"{path} does not describe a store of {content} in {' or '.join(formats)}.")
    check_totals(path, settings)
    return settings


def check_totals(path: Path, settings: dict[str, Any]):
    """Raises unless the settings have the totals: all of them None, or numbers that fit each other."""
    for name in (*TOTALS, "threads"):
        if name not in settings:
            raise ValueError(f"{path} is damaged: `{name}` is missing. Expected the file as `elmo-hf embed` wrote it.")
    sentences, _, parts = (settings[name] for name in TOTALS)
    is_list = isinstance(parts, list) and all(type(size) is int and size >= 0 for size in parts)
    if not (sentences is None and parts is None) and not (is_list and sum(parts) == sentences):
        raise ValueError(f"{path} is damaged: `parts` and `sentences` do not fit each other.")
    # Earlier versions wrote no records.
    if settings.get(RECORDS) is not None and not check_records(settings[RECORDS], parts or []):
        raise ValueError(f"{path} is damaged: `{RECORDS}` is not a list of size, checksum and digest of each shard.")


def write_settings(folder: Path, settings: dict[str, Any]):
    """Writes the settings of a store atomically."""
    text = json.dumps(settings, indent=1, ensure_ascii=False) + "\n"
    write_text_atomically(settings_path(folder), text)


def begin_store(
    folder: Path, settings: dict[str, Any], formats: Collection[str] = FORMATS, content: str = "vectors"
) -> dict[str, Any]:
    """Makes the folder, or sees that what is there is the same store; gives the settings that count."""
    if not settings_path(folder).exists():
        if folder.is_dir() and any(not name.startswith(".") for name in os.listdir(folder)):
            raise ValueError(f"{folder} holds other files. Expected a new folder, or a store to resume.")
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file. Expected a new folder, or a store to resume.")
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(folder, settings)
    existing = read_settings(folder, formats, content)
    check_settings(folder, existing, settings)
    return existing


def check_settings(where: Path, existing: dict[str, Any], settings: dict[str, Any]):
    """Refuses to go on with what was made from another model, or of other vectors."""
    for name in settings:
        if name not in NOT_COMPARED and existing.get(name) != settings[name]:
            raise ValueError(
                f"{where} was made with {name} = {json.dumps(existing.get(name))}, but now it is "
                f"{json.dumps(settings[name])}. Choose another output, or go on as it was begun."
            )


def store_name(settings: dict[str, Any]) -> str:
    """A short name of what a store holds, which its shards carry: a shard of another store is known by it."""
    import hashlib

    counted = {name: value for name, value in settings.items() if name not in NOT_COMPARED}
    return hashlib.blake2b(json.dumps(counted, sort_keys=True).encode(), digest_size=8).hexdigest()


def check_notes(notes: dict[str, Any], path: Path, part: int, settings: dict[str, Any]):
    """Refuses a shard that is another one, or of another store."""
    if notes.get("part") != part or notes.get("store") != store_name(settings):
        raise BrokenShard(
            f"{path} is part {notes.get('part')} of another store than {settings_path(path.parent)} describes. Remove "
            "the file and repeat the command that made the store: it writes the part again."
        )


def finished_shards(folder: Path, ending: str) -> set[int]:
    """The numbers of the shards that are there; `ending` is that of their files' names."""
    return {int(path.name[len("part-") : -len(ending)]) for path in folder.glob(f"part-*{ending}")}
