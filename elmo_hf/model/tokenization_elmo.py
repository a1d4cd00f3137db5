"""ElmoTokenizer: raw text or words to rows of bytes, rows of dictionary ids, or word ids."""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate, chain
from typing import Any, Self

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import BatchEncoding, TokenizersBackend
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import PaddingStrategy, to_py_obj

from .configuration_elmo import (
    BEGIN_OF_SENTENCE_BYTE,
    BEGIN_OF_WORD_BYTE,
    END_OF_SENTENCE_BYTE,
    END_OF_WORD_BYTE,
    PADDING_CHARACTER,
    call_package,
    check,
    kernel_table,
    resolve_name,
)
from .splitting_elmo import SPLITTINGS, get_splitting, panics_as_errors, replace_surrogates, split_words

PAD, BOS, EOS, UNK = "<PAD>", "<S>", "</S>", "<UNK>"
# The vocabulary of the Rust tokenizer. All words are <UNK> there, because their ids come from their characters.
RUST_VOCABULARY = {PAD: 0, BOS: 1, EOS: 2, UNK: 3}
# The symbols of a dictionary of ELMoForManyLangs. A word begins with the id of <eow> and ends with that of <bow>: the
# original code uses them in this order, and every released model was trained so.
FIRST, LAST, UNKNOWN, FILLING, BEGIN, END = "<eow>", "<bow>", "<oov>", "<pad>", "<bos>", "<eos>"
TRUNCATIONS = ("characters", "bytes")
# LSTMs have no maximum length; without a number here, programs that ask for `model_max_length` show 10**30.
MODEL_MAX_LENGTH = 2**20
MAX_CHARACTERS, MAX_BACKENDS = 2**16, 16
PADDING_VALUES = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids", "word_vector_ids"), 0)
PADDING_VALUES |= {"special_tokens_mask": 1, "labels": -100}


def byte_rows(words: Sequence[str], width: int, truncation: str = "characters") -> np.ndarray:
    """Encodes N words as rows (N, width): begin mark, UTF-8 bytes, end mark, padding. Each id is the byte + 1.

    A long word is truncated between characters with `truncation="characters"`, and anywhere with `"bytes"`.
    """
    max_bytes = width - 2
    encoded = [word.encode("utf-8", "ignore") for word in words]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    for number in np.flatnonzero(lengths > max_bytes).tolist():
        word = encoded[number][:max_bytes]
        if truncation == "characters":
            word = word.decode("utf-8", "ignore").encode("utf-8")  # drops the bytes of an incomplete character
        encoded[number], lengths[number] = word, len(word)
    rows = np.full((len(encoded), width), PADDING_CHARACTER, dtype=np.int64)
    rows[:, 0] = BEGIN_OF_WORD_BYTE + 1
    position = np.arange(width - 1)  # of each column after the first
    rows[:, 1:][position < lengths[:, None]] = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.int64) + 1
    rows[np.arange(len(encoded)), lengths + 1] = END_OF_WORD_BYTE + 1
    return rows


def word_of_row(row: Sequence[int]) -> str:
    """Decodes a row of `byte_rows`; bytes that were truncated are lost."""
    values = np.asarray(row) - 1
    if values[0] < 0:
        return PAD
    ends = np.flatnonzero(values == END_OF_WORD_BYTE)
    values = values[1 : ends[0] if len(ends) else None]
    if len(values) == 1 and values[0] in (BEGIN_OF_SENTENCE_BYTE, END_OF_SENTENCE_BYTE):
        return BOS if values[0] == BEGIN_OF_SENTENCE_BYTE else EOS
    return bytes(values[values < 256].astype(np.uint8)).decode("utf-8", "replace")


def read_word_vocabulary(path: str | os.PathLike) -> list[str]:
    """Reads a vocabulary file with a word per line, in the order of the softmax's rows."""
    with open(path, encoding="utf-8", newline="\n") as file:
        words = []
        try:
            words += (line.rstrip("\r\n") for line in file)
        except UnicodeDecodeError as error:
            damage = f"{error.reason} near line {len(words) + 1}"
            raise ValueError(f"Invalid vocabulary {path}: {damage}. Expected a word per line in UTF-8.") from None
    # The original vocabularies end with this marker, which has no row in the softmax.
    return [word for word in words if word != "!!!MAXTERMID"]


class ElmoDictionary:
    """Ids of characters, of words, or of both, from dictionaries as in ELMoForManyLangs.

    Words are not normalised; a word that is longer than a row is truncated.

    Args:
        characters: each character's id from 0, and those of `<bow>`, `<eow>`, `<bos>`, `<eos>`, `<oov>`, `<pad>`.
        words: each word's id from 0, and that of `<oov>`.
        width: characters of a row, including its first and last mark.
    """

    def __init__(self, characters: Mapping[str, int] | None, words: Mapping[str, int] | None, width: int = 50):
        self.characters, self.words = dict(characters or {}), dict(words or {})
        self.width = width
        symbols = (FIRST, LAST, BEGIN, END, UNKNOWN, FILLING) if self.characters else ()
        missing = [symbol for symbol in symbols if symbol not in self.characters]
        missing += [UNKNOWN] if self.words and UNKNOWN not in self.words else []
        if missing or not (self.characters or self.words):
            raise ValueError(
                f"Invalid dictionary: {', '.join(missing) or 'every entry'} missing. Expected characters with "
                f"{FIRST}, {LAST}, {BEGIN}, {END}, {UNKNOWN} and {FILLING}, and words with {UNKNOWN}."
            )
        self._names = {number: name for name, number in (self.characters or self.words).items()}

    @classmethod
    def read(cls, path: str | os.PathLike) -> "ElmoDictionary":
        """Reads the file of `write`."""
        with open(path, encoding="utf-8") as file:
            return cls(**json.load(file))

    def write(self, path: str | os.PathLike):
        """Writes the dictionary as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.to_dict(), file)

    def to_dict(self) -> dict[str, Any]:
        """Returns the arguments that make an equal dictionary."""
        return {"characters": self.characters, "words": self.words, "width": self.width}

    def boundary_ids(self) -> list[int]:
        """Returns the ids of `<S>` and `</S>` in the column `config.mark_position` of their rows."""
        ids = self.characters or self.words
        return [ids.get(symbol, ids[UNKNOWN]) + 1 for symbol in (BEGIN, END)]

    def table(self, words: Sequence[str]) -> np.ndarray:
        """Returns the rows of padding, of `<S>`, of `</S>`, and of each word; ids count from 1."""
        tokens = [BEGIN, END, *(word if word in (BEGIN, END) else word[: self.width - 2] for word in words)]
        columns = []
        if self.words:
            unknown = self.words[UNKNOWN]
            columns.append(np.array([[self.words.get(token, unknown)] for token in tokens], dtype=np.int64))
        if self.characters:
            ids, unknown = self.characters, self.characters[UNKNOWN]
            rows = np.full((len(tokens), self.width), ids[FILLING], dtype=np.int64)
            for row, token in zip(rows, tokens, strict=True):
                characters = [token] if token in (BEGIN, END) else token
                inside = [ids.get(character, unknown) for character in characters]
                row[: len(inside) + 2] = [ids[FIRST], *inside, ids[LAST]]
            columns.append(rows)
        rows = np.concatenate(columns, axis=1) + 1
        return np.concatenate([np.zeros_like(rows[:1]), rows])

    def word_of(self, row: Sequence[int]) -> str:
        """Decodes a row; a character that is not in the dictionary is U+FFFD."""
        ids = [int(number) - 1 for number in row]
        if ids[0] < 0:
            return PAD
        if not self.characters:
            name = self._names.get(ids[0], UNKNOWN)
            return {BEGIN: BOS, END: EOS}.get(name, name)
        ids = ids[1:] if self.words else ids
        inside = ids[1 : ids.index(self.characters[LAST])] if self.characters[LAST] in ids else ids[1:]
        names = [self._names.get(number, UNKNOWN) for number in inside]
        if names in ([BEGIN], [END]):
            return BOS if names == [BEGIN] else EOS
        return "".join("\ufffd" if name == UNKNOWN else name for name in names)


class ElmoBatchEncoding(BatchEncoding):
    """A BatchEncoding that computes Rust's Encodings when they are first used, and whose `tokens()` are the words.

    `vocabulary` holds the distinct tokens of the batch, and `numbers` the number of the token at each position.
    """

    def __init__(self, data: dict[str, Any], encode: Callable, vocabulary: list[str], numbers: Any, **kwargs: Any):
        super().__init__(data, **kwargs)
        self._encode, self._vocabulary, self._numbers = encode, vocabulary, numbers
        del self.__dict__["_encodings"]  # BatchEncoding sets None; without it, the property below is used

    @cached_property
    def _encodings(self) -> list[Encoding]:
        return [encoding for _, encoding in self._encode()]

    def tokens(self, batch_index: int = 0) -> list[str]:
        """Returns the tokens of a text, `<PAD>` at padded positions."""
        return [self._vocabulary[number] for number in self._numbers[batch_index].tolist()]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "vocabulary": self._vocabulary, "numbers": self._numbers}

    def __setstate__(self, state: dict[str, Any]):
        super().__setstate__(state)
        self._vocabulary, self._numbers = state["vocabulary"], state["numbers"]


class ElmoTokenizer(TokenizersBackend):
    """Converts text to the inputs of an ELMo: for each token a row of its UTF-8 bytes, between `<S>` and `</S>`.

    Args:
        splitting: how raw text is split into words: `"moses-en"`, as in the training text of the released English
            models; `"unicode-words"` (UAX 29) for any language with spaces; `"characters"`, which also makes a word of
            each character of Chinese, Japanese, Thai and other scripts without spaces; `"whitespace"`; or `"residues"`
            for models of proteins: each letter of a sequence is a token, small letters are read as capitals, and the
            rare U, Z, O and B as X. Words that are already split (`is_split_into_words=True`) are never split further.
        word_truncation: where a word that is longer than a row is truncated: `"characters"` for between characters,
            `"bytes"` for anywhere, as the original programs do.
        word_vocabulary: the language model's words, as a list or a file with a word per line, read at its first use.
        max_characters_per_token: length of a row, including begin and end marks.
        word_input: return word ids (line of the vocabulary + 1) instead of rows.
        vector_words: the words of a table of word vectors, as a file with a word per line or a list. The tokenizer
            then returns `word_vector_ids`, too: 0 for padding and boundaries, 1 for a word that is not in the table,
            not even in small letters, else line + 2.
        dictionary: ids of characters and words instead of bytes, as a file or an ElmoDictionary.
    """

    vocab_files_names = {
        "tokenizer_file": "tokenizer.json",
        "word_vocabulary": "word_vocabulary.txt",
        "vector_words": "vector_words.txt",
        "dictionary": "dictionary.json",
    }
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(
        self,
        splitting: str = "moses-en",
        word_truncation: str = "characters",
        word_vocabulary: str | os.PathLike | Sequence[str] | None = None,
        max_characters_per_token: int = 50,
        word_input: bool = False,
        vector_words: str | os.PathLike | Sequence[str] | None = None,
        dictionary: str | os.PathLike | ElmoDictionary | None = None,
        tokenizer_file: str | None = None,
        **kwargs: Any,
    ):
        truncations = " or ".join(map(repr, TRUNCATIONS))
        check(word_truncation in TRUNCATIONS, "word_truncation", word_truncation, truncations)
        is_valid = type(max_characters_per_token) is int and 3 <= max_characters_per_token <= MAX_CHARACTERS
        expected = f"an integer from 3 (begin mark, one byte, end mark) to {MAX_CHARACTERS:,}"
        check(is_valid, "max_characters_per_token", max_characters_per_token, expected)
        has_words = word_vocabulary is not None or not word_input
        check(has_words, "word_vocabulary", word_vocabulary, "the words for `word_input=True`")
        self.splitting = splitting
        self.word_truncation = word_truncation
        self.max_characters_per_token = max_characters_per_token
        self.word_input = word_input
        self._depth = 1 if word_input else 2  # of the ids of one text
        self._vocabulary = _path_or_list(word_vocabulary)
        vector_words = _path_or_list(vector_words)
        self.vector_words = read_word_vocabulary(vector_words) if isinstance(vector_words, str) else vector_words
        self._vector_lines = {word: line for line, word in enumerate(self.vector_words or ())}
        self.dictionary = ElmoDictionary.read(dictionary) if isinstance(dictionary, (str, os.PathLike)) else dictionary
        self._backends: dict[tuple, Tokenizer] = {}
        self._cache: dict[str, tuple[str, ...]] = {}

        backend = _rust_tokenizer() if tokenizer_file is None else Tokenizer.from_file(os.fspath(tokenizer_file))
        backend.pre_tokenizer = get_splitting(splitting).pre_tokenizer()
        kwargs = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "unk_token": UNK, **kwargs}
        length = kwargs.setdefault("model_max_length", MODEL_MAX_LENGTH)
        is_valid = length is None or (isinstance(length, (int, float)) and length is not True and length >= 1)
        check(is_valid, "model_max_length", length, "a number of words from 1, or None")
        super().__init__(
            tokenizer_object=backend,
            splitting=splitting,
            word_truncation=word_truncation,
            max_characters_per_token=max_characters_per_token,
            word_input=word_input,
            **kwargs,
        )

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike, *args: Any, **kwargs: Any) -> Self:
        """Loads a tokenizer as in transformers; errors name damaged files."""
        pretrained_model_name_or_path = resolve_name(pretrained_model_name_or_path, kwargs)
        try:
            tokenizer = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        except Exception as error:
            # Rust raises Exception itself; transformers raises the others at unexpected values.
            is_of_a_file = type(error) is Exception or isinstance(error, (TypeError, AttributeError, LookupError))
            if not is_of_a_file or any(f"{name} conflicts with" in str(error) for name in kwargs):
                raise
            files = f"tokenizer.json or tokenizer_config.json of {pretrained_model_name_or_path}"
            raise ValueError(f"Invalid {files}: {error}.") from error
        call_package("hub.consistency", "check_loaded_tokenizer", tokenizer, pretrained_model_name_or_path, kwargs)
        return tokenizer

    @classmethod
    def convert_to_native_format(cls, trust_remote_code: bool = False, **kwargs: Any) -> dict[str, Any]:
        """The arguments as they are: `__init__` itself reads tokenizer.json."""
        return kwargs

    # The words of the language model

    @cached_property
    def word_vocabulary(self) -> list[str] | None:
        """The words in the order of the softmax's rows, or None."""
        return read_word_vocabulary(self._vocabulary) if isinstance(self._vocabulary, str) else self._vocabulary

    @cached_property
    def word_lines(self) -> dict[str, int]:
        """The line of each word of the vocabulary, from 0."""
        if self.word_vocabulary is None:
            raise ValueError("This tokenizer has no `word_vocabulary`. Expected a file or a list of words.")
        lines = {word: line for line, word in enumerate(self.word_vocabulary)}
        missing = ", ".join(token for token in (BOS, EOS, UNK) if token not in lines)
        if missing:
            source = self._vocabulary if isinstance(self._vocabulary, str) else "(a list of words)"
            expected = f"{BOS}, {EOS} and {UNK} among the words of a language model"
            raise ValueError(f"Invalid vocabulary {source}: {missing} missing. Expected {expected}.")
        return lines

    # Text to ids

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """Splits each text into words."""
        letters = SPLITTINGS[self.splitting].letters
        if letters is not None:
            texts = [text.translate(letters) for text in texts]
        arguments = (texts, self._tokenizer.pre_tokenizer, self.splitting, self._cache)
        kernel = kernel_table().get("split_words")
        words = NotImplemented if kernel is None else kernel(split_words, *arguments)
        return split_words(*arguments) if words is NotImplemented else words

    def _encode_plus(
        self,
        text: Any,
        text_pair: Any = None,
        add_special_tokens: bool = True,
        padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD,
        truncation_strategy: TruncationStrategy = TruncationStrategy.DO_NOT_TRUNCATE,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: Any = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        return_lm_labels: bool = False,
        verbose: bool = True,
        split_special_tokens: bool | None = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        columns, is_batch = _text_columns(text, text_pair, is_split_into_words)
        padding = truncation = None
        if padding_strategy != PaddingStrategy.DO_NOT_PAD:
            length = max_length if padding_strategy == PaddingStrategy.MAX_LENGTH else None
            padding = (padding_side or self.padding_side, length, pad_to_multiple_of)
        if truncation_strategy != TruncationStrategy.DO_NOT_TRUNCATE:
            truncation = (max_length, stride, truncation_strategy.value, self.truncation_side)
        if split_special_tokens is None:
            split_special_tokens = self.split_special_tokens

        @cache
        def encode() -> list[tuple[int, Encoding]]:
            """Computes Rust's Encodings, each with the number of its text."""
            backend = self._backend(is_split_into_words, split_special_tokens, padding, truncation)
            encodings = enumerate(_encode_batch(backend, columns, is_split_into_words, add_special_tokens))
            if not return_overflowing_tokens:
                return list(encodings)
            return [(number, part) for number, encoding in encodings for part in (encoding, *encoding.overflowing)]

        # Splitting is faster without Rust's Encodings. Only these outputs, and added tokens in raw text, need them.
        needs_encodings = return_overflowing_tokens or return_special_tokens_mask or return_offsets_mapping
        rows = None
        if not needs_encodings and (is_split_into_words or len(self) == len(RUST_VOCABULARY)):
            begin, end = ([BOS], [EOS]) if add_special_tokens else ([], [])
            words = columns if is_split_into_words else [self.split(column) for column in columns]
            rows = [[*begin, *sentence, *end] for sentence in words[0]]
            for row, sentence in zip(rows, words[1] if len(words) == 2 else (), strict=False):
                row += [*begin, *sentence, *end]
            if truncation is not None and max_length is not None and max(map(len, rows), default=0) > max_length:
                rows = None
        if rows is None:
            letters = None if is_split_into_words else SPLITTINGS[self.splitting].letters
            rows = [
                _tokens_of_encoding(encoding, [column[number] for column in columns], is_split_into_words, letters)
                for number, encoding in encode()
            ]

        data, vocabulary, numbers = self._arrays(rows, padding, return_tensors, return_lm_labels)
        if return_attention_mask is False:
            del data["attention_mask"]
        if "token_type_ids" in self.model_input_names if return_token_type_ids is None else return_token_type_ids:
            data["token_type_ids"] = [np.array(encoding.type_ids, dtype=np.int64) for _, encoding in encode()]
        if return_special_tokens_mask:
            data["special_tokens_mask"] = [encoding.special_tokens_mask for _, encoding in encode()]
        if return_offsets_mapping:
            # Rust drops empty words, which are therefore encoded as a letter.
            data["offset_mapping"] = [
                [(0, 0) if token == "" else span for token, span in zip(row, encoding.offsets, strict=True)]
                for row, (_, encoding) in zip(rows, encode(), strict=True)
            ]
        if return_length:
            data["length"] = [len(row) for row in numbers]
        if return_overflowing_tokens:
            data["overflow_to_sample_mapping"] = [number for number, _ in encode()]
        self._eventual_warn_about_too_long_sequence(max(rows, key=len, default=[]), max_length, verbose)
        _convert_arrays(data, return_tensors, is_batch or return_overflowing_tokens)
        settings = {"tensor_type": return_tensors, "n_sequences": len(columns)}
        return ElmoBatchEncoding(data, encode, vocabulary, numbers, **settings)

    def _arrays(
        self, rows: list[list[str | None]], padding: tuple | None, return_tensors: Any, return_lm_labels: bool
    ) -> tuple[dict[str, Any], list[str], Any]:
        """Encodes each distinct token once, None for padding, and gathers its ids for every position.

        Returns the inputs, the distinct tokens, and the number of the token at each position: arrays if all texts
        have the same length, else lists of an array per text.
        """
        distinct = dict.fromkeys(chain((None, BOS, EOS), *rows))
        index = dict(zip(distinct, range(len(distinct)), strict=True))
        ends = list(accumulate(map(len, rows)))
        flat = np.fromiter(map(index.__getitem__, chain.from_iterable(rows)), np.int64, ends[-1] if ends else 0)
        numbers: Any = [flat[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        if padding is not None:
            numbers = _pad_rows(numbers, *padding)
        elif return_tensors is not None and len(set(map(len, numbers))) == 1:
            numbers = np.stack(numbers)
        words = list(distinct)[3:]
        tables = {"input_ids": self.word_table(words)}
        if self.vector_words is not None:
            lines = (self._vector_lines.get(word, self._vector_lines.get(word.lower(), -1)) for word in words)
            tables["word_vector_ids"] = np.array([0, 0, 0, *(line + 2 for line in lines)], dtype=np.int64)
        if return_lm_labels:
            tables["labels"] = np.array([-100, *self._lines(words)], dtype=np.int64)
        tables["attention_mask"] = np.minimum(np.arange(len(distinct)), 1)
        is_array = isinstance(numbers, np.ndarray)
        data = {key: table[numbers] if is_array else [table[row] for row in numbers] for key, table in tables.items()}
        return data, [PAD, BOS, EOS, *words], numbers

    def word_table(self, words: list[str]) -> np.ndarray:
        """Returns the `input_ids` of padding, of `<S>`, of `</S>`, and then of each word."""
        if self.dictionary is not None:
            return self.dictionary.table(words)
        if self.word_input:
            return np.array([-1, *self._lines(words)], dtype=np.int64) + 1
        rows = byte_rows(["", "", "", *words], self.max_characters_per_token, self.word_truncation)
        rows[0] = 0
        rows[1:3, 1] = BEGIN_OF_SENTENCE_BYTE + 1, END_OF_SENTENCE_BYTE + 1
        rows[1:3, 2] = END_OF_WORD_BYTE + 1
        return rows

    def _lines(self, words: list[str]) -> list[int]:
        """The lines of `<S>`, `</S>` and the words in the vocabulary; words that are not in it are `<UNK>`."""
        unknown = self.word_lines[UNK]
        return [self.word_lines.get(word, unknown) for word in (BOS, EOS, *words)]

    def _backend(
        self, is_split_into_words: bool, split_special_tokens: bool, padding: tuple | None, truncation: tuple | None
    ) -> Tokenizer:
        """Returns a Rust tokenizer with these settings; it never changes, so that several threads may use it."""
        key = (is_split_into_words, split_special_tokens, padding, truncation)
        backend = self._backends.get(key)
        if backend is None:
            backend = _rust_tokenizer()
            # Rust would split words again, and search added tokens inside of them. In raw text, the splitting gives
            # <S> and the other special tokens: each is a whole word, never a part of one.
            if not is_split_into_words:
                backend.pre_tokenizer = self._tokenizer.pre_tokenizer
                added = self._tokenizer.get_added_tokens_decoder().values()
                backend.add_tokens([token for token in added if token.content not in RUST_VOCABULARY])
            backend.encode_special_tokens = split_special_tokens
            if padding is not None:
                side, length, multiple = padding
                backend.enable_padding(direction=side, length=length, pad_to_multiple_of=multiple, pad_token=PAD)
            if truncation is not None:
                max_length, stride, strategy, side = truncation
                backend.enable_truncation(max_length, stride=stride, strategy=strategy, direction=side)
            if len(self._backends) >= MAX_BACKENDS:  # if lengths change from call to call, each needs another one
                self._backends.pop(next(iter(self._backends)), None)
            self._backends[key] = backend
        return backend

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        self._backends.clear()
        return super()._add_tokens(new_tokens, special_tokens)

    def tokenize(self, text: str, pair: Any = None, add_special_tokens: bool = False, **kwargs: Any) -> list[str]:
        """Splits a text into tokens; `kwargs` are those of a call."""
        return self(text, pair, add_special_tokens=add_special_tokens, **kwargs).tokens()

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str | PaddingStrategy = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: Any = None,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Pads encoded texts as in transformers: with rows of zeros, and with -100 for labels."""
        if isinstance(encoded_inputs, (list, tuple)) and encoded_inputs and isinstance(encoded_inputs[0], Mapping):
            encoded_inputs = {key: [inputs[key] for inputs in encoded_inputs] for key in encoded_inputs[0]}
        if "input_ids" not in encoded_inputs:
            names = ", ".join(map(repr, encoded_inputs)) or "nothing"
            raise ValueError(f"Invalid `encoded_inputs`: {names}. Expected 'input_ids' among them.")
        depth, first = _innermost(encoded_inputs["input_ids"])
        is_batch = depth > self._depth
        return_tensors = return_tensors or {torch.Tensor: "pt", np.ndarray: "np"}.get(type(first))
        data = {key: value if is_batch else [value] for key, value in encoded_inputs.items()}
        # Rows as arrays: a list of lists of fifty numbers is slow to walk.
        rows = [np.asarray(ids, dtype=np.int64) for ids in data["input_ids"]]
        lengths = [len(ids) for ids in rows]
        width = next((ids.shape[1:] for ids in rows if ids.ndim > 1), ())
        data["input_ids"] = [ids.reshape(-1, *width) for ids in rows]
        if return_attention_mask or (return_attention_mask is None and "attention_mask" not in data):
            data.setdefault("attention_mask", [np.ones(length, dtype=np.int64) for length in lengths])

        strategy, _, max_length, _ = self._get_padding_truncation_strategies(
            padding=padding, max_length=max_length, pad_to_multiple_of=pad_to_multiple_of, verbose=verbose
        )
        if strategy != PaddingStrategy.DO_NOT_PAD:
            side = padding_side or self.padding_side
            length = max_length if strategy == PaddingStrategy.MAX_LENGTH else None
            for key in data.keys() & PADDING_VALUES.keys():
                values = [np.asarray(value) for value in data[key]]
                if all(value.ndim and len(value) == n for value, n in zip(values, lengths, strict=True)):
                    data[key] = _pad_rows(values, side, length, pad_to_multiple_of, PADDING_VALUES[key])
        _convert_arrays(data, return_tensors, is_batch)
        return BatchEncoding(data, tensor_type=return_tensors)

    # Ids to text

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> str | list[str]:
        """Decodes rows (T, C), or the word ids (T,) of a word-input model, to words."""
        ids = to_py_obj(ids)
        if isinstance(ids, int):
            return self._word_of(ids) if self.word_input else super().convert_ids_to_tokens(ids)
        if ids and isinstance(ids[0], int) and not self.word_input:
            return super().convert_ids_to_tokens(ids, skip_special_tokens)
        tokens = [self._word_of(row) for row in ids]
        skipped = set(self.all_special_tokens) if skip_special_tokens else ()
        return [token for token in tokens if token not in skipped]

    def _word_of(self, ids: int | list[int]) -> str:
        if isinstance(ids, int):
            return PAD if ids == 0 else self.word_vocabulary[ids - 1]
        return word_of_row(ids) if self.dictionary is None else self.dictionary.word_of(ids)

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str | list[str]:
        """Decodes rows (T, C) to a text, or a batch of them to a list of texts, without padding."""
        ids = to_py_obj(token_ids)
        if _innermost(ids)[0] > self._depth:
            return [self.decode(rows, skip_special_tokens) for rows in ids]
        tokens = self.convert_ids_to_tokens(ids, skip_special_tokens)
        return self.convert_tokens_to_string([token for token in tokens if token != PAD])

    # Saving and copying

    def _save_pretrained(
        self, save_directory: Any, file_names: tuple, legacy_format: Any = None, filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        file_names = super()._save_pretrained(save_directory, file_names, legacy_format, filename_prefix)
        contents = (self.vector_words, self.dictionary, self._vocabulary)
        for name, content in zip(("vector_words", "dictionary", "word_vocabulary"), contents, strict=True):
            prefix = f"{filename_prefix}-" if filename_prefix else ""
            path = os.path.join(save_directory, prefix + self.vocab_files_names[name])
            if isinstance(content, ElmoDictionary):
                content.write(path)
            elif isinstance(content, list):
                with open(path, "w", encoding="utf-8") as file:
                    file.writelines(f"{word}\n" for word in content)
            elif content is not None and os.path.abspath(path) != os.path.abspath(content):
                shutil.copyfile(content, path)
            file_names += () if content is None else (path,)
        return file_names

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__, _backends={}, _cache={})
        # A copy reads the file again at its first use.
        return {name: value for name, value in state.items() if name not in ("word_vocabulary", "word_lines")}


def _path_or_list(words: Any) -> Any:
    return os.fspath(words) if isinstance(words, (str, os.PathLike)) else None if words is None else list(words)


def _text_columns(text: Any, text_pair: Any, is_split_into_words: bool) -> tuple[list[list], bool]:
    """Returns a list of the texts and, for pairs, a list of their partners; and whether the input is a batch."""
    if not isinstance(text, (list, tuple) if is_split_into_words else (str, list, tuple)):
        expected = "a list of words with `is_split_into_words=True`" if is_split_into_words else "strings"
        raise ValueError(f"Invalid `text`: {type(text).__name__}. Expected {expected}.")
    is_batch = not isinstance(text, str) and (not is_split_into_words or (text and isinstance(text[0], (list, tuple))))
    if not is_batch:
        return [[text]] if text_pair is None else [[text], [text_pair]], False
    if text_pair is None and not is_split_into_words and text and all(isinstance(t, (list, tuple)) for t in text):
        if any(len(pair) != 2 for pair in text):
            raise ValueError("Invalid `text`: lists of words. Expected strings, pairs, or `is_split_into_words=True`.")
        text, text_pair = zip(*text, strict=True)
    if text_pair is None:
        return [list(text)], True
    if isinstance(text_pair, str) or len(text) != len(text_pair):
        description = f"{type(text_pair).__name__} of length {len(text_pair)}"
        raise ValueError(f"Invalid `text_pair`: {description}. Expected a list of {len(text)}, one for each text.")
    return [list(text), list(text_pair)], True


def _rust_tokenizer() -> Tokenizer:
    backend = Tokenizer(WordLevel(RUST_VOCABULARY, unk_token=UNK))
    backend.post_processor = TemplateProcessing(
        single=f"{BOS} $A {EOS}",
        pair=f"{BOS} $A {EOS} {BOS}:1 $B:1 {EOS}:1",
        special_tokens=[(token, RUST_VOCABULARY[token]) for token in (BOS, EOS)],
    )
    return backend


def _encode_batch(
    backend: Tokenizer, columns: list[list], is_split_into_words: bool, add_special_tokens: bool
) -> list[Encoding]:
    """Computes Rust's Encodings of texts, or of pairs of them."""
    # Rust does not read lone surrogates, and drops empty words.
    if is_split_into_words:
        columns = [[[replace_surrogates(word) or "\ufffd" for word in text] for text in column] for column in columns]
    else:
        columns = [list(map(replace_surrogates, column)) for column in columns]
    inputs = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    with panics_as_errors():
        return backend.encode_batch(inputs, is_pretokenized=is_split_into_words, add_special_tokens=add_special_tokens)


def _tokens_of_encoding(
    encoding: Encoding, texts: list, is_split_into_words: bool, letters: dict[int, int] | None
) -> list[str | None]:
    """Finds the token at each position of an Encoding in its text or pair of texts; None is padding."""
    tokens: list[str | None] = []
    positions = zip(encoding.ids, encoding.word_ids, encoding.sequence_ids, encoding.offsets, strict=True)
    for number, word, sequence, (begin, end) in positions:
        if word is None:
            tokens.append((None, BOS, EOS)[number])
            continue
        token = texts[sequence][word] if is_split_into_words else texts[sequence][begin:end]
        # Added tokens, which are not <UNK>, are spelled as they were added.
        is_spelled = letters is None or number != RUST_VOCABULARY[UNK]
        tokens.append(token if is_spelled else token.translate(letters))
    return tokens


def _pad_rows(
    rows: list[np.ndarray], side: str, length: int | None, multiple: int | None, value: int = 0
) -> np.ndarray:
    """Pads rows of different lengths to (B, T, ...); T is at least the length of the longest row."""
    length = max([len(row) for row in rows] + ([] if length is None else [length]), default=0)
    length += -length % (multiple or 1)
    padded = np.full((len(rows), length, *(rows[0].shape[1:] if rows else ())), value, dtype=np.int64)
    for target, row in zip(padded, rows, strict=True):
        target[length - len(row) if side == "left" else 0 :][: len(row)] = row
    return padded


def _convert_arrays(data: dict[str, Any], return_tensors: Any, is_batch: Any):
    """Converts arrays in place, to tensors for `"pt"` and to lists for None: those of one text are not nested."""
    for key, value in data.items():
        if return_tensors == "pt" and isinstance(value, np.ndarray):  # BatchEncoding would look at every number
            data[key] = torch.from_numpy(value)
        elif return_tensors is None and isinstance(value, (list, np.ndarray, torch.Tensor)):
            texts = [text.tolist() if hasattr(text, "tolist") else text for text in value]
            data[key] = texts if is_batch else texts[0]


def _innermost(ids: Any) -> tuple[int, Any]:
    """Returns the depth of nested ids, and their first array, tensor or number."""
    depth = 0
    while isinstance(ids, (list, tuple)):
        depth += 1
        ids = next((item for item in ids if not isinstance(item, (list, tuple)) or len(item)), None)
    return depth + getattr(ids, "ndim", 0), ids


ElmoTokenizer.register_for_auto_class("AutoTokenizer")

__all__ = ["ElmoDictionary", "ElmoTokenizer", "byte_rows", "read_word_vocabulary"]
