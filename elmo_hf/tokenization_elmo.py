"""ElmoTokenizer: raw text or words in, rows of bytes (or word ids) out."""

import copy
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import BatchEncoding, TokenizersBackend
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import PaddingStrategy, to_py_obj

from .configuration_elmo import BEGIN_OF_SENTENCE_BYTE, END_OF_SENTENCE_BYTE
from .splitting_elmo import pre_tokenizer

# Bytes and marks of a row; every id in a row is one more, because 0 means "no token".
BEGIN_OF_WORD, END_OF_WORD, PADDING = 258, 259, 260
PAD, BOS, EOS, UNK = "<PAD>", "<S>", "</S>", "<UNK>"
# What the Rust side knows; words are all <UNK> to it, their rows come from their characters.
RUST_VOCABULARY = {PAD: 0, BOS: 1, EOS: 2, UNK: 3}
TRUNCATIONS = ("characters", "bytes")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class ElmoTokenizer(TokenizersBackend):
    """Turns text into what an ELMo reads: for each token a row of its UTF-8 bytes, between `<S>` and `</S>`.

    Args:
        splitting: how raw text becomes words: `"moses-en"`, as the text that the released English models were
            trained on, or `"whitespace"`. Words that are already split (`is_split_into_words=True`) stay as they
            are, whatever they contain.
        word_truncation: what happens to a word longer than a row: `"characters"` cuts between characters,
            `"bytes"` cuts anywhere, as the original programs do.
        word_vocabulary: the language model's words, a file with one a line or a list. Read when first needed.
        max_characters_per_token: length of a row, begin and end marks included.
        word_input: give word ids, line of the vocabulary + 1, in place of rows.

    Example:

    ```python
    >>> from elmo_hf import ElmoTokenizer
    >>> tokenizer = ElmoTokenizer(splitting="whitespace")
    >>> batch = tokenizer(["The cat", "Hi"], padding=True, return_tensors="pt")
    >>> batch["input_ids"].shape, batch["attention_mask"].tolist()
    (torch.Size([2, 4, 50]), [[1, 1, 1, 1], [1, 1, 1, 0]])
    >>> tokenizer.decode(batch["input_ids"][0])
    '<S> The cat </S>'

    ```
    """

    vocab_files_names = {"tokenizer_file": "tokenizer.json", "word_vocabulary": "word_vocabulary.txt"}
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(
        self,
        splitting: str = "moses-en",
        word_truncation: str = "characters",
        word_vocabulary: str | os.PathLike | Sequence[str] | None = None,
        max_characters_per_token: int = 50,
        word_input: bool = False,
        tokenizer_file: str | None = None,
        **kwargs: Any,
    ):
        if word_truncation not in TRUNCATIONS:
            accepted = " and ".join(map(repr, TRUNCATIONS))
            raise ValueError(f"`word_truncation` is {word_truncation!r}; accepted are {accepted}.")
        if word_input and word_vocabulary is None:
            raise ValueError("`word_input` is True, but `word_vocabulary` is missing: word ids are its line numbers.")
        self.splitting = splitting
        self.word_truncation = word_truncation
        self.max_characters_per_token = max_characters_per_token
        self.word_input = word_input
        if isinstance(word_vocabulary, (str, os.PathLike)):
            self._vocabulary_file, self._words = os.fspath(word_vocabulary), None
        else:
            self._vocabulary_file, self._words = None, None if word_vocabulary is None else list(word_vocabulary)
        self._word_lines: dict[str, int] | None = None
        self._backends: dict[tuple, Tokenizer] = {}

        splitter = pre_tokenizer(splitting)
        if tokenizer_file is not None:
            backend = Tokenizer.from_file(os.fspath(tokenizer_file))
        else:
            backend = _rust_tokenizer()
        backend.pre_tokenizer = splitter
        # A literal <S> is a boundary only as a whole word, so Rust must not look for it inside of words.
        kwargs.setdefault("split_special_tokens", True)
        for name, token in (("pad_token", PAD), ("bos_token", BOS), ("eos_token", EOS), ("unk_token", UNK)):
            kwargs.setdefault(name, token)
        super().__init__(
            tokenizer_object=backend,
            splitting=splitting,
            word_truncation=word_truncation,
            max_characters_per_token=max_characters_per_token,
            word_input=word_input,
            **kwargs,
        )

    @classmethod
    def convert_to_native_format(cls, trust_remote_code: bool = False, **kwargs: Any) -> dict[str, Any]:
        # __init__ reads tokenizer.json itself; there is no vocabulary to take out of it.
        return kwargs

    # -- the language model's words

    @property
    def word_vocabulary(self) -> list[str] | None:
        """The words in the order of the softmax's rows, or None."""
        if self._words is None and self._vocabulary_file is not None:
            self._words = read_word_vocabulary(self._vocabulary_file)
        return self._words

    @property
    def word_lines(self) -> dict[str, int]:
        """Each vocabulary word's line, from 0."""
        if self._word_lines is None:
            if self.word_vocabulary is None:
                raise ValueError("This tokenizer has no word_vocabulary; give it a file or a list of words.")
            self._word_lines = {word: line for line, word in enumerate(self.word_vocabulary)}
            missing = [token for token in (BOS, EOS, UNK) if token not in self._word_lines]
            if missing:
                where = self._vocabulary_file or "the list of words"
                raise ValueError(
                    f"The vocabulary {where} has no line {' and no line '.join(missing)}; "
                    "a language model needs <S>, </S> and <UNK> among its words."
                )
        return self._word_lines

    # -- text -> ids

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
        verbose: bool = True,
        **kwargs: Any,
    ) -> BatchEncoding:
        batched, texts, pairs = _as_batch(text, text_pair, is_split_into_words)
        length = (max_length if padding_strategy == PaddingStrategy.MAX_LENGTH else None, pad_to_multiple_of)
        padding = (
            None if padding_strategy == PaddingStrategy.DO_NOT_PAD else (padding_side or self.padding_side, *length)
        )
        truncation = None
        if truncation_strategy != TruncationStrategy.DO_NOT_TRUNCATE:
            truncation = (max_length, stride, truncation_strategy.value, self.truncation_side)
        backend = self._backend(is_split_into_words, padding, truncation)
        encodings = _encode_batch(backend, texts, pairs, is_split_into_words, add_special_tokens)

        samples = list(range(len(encodings)))
        if return_overflowing_tokens:
            samples = [i for i, encoding in enumerate(encodings) for _ in range(1 + len(encoding.overflowing))]
            encodings = [part for encoding in encodings for part in (encoding, *encoding.overflowing)]
        words = [
            _words_of(encoding, texts[i], None if pairs is None else pairs[i], is_split_into_words)
            for encoding, i in zip(encodings, samples, strict=True)
        ]
        data = {"input_ids": self._ids([encoding.ids for encoding in encodings], words, return_tensors)}
        if return_token_type_ids or (return_token_type_ids is None and "token_type_ids" in self.model_input_names):
            data["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        if return_attention_mask or return_attention_mask is None:
            data["attention_mask"] = [encoding.attention_mask for encoding in encodings]
        if return_special_tokens_mask:
            data["special_tokens_mask"] = [encoding.special_tokens_mask for encoding in encodings]
        if return_offsets_mapping:
            data["offset_mapping"] = [
                _offsets(encoding, some) for encoding, some in zip(encodings, words, strict=True)
            ]
        if return_length:
            data["length"] = [len(encoding) for encoding in encodings]
        if return_overflowing_tokens:
            data["overflow_to_sample_mapping"] = samples
        for encoding in encodings:
            self._eventual_warn_about_too_long_sequence(encoding, max_length, verbose)
        if not batched and return_tensors is None and not return_overflowing_tokens:
            data = {key: value[0] for key, value in data.items()}
        return ElmoBatchEncoding(data, encodings, words, tensor_type=return_tensors)

    def _backend(self, is_split_into_words: bool, padding: tuple | None, truncation: tuple | None) -> Tokenizer:
        """A Rust tokenizer with these settings, made once and never changed: several threads may use it."""
        key = (is_split_into_words, padding, truncation)
        if key not in self._backends:
            # Rust would split words that are already split, and look for added tokens inside of them.
            backend = _rust_tokenizer() if is_split_into_words else copy.deepcopy(self._tokenizer)
            backend.encode_special_tokens = True
            backend.no_padding()
            backend.no_truncation()
            if padding is not None:
                side, length, multiple = padding
                backend.enable_padding(
                    direction=side, length=length, pad_to_multiple_of=multiple, pad_token=PAD, pad_id=0
                )
            if truncation is not None:
                most, stride, strategy, side = truncation
                backend.enable_truncation(most, stride=stride, strategy=strategy, direction=side)
            self._backends[key] = backend
        return self._backends[key]

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        self._backends.clear()
        return super()._add_tokens(new_tokens, special_tokens)

    def _ids(self, rust_ids: list[list[int]], words: list[list[str | None]], return_tensors: Any) -> Any:
        """Rows (T, C) or word ids (T,) of each sequence: as one array for tensors, else as lists."""
        # Numbers of the distinct tokens; those that are no words keep the number that Rust gave them.
        index = _Numbering({BOS: 1, EOS: 2})
        numbers = [
            [number if word is None else index[word] for number, word in zip(ids, some, strict=True)]
            for ids, some in zip(rust_ids, words, strict=True)
        ]
        table = self._table(list(index)[2:])  # (distinct tokens, C) or (distinct tokens,)
        if return_tensors is not None and len(set(map(len, numbers))) == 1:
            return table[np.array(numbers, dtype=np.int64)]
        return [table[np.array(some, dtype=np.int64)].tolist() for some in numbers]

    def _table(self, words: list[str]) -> np.ndarray:
        """What the model reads for padding, `<S>`, `</S>`, an unknown token, and then for each of the words."""
        if self.word_input:
            unknown = self.word_lines[UNK]
            lines = [self.word_lines[BOS], self.word_lines[EOS], unknown]
            lines += [self.word_lines.get(word, unknown) for word in words]
            return np.concatenate([[0], np.array(lines, dtype=np.int64) + 1])
        width = self.max_characters_per_token
        marks = np.full((4, width), PADDING + 1, dtype=np.int64)
        marks[0] = 0
        marks[1:3, :3] = np.array([BEGIN_OF_WORD, 0, END_OF_WORD]) + 1
        marks[1:3, 1] = np.array([BEGIN_OF_SENTENCE_BYTE, END_OF_SENTENCE_BYTE]) + 1
        marks[3] = byte_rows([UNK], width, self.word_truncation)[0]
        return np.concatenate([marks, byte_rows(words, width, self.word_truncation)])

    def tokenize(
        self, text: str, pair: str | None = None, add_special_tokens: bool = False, **kwargs: Any
    ) -> list[str]:
        return self(text, pair, add_special_tokens=add_special_tokens, **kwargs).tokens()

    # -- padding of what was encoded before

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
        """As in transformers, for rows: a padded position is a row of zeros."""
        if isinstance(encoded_inputs, (list, tuple)) and encoded_inputs and isinstance(encoded_inputs[0], Mapping):
            encoded_inputs = {key: [one[key] for one in encoded_inputs] for key in encoded_inputs[0]}
        if "input_ids" not in encoded_inputs:
            raise ValueError(
                f"There is no `input_ids` to pad, only {', '.join(map(repr, encoded_inputs)) or 'nothing'}."
            )
        data = {key: to_py_obj(value) for key, value in encoded_inputs.items()}
        single = not _is_batch(data["input_ids"], self.word_input)
        if single:
            data = {key: [value] for key, value in data.items()}
        lengths = [len(ids) for ids in data["input_ids"]]
        if return_attention_mask or (return_attention_mask is None and "attention_mask" not in data):
            data.setdefault("attention_mask", [[1] * length for length in lengths])

        strategy, _, max_length, _ = self._get_padding_truncation_strategies(
            padding=padding, max_length=max_length, pad_to_multiple_of=pad_to_multiple_of, verbose=verbose
        )
        if strategy != PaddingStrategy.DO_NOT_PAD:
            length = max_length if strategy == PaddingStrategy.MAX_LENGTH else max(lengths, default=0)
            length += -length % (pad_to_multiple_of or 1)
            fillers = {
                "input_ids": 0 if self.word_input else [0] * self.max_characters_per_token,
                "attention_mask": 0,
                "token_type_ids": self.pad_token_type_id,
                "special_tokens_mask": 1,
            }
            left = (padding_side or self.padding_side) == "left"
            for key in data.keys() & fillers.keys():
                fill = [[fillers[key]] * max(length - n, 0) for n in lengths]
                rows = zip(fill, data[key], strict=True)
                data[key] = [before + row if left else row + before for before, row in rows]
        if single and return_tensors is None:
            data = {key: value[0] for key, value in data.items()}
        return BatchEncoding(data, tensor_type=return_tensors)

    # -- ids -> text

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> str | list[str]:
        """Rows (T, C), or word ids (T,) of a word-input model, back to words."""
        ids = to_py_obj(ids)
        if isinstance(ids, int):
            return self._word_of(ids) if self.word_input else super().convert_ids_to_tokens(ids)
        if ids and isinstance(ids[0], int) and not self.word_input:
            return super().convert_ids_to_tokens(ids, skip_special_tokens)
        tokens = [self._word_of(one) for one in ids]
        return [token for token in tokens if token not in (PAD, BOS, EOS)] if skip_special_tokens else tokens

    def _word_of(self, ids: int | list[int]) -> str:
        if isinstance(ids, int):
            return PAD if ids == 0 else self.word_vocabulary[ids - 1]
        row = np.asarray(ids) - 1
        if row[0] < 0:
            return PAD
        inside = row[1 : np.argmax(row == END_OF_WORD)] if END_OF_WORD in row else row[1:]
        if len(inside) == 1 and inside[0] in (BEGIN_OF_SENTENCE_BYTE, END_OF_SENTENCE_BYTE):
            return BOS if inside[0] == BEGIN_OF_SENTENCE_BYTE else EOS
        return bytes(inside[inside < 256].astype(np.uint8)).decode("utf-8", "replace")

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return " ".join(tokens)

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str | list[str]:
        """Rows (T, C) back to text; a batch of them to a list of texts. Padding is left out."""
        ids = to_py_obj(token_ids)
        if _is_batch(ids, self.word_input):
            return [self.decode(one, skip_special_tokens) for one in ids]
        tokens = self.convert_ids_to_tokens(ids, skip_special_tokens)
        return self.convert_tokens_to_string([token for token in tokens if token != PAD])

    # -- saving

    def _save_pretrained(
        self,
        save_directory: str | os.PathLike,
        file_names: tuple[str, ...],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
    ) -> tuple[str, ...]:
        file_names = super()._save_pretrained(save_directory, file_names, legacy_format, filename_prefix)
        if self._words is None and self._vocabulary_file is None:
            return file_names
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        path = os.path.join(save_directory, prefix + self.vocab_files_names["word_vocabulary"])
        if self._vocabulary_file is None:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{word}\n" for word in self._words)
        elif os.path.abspath(path) != os.path.abspath(self._vocabulary_file):
            shutil.copyfile(self._vocabulary_file, path)
        return (*file_names, path)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__, _backends={}, _word_lines=None)
        if self._vocabulary_file is not None:
            state["_words"] = None  # a worker reads the file again, if it needs it
        return state


class ElmoBatchEncoding(BatchEncoding):
    """A BatchEncoding whose `tokens()` are the words themselves: to the Rust side they are all unknown."""

    def __init__(self, data: Any, encodings: Any, words: list[list[str | None]], **kwargs: Any):
        self._words = words
        super().__init__(data, encodings, **kwargs)

    def tokens(self, batch_index: int = 0) -> list[str]:
        pairs = zip(super().tokens(batch_index), self._words[batch_index], strict=True)
        return [token if word is None else word for token, word in pairs]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "words": self._words}

    def __setstate__(self, state: dict[str, Any]):
        self._words = state["words"]
        super().__setstate__(state)


def byte_rows(words: Sequence[str], width: int, truncation: str = "characters") -> np.ndarray:
    """Words -> rows (N, width): begin mark, UTF-8 bytes, end mark, filled up; ids are shifted by one.

    Example:

    ```python
    >>> from elmo_hf import byte_rows
    >>> byte_rows(["é"], width=6).tolist()
    [[259, 196, 170, 260, 261, 261]]

    ```
    """
    most = width - 2
    encoded = [word.encode("utf-8", "ignore") for word in words]
    if truncation == "characters":
        # A cut word loses the bytes of a character that did not fit.
        encoded = [
            text if len(text) <= most else text[:most].decode("utf-8", "ignore").encode("utf-8") for text in encoded
        ]
    encoded = [text[:most] for text in encoded]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    rows = np.full((len(encoded), width), PADDING + 1, dtype=np.int64)
    rows[:, 0] = BEGIN_OF_WORD + 1
    place = np.arange(1, width) - 1  # of each column after the first
    rows[:, 1:][place < lengths[:, None]] = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.int64) + 1
    rows[np.arange(len(encoded)), lengths + 1] = END_OF_WORD + 1
    return rows


def read_word_vocabulary(path: str | os.PathLike) -> list[str]:
    """Words of a vocabulary file, one a line, in the order of the softmax's rows."""
    with open(path, encoding="utf-8", newline="\n") as file:
        words = [line.rstrip("\r\n") for line in file]
    # The original's marker of an end, which it does not count either.
    return [word for word in words if word != "!!!MAXTERMID"]


class _Numbering(dict):
    """Numbers new words in the order in which they come, after the four that the Rust side knows."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self) - 2 + len(RUST_VOCABULARY)
        return number


def _rust_tokenizer() -> Tokenizer:
    backend = Tokenizer(WordLevel(RUST_VOCABULARY, unk_token=UNK))
    backend.post_processor = TemplateProcessing(
        single=f"{BOS} $A {EOS}",
        pair=f"{BOS} $A {EOS} {BOS}:1 $B:1 {EOS}:1",
        special_tokens=[(token, RUST_VOCABULARY[token]) for token in (BOS, EOS)],
    )
    return backend


def _as_batch(text: Any, text_pair: Any, is_split_into_words: bool) -> tuple[bool, list, list | None]:
    """Whether a batch was given, its texts (or lists of words), and their partners."""
    for one in (text, text_pair):
        if not isinstance(one, (str, list, tuple)) and one is not text_pair:
            raise ValueError(f"The text is a {type(one).__name__}; accepted are a string, a list of words or texts.")
    batched = isinstance(text, (list, tuple))
    if is_split_into_words:
        if isinstance(text, str):
            raise ValueError("The text is one string, but is_split_into_words=True promises a list of words.")
        batched = bool(text) and isinstance(text[0], (list, tuple))
    if not batched:
        return False, [text], None if text_pair is None else [text_pair]
    texts, pairs = list(text), None if text_pair is None else list(text_pair)
    if pairs is None and not is_split_into_words and texts and all(isinstance(one, (list, tuple)) for one in texts):
        texts, pairs = [list(part) for part in zip(*texts, strict=True)]
    if pairs is not None and (isinstance(text_pair, str) or len(texts) != len(pairs)):
        raise ValueError(f"There are {len(texts)} texts and {len(pairs)} partners; accepted is one for each.")
    return True, texts, pairs


def _encode_batch(
    backend: Tokenizer, texts: list, pairs: list | None, is_split_into_words: bool, add_special_tokens: bool
) -> list[Encoding]:
    def prepare(one: Any, clean: bool) -> Any:
        if not is_split_into_words:
            return LONE_SURROGATE.sub("\ufffd", one) if clean else one
        words = [LONE_SURROGATE.sub("\ufffd", word) for word in one] if clean else one
        return [word or "\ufffd" for word in words]  # Rust drops an empty word

    def run(clean: bool) -> list[Encoding]:
        inputs = [prepare(one, clean) for one in texts]
        if pairs is not None:
            inputs = list(zip(inputs, [prepare(one, clean) for one in pairs], strict=True))
        return backend.encode_batch(inputs, is_pretokenized=is_split_into_words, add_special_tokens=add_special_tokens)

    try:
        return run(clean=False)
    except TypeError:
        # Lone surrogates are no Unicode to Rust. Anything else fails again, with Rust's own words.
        return run(clean=True)


def _words_of(encoding: Encoding, first: Any, second: Any, is_split_into_words: bool) -> list[str | None]:
    """The word at each position; None for padding and for boundaries that were added."""
    numbers = encoding.word_ids
    sequences = encoding.sequence_ids if second is not None else None
    if is_split_into_words:
        places = numbers
    else:
        places = [None if n is None else slice(*span) for n, span in zip(numbers, encoding.offsets, strict=True)]
    if sequences is None:
        return [None if place is None else first[place] for place in places]
    sides = [first if sequence == 0 else second for sequence in sequences]
    return [None if place is None else side[place] for place, side in zip(places, sides, strict=True)]


def _offsets(encoding: Encoding, words: Iterable[str | None]) -> list[tuple[int, int]]:
    # An empty word had to be given a letter for Rust.
    return [(0, 0) if word == "" else span for word, span in zip(words, encoding.offsets, strict=True)]


def _is_batch(ids: Any, word_input: bool) -> bool:
    depth, one = 0, ids
    while isinstance(one, (list, tuple)):
        depth += 1
        one = next((item for item in one if not isinstance(item, (list, tuple)) or len(item)), None)
    return depth > (1 if word_input else 2)


ElmoTokenizer.register_for_auto_class("AutoTokenizer")

__all__ = ["ElmoTokenizer", "byte_rows", "read_word_vocabulary"]
