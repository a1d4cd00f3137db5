"""A batch of texts on its way through Rust: which word stands at which position, and what HF asks of that."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import BatchEncoding

from .splitting_elmo import clean, panics_as_errors
from .word_rows_elmo import BOS, EOS, PAD, UNK

# What the Rust side knows; words are all <UNK> to it, their rows come from their characters.
RUST_VOCABULARY = {PAD: 0, BOS: 1, EOS: 2, UNK: 3}


class ElmoBatchEncoding(BatchEncoding):
    """A BatchEncoding that makes Rust's Encodings when they are first needed, and whose `tokens()` are the words."""

    def __init__(self, data: Any, encodings: Any, texts: "Texts", samples: list[int], tensor_type: Any = None):
        self._texts, self._samples = texts, samples
        super().__init__(data, tensor_type=tensor_type, n_sequences=1 if texts.pairs is None else 2)
        self._encodings = encodings

    @property
    def _encodings(self) -> list[Encoding] | None:
        if callable(self.__dict__.get("_made")):
            self.__dict__["_made"] = self.__dict__["_made"]()
        return self.__dict__.get("_made")

    @_encodings.setter
    def _encodings(self, encodings: Any):
        self.__dict__["_made"] = encodings

    def tokens(self, batch_index: int = 0) -> list[str]:
        tokens = self._texts.tokens(self._encodings[batch_index], self._samples[batch_index])
        return [PAD if token is None else token for token in tokens]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "texts": self._texts, "samples": self._samples}

    def __setstate__(self, state: dict[str, Any]):
        self._texts, self._samples = state["texts"], state["samples"]
        super().__setstate__(state)


@dataclass(frozen=True)
class Texts:
    """A batch of texts, or of lists of words, and perhaps a partner for each.

    In texts, not in words that were split before, `letters` are read as others, as in Splitting.
    """

    batched: bool
    texts: list
    pairs: list | None
    split_into_words: bool
    add_special_tokens: bool
    letters: dict[int, str] | None = None

    @classmethod
    def of(
        cls,
        text: Any,
        text_pair: Any,
        split_into_words: bool,
        add_special_tokens: bool,
        letters: dict[int, str] | None = None,
    ) -> "Texts":
        if not isinstance(text, (str, list, tuple)):
            raise ValueError(
                f"The text is a {type(text).__name__}; accepted are a string, or a list of words or texts."
            )
        if split_into_words and isinstance(text, str):
            raise ValueError("The text is one string, but is_split_into_words=True promises a list of words.")
        batched = isinstance(text, (list, tuple))
        if split_into_words:
            batched = bool(text) and isinstance(text[0], (list, tuple))
        settings = (split_into_words, add_special_tokens, letters)
        if not batched:
            return cls(False, [text], None if text_pair is None else [text_pair], *settings)
        texts, pairs = list(text), None if text_pair is None else list(text_pair)
        if pairs is None and not split_into_words and texts and all(isinstance(one, (list, tuple)) for one in texts):
            texts, pairs = (list(part) for part in zip(*texts, strict=True))
        if pairs is not None and (isinstance(text_pair, str) or len(texts) != len(pairs)):
            raise ValueError(f"There are {len(texts)} texts and {len(pairs)} partners; accepted is one for each.")
        return cls(True, texts, pairs, *settings)

    def rows(self, split: Callable[[list[str]], list[list[str]]]) -> list[list[str]]:
        """The tokens of each text and its partner, boundaries included, without padding."""
        begin, end = ([BOS], [EOS]) if self.add_special_tokens else ([], [])
        columns = [self.texts] if self.pairs is None else [self.texts, self.pairs]
        if not self.split_into_words:
            columns = [split(self._spelled(column)) for column in columns]
        rows = [[*begin, *words, *end] for words in columns[0]]
        for row, words in zip(rows, columns[1] if len(columns) == 2 else [], strict=False):
            row += [*begin, *words, *end]
        return rows

    def _spelled(self, texts: list[str]) -> list[str]:
        if self.letters is None or self.split_into_words:
            return texts
        return [text.translate(self.letters) for text in texts]

    def encode(self, backend: Tokenizer) -> list[Encoding]:
        try:
            return self._encode(backend, cleans=False)
        except TypeError:
            # Lone surrogates are no Unicode to Rust. Anything else fails again, with Rust's own words.
            return self._encode(backend, cleans=True)

    def _encode(self, backend: Tokenizer, cleans: bool) -> list[Encoding]:
        def prepare(one: Any) -> Any:
            if not self.split_into_words:
                return clean(one) if cleans else one
            return [(clean(word) if cleans else word) or "\ufffd" for word in one]  # Rust drops an empty word

        inputs = [prepare(one) for one in self.texts]
        if self.pairs is not None:
            inputs = list(zip(inputs, [prepare(one) for one in self.pairs], strict=True))
        with panics_as_errors():
            return backend.encode_batch(
                inputs, is_pretokenized=self.split_into_words, add_special_tokens=self.add_special_tokens
            )

    def tokens(self, encoding: Encoding, sample: int) -> list[str | None]:
        """The word or boundary at each position of an Encoding of text `sample`; None for padding."""
        sides = [self.texts[sample], None if self.pairs is None else self.pairs[sample]]
        places: Any = encoding.word_ids
        if not self.split_into_words:
            spans = zip(places, encoding.offsets, strict=True)
            places = [None if place is None else slice(*span) for place, span in spans]
        sequences = [0] * len(places) if sides[1] is None else encoding.sequence_ids
        marks = (None, BOS, EOS)  # as RUST_VOCABULARY numbers them
        unknown = RUST_VOCABULARY[UNK]  # every word but the added tokens, which are spelled as they were added

        def word(number: int, found: str) -> str:
            return self._spelled([found])[0] if number == unknown else found

        return [
            marks[number] if place is None else word(number, sides[sequence][place])
            for number, place, sequence in zip(encoding.ids, places, sequences, strict=True)
        ]


def rust_tokenizer() -> Tokenizer:
    backend = Tokenizer(WordLevel(RUST_VOCABULARY, unk_token=UNK))
    backend.post_processor = TemplateProcessing(
        single=f"{BOS} $A {EOS}",
        pair=f"{BOS} $A {EOS} {BOS}:1 $B:1 {EOS}:1",
        special_tokens=[(token, RUST_VOCABULARY[token]) for token in (BOS, EOS)],
    )
    return backend


def offsets(encoding: Encoding, words: Iterable[str | None]) -> list[tuple[int, int]]:
    # An empty word had to be given a letter for Rust.
    return [(0, 0) if word == "" else span for word, span in zip(words, encoding.offsets, strict=True)]


def with_overflow(encodings: list[Encoding], wanted: bool) -> tuple[list[Encoding], list[int]]:
    """The Encodings, with what did not fit behind each if that is wanted, and the number of each one's text."""
    if not wanted:
        return encodings, list(range(len(encodings)))
    parts = [(part, i) for i, whole in enumerate(encodings) for part in (whole, *whole.overflowing)]
    return [part for part, _ in parts], [i for _, i in parts]
