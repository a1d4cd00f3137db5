"""HDF5 files from elsewhere: opened with care, bounded by the file's own size, read one dataset at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import h5py
import numpy as np

# What h5py raises at damaged files, wherever these are touched.
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
DEEPEST, MOST_NAMES = 64, 1_000_000
# deflate makes at best one byte of a little more than a thousand.
MOST_OUT_OF_ONE = 1_100


class Hdf5Error(ValueError):
    """An HDF5 file that cannot be used; the message names the file and the reason."""


class Hdf5Weights:
    """The datasets of an HDF5 file by their full names."""

    def __init__(self, file: h5py.File, path: str):
        self.where = path
        self._size = os.path.getsize(path)
        with _explained(path, "it cannot be walked"):
            self.datasets = dict(_walk(file, path))
        if not self.datasets:
            raise Hdf5Error(
                f"{path} is an HDF5 file without any dataset; accepted are the original programs' weights."
            )

    def names(self) -> list[str]:
        return list(self.datasets)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """None for a dataset that holds nothing at all."""
        with _explained(self.where, f"{name} cannot be read"):
            return self.datasets[name].shape

    def dtype(self, name: str) -> np.dtype:
        with _explained(self.where, f"{name} cannot be read"):
            return self.datasets[name].dtype

    def read(self, name: str) -> np.ndarray:
        """One dataset as it is stored."""
        with _explained(self.where, f"{name} cannot be read; the file is damaged"):
            dataset = self.datasets[name]
            stored, size = dataset.id.get_storage_size(), dataset.nbytes
            # What is allocated before anything is read is bounded by what the file really has.
            if stored > self._size or size > stored * (MOST_OUT_OF_ONE if dataset.chunks else 1):
                raise Hdf5Error(
                    f"{self.where}: {name} has the shape {dataset.shape}, {size:,} bytes, of which the file of "
                    f"{self._size:,} bytes stores {stored:,}."
                )
            return dataset[()]


@contextmanager
def open_weights(path: str | os.PathLike) -> Iterator[Hdf5Weights]:
    """Opens an HDF5 file for reading."""
    path = os.fspath(path)
    with _open(path) as file:
        yield Hdf5Weights(file, path)


@contextmanager
def _explained(path: str, what: str) -> Iterator[None]:
    try:
        yield
    except Hdf5Error:
        raise
    except ERRORS as error:
        raise Hdf5Error(f"{path}: {what} ({error}).") from None


def _open(path: str) -> h5py.File:
    try:
        size = os.path.getsize(path)
    except OSError:
        raise Hdf5Error(f"{path} does not exist; accepted is an HDF5 file.") from None
    if size == 0:
        raise Hdf5Error(f"{path} is empty (0 bytes); accepted is an HDF5 file.")
    try:
        return h5py.File(path, "r")
    except ERRORS as error:
        with open(path, "rb") as file:
            begins = file.read(8)
        if begins == b"\x89HDF\r\n\x1a\n":
            raise Hdf5Error(f"{path} is a damaged or truncated HDF5 file of {size:,} bytes ({error}).") from None
        raise Hdf5Error(f"{path} is not an HDF5 file (it begins with {begins!r}).") from None


def _walk(file: h5py.File, path: str) -> Iterator[tuple[str, h5py.Dataset]]:
    """Every dataset, each group once: groups may contain themselves, or each other in a thousand ways."""
    waiting, seen, number = [("", file)], {_place(file)}, 0
    while waiting:
        before, group = waiting.pop()
        if before.count("/") >= DEEPEST:
            raise Hdf5Error(f"{path}: {before[:80]} is more than {DEEPEST} groups deep, which no model is.")
        inner = []
        for name in group:
            number += 1
            if number > MOST_NAMES:
                raise Hdf5Error(f"{path} has more than {MOST_NAMES:,} names.")
            full = before + (name.decode("utf-8", "replace") if isinstance(name, bytes) else name)
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                kind = "an external link" if isinstance(link, h5py.ExternalLink) else "a soft link"
                raise Hdf5Error(f"{path}: {full} is {kind}; links are refused, the values themselves must be there.")
            item = group[name]
            if isinstance(item, h5py.Group):
                if _place(item) not in seen:
                    seen.add(_place(item))
                    inner.append((f"{full}/", item))
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    raise Hdf5Error(f"{path}: {full} keeps its values in another file, which is refused.")
                yield full, item
        waiting += reversed(inner)


def _place(group: h5py.Group) -> tuple[int, int]:
    info = h5py.h5o.get_info(group.id)
    return info.fileno, info.addr
