"""Names of the splittings, and a proposal of one that fits a text."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from elmo_hf.text.inputs import Sentence
from elmo_hf.text.tokenization_check import count_marks, looks_tokenized

# Those of `SPLITTINGS` in elmo_hf/model/splitting_elmo.py, for the help of the command line, which does not load
# transformers. A test holds them together.
SPLITTING_NAMES = ("moses-en", "whitespace", "unicode-words", "characters", "residues")

# The first word of the Unicode names of letters in scripts that are written without spaces.
SCRIPTS_WITHOUT_SPACES = frozenset(("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR"))
# Frequent words of English that are rare in other languages; they are about every tenth word.
ENGLISH_WORDS = frozenset(("the", "of", "and", "to"))
MIN_ENGLISH_WORDS = 0.05
# Words of scripts without spaces have one to four letters on average; longer ones are not segmented.
MIN_UNSEGMENTED = 5
# Less than this share of words with attached punctuation is noise.
MIN_ATTACHED = 0.005
# A line of letters without spaces that is longer than any word is a protein if all letters are capitals.
MIN_RESIDUES = 30


@dataclass(frozen=True)
class SplittingProposal:
    """How a text should be split into words.

    Attributes:
        splitting: a name of SPLITTING_NAMES.
        tokenized: whether the text is tokenised already, so that its words stand between spaces.
        reason: what was seen in the text.
    """

    splitting: str
    tokenized: bool
    reason: str


def propose_splitting(lines: Iterable[str]) -> SplittingProposal:
    """Proposes a splitting for a text from its script, its spaces and where its punctuation marks stand.

    Example:

    ```python
    >>> from elmo_hf.text.splitting import propose_splitting
    >>> propose_splitting(["Das Haus ist groß, sagte sie."])
    SplittingProposal(splitting='unicode-words', tokenized=False, reason='Latin script; punctuation is attached to 33% of the words')
    >>> propose_splitting(["我爱北京。"]).splitting, propose_splitting(["It 's late ."]).tokenized
    ('characters', True)

    ```
    """  # noqa: E501
    lines = list(lines)
    if looks_tokenized(lines):
        return SplittingProposal("whitespace", True, "punctuation marks stand between spaces")
    words = [word for line in lines for word in line.split()]
    scripts = _scripts(lines)
    without_spaces = _share_without_spaces(scripts)
    if without_spaces > 0.5:
        reason = f"{without_spaces:.0%} of the letters are of scripts without spaces"
        return SplittingProposal("characters", False, reason)
    if words and sum(_is_protein(word) for word in words) > len(words) / 2:
        return SplittingProposal("residues", False, "most lines are sequences of capital letters")
    attached = sum(count_marks(line)[1] for line in lines) / max(len(words), 1)
    name = scripts.most_common(1)[0][0].capitalize() if scripts else "No"
    reason = f"{name} script; punctuation is attached to {attached:.0%} of the words"
    if attached < MIN_ATTACHED and not without_spaces:
        return SplittingProposal("whitespace", False, f"{name} script; no punctuation is attached to words")
    english = sum(word.lower() in ENGLISH_WORDS for word in words) / len(words)
    if name == "Latin" and english >= MIN_ENGLISH_WORDS:
        return SplittingProposal("moses-en", False, f"English; {reason.partition('; ')[2]}")
    return SplittingProposal("unicode-words", False, reason)


def needs_segmentation(lines: Iterable[Sentence]) -> bool:
    """Whether text is of a script without spaces, and has none between its words. Lists of words are skipped.

    Example:

    ```python
    >>> from elmo_hf.text.splitting import needs_segmentation
    >>> needs_segmentation(["我爱北京。"]), needs_segmentation(["我 爱 北京 。"]), needs_segmentation(["I love 北京."])
    (True, False, False)

    ```
    """
    texts = [line for line in lines if isinstance(line, str)]
    lengths = [len(word) for text in texts for word in text.split()]
    is_long = sum(lengths) >= MIN_UNSEGMENTED * len(lengths)
    return is_long and _share_without_spaces(_scripts(texts)) > 0.5


def _share_without_spaces(scripts: Counter[str]) -> float:
    return sum(scripts[script] for script in SCRIPTS_WITHOUT_SPACES) / max(scripts.total(), 1)


def _scripts(lines: Iterable[str]) -> Counter[str]:
    """Counts letters by script: the first word of their Unicode names."""
    scripts: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    for line in lines:
        characters.update(line)
    for character, number in characters.items():
        if character.isalpha():
            scripts[unicodedata.name(character, "UNKNOWN").split()[0]] += number
    return scripts


def _is_protein(word: str) -> bool:
    return len(word) >= MIN_RESIDUES and word.isascii() and word.isalpha() and word.isupper()


__all__ = ["SPLITTING_NAMES", "SplittingProposal", "needs_segmentation", "propose_splitting"]
