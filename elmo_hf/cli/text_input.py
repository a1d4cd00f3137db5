"""Text that commands read: the option --tokenized, notes on text that is split wrongly, an error if there is none."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import typer

from elmo_hf.text.splitting import SPLITTING_NAMES, needs_segmentation
from elmo_hf.text.tokenization_check import SENTENCES_CHECKED, looks_tokenized

# These do not split at punctuation.
UNAFFECTED_SPLITTINGS = ("whitespace", "residues")
# These do not split words of scripts without spaces.
SPACED_SPLITTINGS = ("moses-en", "whitespace")

Splitting = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"How text is split into words: {', '.join(SPLITTING_NAMES[:-1])} or {SPLITTING_NAMES[-1]}.",
        show_default="as saved with the model",
    ),
]
Tokenized = Annotated[bool, typer.Option("--tokenized", help="Words are separated by spaces: do not split further.")]
ErrorHandling = Annotated[
    str, typer.Option(metavar="NAME", help="What to do with text that is not UTF-8: strict, replace or ignore.")
]


def choose_splitting(splitting: str | None, tokenized: bool) -> str | None:
    """The splitting that the tokenizer is loaded with; None for the saved one."""
    if tokenized and splitting is not None:
        raise ValueError("Invalid `--splitting`: --tokenized text is not split. Expected one of the two options.")
    return "whitespace" if tokenized else splitting


class TextInput:
    """Sentences for a command. While they are read, tokenised text is noted once; no sentence at all is an error.

    Nothing is read ahead, so that a pipe is read as it comes.

    Args:
        sentences: strings or lists of words.
        source: what the error calls them.
        splitting: returns how the model splits strings; called if they look tokenised or unsegmented.

    Example:

    ```python
    >>> from elmo_hf.cli.text_input import TextInput
    >>> list(TextInput(["It's late."], "text.txt", lambda: "moses-en"))
    ["It's late."]
    >>> list(TextInput([], "empty.txt", lambda: "moses-en"))
    Traceback (most recent call last):
    ValueError: empty.txt contains no sentence. Expected text, a sentence a line.

    ```
    """

    def __init__(self, sentences: Iterable[Any], source: Any, splitting: Callable[[], str]):
        self.sentences, self.source, self.splitting = sentences, source, splitting
        self._is_noted = False

    @property
    def repeats(self) -> bool:
        """Whether the sentences can be read twice."""
        return isinstance(self.sentences, (list, tuple)) or getattr(self.sentences, "repeats", False)

    def check_not_empty(self):
        """Raises if there is no sentence, unless the sentences can be read only once."""
        if self.repeats and next(iter(self.sentences), None) is None:
            raise self._is_empty()

    def __iter__(self) -> Iterator[Any]:
        sample: list[Any] = []
        is_empty = True
        for sentence in self.sentences:
            is_empty = False
            if len(sample) < SENTENCES_CHECKED:
                sample.append(sentence)
                if len(sample) == SENTENCES_CHECKED:
                    self._note(sample)
            yield sentence
        if is_empty:
            raise self._is_empty()
        if len(sample) < SENTENCES_CHECKED:
            self._note(sample)

    def _is_empty(self) -> ValueError:
        name = "standard input" if self.source == "-" else self.source
        return ValueError(f"{name} contains no sentence. Expected text, a sentence a line.")

    def _note(self, sample: list[Any]):
        if self._is_noted:
            return
        if looks_tokenized(sample):
            self._is_noted = True
            splitting = self.splitting()
            if splitting not in UNAFFECTED_SPLITTINGS:
                typer.echo(
                    f"Note: the text looks tokenised (punctuation between spaces), but {splitting} splits it again, "
                    "as `don 't` into `don ' t`. If words are separated by spaces already, add --tokenized.",
                    err=True,
                )
        elif needs_segmentation(sample):
            self._is_noted = True
            splitting = self.splitting()
            if splitting in SPACED_SPLITTINGS:
                typer.echo(
                    f"Note: the text has no spaces between words, but {splitting} is for text with spaces: a whole "
                    "clause becomes one word. Expected text with a space between words, and --tokenized; or a model "
                    "with the splitting characters.",
                    err=True,
                )


def check_sentences(sentences: list[str], splitting: str):
    """Notes sentences of the command line that look tokenised."""
    list(TextInput(sentences, "SENTENCES", lambda: splitting))


__all__ = ["ErrorHandling", "Splitting", "TextInput", "Tokenized", "check_sentences", "choose_splitting"]
