"""How raw text becomes words: the ways of splitting that a tokenizer can be saved with."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from string import ascii_lowercase
from typing import NamedTuple

from tokenizers import Regex
from tokenizers.pre_tokenizers import PreTokenizer, Split, WhitespaceSplit

# Moses' list of English words after which a period is no end of sentence.
NONBREAKING = (
    "Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Drs Ens Gen Gov Hon Hr Hosp Insp Lt "
    "MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt Rep Reps Res Rev Rt Sen Sens Sfc Sgt Sr "
    "St Supt Surg v vs rev Rs Nos Nr Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec"
)


def _moses_english() -> str:
    """One pattern for a token of the Moses tokenizer for English, aggressive splitting and escaping off.

    Moses rewrites a text in many passes; here each rule is what a token may hold, or where it may begin and end.
    """
    alpha = r"[\p{Alphabetic}\p{M}]"
    inner = r"[\p{Alnum}\p{M}`\-]"  # what never splits
    # Inside a word, these hold together what stands on both sides of them.
    period = rf"(?<!\.)\.(?={inner})"
    comma = r"(?<=\p{N}),(?=\p{N})"  # 1,000
    apostrophe = rf"(?:(?<=\p{{N}})'(?=(?!s){alpha})|(?<![.\s])'\z)"  # 5'a; boys' at the very end
    without_period = rf"(?:{inner}|{comma}|{apostrophe})"
    any_inner = rf"(?:{inner}|{period}|{comma}|{apostrophe})"
    # An apostrophe goes with what follows it: 's, 'll, and 's of 1980's.
    begin = rf"(?:\A'(?=[^\s'])|(?<={alpha})'{alpha}'(?={alpha})|(?<={alpha})'(?={alpha})|(?<=\p{{N}})'(?=s))"
    end = rf"(?!{inner}|\.)"
    # The first letter is looked for so far: without a bound, Rust gives up on a word of a million digits.
    has_letter = rf"(?={any_inner}{{0,1000}}?{alpha})"
    abbreviations = "|".join([*NONBREAKING.split(), "[A-Z]"])
    return "|".join(
        [
            rf"{inner}++(?=\s|\z)",  # the common case first: a plain word between spaces
            r"\.{2,}",
            rf"(?:{abbreviations})\.{end}",  # Dr. and initials
            r"(?:No|Art|pp)\.(?=\s+[0-9])",
            rf"{begin}?{has_letter}{without_period}*+{period}{any_inner}*+\.{end}",  # U.S. and p.m.
            rf"{begin}?{any_inner}++\.(?=\s+\p{{Lower}})",  # a period before a small letter ends no sentence
            rf"{begin}?{any_inner}++",
            r"\S",
        ]
    )


def _every(pattern: str) -> PreTokenizer:
    """Each match is a word; what stands between them is left out."""
    return Split(Regex(pattern), behavior="removed", invert=True)


LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# White space to Python, but not to Rust.
LONELY_SEPARATORS = re.compile("[\x1c-\x1f]")
# Of how many pieces of text the words are remembered, and how long these may be: 15 MB, and mostly far less.
MOST_KNOWN, LONGEST_KNOWN = 2**16, 64
# How many pieces of a text, beside a quarter of them, may be new and no plain words.
SURPRISES = 3
# The words of pieces of text between white space.
Known = dict[str, tuple[str, ...]]


def by_rust(texts: Sequence[str], splitter: PreTokenizer, known: Known) -> list[list[str]]:
    """The words of each text as `splitter` finds them."""
    try:
        with panics_as_errors():
            return [[word for word, _ in splitter.pre_tokenize_str(text)] for text in texts]
    except UnicodeEncodeError:
        # The words come from the text itself, which may hold lone surrogates; Rust finds where they are.
        with panics_as_errors():
            found = [splitter.pre_tokenize_str(clean(text)) for text in texts]
        return [[text[slice(*span)] for _, span in words] for text, words in zip(texts, found, strict=True)]


def at_white_space(texts: Sequence[str], splitter: PreTokenizer, known: Known) -> list[list[str]]:
    """The same for words between white space, at ten times the speed."""
    if any(map(LONELY_SEPARATORS.search, texts)):
        return by_rust(texts, splitter, known)
    return [text.split() for text in texts]


def piece_by_piece(texts: Sequence[str], splitter: PreTokenizer, known: Known) -> list[list[str]]:
    """The same for Moses English: of most pieces between white space the words are known from before."""
    return [_moses_words(text, splitter, known) for text in texts]


def _moses_words(text: str, splitter: PreTokenizer, known: Known) -> list[str]:
    # An apostrophe at the very begin or end of a text is another one than inside.
    if text[:1] == "'" or text[-1:] == "'" or LONELY_SEPARATORS.search(text):
        return by_rust([text], splitter, known)[0]
    words: list[str] = []
    pieces, looked = text.split(), 0
    for number, piece in enumerate(pieces):
        found = known.get(piece)
        if found is None:
            following = pieces[number + 1] if number + 1 < len(pieces) else ""
            # Of what follows, only a period's part hangs on the first letter.
            key = f"{piece} {following[:1]}" if piece[-1] == "." and len(piece) > 1 else piece
            found = known.get(key)
            if found is None:
                found = _words_of_piece(piece, key, splitter, known)
                looked += found != (piece,)
                if looked > SURPRISES + number // 4:  # no natural text: piece by piece would take longer
                    return by_rust([text], splitter, known)[0]
        words += found
    return words


def _words_of_piece(piece: str, key: str, splitter: PreTokenizer, known: Known) -> tuple[str, ...]:
    """The words of a piece before what its key ends with; remembered."""
    if piece.isascii() and piece.isalnum():
        found = (piece,)
    else:
        (words,) = by_rust([f" {key} "], splitter, known)
        found = tuple(words if key[-1] == " " or key is piece else words[:-1])
    if len(piece) <= LONGEST_KNOWN:
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[key] = found
    return found


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Where Rust gives up on a text, its PanicException, which no `except Exception` catches, becomes an error."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"The text cannot be split into words: {error}") from None


def clean(text: str) -> str:
    """A text of the same length without lone surrogates."""
    return LONE_SURROGATE.sub("\ufffd", text)


class Splitting(NamedTuple):
    """A way of splitting.

    Args:
        pre_tokenizer: makes the Rust object that splits; it gives each word's place in the text.
        letters: letters of the text that are read as another one, as `str.translate` takes them: one for one, so that
            places in the text stay what they are.
        words: finds the words of texts as that object does, in less time; it may keep what it knows in the dict.
    """

    pre_tokenizer: Callable[[], PreTokenizer]
    letters: dict[int, str] | None = None
    words: Callable[[Sequence[str], PreTokenizer, Known], list[list[str]]] = by_rust


# Amino acids that SeqVec hardly met in training are X to it. Small letters, which mark repeats, are the same residues.
RARE_RESIDUES = {ord(letter): "X" for letter in "UZOBuzob"}
RESIDUES = {ord(letter): letter.upper() for letter in ascii_lowercase} | RARE_RESIDUES

SPLITTINGS = {
    "moses-en": Splitting(lambda: _every(_moses_english()), words=piece_by_piece),
    "whitespace": Splitting(WhitespaceSplit, words=at_white_space),
    "residues": Splitting(lambda: _every(r"\S"), RESIDUES),
}


def splitting_named(name: str) -> Splitting:
    """The row of SPLITTINGS.

    Example:

    ```python
    >>> from elmo_hf.model.splitting_elmo import splitting_named
    >>> splitting_named("residues").pre_tokenizer().pre_tokenize_str("SE Q")
    [('S', (0, 1)), ('E', (1, 2)), ('Q', (3, 4))]

    ```
    """
    if name not in SPLITTINGS:
        raise ValueError(f"`splitting` is {name!r}; accepted are {', '.join(map(repr, SPLITTINGS))}.")
    return SPLITTINGS[name]
