"""How raw text becomes words: the two ways of splitting that a tokenizer can be saved with."""

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


def pre_tokenizer(splitting: str) -> PreTokenizer:
    """The Rust object that splits; it gives each word's place in the text."""
    if splitting == "whitespace":
        return WhitespaceSplit()
    if splitting == "moses-en":
        return Split(Regex(_moses_english()), behavior="removed", invert=True)
    raise ValueError(f"`splitting` is {splitting!r}; accepted are {' and '.join(map(repr, SPLITTINGS))}.")


SPLITTINGS = ("moses-en", "whitespace")
