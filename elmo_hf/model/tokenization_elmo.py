"""ElmoTokenizer: raw text or words in, rows of bytes (or word ids) out."""

import itertools
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from transformers import BatchEncoding, TokenizersBackend
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import PaddingStrategy, to_py_obj

from .batch_encoding_elmo import RUST_VOCABULARY, ElmoBatchEncoding, Texts, offsets, rust_tokenizer, with_overflow
from .dictionary_rows_elmo import ElmoDictionary
from .splitting_elmo import Known, splitting_named
from .word_rows_elmo import BOS, EOS, PAD, UNK, byte_rows, mark_rows, read_word_vocabulary, word_of_row

TRUNCATIONS = ("characters", "bytes")
LONGEST_TEXT = 2**20
MOST_BACKENDS, MOST_CHARACTERS = 16, 2**16
# What stands at padded positions.
FILLERS = {
    "input_ids": 0,
    "attention_mask": 0,
    "token_type_ids": 0,
    "special_tokens_mask": 1,
    "labels": -100,
    "word_vector_ids": 0,
}


class ElmoTokenizer(TokenizersBackend):
    """Turns text into what an ELMo reads: for each token a row of its UTF-8 bytes, between `<S>` and `</S>`.

    Args:
        splitting: how raw text becomes words: `"moses-en"`, as the text that the released English models were
            trained on, `"whitespace"`, or `"residues"`, for models of proteins: each letter of a sequence is a token,
            small letters are read as capitals, and the rare U, Z, O and B as X. Words that are already split
            (`is_split_into_words=True`) stay as they are, whatever they contain.
        word_truncation: what happens to a word longer than a row: `"characters"` cuts between characters,
            `"bytes"` cuts anywhere, as the original programs do.
        word_vocabulary: the language model's words, a file with one a line or a list. Read when first needed.
        max_characters_per_token: length of a row, begin and end marks included.
        word_input: give word ids, line of the vocabulary + 1, in place of rows.
        dictionary: ids of characters and words, where these are not bytes; a file, or an ElmoDictionary.
        vector_words: the words of a table of word vectors, a file with one a line or a list. `word_vector_ids` then
            come along: 0 for no word, 1 for one that the table has not, not even in small letters, else line + 2.

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
    vocab_files_names |= {"vector_words": "vector_words.txt", "dictionary": "dictionary.json"}
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
        if word_truncation not in TRUNCATIONS:
            accepted = " and ".join(map(repr, TRUNCATIONS))
            raise ValueError(f"`word_truncation` is {word_truncation!r}; accepted are {accepted}.")
        whole = isinstance(max_characters_per_token, int) and not isinstance(max_characters_per_token, bool)
        if not whole or not 3 <= max_characters_per_token <= MOST_CHARACTERS:
            raise ValueError(
                f"`max_characters_per_token` is {max_characters_per_token!r}; accepted is a whole number from 3 "
                f"(begin mark, one byte, end mark) to {MOST_CHARACTERS:,}."
            )
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
        if isinstance(vector_words, (str, os.PathLike)):
            vector_words = read_word_vocabulary(vector_words)
        self.vector_words = None if vector_words is None else list(vector_words)
        self._vector_lines = {word: line for line, word in enumerate(self.vector_words or ())}
        self.dictionary = ElmoDictionary.read(dictionary) if isinstance(dictionary, (str, os.PathLike)) else dictionary
        self._backends: dict[tuple, Tokenizer] = {}

        way = splitting_named(splitting)
        self._letters = way.letters
        self._known: Known = {}
        if tokenizer_file is not None:
            backend = Tokenizer.from_file(os.fspath(tokenizer_file))
        else:
            backend = rust_tokenizer()
        backend.pre_tokenizer = way.pre_tokenizer()
        for name, token in (("pad_token", PAD), ("bos_token", BOS), ("eos_token", EOS), ("unk_token", UNK)):
            kwargs.setdefault(name, token)
        # No text is too long for an LSTM; without a number here, programs that ask for one show 10 ** 30.
        longest = kwargs.setdefault("model_max_length", LONGEST_TEXT)
        if longest is not None and (isinstance(longest, bool) or not isinstance(longest, (int, float)) or longest < 1):
            raise ValueError(f"`model_max_length` is {longest!r}; accepted is a number of words from 1, or None.")
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
        """As in transformers; files that are damaged are named."""
        try:
            return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        except (OSError, ValueError, ImportError):
            raise
        except Exception as error:  # Rust raises Exception itself
            raise ValueError(
                f"The tokenizer of {pretrained_model_name_or_path} cannot be made of its tokenizer.json and "
                f"tokenizer_config.json: {error}."
            ) from error

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
        return_lm_labels: bool = False,
        verbose: bool = True,
        split_special_tokens: bool | None = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        texts = Texts.of(text, text_pair, is_split_into_words, add_special_tokens, self._letters)
        side = padding_side or self.padding_side
        length = max_length if padding_strategy == PaddingStrategy.MAX_LENGTH else None
        padding = None if padding_strategy == PaddingStrategy.DO_NOT_PAD else (side, length, pad_to_multiple_of)
        truncation = None
        if truncation_strategy != TruncationStrategy.DO_NOT_TRUNCATE:
            truncation = (max_length, stride, truncation_strategy.value, self.truncation_side)
        splits = self.split_special_tokens if split_special_tokens is None else split_special_tokens

        def encode() -> list[Encoding]:
            return texts.encode(self._backend(is_split_into_words, splits, padding, truncation))

        # Most texts need nothing that only Rust's Encodings know; these are then made when somebody asks for them.
        rows = None
        if not (return_overflowing_tokens or return_special_tokens_mask or return_offsets_mapping):
            rows = self._rows_without_encodings(texts, None if truncation is None else max_length)
        if rows is not None:
            encodings: Any = encode
            samples = list(range(len(rows)))
        else:
            encodings, samples = with_overflow(encode(), return_overflowing_tokens)
            rows = [texts.tokens(encoding, sample) for encoding, sample in zip(encodings, samples, strict=True)]

        data, mask = self._arrays(rows, padding, return_tensors, return_lm_labels)
        if return_attention_mask or return_attention_mask is None:
            data["attention_mask"] = mask
        if return_token_type_ids or (return_token_type_ids is None and "token_type_ids" in self.model_input_names):
            data["token_type_ids"] = self._type_ids(encodings, texts, rows, mask)
        if return_special_tokens_mask:
            data["special_tokens_mask"] = [encoding.special_tokens_mask for encoding in encodings]
        if return_offsets_mapping:
            data["offset_mapping"] = [offsets(*pair) for pair in zip(encodings, rows, strict=True)]
        if return_length:
            data["length"] = [len(one) for one in mask]
        if return_overflowing_tokens:
            data["overflow_to_sample_mapping"] = samples
        for row in rows:
            self._eventual_warn_about_too_long_sequence(row, max_length, verbose)
        if return_tensors is None:
            data = {key: _as_lists(value) for key, value in data.items()}
            if not texts.batched and not return_overflowing_tokens:
                data = {key: value[0] for key, value in data.items()}
        data = _as_tensors(data, return_tensors)
        return ElmoBatchEncoding(data, encodings, texts, samples, tensor_type=return_tensors)

    def _rows_without_encodings(self, texts: "Texts", max_length: int | None) -> list[list[str]] | None:
        """The tokens of each text; None where that takes Rust: too long a text, or added tokens to look for."""
        if not texts.split_into_words and len(self) > len(RUST_VOCABULARY):
            return None
        rows = texts.rows(self._split_texts)
        return rows if max_length is None or max(map(len, rows), default=0) <= max_length else None

    def _arrays(
        self, rows: list[list[str | None]], padding: tuple | None, return_tensors: Any, return_lm_labels: bool
    ) -> tuple[dict[str, Any], Any]:
        """Tokens, None for padding -> ids (and labels) and the mask: arrays if lengths allow, else lists of them."""
        distinct = dict.fromkeys(itertools.chain((None, BOS, EOS), *rows))
        index = dict(zip(distinct, range(len(distinct)), strict=True))
        ends = list(itertools.accumulate(map(len, rows)))
        tokens = itertools.chain.from_iterable(rows)
        flat = np.fromiter(map(index.__getitem__, tokens), np.int64, ends[-1] if ends else 0)
        numbers = [flat[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        if padding is not None:
            numbers = _padded(numbers, *padding)
        elif return_tensors is not None and len({len(row) for row in rows}) == 1:
            numbers = np.stack(numbers)
        tables = {"input_ids": self.word_table(list(index)[3:])}
        if self.vector_words is not None:
            tables["word_vector_ids"] = self._vector_ids(list(index)[3:])
        if return_lm_labels:
            unknown = self.word_lines[UNK]
            lines = [-100, *(self.word_lines.get(token, unknown) for token in list(index)[1:])]
            tables["labels"] = np.array(lines, dtype=np.int64)
        if isinstance(numbers, np.ndarray):
            return {key: table[numbers] for key, table in tables.items()}, (numbers != 0).astype(np.int64)
        data = {key: [table[some] for some in numbers] for key, table in tables.items()}
        return data, [(some != 0).astype(np.int64) for some in numbers]

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of each text.

        Example:

        ```python
        >>> from elmo_hf import ElmoTokenizer
        >>> ElmoTokenizer().split(["It's raining.", "Yes"])
        [['It', "'s", 'raining', '.'], ['Yes']]

        ```
        """
        return Texts(True, list(texts), None, False, False, self._letters).rows(self._split_texts)

    def _split_texts(self, texts: list[str]) -> list[list[str]]:
        return splitting_named(self.splitting).words(texts, self._tokenizer.pre_tokenizer, self._known)

    def word_table(self, words: list[str]) -> np.ndarray:
        """What the model reads for padding, `<S>`, `</S>`, and then for each of the words."""
        if self.dictionary is not None:
            return self.dictionary.table(words)
        if self.word_input:
            unknown = self.word_lines[UNK]
            lines = [self.word_lines.get(word, unknown) for word in (BOS, EOS, *words)]
            return np.concatenate([[0], np.array(lines, dtype=np.int64) + 1])
        return np.concatenate(
            [mark_rows(width := self.max_characters_per_token), byte_rows(words, width, self.word_truncation)]
        )

    def _vector_ids(self, words: list[str]) -> np.ndarray:
        """Rows of the table of word vectors for padding, `<S>`, `</S>`, and then for each of the words."""
        lines = (self._vector_lines.get(word, self._vector_lines.get(word.lower(), -1)) for word in words)
        return np.array([0, 0, 0, *(line + 2 for line in lines)], dtype=np.int64)

    def _type_ids(self, encodings: Any, texts: "Texts", rows: list, mask: Any) -> Any:
        """0 for a text and 1 for its partner, as the mask is laid out."""
        if texts.pairs is None:
            return [np.zeros_like(one) for one in mask]
        return [np.array(encoding.type_ids) for encoding in (encodings() if callable(encodings) else encodings)]

    def _backend(
        self, split_into_words: bool, splits: bool, padding: tuple | None, truncation: tuple | None
    ) -> Tokenizer:
        """A Rust tokenizer with these settings, made once and never changed: several threads may use it."""
        key = (split_into_words, splits, padding, truncation)
        backend = self._backends.get(key)
        if backend is None:
            backend = rust_tokenizer()
            # Rust would split words that are already split, and look for added tokens inside of them. In raw text,
            # <S> and its like are found by the splitting: a boundary is a whole word, never a part of one.
            if not split_into_words:
                backend.pre_tokenizer = self._tokenizer.pre_tokenizer
                added = self._tokenizer.get_added_tokens_decoder().values()
                backend.add_tokens([token for token in added if token.content not in RUST_VOCABULARY])
            backend.encode_special_tokens = splits
            if padding is not None:
                side, length, multiple = padding
                backend.enable_padding(
                    direction=side, length=length, pad_to_multiple_of=multiple, pad_token=PAD, pad_id=0
                )
            if truncation is not None:
                most, stride, strategy, side = truncation
                backend.enable_truncation(most, stride=stride, strategy=strategy, direction=side)
            if len(self._backends) >= MOST_BACKENDS:  # lengths that change from call to call make one each
                self._backends.pop(next(iter(self._backends)), None)
            self._backends[key] = backend
        return backend

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        self._backends.clear()
        return super()._add_tokens(new_tokens, special_tokens)

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
        """As in transformers, for rows: a padded position is a row of zeros, and -100 where there are labels."""
        if isinstance(encoded_inputs, (list, tuple)) and encoded_inputs and isinstance(encoded_inputs[0], Mapping):
            encoded_inputs = {key: [one[key] for one in encoded_inputs] for key in encoded_inputs[0]}
        if "input_ids" not in encoded_inputs:
            raise ValueError(
                f"There is no `input_ids` to pad, only {', '.join(map(repr, encoded_inputs)) or 'nothing'}."
            )
        data, single = dict(encoded_inputs), not _is_batch(encoded_inputs["input_ids"], self.word_input)
        if single:
            data = {key: [value] for key, value in data.items()}
        # Rows as arrays: a list of lists of fifty numbers is slow to walk.
        rows = [np.asarray(ids, dtype=np.int64) for ids in data["input_ids"]]
        lengths = [len(ids) for ids in rows]
        empty = next((ids.shape[1:] for ids in rows if ids.ndim > 1), ())
        data["input_ids"] = [ids.reshape(-1, *empty) for ids in rows]
        if return_attention_mask or (return_attention_mask is None and "attention_mask" not in data):
            data.setdefault("attention_mask", [np.ones(length, dtype=np.int64) for length in lengths])
        if return_tensors is None:
            return_tensors = _kind_of(encoded_inputs["input_ids"])

        strategy, _, max_length, _ = self._get_padding_truncation_strategies(
            padding=padding, max_length=max_length, pad_to_multiple_of=pad_to_multiple_of, verbose=verbose
        )
        if strategy != PaddingStrategy.DO_NOT_PAD:
            length = max_length if strategy == PaddingStrategy.MAX_LENGTH else None
            for key in data.keys() & FILLERS.keys():
                values = [np.asarray(value) for value in data[key]]
                if all(value.ndim and len(value) == n for value, n in zip(values, lengths, strict=True)):
                    side = padding_side or self.padding_side
                    data[key] = _padded(values, side, length, pad_to_multiple_of, FILLERS[key])
        if return_tensors is None:
            data = {key: _as_lists(value) for key, value in data.items()}
            if single:
                data = {key: value[0] for key, value in data.items()}
        return BatchEncoding(_as_tensors(data, return_tensors), tensor_type=return_tensors)

    # -- ids -> text

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> str | list[str]:
        """Rows (T, C), or word ids (T,) of a word-input model, back to words."""
        ids = to_py_obj(ids)
        if isinstance(ids, int):
            return self._word_of(ids) if self.word_input else super().convert_ids_to_tokens(ids)
        if ids and isinstance(ids[0], int) and not self.word_input:
            return super().convert_ids_to_tokens(ids, skip_special_tokens)
        tokens = [self._word_of(one) for one in ids]
        skipped = set(self.all_special_tokens) if skip_special_tokens else ()
        return [token for token in tokens if token not in skipped]

    def _word_of(self, ids: int | list[int]) -> str:
        if isinstance(ids, int):
            return PAD if ids == 0 else self.word_vocabulary[ids - 1]
        return word_of_row(ids) if self.dictionary is None else self.dictionary.word_of(ids)

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
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        if self.vector_words is not None:
            path = os.path.join(save_directory, prefix + self.vocab_files_names["vector_words"])
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{word}\n" for word in self.vector_words)
            file_names = (*file_names, path)
        if self.dictionary is not None:
            path = os.path.join(save_directory, prefix + self.vocab_files_names["dictionary"])
            self.dictionary.write(path)
            file_names = (*file_names, path)
        if self._words is None and self._vocabulary_file is None:
            return file_names
        path = os.path.join(save_directory, prefix + self.vocab_files_names["word_vocabulary"])
        if self._vocabulary_file is None:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{word}\n" for word in self._words)
        elif os.path.abspath(path) != os.path.abspath(self._vocabulary_file):
            shutil.copyfile(self._vocabulary_file, path)
        return (*file_names, path)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__, _backends={}, _word_lines=None, _known={})
        if self._vocabulary_file is not None:
            state["_words"] = None  # a worker reads the file again, if it needs it
        return state


def _padded(
    rows: list[np.ndarray], side: str, length: int | None, multiple: int | None, filler: int = 0
) -> np.ndarray:
    """Rows of different lengths -> (B, T, ...). Rows that are longer than `length` make the others longer too."""
    length = max([len(row) for row in rows] + ([] if length is None else [length]), default=0)
    length += -length % (multiple or 1)
    padded = np.full((len(rows), length, *(rows[0].shape[1:] if rows else ())), filler, dtype=np.int64)
    for place, row in zip(padded, rows, strict=True):
        place[length - len(row) if side == "left" else 0 :][: len(row)] = row
    return padded


def _as_tensors(data: dict[str, Any], return_tensors: Any) -> dict[str, Any]:
    """Arrays as torch's where these are asked for; left to itself, BatchEncoding would look through every number."""
    if return_tensors != "pt":
        return data
    return {key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for key, value in data.items()}


def _kind_of(ids: Any) -> str | None:
    """Tensors stay tensors, arrays stay arrays."""
    while isinstance(ids, (list, tuple)) and ids:
        ids = ids[0]
    return "pt" if isinstance(ids, torch.Tensor) else "np" if isinstance(ids, np.ndarray) else None


def _as_lists(value: Any) -> Any:
    """Arrays, and lists of them, as the plain lists that transformers gives without `return_tensors`."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return value.tolist()
    is_list_of_arrays = isinstance(value, list) and value and isinstance(value[0], (np.ndarray, torch.Tensor))
    return [one.tolist() for one in value] if is_list_of_arrays else value


def _is_batch(ids: Any, word_input: bool) -> bool:
    """Whether ids are those of several texts: one level deeper than a text's own."""
    depth = 0
    while isinstance(ids, (list, tuple)):
        depth += 1
        ids = next((one for one in ids if not isinstance(one, (list, tuple)) or len(one)), None)
    return depth + getattr(ids, "ndim", 0) > (1 if word_input else 2)


ElmoTokenizer.register_for_auto_class("AutoTokenizer")

__all__ = ["ElmoTokenizer"]
