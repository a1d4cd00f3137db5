"""What tells groups of uses apart: typical sentences of clusters, and substitutes that fit one group only."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elmo_hf.language_model.scorer import ElmoScorer

from .similarity import in_context
from .usage_clusters import Clusters
from .usage_sampling import Target, Use

SENTENCES_OF_A_CLUSTER = 3
# Uses of each group whose substitutes are looked up, how many of each use, and how many are reported.
USES_WITH_SUBSTITUTES, SUBSTITUTES_OF_A_USE, SUBSTITUTES_REPORTED = 50, 20, 8
CONTEXT_WIDTH = 60  # characters on either side


@dataclass
class UsageCluster:
    """A cluster of the uses of a word.

    Args:
        shares: the share of the uses of each corpus that are in this cluster.
        sentences: its most typical uses, as the name of the corpus, the words, and the position of the use.
        substitutes: words that fit these uses better than those of the other clusters.
    """

    shares: list[float]
    sentences: list[tuple[str, list[str], int]]
    substitutes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The cluster as JSON can hold it."""
        sentences = [
            {"corpus": corpus, "words": list(words), "position": position}
            for corpus, words, position in self.sentences
        ]
        return {"shares": self.shares, "sentences": sentences, "substitutes": self.substitutes}

    def contexts(self) -> list[str]:
        """Its typical sentences around the use, which is in brackets."""
        return [in_context(words, position, CONTEXT_WIDTH) for _, words, position in self.sentences]


def describe_clusters(clusters: Clusters, uses: Sequence[Use], corpora: Sequence[str]) -> list[UsageCluster]:
    """The share of each cluster in each corpus, and its most typical sentences.

    Args:
        clusters: of N uses.
        uses: the N uses.
        corpora: the name of the corpus of each use.
    """
    names = list(dict.fromkeys(corpora))
    of_corpus = {name: np.array([corpus == name for corpus in corpora]) for name in names}
    described = []
    for number in range(clusters.count):
        members = clusters.labels == number
        sentences = [
            (corpora[index], list(uses[index].words), uses[index].position)
            for index in clusters.typical(number, SENTENCES_OF_A_CLUSTER)
        ]
        described.append(UsageCluster([float(members[of_corpus[name]].mean()) for name in names], sentences))
    return described


def typical_substitutes(
    scorer: ElmoScorer, uses: Sequence[Use], groups: Sequence[int], target: Target, seed: int = 0
) -> list[list[str]]:
    """For each group of uses the language model's substitutes that fit it and not the other groups.

    Args:
        scorer: of the language model.
        uses: of a word.
        groups: the group of each use, from 0.
        target: the word, whose own forms are left out.
        seed: of the choice of uses, where a group has many.

    Returns:
        Words, without punctuation, in the order of the difference between their share among the substitutes of the
        group's uses, and their largest share in any other group.
    """
    generator, numbers = np.random.default_rng(seed), np.asarray(groups)
    count = int(numbers.max()) + 1
    own = {spelling.casefold() for spelling in target.spellings()}
    shares: list[dict[str, float]] = []
    for group in range(count):
        members = np.flatnonzero(numbers == group)
        if len(members) > USES_WITH_SUBSTITUTES:
            members = generator.choice(members, USES_WITH_SUBSTITUTES, replace=False)
        chosen = [uses[int(index)] for index in members]
        counts: Counter[str] = Counter()
        if chosen:
            texts, positions = [list(use.words) for use in chosen], [use.position for use in chosen]
            predictions = scorer.substitutes(texts, positions, SUBSTITUTES_OF_A_USE, is_split_into_words=True)
            words = (prediction.word for of_use in predictions for prediction in of_use)
            counts.update(word for word in words if any(character.isalnum() for character in word))
        shares.append({word: number / len(chosen) for word, number in counts.items() if word.casefold() not in own})
    typical = []
    for group, of_group in enumerate(shares):
        others = [other for number, other in enumerate(shares) if number != group]
        scores = {
            word: share - max((o.get(word, 0.0) for o in others), default=0.0) for word, share in of_group.items()
        }
        best = sorted((word for word in scores if scores[word] > 0), key=lambda word: (-scores[word], word))
        typical.append(best[:SUBSTITUTES_REPORTED])
    return typical
