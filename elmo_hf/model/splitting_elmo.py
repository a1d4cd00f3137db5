"""Splitting of raw text into words: the rules that a tokenizer can be saved with."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from string import ascii_lowercase, ascii_uppercase
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


def split_words(
    texts: Sequence[str], pre_tokenizer: PreTokenizer, splitting: str, cache: dict[str, tuple[str, ...]]
) -> list[list[str]]:
    """Splits texts with the Rust object; a kernel for the splitting of this name finds the same words with a cache."""
    # Rust does not read lone surrogates: it gets texts without them, and the words are cut from the originals.
    with panics_as_errors():
        spans = [pre_tokenizer.pre_tokenize_str(LONE_SURROGATE.sub("\ufffd", text)) for text in texts]
    return [[text[slice(*span)] for _, span in words] for text, words in zip(texts, spans, strict=True)]


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
    return text if text.isascii() else LONE_SURROGATE.sub("\ufffd", text)


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


def _unicode_words_pattern() -> str:
    """A pattern for the words of UAX 29: contractions (`don't`) and numbers (`1,000.5`) are whole, hyphens are words.

    The rules of the standard are Oniguruma's own: `\\X` matches up to the next boundary. Beyond the standard, a run of
    one mark such as `...` is one word. Flags are matched first: `\\X` would count all letters of a run of flags at
    each of them, which takes quadratic time.
    """
    runs = r"([.!?*=~`'\-\x{2013}\x{2014}])\1+"
    flags = r"(?:[\x{1f1e6}-\x{1f1ff}](?:(?!\x{200b})[\p{M}\p{Cf}])*){2}"
    return rf"{runs}|{flags}|(?!\s)(?y{{w}}:\X)"


def _characters_pattern() -> str:
    """A pattern for each character of scripts without spaces, and for the words of UAX 29 of others."""
    scripts = "Han Hiragana Katakana Thai Lao Khmer Myanmar"
    letters = "".join(rf"\p{{{script}}}" for script in scripts.split())
    return rf"(?=[{letters}\x{{30fc}}])(?y{{g}}:\X)|{_unicode_words_pattern()}"  # U+30FC lengthens vowels of kana


def _matches(pattern: str) -> PreTokenizer:
    """A pre-tokenizer that makes each match a word and drops the text between matches."""
    return Split(Regex(pattern), behavior="removed", invert=True)


class Splitting(NamedTuple):
    """A rule that splits raw text into words.

    Args:
        pre_tokenizer: makes the Rust object that splits a text and gives each word's offsets.
        letters: for `str.translate`: letters that are read as other ones, one for one, so that offsets stay valid.
    """

    pre_tokenizer: Callable[[], PreTokenizer]
    letters: dict[int, int] | None = None


# Small letters mark repeats of the same residues. Amino acids that SeqVec rarely saw in training are read as X.
RESIDUES = str.maketrans(ascii_lowercase, ascii_uppercase) | dict.fromkeys(map(ord, "UZOBuzob"), ord("X"))

SPLITTINGS = {
    "moses-en": Splitting(lambda: _matches(_moses_english_pattern())),
    "whitespace": Splitting(WhitespaceSplit),
    "unicode-words": Splitting(lambda: _matches(_unicode_words_pattern())),
    "characters": Splitting(lambda: _matches(_characters_pattern())),
    "residues": Splitting(lambda: _matches(r"\S"), RESIDUES),
}


def get_splitting(name: str) -> Splitting:
    """Looks up a splitting by its name, a key of `SPLITTINGS`."""
    if not isinstance(name, str) or name not in SPLITTINGS:
        *names, last = map(repr, SPLITTINGS)
        raise ValueError(f"Invalid `splitting`: {name!r}. Expected {', '.join(names)} or {last}.")
    return SPLITTINGS[name]
