"""Word sense induction: clusters of the uses of a word, their typical sentences and substitutes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm import tqdm

from elmo_hf.language_model.scorer import ElmoScorer
from elmo_hf.text.inputs import Sentence

from .layer_reader import LayerReader
from .results import AnalysisResult
from .usage_clusters import MAX_CLUSTERS, cluster_uses, principal_components
from .usage_groups import UsageCluster, describe_clusters, typical_substitutes
from .usage_sampling import Target, sample_uses, split_sentences
from .usage_vectors import Layer, embed_uses

# Below this mean silhouette a division into clusters is not better than none.
MIN_SILHOUETTE = 0.1


@dataclass
class InducedSenses:
    """The senses of one word.

    Args:
        word: its name.
        count: occurrences in the corpus.
        silhouette: of the clusters; 0 for a single one.
        clusters: the senses, the most frequent first.
        points: (N, 2), the uses in two principal components.
        labels: (N,), the cluster of each use.
    """

    word: str
    count: int
    silhouette: float
    clusters: list[UsageCluster]
    points: np.ndarray
    labels: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {
            "word": self.word,
            "count": self.count,
            "uses": len(self.labels),
            "silhouette": self.silhouette,
            "clusters": [cluster.to_dict() for cluster in self.clusters],
        }


@dataclass
class SenseInduction(AnalysisResult):
    """The induced senses of several words.

    Args:
        words: the words.
        left_out: words with too few uses, with the reason.
    """

    words: list[InducedSenses]
    left_out: dict[str, str] = field(default_factory=dict)

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and a row for each cluster."""
        rows = [
            [word.word, number, f"{cluster.shares[0]:.0%}", ", ".join(cluster.substitutes), context]
            for word in self.words
            for number, cluster in enumerate(word.clusters, 1)
            for context in cluster.contexts()[:1]
        ]
        return ["word", "cluster", "share", "substitutes", "typical use"], rows

    def __str__(self) -> str:
        parts = []
        for word in self.words:
            lines = [f"{word.word}: {len(word.labels)} of {word.count:,} uses, silhouette {word.silhouette:.2f}"]
            for number, cluster in enumerate(word.clusters, 1):
                substitutes = f": {', '.join(cluster.substitutes)}" if cluster.substitutes else ""
                lines.append(f"  cluster {number}, {cluster.shares[0]:.0%}{substitutes}")
                lines += [f"    {context}" for context in cluster.contexts()]
            parts.append("\n".join(lines))
        parts += [f"{word}: {reason}" for word, reason in self.left_out.items()]
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {"words": [word.to_dict() for word in self.words], "left_out": self.left_out}

    def plot(self, path: str | os.PathLike):
        """Draws the uses of each word by cluster, and the shares of the clusters."""
        from .usage_plots import plot_clusters

        plot_clusters(path, self.words)


def induce(
    reader: LayerReader,
    corpus: "Sequence[Sentence] | Any",
    words: Sequence[Target | str],
    scorer: ElmoScorer | None = None,
    layer: Layer = "top",
    uses: int = 200,
    min_uses: int = 20,
    max_clusters: int = MAX_CLUSTERS,
    min_silhouette: float = MIN_SILHOUETTE,
    seed: int = 0,
    progress: bool = False,
) -> SenseInduction:
    """Induces the senses of words from their uses in a corpus, by k-means on contextual vectors.

    The number of clusters is the one with the largest mean silhouette; if none reaches `min_silhouette`, the word has
    a single cluster.

    Args:
        reader: of the model.
        corpus: sentences, such as a `SentenceSource`.
        words: strings have only themselves as a form.
        scorer: of the language model, for the substitutes that are typical of each cluster.
        layer: `"top"`, `"average"`, `"mix"` or a layer index.
        uses: how many uses are drawn of each word at most.
        min_uses: words with fewer uses are left out.
        max_clusters: the largest number of clusters to try.
        min_silhouette: what a division into clusters has to reach.
        seed: of all random choices.
        progress: show progress bars.

    Raises:
        ValueError: no word has enough uses.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.analysis import LayerReader, induce
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> reader = LayerReader(ElmoModel(config).eval(), ElmoTokenizer())
    >>> result = induce(reader, [["the", "river", "bank"], ["the", "bank", "lends"]] * 5, ["bank"], min_uses=5)
    >>> result.words[0].count
    10

    ```
    """
    targets = [word if isinstance(word, Target) else Target(word, (word,)) for word in words]
    with tqdm(unit=" words", unit_scale=True, desc="drawing", disable=None if progress else True) as bar:
        sentences = split_sentences(corpus, reader.embedder.words)
        sample = sample_uses(sentences, targets, uses, seed, "corpus", bar.update)
    rare = {t.name: sample.counts[t.name] for t in targets if sample.counts[t.name] < min_uses}
    left_out = {name: f"{count} uses, fewer than {min_uses}" for name, count in rare.items()}
    for name in left_out:
        del sample.uses[name]
    if not sample.uses:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ValueError(f"No word has {min_uses} uses or more: {reasons}. Expected other words, or a larger corpus.")
    vectors = embed_uses(reader, [sample], layer, progress)[0]
    results = []
    for target in targets:
        if target.name not in sample.uses:
            continue
        drawn = sample.uses[target.name]
        clusters = cluster_uses(vectors[target.name], max_clusters, min_silhouette, seed)
        described = describe_clusters(clusters, drawn, [sample.name] * len(drawn))
        if scorer is not None:
            substitutes = typical_substitutes(scorer, drawn, clusters.labels.tolist(), target, seed)
            for cluster, typical in zip(described, substitutes, strict=True):
                cluster.substitutes = typical
        points = principal_components(vectors[target.name], 2)
        count = sample.counts[target.name]
        results.append(InducedSenses(target.name, count, clusters.silhouette, described, points, clusters.labels))
    return SenseInduction(results, left_out)


__all__ = ["InducedSenses", "SenseInduction", "induce"]
