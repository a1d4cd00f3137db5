"""HDF5 files from elsewhere: checked before anything is read, one dataset at a time."""

import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import h5py
import numpy as np

# What h5py raises at damaged files, wherever they are touched.
ERRORS = (
    OSError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    NotImplementedError,
    IndexError,
    ArithmeticError,
    MemoryError,
    AssertionError,
    SystemError,
)
MAX_DEPTH = 64
MAX_NAMES = 10_000  # of weights
MAX_SENTENCES = 1_000_000  # of dumped vectors
# Weights hardly compress. Small datasets may: biases are often zeros.
MAX_EXPANSION, ALWAYS_ALLOWED = 20, 1 << 20
FILTER_OVERHEAD = 1 << 12  # bytes by which a filter may make a chunk longer
FLETCHER32_SIZE = 4


class Hdf5Error(ValueError):
    """An HDF5 file that cannot be used; the message names the file and the reason."""


class Hdf5Weights:
    """The datasets of an HDF5 file by their full names.

    Args:
        file: the open file.
        where: its name in messages.
        max_names: the largest number of links in the file.
    """

    def __init__(self, file: h5py.File, where: str, max_names: int = MAX_NAMES):
        self.where = where
        self._size = os.path.getsize(file.filename)
        with _explained(where, "it cannot be walked"):
            self.datasets = dict(_walk(file, where, max_names))
        if not self.datasets:
            raise Hdf5Error(f"{where} is an HDF5 file without any dataset. Expected weights.")

    def names(self) -> list[str]:
        """The names of all datasets."""
        return list(self.datasets)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a dataset; None for one that holds nothing at all."""
        with _explained(self.where, f"{name} cannot be read"):
            return self.datasets[name].shape

    def dtype(self, name: str) -> np.dtype:
        """The type of a dataset."""
        with _explained(self.where, f"{name} cannot be read"):
            return self.datasets[name].dtype

    def read(self, name: str) -> np.ndarray:
        """The values of a dataset, in the type in which they are stored."""
        with _explained(self.where, f"{name} cannot be read; the file is damaged"):
            dataset = self.datasets[name]
            self._check_storage(name, dataset)
            if dataset.chunks:
                self._check_chunks(name, dataset)
            return dataset[()]

    def read_text(self, name: str) -> str:
        """The first string of a dataset of strings."""
        with _explained(self.where, f"{name} cannot be read as text; the file is damaged"):
            dataset = self.datasets[name]
            if dataset.size != 1 or h5py.check_string_dtype(dataset.dtype) is None:
                raise TypeError(f"the shape {dataset.shape} and the type {dataset.dtype}")
            text = dataset[()].ravel()[0] if dataset.shape else dataset[()]
            return text if isinstance(text, str) else text.decode("utf-8")

    def _check_storage(self, name: str, dataset: h5py.Dataset):
        """The memory that a dataset needs is bounded by the bytes that the file has."""
        stored, size = dataset.id.get_storage_size(), dataset.nbytes
        is_too_large = size > max(stored * MAX_EXPANSION, ALWAYS_ALLOWED) if dataset.chunks else size > stored
        if stored > self._size or is_too_large or size and not stored:
            raise Hdf5Error(
                f"{self.where}: {name} has the shape {dataset.shape}, {size:,} bytes, of which the file of "
                f"{self._size:,} bytes stores {stored:,}."
            )

    def _check_chunks(self, name: str, dataset: h5py.Dataset):
        """Every chunk is there, and none unpacks to more than its size: HDF5 itself would allocate all of it."""
        chunk_size = math.prod(dataset.chunks) * dataset.dtype.itemsize
        if chunk_size > max(2 * dataset.nbytes, ALWAYS_ALLOWED):
            raise Hdf5Error(f"{self.where}: {name} has chunks of {chunk_size:,} bytes for {dataset.nbytes:,}.")
        grid = [math.ceil(size / step) for size, step in zip(dataset.shape, dataset.chunks, strict=True)]
        if dataset.id.get_num_chunks() != math.prod(grid):
            raise Hdf5Error(
                f"{self.where}: {name} was not written completely: {dataset.id.get_num_chunks():,} of "
                f"{math.prod(grid):,} chunks are there."
            )
        filters = _filters(dataset, f"{self.where}: {name}")
        if filters:
            for place in np.ndindex(*grid):
                offset = tuple(number * step for number, step in zip(place, dataset.chunks, strict=True))
                mask, content = dataset.id.read_direct_chunk(offset)
                _check_unpacked_size(content, mask, filters, chunk_size, f"{self.where}: {name}")


def _filters(dataset: h5py.Dataset, where: str) -> list[int]:
    """The filters of a dataset, each at most once."""
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(number)[0] for number in range(properties.get_nfilters())]
    known = {h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_FLETCHER32}
    if not known.issuperset(filters) or len(set(filters)) < len(filters):
        raise Hdf5Error(
            f"{where} is stored with the filters {filters}. Expected no compression, or gzip; "
            "`h5repack -f NONE` rewrites a file."
        )
    return filters


def _check_unpacked_size(content: bytes, mask: int, filters: list[int], chunk_size: int, where: str):
    """Unpacks a chunk as far as it may go; an error if there is more."""
    limit = chunk_size + FLETCHER32_SIZE * len(filters)
    if len(content) > limit + FILTER_OVERHEAD + limit // 100:
        raise Hdf5Error(f"{where} has a chunk of {len(content):,} bytes for {chunk_size:,} bytes of values.")
    for number, kind in reversed(list(enumerate(filters))):
        if mask >> number & 1:  # the filter was skipped for this chunk
            continue
        if kind == h5py.h5z.FILTER_FLETCHER32:
            content = content[:-FLETCHER32_SIZE]
        elif kind == h5py.h5z.FILTER_DEFLATE:
            content = zlib.decompressobj().decompress(content, limit + 1)
        if len(content) > limit:
            raise Hdf5Error(f"{where} has a chunk that unpacks to more than its {chunk_size:,} bytes.")


@contextmanager
def open_weights(
    path: str | os.PathLike, where: str | None = None, max_names: int = MAX_NAMES
) -> Iterator[Hdf5Weights]:
    """Opens an HDF5 file for reading.

    Args:
        path: the file.
        where: its name in messages; default: its path.
        max_names: the largest number of links in the file.
    """
    where = where or os.fspath(path)
    with _open(os.fspath(path), where) as file:
        yield Hdf5Weights(file, where, max_names)


@contextmanager
def _explained(where: str, problem: str) -> Iterator[None]:
    try:
        yield
    except Hdf5Error:
        raise
    except (*ERRORS, zlib.error) as error:
        raise Hdf5Error(f"{where}: {problem} ({error}).") from None


def _open(path: str, where: str) -> h5py.File:
    try:
        size = os.path.getsize(path)
    except OSError:
        raise Hdf5Error(f"{where} does not exist. Expected an HDF5 file.") from None
    if size == 0:
        raise Hdf5Error(f"{where} is empty (0 bytes). Expected an HDF5 file.")
    try:
        return h5py.File(path, "r")
    except ERRORS as error:
        with open(path, "rb") as file:
            signature = file.read(8)
        if signature == b"\x89HDF\r\n\x1a\n":
            raise Hdf5Error(f"{where} is a damaged or truncated HDF5 file of {size:,} bytes ({error}).") from None
        raise Hdf5Error(f"{where} is not an HDF5 file (it begins with {signature!r}).") from None


def _walk(file: h5py.File, where: str, max_names: int) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yields every dataset. Each group is visited once: groups may contain themselves or each other."""
    pending, visited, num_names = [("", file)], {_address(file)}, 0
    while pending:
        prefix, group = pending.pop()
        if prefix.count("/") >= MAX_DEPTH:
            raise Hdf5Error(f"{where}: {prefix[:80]} is more than {MAX_DEPTH} groups deep, which no model is.")
        num_names += len(group)
        if num_names > max_names:
            raise Hdf5Error(f"{where} has more than {max_names:,} names.")
        subgroups = []
        for name in group:
            path = prefix + (name.decode("utf-8", "replace") if isinstance(name, bytes) else name)
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                kind = "an external link" if isinstance(link, h5py.ExternalLink) else "a soft link"
                raise Hdf5Error(f"{where}: {path} is {kind}. Expected the values themselves; links are not followed.")
            item = group[name]
            if isinstance(item, h5py.Group):
                if _address(item) not in visited:
                    visited.add(_address(item))
                    subgroups.append((f"{path}/", item))
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    raise Hdf5Error(f"{where}: {path} has its values in another file, which is not read.")
                yield path, item
        pending += reversed(subgroups)


def _address(group: h5py.Group) -> tuple[int, int]:
    info = h5py.h5o.get_info(group.id)
    return info.fileno, info.addr
