"""The corpus of a run: checks of its files, and reading them once into a `Corpus`."""

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from elmo_hf.atomic_files import atomic_folder
from elmo_hf.model.tokenization_elmo import ElmoTokenizer
from elmo_hf.pretraining.corpus import Corpus, write_corpus
from elmo_hf.pretraining.settings import Settings
from elmo_hf.text.files import find_files
from elmo_hf.text.inputs import lines_of_dataset, read_dataset, read_lines


def check_files(settings: Settings):
    """Raises if a file is missing or cannot be read, before hours go into the others."""
    for path in find_files([*settings.files, *settings.held_out]):
        try:
            with open(path, "rb") as file:
                file.read(1)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}.") from None


def prepare_corpus(
    settings: Settings, folder: Path, tokenizer: ElmoTokenizer, expected: str | None, say: Callable[[str], Any]
) -> Corpus:
    """Returns the corpus in `folder`; writes it if it is missing, damaged, or that of another text.

    `expected` is the fingerprint of the text that training has begun with; another text is an error.
    """
    if settings.dataset is None:
        stats = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in find_files(settings.files)]
        source: list[Any] = ["files", stats, settings.errors]
    else:
        source = ["dataset", settings.dataset, settings.split, settings.column]
    source += [tokenizer.splitting, not settings.held_out]
    if Corpus.is_of(folder, source):
        try:
            return Corpus(folder)
        except ValueError as error:
            say(f"{error} It is written again.")
    say("reading the text ...")
    with atomic_folder(folder, replace=True) as place:
        # The same text may be in other files now: the fingerprint tells.
        fingerprint = write_corpus(_lines(settings), place, tokenizer, not settings.held_out, source)
        if expected not in (None, fingerprint):
            raise ValueError(
                "The text differs from the one that the run was begun with. Expected the same text for --resume, or a "
                "new --output-dir for a new run."
            )
    return Corpus(folder)


def _lines(settings: Settings) -> Iterator[str]:
    if settings.dataset is not None:
        yield from lines_of_dataset(read_dataset(settings.dataset, settings.split), settings.column)
        return
    for path in find_files(settings.files):
        empty = True
        for line in read_lines(path, settings.errors, progress=True):
            empty = False
            yield line
        if empty:
            warnings.warn(f"{path} holds no text.", stacklevel=2)


def corpus_name(settings: Settings) -> str:
    """Returns the description of the text for the model card; of paths it has only the last name."""
    if settings.corpus_name is not None:
        return settings.corpus_name
    if settings.dataset is not None:
        return os.path.basename(settings.dataset) if os.path.isdir(settings.dataset) else settings.dataset
    names = [os.path.basename(path) for path in find_files(settings.files)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more files" if len(names) > 5 else "")
