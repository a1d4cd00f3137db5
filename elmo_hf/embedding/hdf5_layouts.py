"""The originals' HDF5 files: a dataset for each sentence under its number, (layers, words, size).

bilm-tf's dump has nothing else; AllenNLP's has `sentence_to_index` too, one string of JSON: text -> number. Here the
root has one more attribute, the settings of the store; programs that walk over the datasets do not see it.
"""

import hashlib
import json
import mmap
import os
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_hf.atomic_files import write_atomically

from .run_summary import RunSummary
from .sentence_chunks import Chunk
from .shard_records import RECORDS
from .shards import BrokenShard
from .store import EmbeddingStore, ShardStore, check_settings

SETTINGS = "elmo_hf_store"
NUMBERS = "sentence_to_index"
NO_CHECKSUM = "0" * 32
CHECKSUM = rb'"checksum": "([0-9a-f]{32})"'


def write_file(folder: Path, output: Path):
    """Writes the file from a finished store, puts it in place, and takes the store away."""
    store = ShardStore(folder)
    write_atomically(output, lambda path: _write(path, store))
    shutil.rmtree(folder)


def _write(path: Path, store: ShardStore):
    numbers: dict[str, str] = {}
    digests, first = [], 0
    named = store.settings["layout"] == "allennlp-hdf5"
    with h5py.File(path, "w") as file:
        add = _adder(file)
        for part, size in enumerate(store.settings["parts"]):
            reader = store.reader(part)
            digests.append(reader.notes["digest"])
            for number, vectors in enumerate(store[first : first + size], first):
                add(str(number), vectors)
            if named:
                # Equal sentences have equal vectors; AllenNLP names the last of them, too.
                numbers |= {text: str(number) for number, text in enumerate(reader.texts(0, size), first)}
            first += size
        if named:
            listed = file.create_dataset(NUMBERS, (1,), dtype=h5py.string_dtype())
            listed[0] = json.dumps(numbers)
        # An attribute has room for 64 kB: the sizes of the shards that were do not matter any more.
        settings = {name: value for name, value in store.settings.items() if name != RECORDS}
        settings |= {"parts": None, "input": digest_of(digests), "checksum": NO_CHECKSUM}
        file.attrs[SETTINGS] = json.dumps(settings)
    _fill_in_checksum(path)


def _fill_in_checksum(path: Path):
    """Writes the checksum of the file into its settings, over the zeros that stand there."""
    start, checksum = _find_checksum(path)
    with open(path, "rb+") as file:
        file.seek(start)
        file.write(checksum.encode())


def _find_checksum(path: Path) -> tuple[int, str]:
    """Where the checksum stands in the file, and what it should be: that of the file with zeros in its place."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        place = re.search(CHECKSUM, content)
        if place is None:
            raise BrokenShard(
                f"{path} has no checksum: it is damaged, or an earlier version wrote it. To get a file that can be "
                "verified, remove this one and repeat the command."
            )
        digest = hashlib.blake2b(digest_size=len(NO_CHECKSUM) // 2)
        with memoryview(content) as view:
            digest.update(view[: place.start(1)])
            digest.update(NO_CHECKSUM.encode())
            digest.update(view[place.end(1) :])
        return place.start(1), digest.hexdigest()


def _adder(file: h5py.File) -> Callable[[str, np.ndarray], None]:
    """What `file.create_dataset(name, data=array)` does, in a third of its time: a corpus has many sentences, and few
    lengths and types of them.
    """
    timeless = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    timeless.set_obj_track_times(False)  # the same bytes, whenever they are written
    known: dict[tuple, tuple] = {}

    def add(name: str, array: np.ndarray):
        kind = array.shape, array.dtype
        if kind not in known:
            known[kind] = h5py.h5t.py_create(array.dtype, logical=True), h5py.h5s.create_simple(array.shape)
        dataset = h5py.h5d.create(file.id, name.encode(), *known[kind], timeless)
        if array.size:
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(array))

    return add


def digest_of(digests: Iterable[str]) -> str:
    """One digest of those of all chunks."""
    return hashlib.blake2b("".join(digests).encode(), digest_size=16).hexdigest()


def check_file(output: Path, settings: dict[str, Any], chunks: Iterable[Chunk], verify: bool = False) -> RunSummary:
    """A file that is there was finished, if it was made by the same command; anything else is refused.

    With `verify` a damaged file of the same command is not finished: it has to be written again.
    """
    if not verify or _is_intact(output):
        return _check_same_command(output, settings, chunks)
    try:
        summary = _check_same_command(output, settings, chunks)
    except Exception:  # a flipped bit can lead to any error
        raise BrokenShard(
            f"{output} is damaged: its checksum is wrong, and it cannot be told whether this command wrote it. Remove "
            "the file and repeat the command, or choose another output."
        ) from None
    return replace(summary, existing=0, damaged=summary.parts, finished=False)


def _is_intact(path: Path) -> bool:
    start, checksum = _find_checksum(path)
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(len(checksum)) == checksum.encode()


def _check_same_command(output: Path, settings: dict[str, Any], chunks: Iterable[Chunk]) -> RunSummary:
    """The summary of a run that finds its file; anything else than the file of the same command is refused."""
    existing = Hdf5Store(output).settings
    if "input" not in existing:
        raise ValueError(f"{output} is there already, and was not written by this program. Choose another output.")
    check_settings(output, existing, settings)
    summary = RunSummary(finished=True)

    def digests() -> Iterable[str]:
        for chunk in chunks:
            summary.parts += 1
            summary.existing += 1
            yield chunk.digest()

    if digest_of(digests()) != existing["input"]:
        raise ValueError(f"{output} was made from other sentences. Choose another output.")
    # Killed between the rename and this.
    with suppress(FileNotFoundError):
        shutil.rmtree(output.with_name(f"{output.name}.parts"))
    return summary


class Hdf5Store(EmbeddingStore):
    """A file of one of the two layouts, also as the originals wrote it (then words are not known)."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise BrokenShard(f"{path} is damaged, or no HDF5 file: {error}.") from None
        if SETTINGS in self._file.attrs:
            try:
                self.settings = json.loads(self._file.attrs[SETTINGS])
            except (OSError, TypeError, ValueError) as error:
                raise BrokenShard(f"{path} is damaged: its settings cannot be read ({error}).") from None
            return
        names = set(self._file) - {NUMBERS}
        if names != {str(number) for number in range(len(names))}:
            raise BrokenShard(f"{path} holds no vectors of sentences 0, 1, 2 ... as bilm-tf and AllenNLP write them.")
        several = not names or self._file["0"].ndim == 3
        self.settings = {"sentences": len(names), "layers": "mix", "several": several}
        self.settings |= {"pooling": None, "boundaries": False}

    def vectors(self, start: int, stop: int) -> list[np.ndarray]:
        """The vectors (layers, rows, size) of each sentence from `start` to `stop`."""
        arrays = [self._read(str(number)) for number in range(start, stop)]
        pooled = self.settings["pooling"] is not None
        arrays = [vectors if self.settings["several"] else vectors[None] for vectors in arrays]
        return [vectors[:, None] if pooled else vectors for vectors in arrays]

    def words(self, number: int) -> list[str]:
        """The words of a sentence: its text, split at white space."""
        return self.text(number).split()

    def text(self, number: int) -> str:
        """The text of a sentence."""
        number = self._place(number)
        if number not in self._texts:
            raise ValueError(
                f"{self.path} does not say which text sentence {number} has; AllenNLP's layout does, by the last of "
                "equal sentences."
            )
        return self._texts[number]

    @cached_property
    def _texts(self) -> dict[int, str]:
        if NUMBERS not in self._file:
            return {}
        return {int(number): text for text, number in json.loads(self._file[NUMBERS][0]).items()}

    def _read(self, name: str) -> np.ndarray:
        try:
            return self._file[name][()]
        except (KeyError, OSError, RuntimeError) as error:
            raise BrokenShard(f"{self.path} is damaged: sentence {name} cannot be read ({error}).") from None


def open_store(path: str | os.PathLike) -> EmbeddingStore:
    """Opens a store of vectors for reading: a folder that `elmo-hf embed` made, or an HDF5 file of its layouts, of
    bilm-tf or of AllenNLP.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer, embed_corpus, open_store
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> embedder = ElmoEmbedder(ElmoModel(config), ElmoTokenizer())
    >>> folder = tempfile.mkdtemp() + "/vectors"
    >>> _ = embed_corpus(embedder, ["He plays .", "Rain"], folder)
    >>> [vectors.shape for vectors in open_store(folder)]
    [(3, 16), (1, 16)]

    ```

    Example:

    ```python
    >>> import h5py, numpy, tempfile
    >>> from elmo_hf import open_store
    >>> path = tempfile.mkdtemp() + "/vectors.hdf5"
    >>> with h5py.File(path, "w") as file:
    ...     file["0"] = numpy.zeros((3, 2, 16), numpy.float32)
    >>> open_store(path)[0].shape
    (3, 2, 16)

    ```
    """
    path = Path(path)
    if path.is_dir():
        return ShardStore(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist. Expected a store: a folder, or an HDF5 file of vectors.")
    return Hdf5Store(path)
