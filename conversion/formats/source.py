"""What every outside format is to `convert`: a source of weights, and of what it says about the model."""

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

LISTED = 12


class Weights(Protocol):
    """Arrays by name, one read at a time."""

    where: str

    def names(self) -> Sequence[str]: ...

    def shape(self, name: str) -> tuple[int, ...] | None: ...

    def dtype(self, name: str) -> np.dtype: ...

    def read(self, name: str) -> np.ndarray: ...


@dataclass(frozen=True)
class Part:
    """Some of the model's parameters: where they are read, by which table, and which other names may stand there."""

    weights: Weights
    entries: Sequence[Entry]
    beside: tuple[str, ...] = ()  # beginnings of names that the model does not use
    prefix: str = ""  # of the names in the file


@dataclass
class Source:
    """All that a format found out, before any weight is read.

    Args:
        config: the final configuration, but for what the card says.
        parts: tables of the biLM's parameters, and of the softmax's if it is there, each named as in ElmoModel or
            ElmoForPreTraining without the prefix `elmo.`.
        found: a sentence on what was found, with names and sizes.
        values: parameters that are there already, as those of a mix.
        vocabulary: the file of the softmax's words.
        tokenizer: settings of the tokenizer.
        notes: sentences on what was guessed, or cannot be kept.
    """

    config: ElmoConfig
    parts: list[Part]
    found: str
    values: dict[str, np.ndarray] = field(default_factory=dict)
    vocabulary: Path | None = None
    tokenizer: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    splitting: str | None = None  # what this format's text needs, unless the user chose
    used: tuple[str, ...] = ()  # names that are in `values`
    optional: tuple[str, ...] = ()  # names that a note has spoken of already
    card: dict[str, str] = field(default_factory=dict)

    @property
    def _named(self) -> set[str]:
        return {entry.dataset for part in self.parts for entry in part.entries} | {*self.used, *self.optional}

    @property
    def has_softmax(self) -> bool:
        return any(
            name == "softmax.bias" for part in self.parts for entry in part.entries for name in entry.parameters
        )

    def left_out(self) -> list[str]:
        """Names and shapes that stand in the files and have no place in the model."""
        return [
            f"{name} {part.weights.shape(name)}"
            for part in self.parts
            for name in part.weights.names()
            if part.beside and name.startswith(part.beside) and name not in self._named
        ]


@dataclass(frozen=True)
class Given:
    """What the user gave beside the source itself."""

    vocabulary: Path | None = None
    softmax: Path | None = None
    mix: int = 0


@dataclass(frozen=True)
class Format:
    """One outside format.

    Args:
        name: what `--format` takes.
        title: what `convert` calls it.
        have, type: a line of the table of help and README: what a person has, and what they type.
        recognises: whether the names in a folder are those of this format.
        open: reads the folder, for the length of a with block.
    """

    name: str
    title: str
    have: str
    type: str
    recognises: Callable[[Bundle], bool]
    open: Callable[[Bundle, Given], AbstractContextManager[Source]]


def check(weights: Weights, entries: Sequence[Entry], beside: Sequence[str] = ()):
    """Raises one error that explains every name which is missing, unknown, or of another shape or type.

    Args:
        weights: what is there.
        entries: what must be there.
        beside: beginnings of names that may be there too.
    """
    expected = {entry.dataset: entry for entry in entries}
    names = list(weights.names())
    there = set(names)
    problems = [
        f"{name} is missing; expected is the shape {entry.shape}"
        for name, entry in expected.items()
        if name not in there
    ]
    for name in names:
        if name in expected:
            problems += _problems(weights, expected[name])
        elif not name.startswith(tuple(beside)):
            problems.append(f"{name} with the shape {weights.shape(name)} has no place in this model")
    if problems:
        shown = problems[:LISTED] + ([f"... and {len(problems) - LISTED} more"] if len(problems) > LISTED else [])
        raise ValueError(
            f"{weights.where} does not fit the options ({len(names)} datasets, expected {len(expected)}):"
            + "".join(f"\n  - {problem}" for problem in shown)
        )


def _problems(weights: Weights, entry: Entry) -> list[str]:
    dtype, shape = weights.dtype(entry.dataset), weights.shape(entry.dataset)
    if dtype.kind != "f":
        return [f"{entry.dataset} has the type {dtype}; accepted are floating point numbers"]
    if shape != entry.shape:
        transposed = " (it looks transposed)" if shape is not None and shape == entry.shape[::-1] else ""
        return [f"{entry.dataset} has the shape {shape}; expected is {entry.shape}{transposed}"]
    return []


def read_vocabulary(path: Path, unknown: bool = False) -> list[str]:
    """The words of a vocabulary file, which must hold the boundaries (and `<UNK>`, where words are the input)."""
    words = read_word_vocabulary(path)
    missing = [token for token in (BOS, EOS, *((UNK,) if unknown else ())) if token not in words]
    if missing:
        # The original then takes the last word for a boundary, and says nothing.
        raise SourceError(
            f"{path} has {len(words):,} words, but not {' and not '.join(missing)}; a vocabulary needs "
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
            f"{where} describes a model whose input are the words of a vocabulary; its file is needed too "
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
        raise SourceError(f"{weights.where} has no dataset {name}; found are {', '.join(weights.names()) or 'none'}.")
    shape = weights.shape(name)
    if not shape or len(shape) != 2:
        raise SourceError(f"{weights.where}: {name} has the shape {shape}; accepted is (words, projection_size).")
    if vocabulary is not None and shape[0] != config.vocab_size:
        raise SourceError(
            f"{weights.where}: {name} has {shape[0]:,} rows, but the vocabulary has {config.vocab_size:,} words."
        )
    return shape[0]


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size:,} bytes"
