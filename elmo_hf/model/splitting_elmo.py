"""Splitting of raw text into words: the rules that a tokenizer can be saved with."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from string import ascii_lowercase
from typing import NamedTuple

from tokenizers import Regex
from tokenizers.pre_tokenizers import PreTokenizer, Split, WhitespaceSplit

# The abbreviations of the Moses tokenizer for English: a period after one of them does not end a sentence.
NONBREAKING = (
    "Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Drs Ens Gen Gov Hon Hr Hosp Insp Lt "
    "MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt Rep Reps Res Rev Rt Sen Sens Sfc Sgt Sr "
    "St Supt Surg v vs rev Rs Nos Nr Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec"
)
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# White space for Python, but not for Rust.
PYTHON_ONLY_SPACE = re.compile("[\x1c-\x1f]")
# The cache holds the words of this many pieces of text, each of at most this many characters: at most about 15 MB.
MAX_CACHED_PIECES, MAX_PIECE_LENGTH = 2**16, 64
# A text may have this many pieces, plus a quarter of all pieces, that are neither cached nor plain words.
MAX_UNCACHED_PIECES = 3

# The words of pieces of text between white space.
PieceCache = dict[str, tuple[str, ...]]


def split_with_rust(texts: Sequence[str], pre_tokenizer: PreTokenizer, cache: PieceCache) -> list[list[str]]:
    """Splits texts with the Rust object itself; every splitting gives these words."""
    try:
        with panics_as_errors():
            return [[word for word, _ in pre_tokenizer.pre_tokenize_str(text)] for text in texts]
    except UnicodeEncodeError:
        # Rust does not read lone surrogates: it gets a text without them, and the words are cut from the original.
        with panics_as_errors():
            spans = [pre_tokenizer.pre_tokenize_str(replace_surrogates(text)) for text in texts]
        return [[text[slice(*span)] for _, span in words] for text, words in zip(texts, spans, strict=True)]


def split_at_white_space(texts: Sequence[str], pre_tokenizer: PreTokenizer, cache: PieceCache) -> list[list[str]]:
    """Splits texts at white space, ten times as fast as Rust."""
    if any(map(PYTHON_ONLY_SPACE.search, texts)):
        return split_with_rust(texts, pre_tokenizer, cache)
    return [text.split() for text in texts]


def split_moses_english(texts: Sequence[str], pre_tokenizer: PreTokenizer, cache: PieceCache) -> list[list[str]]:
    """Splits texts by the rules of Moses: at white space first, and each piece as cached or by Rust."""
    return [_split_pieces(text, pre_tokenizer, cache) for text in texts]


def _split_pieces(text: str, pre_tokenizer: PreTokenizer, cache: PieceCache) -> list[str]:
    # An apostrophe at the very beginning or end of a text follows other rules than one inside.
    if text[:1] == "'" or text[-1:] == "'" or PYTHON_ONLY_SPACE.search(text):
        return split_with_rust([text], pre_tokenizer, cache)[0]
    words: list[str] = []
    pieces, uncached = text.split(), 0
    for number, piece in enumerate(pieces):
        piece_words = cache.get(piece)
        if piece_words is None:
            following = pieces[number + 1] if number + 1 < len(pieces) else ""
            # Only a final period depends on the text that follows, and only on its first letter.
            key = f"{piece} {following[:1]}" if piece[-1] == "." and len(piece) > 1 else piece
            piece_words = cache.get(key)
            if piece_words is None:
                piece_words = _split_piece(piece, key, pre_tokenizer, cache)
                uncached += piece_words != (piece,)
                if uncached > MAX_UNCACHED_PIECES + number // 4:  # not natural text: Rust is faster on all of it
                    return split_with_rust([text], pre_tokenizer, cache)[0]
        words += piece_words
    return words


def _split_piece(piece: str, key: str, pre_tokenizer: PreTokenizer, cache: PieceCache) -> tuple[str, ...]:
    """Splits one piece and adds it to the cache; `key` is the piece with the letter that follows, if that matters."""
    if piece.isascii() and piece.isalnum():
        piece_words = (piece,)
    else:
        (words,) = split_with_rust([f" {key} "], pre_tokenizer, cache)
        piece_words = tuple(words if key[-1] == " " or key is piece else words[:-1])
    if len(piece) <= MAX_PIECE_LENGTH:
        if len(cache) >= MAX_CACHED_PIECES:
            cache.clear()
        cache[key] = piece_words
    return piece_words


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turns Rust's PanicException, which `except Exception` does not catch, into a ValueError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"Invalid text: it cannot be split into words: {error}") from None


def replace_surrogates(text: str) -> str:
    """Replaces lone surrogates by U+FFFD; the length of the text stays the same."""
    return LONE_SURROGATE.sub("\ufffd", text)


def _moses_english_pattern() -> str:
    """One pattern for a token of the Moses tokenizer for English, without aggressive splitting and escaping.

    Moses rewrites a text in many passes. Here, each rule says what a token may hold, or where it begins and ends.
    """
    alpha = r"[\p{Alphabetic}\p{M}]"
    inner = r"[\p{Alnum}\p{M}`\-]"  # never splits
    # Inside a word, these join what stands on both sides of them.
    period = rf"(?<!\.)\.(?={inner})"
    comma = r"(?<=\p{N}),(?=\p{N})"  # 1,000
    apostrophe = rf"(?:(?<=\p{{N}})'(?=(?!s){alpha})|(?<![.\s])'\z)"  # 5'a; boys' at the very end
    without_period = rf"(?:{inner}|{comma}|{apostrophe})"
    any_inner = rf"(?:{inner}|{period}|{comma}|{apostrophe})"
    # An apostrophe belongs to the letters that follow it: 's, 'll, and 's of 1980's.
    begin = rf"(?:\A'(?=[^\s'])|(?<={alpha})'{alpha}'(?={alpha})|(?<={alpha})'(?={alpha})|(?<=\p{{N}})'(?=s))"
    end = rf"(?!{inner}|\.)"
    # The search for a letter is bounded: otherwise Rust panics on a word of a million digits.
    has_letter = rf"(?={any_inner}{{0,1000}}?{alpha})"
    abbreviations = "|".join([*NONBREAKING.split(), "[A-Z]"])
    return "|".join(
        [
            rf"{inner}++(?=\s|\z)",  # the most frequent case first: a plain word between spaces
            r"\.{2,}",
            rf"(?:{abbreviations})\.{end}",  # Dr. and initials
            r"(?:No|Art|pp)\.(?=\s+[0-9])",
            rf"{begin}?{has_letter}{without_period}*+{period}{any_inner}*+\.{end}",  # U.S. and p.m.
            rf"{begin}?{any_inner}++\.(?=\s+\p{{Lower}})",  # a period before a small letter does not end a sentence
            rf"{begin}?{any_inner}++",
            r"\S",
        ]
    )


def _matches(pattern: str) -> PreTokenizer:
    """A pre-tokenizer that makes each match a word and drops the text between matches."""
    return Split(Regex(pattern), behavior="removed", invert=True)


class Splitting(NamedTuple):
    """A rule that splits raw text into words.

    Args:
        pre_tokenizer: makes the Rust object that splits a text and gives each word's offsets.
        letters: letters that are read as other ones, in the form of `str.translate`: one for one, so that offsets
            stay valid.
        split: a function of texts, the Rust object and a cache, which gives the same words as the Rust object, but
            faster.
    """

    pre_tokenizer: Callable[[], PreTokenizer]
    letters: dict[int, str] | None = None
    split: Callable[[Sequence[str], PreTokenizer, PieceCache], list[list[str]]] = split_with_rust


# Amino acids that SeqVec rarely saw in training are read as X. Small letters mark repeats of the same residues.
RARE_RESIDUES = {ord(letter): "X" for letter in "UZOBuzob"}
RESIDUES = {ord(letter): letter.upper() for letter in ascii_lowercase} | RARE_RESIDUES

SPLITTINGS = {
    "moses-en": Splitting(lambda: _matches(_moses_english_pattern()), split=split_moses_english),
    "whitespace": Splitting(WhitespaceSplit, split=split_at_white_space),
    "residues": Splitting(lambda: _matches(r"\S"), RESIDUES),
}


def get_splitting(name: str) -> Splitting:
    """Looks up a splitting by its name, a key of `SPLITTINGS`."""
    if name not in SPLITTINGS:
        *names, last = map(repr, SPLITTINGS)
        raise ValueError(f"Invalid `splitting`: {name!r}. Expected {', '.join(names)} or {last}.")
    return SPLITTINGS[name]
