"""How raw text becomes words: the ways of splitting that a tokenizer can be saved with."""

from collections.abc import Callable
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


class Splitting(NamedTuple):
    """A way of splitting.

    Args:
        pre_tokenizer: makes the Rust object that splits; it gives each word's place in the text.
        letters: letters of the text that are read as another one, as `str.translate` takes them: one for one, so that
            places in the text stay what they are.
    """

    pre_tokenizer: Callable[[], PreTokenizer]
    letters: dict[int, str] | None = None


# Amino acids that SeqVec hardly met in training are X to it. Small letters, which mark repeats, are the same residues.
RARE_RESIDUES = {ord(letter): "X" for letter in "UZOBuzob"}
RESIDUES = {ord(letter): letter.upper() for letter in ascii_lowercase} | RARE_RESIDUES

SPLITTINGS = {
    "moses-en": Splitting(lambda: _every(_moses_english())),
    "whitespace": Splitting(WhitespaceSplit),
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
