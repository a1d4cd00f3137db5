"""The corpus of a run: checks of its files, reading them once into a `Corpus`, and describing it."""

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

# A text of which this share of the sentences is the same when split by moses-en was tokenised in that way.
ALIKE, SENTENCES_COMPARED = 0.9, 1000


def check_files(settings: Settings):
    """Raises where a file is missing or cannot be read, before hours go into the others."""
    for path in find_files([*settings.files, *settings.held_out]):
        try:
            with open(path, "rb") as file:
                file.read(1)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}.") from None


def prepare_corpus(
    settings: Settings, folder: Path, tokenizer: ElmoTokenizer, expected: str | None, say: Callable[[str], Any]
) -> Corpus:
    """The corpus in `folder`, written if it is not there yet, or is another one, or is damaged.

    `expected` is the fingerprint of the text that training has begun with; another text is refused and leaves nothing.
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
            say(f"{error} It is made again.")
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


def describe_splitting(tokenizer: ElmoTokenizer, corpus: Corpus) -> str:
    """How the model will split raw text, and whether another way would fit the corpus better."""
    said = f"raw text will be split by: {tokenizer.splitting} (words that are already split stay as they are)"
    if tokenizer.splitting != "whitespace":
        return said
    words, step = corpus.words, max(corpus.num_sentences // SENTENCES_COMPARED, 1)
    sentences = [
        [words[word] for word in corpus.sentence(number)[1:-1]] for number in range(0, corpus.num_sentences, step)
    ]
    marks = sum(not word[0].isalnum() for sentence in sentences for word in sentence)
    split = ElmoTokenizer("moses-en").split([" ".join(sentence) for sentence in sentences])
    pairs = zip(map(_without_gaps, sentences), map(_without_gaps, split), strict=True)
    alike = sum(one == other for one, other in pairs) / len(sentences)
    if not marks or alike < ALIKE:
        return said
    return (
        f"{said}\nThe text looks tokenised: moses-en makes the same words of {alike:.0%} of its sentences. Begun with "
        "--tokenized --splitting moses-en, the model will split raw text so too, and not take `Paris.` for one word."
    )


def _without_gaps(words: list[str]) -> str:
    # Moses splits what it made of `it's` once more, `it 's` into `it ' s`.
    return " ".join(words).replace("' ", "'")


def corpus_name(settings: Settings) -> str:
    """What the model card says the text is; of paths no more than the last name."""
    if settings.corpus_name is not None:
        return settings.corpus_name
    if settings.dataset is not None:
        return os.path.basename(settings.dataset) if os.path.isdir(settings.dataset) else settings.dataset
    names = [os.path.basename(path) for path in find_files(settings.files)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more files" if len(names) > 5 else "")
