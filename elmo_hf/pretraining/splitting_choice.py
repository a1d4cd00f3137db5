"""The splitting of a run: how the training text is read, and how the model will split raw text later."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

from elmo_hf.model.tokenization_elmo import ElmoTokenizer
from elmo_hf.pretraining.settings import Settings
from elmo_hf.text.files import find_files
from elmo_hf.text.inputs import lines_of_dataset, read_dataset, read_lines
from elmo_hf.text.splitting import propose_splitting

SAMPLE_LINES = 1000
# A splitting reproduces a tokenised text if it makes the same words of this share of its sentences.
MIN_AGREEMENT = 0.9


def choose_splitting(settings: Settings, say: Callable[[str], Any]) -> Settings:
    """Returns the settings with `splitting` and `tokenized` chosen by the text where they were not given.

    `say` gets a line that names the choice and the reason for it.

    Example:

    ```python
    >>> import pathlib, tempfile
    >>> from elmo_hf.pretraining import Settings
    >>> from elmo_hf.pretraining.splitting_choice import choose_splitting
    >>> path = pathlib.Path(tempfile.mkdtemp(), "text.txt")
    >>> _ = path.write_text("Das Haus ist groß, sagte sie.")
    >>> choose_splitting(Settings("my-elmo", [str(path)]), print).splitting
    splitting: unicode-words (Latin script; punctuation is attached to 33% of the words)
    'unicode-words'

    ```
    """
    lines = sample_lines(settings)
    proposal = propose_splitting(lines)
    tokenized = proposal.tokenized if settings.tokenized is None else settings.tokenized
    reason = proposal.reason
    if settings.splitting is not None:
        splitting, reason = settings.splitting, "as given"
    elif settings.start is not None and not settings.new_vocab:  # a new vocabulary may be of another language
        splitting, reason = (
            ElmoTokenizer.from_pretrained(settings.start).splitting,
            "as saved with --from",
        )
    elif tokenized:
        splitting, reason = _splitting_of_tokenized(lines)
    else:
        splitting = proposal.splitting
    if not tokenized or splitting == "whitespace" == settings.splitting:
        say(f"splitting: {splitting} ({reason})")
    else:
        how = "looks tokenised" if settings.tokenized is None else "is tokenised"
        override = "; --no-tokenized splits it" if settings.tokenized is None else ""
        say(f"splitting: the text {how}, and its words are taken as they stand between spaces{override}")
        say(f"raw text will be split by: {splitting} ({reason})")
    return replace(settings, splitting=splitting, tokenized=tokenized)


def sample_lines(settings: Settings) -> list[str]:
    """Returns the first lines of the text, of each file alike."""
    if settings.dataset is not None:
        lines = lines_of_dataset(read_dataset(settings.dataset, settings.split), settings.column)
        return list(islice(lines, SAMPLE_LINES))
    paths = find_files(settings.files)
    lines_per_file = max(SAMPLE_LINES // len(paths), 1)
    sample: list[str] = []
    for path in paths[:SAMPLE_LINES]:
        sample += islice(read_lines(path, settings.errors), lines_per_file)
    return sample


def _splitting_of_tokenized(lines: list[str]) -> tuple[str, str]:
    """Returns the splitting that makes the words of a tokenised text again, if its spaces are removed or not."""
    sentences = [_without_gaps(line.split()) for line in lines]
    shares = {}
    for splitting in ("moses-en", "unicode-words"):
        words = map(_without_gaps, ElmoTokenizer(splitting).split(lines))
        shares[splitting] = sum(map(str.__eq__, words, sentences)) / len(sentences)
    best = max(shares, key=lambda name: shares[name])
    if shares[best] < MIN_AGREEMENT:
        return "whitespace", "neither moses-en nor unicode-words makes the same words; --splitting chooses another"
    return best, f"it makes the same words of {shares[best]:.0%} of the sentences"


def _without_gaps(words: list[str]) -> str:
    # Moses splits its own output `it 's` once more, into `it ' s`.
    return " ".join(words).replace("' ", "'")
