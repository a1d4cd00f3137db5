"""HDF5 files from elsewhere: opened with care, checked against a table, read one dataset at a time."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import h5py
import numpy as np

from .weight_map import Entry

logger = logging.getLogger(__name__)


class Hdf5Weights:
    """The datasets of an HDF5 file by their full names."""

    def __init__(self, file: h5py.File, path: str):
        self.path = path
        self.datasets = dict(_walk(file, path))
        if not self.datasets:
            raise ValueError(
                f"{path} is an HDF5 file without any dataset; accepted are the original programs' weights."
            )

    def check(self, entries: Sequence[Entry], others: Sequence[str] = ()):
        """Raises one error that explains every dataset which is missing, unknown, or of another shape or type.

        Args:
            entries: what must be there.
            others: beginnings of names that may be there too.
        """
        expected = {entry.dataset: entry for entry in entries}
        problems = [
            f"{name} is missing; expected is the shape {entry.shape}"
            for name, entry in expected.items()
            if name not in self.datasets
        ]
        for name, dataset in self.datasets.items():
            if name in expected:
                problems += self._problems(dataset, expected[name])
            elif not name.startswith(tuple(others)):
                problems.append(f"{name} with the shape {dataset.shape} has no place in this model")
        if problems:
            shown = problems[:12] + ([f"... and {len(problems) - 12} more"] if len(problems) > 12 else [])
            raise ValueError(
                f"{self.path} does not fit the options ({len(self.datasets)} datasets, expected {len(expected)}):"
                + "".join(f"\n  - {problem}" for problem in shown)
            )

    def _problems(self, dataset: h5py.Dataset, entry: Entry) -> list[str]:
        if dataset.dtype.kind != "f":
            return [f"{entry.dataset} has the type {dataset.dtype}; accepted are floating point numbers"]
        if dataset.shape != entry.shape:
            transposed = " (it looks transposed)" if dataset.shape == entry.shape[::-1] else ""
            return [f"{entry.dataset} has the shape {dataset.shape}; expected is {entry.shape}{transposed}"]
        return []

    def read(self, name: str) -> np.ndarray:
        """One dataset as float32; warns of values that are not finite."""
        try:
            values = self.datasets[name][()]
        except OSError as error:
            raise ValueError(f"{self.path}: {name} cannot be read; the file is damaged ({error}).") from None
        if values.dtype.itemsize > 4:
            logger.warning("%s: %s has the type %s and is stored as float32.", self.path, name, values.dtype)
        values = values.astype(np.float32, copy=False)
        wrong = values.size - int(np.isfinite(values).sum())
        if wrong:
            logger.warning("%s: %s holds %d values that are NaN or infinite.", self.path, name, wrong)
        return values


@contextmanager
def open_weights(path: str | os.PathLike) -> Iterator[Hdf5Weights]:
    """Opens an HDF5 file for reading."""
    path = os.fspath(path)
    with _open(path) as file:
        yield Hdf5Weights(file, path)


def _open(path: str) -> h5py.File:
    try:
        size = os.path.getsize(path)
    except OSError:
        raise ValueError(f"{path} does not exist; accepted is an HDF5 file.") from None
    if size == 0:
        raise ValueError(f"{path} is empty (0 bytes); accepted is an HDF5 file.")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        with open(path, "rb") as file:
            begins = file.read(8)
        if begins == b"\x89HDF\r\n\x1a\n":
            raise ValueError(f"{path} is a damaged or truncated HDF5 file of {size:,} bytes ({error}).") from None
        raise ValueError(f"{path} is not an HDF5 file (it begins with {begins!r}).") from None


def _walk(group: h5py.Group, path: str, before: str = "") -> Iterator[tuple[str, h5py.Dataset]]:
    for name in group:
        full = before + name
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            kind = "an external link" if isinstance(link, h5py.ExternalLink) else "a soft link"
            raise ValueError(f"{path}: {full} is {kind}; links are refused, the values themselves must be there.")
        item = group[name]
        if isinstance(item, h5py.Group):
            yield from _walk(item, path, f"{full}/")
        elif isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise ValueError(f"{path}: {full} keeps its values in another file, which is refused.")
            yield full, item
