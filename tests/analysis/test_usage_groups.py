"""Typical substitutes: words of one group of uses only, without punctuation and the word's own forms."""

from types import SimpleNamespace

from elmo_hf.analysis import Target
from elmo_hf.analysis.usage_groups import typical_substitutes
from elmo_hf.analysis.usage_sampling import Use


class Scorer:
    """Proposes, for every use, the words that stand in its sentence."""

    def substitutes(self, texts, positions, count, is_split_into_words):
        return [[SimpleNamespace(word=word) for word in words] for words in texts]


def test_typical_substitutes():
    old = Use(0, ("plane", "surface", ",", "both"), 0)
    new = Use(0, ("planes", "aircraft", "-", "both"), 0)
    typical = typical_substitutes(Scorer(), [old, old, new], [0, 0, 1], Target("plane", ("plane", "planes")))
    assert typical == [["surface"], ["aircraft"]]
