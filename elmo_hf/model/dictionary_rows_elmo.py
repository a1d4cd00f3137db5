"""The tokenizer's side of ElmoDictionaryEncoder: words -> rows of ids out of dictionaries, as ELMoForManyLangs."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .word_rows_elmo import BOS, EOS, PAD

# The names that every dictionary of ELMoForManyLangs has. A word begins with the id of <eow> and ends with that of
# <bow>: its code takes them in this order, and every released model was trained so.
FIRST, LAST, UNKNOWN, FILLING, BEGIN, END = "<eow>", "<bow>", "<oov>", "<pad>", "<bos>", "<eos>"


class ElmoDictionary:
    """Ids of characters, of words, or of both; nothing is normalised, and a word is its first characters.

    Args:
        characters: each character's id from 0, and those of `<bow>`, `<eow>`, `<bos>`, `<eos>`, `<oov>`, `<pad>`.
        words: each word's id from 0, and that of `<oov>`.
        width: characters of a row, its first and last mark included.

    Example:

    ```python
    >>> marks = {name: number for number, name in enumerate(["<bow>", "<eow>", "<bos>", "<eos>", "<oov>", "<pad>"])}
    >>> dictionary = ElmoDictionary({**marks, "a": 6}, {"<oov>": 0, "ab": 1}, width=6)
    >>> dictionary.table(["ab"])[3].tolist()  # the word, <eow>, a, <oov>, <bow>, <pad>
    [2, 2, 7, 5, 1, 6, 6]

    ```
    """

    def __init__(self, characters: Mapping[str, int] | None, words: Mapping[str, int] | None, width: int = 50):
        self.characters, self.words = dict(characters or {}), dict(words or {})
        self.width = width
        needed = [(self.characters, (FIRST, LAST, BEGIN, END, UNKNOWN, FILLING))] if self.characters else []
        needed += [(self.words, (UNKNOWN,))] if self.words else []
        missing = [name for names, all_of in needed for name in all_of if name not in names]
        if missing or not needed:
            raise ValueError(
                f"The dictionary has no {', no '.join(missing) or 'entries'}; accepted are characters with "
                f"{FIRST}, {LAST}, {BEGIN}, {END}, {UNKNOWN} and {FILLING}, and words with {UNKNOWN}."
            )
        self._letters: dict[int, str] | None = None

    @classmethod
    def read(cls, path: str | os.PathLike) -> "ElmoDictionary":
        """The dictionary that `write` wrote."""
        with open(path, encoding="utf-8") as file:
            return cls(**json.load(file))

    def write(self, path: str | os.PathLike):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.to_dict(), file)

    def to_dict(self) -> dict[str, Any]:
        """What makes the same dictionary again."""
        return {"characters": self.characters, "words": self.words, "width": self.width}

    def boundary_ids(self) -> list[int]:
        """What tells the rows of `<S>` and `</S>` from others, where `config.mark_position` looks."""
        ids = self.characters or self.words
        return [ids.get(name, ids[UNKNOWN]) + 1 for name in (BEGIN, END)]

    def table(self, words: Sequence[str]) -> np.ndarray:
        """The rows of no token, of `<S>`, of `</S>`, and of each word; ids count from 1."""
        tokens = [BEGIN, END, *words]
        cut = [token if token in (BEGIN, END) else token[: self.width - 2] for token in tokens]
        columns = []
        if self.words:
            unknown = self.words[UNKNOWN]
            columns.append(np.array([[self.words.get(token, unknown)] for token in cut], dtype=np.int64))
        if self.characters:
            columns.append(np.array([self._characters_of(token) for token in cut], dtype=np.int64))
        rows = np.concatenate(columns, axis=1) + 1
        return np.concatenate([np.zeros_like(rows[:1]), rows])

    def _characters_of(self, token: str) -> list[int]:
        ids, unknown = self.characters, self.characters[UNKNOWN]
        inside = [ids[token]] if token in (BEGIN, END) else [ids.get(character, unknown) for character in token]
        row = [ids[FIRST], *inside, ids[LAST]]
        return row + [ids[FILLING]] * (self.width - len(row))

    def word_of(self, row: Sequence[int]) -> str:
        """The word that a row was made of; a character that is not in the dictionary is U+FFFD."""
        ids = [int(number) - 1 for number in row]
        if ids[0] < 0:
            return PAD
        if self._letters is None:
            self._letters = {number: name for name, number in (self.characters or self.words).items()}
        if self.words:
            word, ids = ids[0], ids[1:]
        if not self.characters:
            return {BEGIN: BOS, END: EOS}.get(name := self._letters.get(word, UNKNOWN), name)
        inside = ids[1 : ids.index(self.characters[LAST])] if self.characters[LAST] in ids else ids[1:]
        names = [self._letters.get(number, UNKNOWN) for number in inside]
        if names in ([BEGIN], [END]):
            return BOS if names == [BEGIN] else EOS
        return "".join("\ufffd" if name == UNKNOWN else name for name in names)


__all__ = ["ElmoDictionary"]
