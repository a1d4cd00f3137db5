"""What every format gives to `convert`: weights, and the configuration of the model."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.tokenization_elmo import BOS, EOS, UNK, read_word_vocabulary

from ..sources import Bundle, SourceError
from .entries import Entry

MAX_LISTED = 12


class Weights(Protocol):
    """Arrays by name, one read at a time."""

    where: str

    def names(self) -> Sequence[str]:
        """The names of all arrays."""
        ...

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array; None if it has no values."""
        ...

    def dtype(self, name: str) -> np.dtype:
        """The type of an array."""
        ...

    def read(self, name: str) -> np.ndarray:
        """The values of an array."""
        ...


@dataclass(frozen=True)
class Part:
    """Some of the model's parameters.

    Args:
        weights: where they are read.
        entries: their names in the file and in the model.
        ignored: prefixes of other names that the file may have, which the model does not use.
    """

    weights: Weights
    entries: Sequence[Entry]
    ignored: tuple[str, ...] = ()


@dataclass
class Source:
    """An opened source, before any weight is read.

    Args:
        config: the configuration, without the data of the model card.
        parts: tables of the biLM's parameters, and of the softmax's if there is one, each named as in ElmoModel or
            ElmoForPreTraining without the prefix `elmo.`.
        description: the files with their names and sizes, for the user.
        values: parameters that were read already, e.g., those of a mix.
        vocabulary: the file of the softmax's words.
        tokenizer: settings of the tokenizer.
        notes: sentences on what was guessed, or cannot be converted.
        splitting: how text for this format is split, unless the user says otherwise.
        used: names in the file whose values are in `values`.
        reported: names that a note mentions.
        release: the name of the released weights that the file holds.
    """

    config: ElmoConfig
    parts: list[Part]
    description: str
    values: dict[str, np.ndarray] = field(default_factory=dict)
    vocabulary: Path | None = None
    tokenizer: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    splitting: str | None = None
    used: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    release: str | None = None

    @property
    def has_softmax(self) -> bool:
        """Whether the source has the softmax of the language model."""
        return any(
            name == "softmax.bias" for part in self.parts for entry in part.entries for name in entry.parameters
        )

    def ignored(self) -> list[str]:
        """Names and shapes in the files that have no place in the model."""
        read = {entry.dataset for part in self.parts for entry in part.entries} | {*self.used, *self.reported}
        return [
            f"{name} {part.weights.shape(name)}"
            for part in self.parts
            for name in part.weights.names()
            if part.ignored and name.startswith(part.ignored) and name not in read
        ]


@dataclass(frozen=True)
class Extras:
    """What the user gave beside the source itself."""

    vocabulary: Path | None = None
    softmax: Path | None = None
    mix: int = 0


@dataclass(frozen=True)
class Format:
    """A format of other programs.

    Args:
        name: the value of `--format`.
        title: its name for the user.
        have: the files, for the table in the help and the README.
        type: the command for them, for the same table.
        recognises: whether the names in a folder are those of this format.
        open: opens a folder, as a context manager.
    """

    name: str
    title: str
    have: str
    type: str
    recognises: Callable[[Bundle], bool]
    open: Callable[[Bundle, Extras], AbstractContextManager[Source]]


def check(weights: Weights, entries: Sequence[Entry], ignored: Sequence[str] = ()):
    """Raises one error that explains every name which is missing, unknown, or of another shape or type.

    Args:
        weights: the weights of a file.
        entries: the names that must be there.
        ignored: prefixes of names that may be there too.
    """
    expected = {entry.dataset: entry for entry in entries}
    names = list(weights.names())
    present = set(names)
    problems = [
        f"{name} is missing; expected the shape {entry.shape}"
        for name, entry in expected.items()
        if name not in present
    ]
    for name in names:
        if name in expected:
            problems += _problems(weights, expected[name])
        elif not name.startswith(tuple(ignored)):
            problems.append(f"{name} with the shape {weights.shape(name)} has no place in this model")
    if problems:
        listed = problems[:MAX_LISTED]
        if len(problems) > MAX_LISTED:
            listed.append(f"... and {len(problems) - MAX_LISTED} more")
        raise ValueError(
            f"{weights.where} does not fit the options ({len(names)} datasets, expected {len(expected)}):"
            + "".join(f"\n  - {problem}" for problem in listed)
        )


def _problems(weights: Weights, entry: Entry) -> list[str]:
    dtype, shape = weights.dtype(entry.dataset), weights.shape(entry.dataset)
    if dtype.kind != "f":
        return [f"{entry.dataset} has the type {dtype}; expected floating-point numbers"]
    if shape != entry.shape:
        transposed = " (it looks transposed)" if shape is not None and shape == entry.shape[::-1] else ""
        return [f"{entry.dataset} has the shape {shape}; expected {entry.shape}{transposed}"]
    return []


def read_vocabulary(path: Path, unknown: bool = False) -> list[str]:
    """The words of a vocabulary file, which must hold the boundaries (and `<UNK>`, where words are the input)."""
    words = read_word_vocabulary(path)
    missing = [token for token in (BOS, EOS, *((UNK,) if unknown else ())) if token not in words]
    if missing:
        # bilm-tf uses the last word for a missing boundary, without a warning.
        raise SourceError(
            f"{path} has {len(words):,} words, but not {' and not '.join(missing)}. Expected "
            f"{'all three' if unknown else 'both'} as lines."
        )
    return words


def with_vocabulary(config: ElmoConfig, path: Path | None, where: str):
    """Sets what the vocabulary says of a config: its size, and for word input the ids of the boundaries."""
    words = None if path is None else read_vocabulary(path, config.word_input)
    if not config.word_input:
        config.vocab_size = 0 if words is None else len(words)
        return
    if words is None:
        raise SourceError(
            f"{where} describes a model that reads the words of a vocabulary. Expected the vocabulary too "
            "(`--vocabulary FILE`)."
        )
    if len(words) != config.vocab_size:
        raise SourceError(
            f"{path}: The vocabulary has {len(words):,} words, but `n_tokens_vocab` is {config.vocab_size:,} in "
            f"{where}."
        )
    config.boundary_ids = [words.index(BOS) + 1, words.index(EOS) + 1]


def softmax_rows(weights: Weights, name: str, config: ElmoConfig, vocabulary: Path | None) -> int:
    """How many words a softmax is over; an error if the vocabulary has another number."""
    if name not in weights.names():
        raise SourceError(f"{weights.where} has no dataset {name}; found {', '.join(weights.names()[:MAX_LISTED])}.")
    shape = weights.shape(name)
    if not shape or len(shape) != 2:
        raise SourceError(f"{weights.where}: {name} has the shape {shape}. Expected (words, projection_size).")
    if vocabulary is not None and shape[0] != config.vocab_size:
        raise SourceError(
            f"{weights.where}: {name} has {shape[0]:,} rows, but the vocabulary has {config.vocab_size:,} words."
        )
    return shape[0]


def megabytes(size: int) -> str:
    """A number of bytes, for the user."""
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size:,} bytes"
