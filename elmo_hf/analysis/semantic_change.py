"""Lexical semantic change: how much the use of words differs between two or more corpora."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from elmo_hf.language_model.scorer import ElmoScorer
from elmo_hf.text.inputs import Sentence, SentenceSource

from .change_measures import (
    MEASURES,
    adjust_p_values,
    bootstrap_interval,
    check_measure,
    frequency_percentiles,
    measure_change,
    permutation_p_value,
)
from .layer_reader import LayerReader
from .results import AnalysisResult, text_table
from .usage_clusters import Clusters, cluster_uses, principal_components
from .usage_groups import UsageCluster, describe_clusters, typical_substitutes
from .usage_sampling import (
    Target,
    UsageSample,
    count_words,
    frequent_targets,
    sample_uses,
    split_sentences,
    trim_to_same_size,
)
from .usage_vectors import Layer, embed_uses

TSV_COLUMNS = "word uses_old uses_new per_million_old per_million_new apd prt jsd p q".split()
SIGNIFICANT = 0.05


class Corpus(Protocol):
    """Sentences that can be read several times, as strings or lists of words."""

    def __iter__(self) -> Iterator[Sentence]:
        """Reads the sentences from the start."""


@dataclass
class ChangeOptions:
    """How change is measured.

    Args:
        measure: the measure that ranks words and that is tested: `"apd"`, `"prt"` or `"jsd"`.
        layer: `"top"`, `"average"`, `"mix"` or a layer index.
        uses: how many uses of a word are drawn from each corpus at most, the same number from each.
        min_uses: words with fewer uses in a corpus are left out.
        top: without words of your own, how many frequent words are compared.
        permutations: resamples of the permutation test.
        resamples: resamples of the bootstrap interval.
        details: for how many words clusters, sentences and substitutes are reported.
        seed: of all random choices.
    """

    measure: str = "apd"
    layer: Layer = "top"
    uses: int = 200
    min_uses: int = 20
    top: int = 500
    permutations: int = 9999
    resamples: int = 999
    details: int = 10
    seed: int = 0

    def __post_init__(self):
        check_measure(self.measure)
        for name in ("uses", "min_uses", "top", "permutations", "resamples"):
            if getattr(self, name) < 2:
                raise ValueError(f"Invalid `{name}`: {getattr(self, name)}. Expected a whole number of at least 2.")
        if self.min_uses > self.uses:
            raise ValueError(f"Invalid `min_uses`: {self.min_uses}. Expected at most `uses`, which is {self.uses}.")


@dataclass
class WordChange:
    """The change of one word between two corpora.

    Args:
        word: its name.
        uses: drawn from each corpus.
        per_million: its frequency in each corpus.
        values: of every measure.
        interval: the 95% bootstrap interval of the measure that is tested.
        percentile: of this measure among words of similar frequency.
        p: of the permutation test.
        q: p corrected for the number of words (Benjamini-Hochberg).
        clusters: of the uses, for words that are reported in detail.
        substitutes: words that fit the uses of one corpus only, for words that are reported in detail.
        points: (N, 2), the uses in two principal components, the old corpus first, for words in detail.
        labels: (N,), the cluster of each use.
    """

    word: str
    uses: tuple[int, int]
    per_million: tuple[float, float]
    values: dict[str, float]
    interval: tuple[float, float]
    p: float
    percentile: float = 0.0
    q: float = 1.0
    clusters: list[UsageCluster] = field(default_factory=list)
    substitutes: list[list[str]] = field(default_factory=list)
    points: np.ndarray | None = None
    labels: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {
            "word": self.word,
            "uses": list(self.uses),
            "per_million": list(self.per_million),
            **self.values,
            "interval": list(self.interval),
            "percentile": self.percentile,
            "p": self.p,
            "q": self.q,
            "clusters": [cluster.to_dict() for cluster in self.clusters],
            "substitutes": self.substitutes,
        }


@dataclass
class SemanticChange(AnalysisResult):
    """The change of many words between two corpora, the largest first.

    Args:
        corpora: the names of the old and the new corpus.
        measure: that ranks words and was tested.
        words: the words.
        left_out: words that could not be compared, with the reason.
        num_words: words of each corpus.
    """

    corpora: tuple[str, str]
    measure: str
    words: list[WordChange]
    left_out: dict[str, str]
    num_words: tuple[int, int]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and a row for each word."""
        heads = ["word", "uses", "per million", "", *MEASURES, "95% interval", "percentile", "p", "q"]
        rows = [
            [word.word, word.uses[0], *(f"{rate:.1f}" for rate in word.per_million)]
            + [f"{word.values[name]:.3f}" for name in MEASURES]
            + [f"{word.interval[0]:.3f}-{word.interval[1]:.3f}", f"{word.percentile:.0f}"]
            + [f"{word.p:.4f}", f"{word.q:.4f}"]
            for word in self.words
        ]
        return heads, rows

    def __str__(self) -> str:
        old, new = self.corpora
        head = f"{old} ({self.num_words[0]:,} words) and {new} ({self.num_words[1]:,} words), by {self.measure}"
        parts = [head, super().__str__()]
        parts += [self._details(word) for word in self.words if word.clusters]
        parts += _left_out_table(self.left_out)
        return "\n\n".join(parts)

    def _details(self, word: WordChange) -> str:
        lines = [word.word]
        for name, substitutes in zip(self.corpora, word.substitutes, strict=False):
            lines.append(f"  typical of {name}: {', '.join(substitutes) or '-'}")
        for number, cluster in enumerate(word.clusters, 1):
            shares = ", ".join(
                f"{share:.0%} of {name}" for share, name in zip(cluster.shares, self.corpora, strict=True)
            )
            lines.append(f"  cluster {number}: {shares}")
            lines += [f"    {context}" for context in cluster.contexts()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {
            "corpora": list(self.corpora),
            "num_words": list(self.num_words),
            "measure": self.measure,
            "words": [word.to_dict() for word in self.words],
            "left_out": self.left_out,
        }

    def to_tsv(self) -> str:
        """A table with tabs, one row per word."""
        rows = ["\t".join(TSV_COLUMNS)]
        for word in self.words:
            numbers = [*word.uses, *(f"{rate:.3f}" for rate in word.per_million)]
            numbers += [f"{word.values[name]:.6f}" for name in MEASURES]
            rows.append("\t".join([word.word, *map(str, numbers), f"{word.p:.6g}", f"{word.q:.6g}"]))
        return "\n".join(rows) + "\n"

    def to_html(self) -> str:
        """A self-contained report."""
        from .change_report import change_report

        return change_report(self)

    def plot(self, path: str | os.PathLike):
        """Draws the uses of the words that changed most, and the shares of their clusters."""
        from .usage_plots import plot_uses

        plot_uses(path, [word for word in self.words if word.points is not None][:3], self.corpora)


def _left_out_table(left_out: dict[str, str]) -> list[str]:
    """A table of the words that could not be compared; no table if there are none."""
    return [text_table(["left out", "why"], [[word, why] for word, why in left_out.items()])] if left_out else []


@dataclass
class ChangeSeries(AnalysisResult):
    """The change of words along several corpora in order.

    Args:
        steps: the change between each corpus and the next.
    """

    steps: list[SemanticChange]

    @property
    def corpora(self) -> list[str]:
        """The names of the corpora."""
        return [self.steps[0].corpora[0], *(step.corpora[1] for step in self.steps)]

    def series(self) -> dict[str, list[float | None]]:
        """The measure at each step by word, the largest mean first; None where a word could not be compared."""
        values = [{word.word: word.values[step.measure] for word in step.words} for step in self.steps]
        names = dict.fromkeys(name for of_step in values for name in of_step)
        series = {name: [of_step.get(name) for of_step in values] for name in names}
        return dict(sorted(series.items(), key=lambda item: -np.mean([v for v in item[1] if v is not None])))

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """The heads of the columns, and a row for each word."""
        heads = ["word", *(f"{old} to {new}" for old, new in (step.corpora for step in self.steps))]
        rows = [
            [word, *("" if value is None else f"{value:.3f}" for value in values)]
            for word, values in self.series().items()
        ]
        return heads, rows

    def __str__(self) -> str:
        return "\n\n".join([super().__str__(), *_left_out_table(self.steps[0].left_out)])

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {"corpora": self.corpora, "steps": [step.to_dict() for step in self.steps]}

    def to_tsv(self) -> str:
        """A table with tabs: a row for each word at each step, with the names of both corpora before the columns."""
        blocks = []
        for step in self.steps:
            rows = step.to_tsv().splitlines()[1:]
            blocks += ["\t".join([*step.corpora, row]) for row in rows]
        return "\n".join(["\t".join(["old", "new", *TSV_COLUMNS]), *blocks]) + "\n"

    def to_html(self) -> str:
        """A self-contained report, a section for each step."""
        from .change_report import series_report

        return series_report(self)

    def plot(self, path: str | os.PathLike):
        """Draws a line for each of the ten words that changed most."""
        from .usage_plots import plot_series

        plot_series(path, dict(list(self.series().items())[:10]), self.corpora, self.steps[0].measure)


def change(
    reader: LayerReader,
    *corpora: Corpus,
    words: Sequence[Target | str] | None = None,
    names: Sequence[str] | None = None,
    scorer: ElmoScorer | None = None,
    options: ChangeOptions | None = None,
    progress: bool = False,
) -> SemanticChange | ChangeSeries:
    """Measures how much the use of words differs between corpora.

    Args:
        reader: of the model.
        corpora: two, or several in their order; each can be read several times, such as a `SentenceSource`.
        words: the words to compare; strings have only themselves as a form. Default: frequent words.
        names: of the corpora. Default: "old" and "new", or numbers from 1.
        scorer: of the language model, for typical substitutes; without it there are none.
        options: how change is measured.
        progress: show progress bars.

    Returns:
        A `SemanticChange` of two corpora, a `ChangeSeries` of more.

    Raises:
        ValueError: no word has enough uses in all corpora.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.analysis import ChangeOptions, LayerReader, change
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> reader = LayerReader(ElmoModel(config).eval(), ElmoTokenizer())
    >>> old = [["the", "plane", "of", "the", "table"], ["an", "inclined", "plane"]] * 3
    >>> new = [["the", "plane", "lands"], ["a", "plane", "flies", "high"]] * 3
    >>> result = change(reader, old, new, words=["plane"], options=ChangeOptions(min_uses=5, permutations=99))
    >>> result.words[0].word, result.words[0].uses, sorted(result.words[0].values)
    ('plane', (6, 6), ['apd', 'jsd', 'prt'])

    ```
    """
    options = options or ChangeOptions()
    if len(corpora) < 2:
        raise ValueError(f"Invalid number of corpora: {len(corpora)}. Expected at least two.")
    if names is None:
        names = ("old", "new") if len(corpora) == 2 else [str(number) for number in range(1, len(corpora) + 1)]
    targets = None if words is None else [t if isinstance(t, Target) else Target(t, (t,)) for t in words]
    samples = draw_samples(reader, corpora, targets, names, options, progress)
    left_out = _leave_out_rare(samples, options.min_uses)
    trim_to_same_size(samples)
    vectors = embed_uses(reader, samples, options.layer, progress)
    by_name = {t.name: t for t in targets or [Target(name, (name,)) for name in samples[0].uses]}
    steps = []
    for number in range(len(samples) - 1):
        pair = slice(number, number + 2)
        steps.append(_compare(samples[pair], vectors[pair], by_name, left_out, scorer, options, progress))
    return steps[0] if len(steps) == 1 else ChangeSeries(steps)


def draw_samples(
    reader: LayerReader,
    corpora: Sequence[Corpus],
    targets: list[Target] | None,
    names: Sequence[str],
    options: ChangeOptions,
    progress: bool = False,
) -> list[UsageSample]:
    """Draws the uses of target words from each corpus; without targets, its words are counted first."""

    def read(corpus: Corpus, what: str) -> Iterator[list[str]]:
        with tqdm(unit=" words", unit_scale=True, desc=what, disable=None if progress else True) as bar:
            for sentence in split_sentences(corpus, reader.embedder.words):
                bar.update(len(sentence))
                yield sentence

    if targets is None:
        counts = [count_words(read(corpus, f"counting {name}")) for corpus, name in zip(corpora, names, strict=True)]
        targets = frequent_targets(counts, options.min_uses, options.top)
        if not targets:
            raise ValueError(
                f"No word occurs {options.min_uses} times or more in every corpus. Expected larger corpora, or a "
                "smaller `min_uses` (--min-uses)."
            )
    samples = [
        sample_uses(read(corpus, f"drawing from {name}"), targets, options.uses, options.seed, name)
        for corpus, name in zip(corpora, names, strict=True)
    ]
    for sample in samples:
        if not sample.num_words:
            raise ValueError(f"The corpus {sample.name} has no words. Expected a text.")
    return samples


def _leave_out_rare(samples: Sequence[UsageSample], min_uses: int) -> dict[str, str]:
    """Removes words with too few uses from the samples, in place, and gives the reasons."""
    reasons = {}
    for name in list(samples[0].uses):
        rarest = min(samples, key=lambda sample: sample.counts[name])
        count = rarest.counts[name]
        if count < min_uses:
            reasons[name] = f"{count} uses in {rarest.name}" if count else f"absent from {rarest.name}"
            for sample in samples:
                del sample.uses[name]
    if not samples[0].uses:
        first = ", ".join(f"{name} ({reason})" for name, reason in list(reasons.items())[:5])
        raise ValueError(
            f"No word has {min_uses} uses or more in every corpus: {first}. Expected other words, or a smaller "
            "`min_uses` (--min-uses)."
        )
    return reasons


def _compare(
    samples: Sequence[UsageSample],
    vectors: Sequence[dict[str, np.ndarray]],
    targets: dict[str, Target],
    left_out: dict[str, str],
    scorer: ElmoScorer | None,
    options: ChangeOptions,
    progress: bool,
) -> SemanticChange:
    old, new = samples
    words, clusters = [], {}
    names = list(old.uses)
    for name in tqdm(names, unit=" words", desc="comparing", disable=None if progress else True):
        both = np.concatenate([of_corpus[name] for of_corpus in vectors])
        clusters[name] = cluster_uses(both, seed=options.seed)
        words.append(_word_change(name, both, clusters[name], samples, options))
    values = [word.values[options.measure] for word in words]
    for word, q, percentile in zip(
        words,
        adjust_p_values([word.p for word in words]),
        frequency_percentiles(values, [min(word.per_million) for word in words]),
        strict=True,
    ):
        word.q, word.percentile = q, percentile
    words.sort(key=lambda word: (-word.values[options.measure], word.word))
    for word in tqdm(words[: options.details], desc="details", disable=None if progress else True):
        both = np.concatenate([of_corpus[word.word] for of_corpus in vectors])
        _add_details(word, both, clusters[word.word], samples, targets[word.word], scorer, options.seed)
    totals = (old.num_words, new.num_words)
    return SemanticChange((old.name, new.name), options.measure, words, dict(left_out), totals)


def _word_change(
    name: str, vectors: np.ndarray, clusters: Clusters, samples: Sequence[UsageSample], options: ChangeOptions
) -> WordChange:
    size, labels = len(vectors) // 2, clusters.labels
    resampled = (options.measure, vectors, labels, size)
    return WordChange(
        name,
        (size, size),
        (samples[0].per_million(name), samples[1].per_million(name)),
        {measure: measure_change(measure, vectors, labels, size) for measure in MEASURES},
        bootstrap_interval(*resampled, options.resamples, options.seed),
        permutation_p_value(*resampled, options.permutations, options.seed),
    )


def _add_details(
    word: WordChange,
    vectors: np.ndarray,
    clusters: Clusters,
    samples: Sequence[UsageSample],
    target: Target,
    scorer: ElmoScorer | None,
    seed: int,
):
    size = word.uses[0]
    uses = [use for sample in samples for use in sample.uses[word.word]]
    word.clusters = describe_clusters(clusters, uses, [sample.name for sample in samples for _ in range(size)])
    word.points, word.labels = principal_components(vectors, 2), clusters.labels
    if scorer is not None:
        word.substitutes = typical_substitutes(scorer, uses, [0] * size + [1] * size, target, seed)


def check_sources(sources: Iterable[SentenceSource]):
    """Raises ValueError where two corpora are the same file, or where one cannot be read several times."""
    seen: dict[Path, int] = {}
    for number, source in enumerate(sources):
        if not source.dataset and not source.repeats:
            raise ValueError(f"{source.input} cannot be read more than once. Expected files, because corpora are.")
        for file in source.files:
            path = Path(file).resolve()
            if seen.setdefault(path, number) != number:
                raise ValueError(f"{file} is part of two corpora. Expected different files.")


__all__ = ["ChangeOptions", "ChangeSeries", "SemanticChange", "WordChange", "change"]
