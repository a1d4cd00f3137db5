"""The coreference head: Lee et al. 2017, *End-to-end neural coreference resolution*.

h = biLSTM(x)    g = [h_first; h_last; sum_t softmax_t(a_t) x_t; width]    s_m = FFNN(g)
s(i, j) = s_m(i) + s_m(j) + FFNN([g_i; g_j; g_i * g_j; distance])    s(i, none) = 0
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import initialization as init

from elmo_hf.model.configuration_elmo import check
from elmo_hf.model.modeling_elmo_heads import ElmoHead, HeadInput
from elmo_hf.tasks.encoders import StackedBiLstm, only_words
from elmo_hf.tasks.layers import feed_forward, masked_softmax
from elmo_hf.tasks.settings import NetworkSettings

# Distances between spans: 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more.
DISTANCES = 9
# Pairs of spans that are compared at once.
PAIRS = 2**14


class Ranked(NamedTuple):
    """The spans that may be mentions, in the order of the text, and how they go with those before them.

    Args:
        spans: (K, 3), sentence, first and last word.
        antecedents: (K, A), the spans before, nearest first; their numbers.
        scores: (K, A + 1), of no antecedent (0) and of each; very low where there is no span.
    """

    spans: torch.Tensor
    antecedents: torch.Tensor
    scores: torch.Tensor


class SpanRanker(ElmoHead):
    """Scores spans as mentions, keeps the best, and scores for each which one before it is its antecedent."""

    @strict
    @dataclass(kw_only=True)
    class Settings(NetworkSettings):
        """
        Args:
            size: of one direction of the biLSTM.
            hidden_size: of the feed-forward networks' two layers.
            feature_size: of the vectors of widths and distances.
            dropout: of what the networks read.
            longest: most words of a mention.
            spans_per_word: share of the document's words that is kept as spans.
            max_spans: most spans that are kept, whatever the document's length.
            max_antecedents: spans before a span that are looked at.
        """

        presets: ClassVar[dict[str, dict[str, Any]]] = {
            "small": {"size": 64, "hidden_size": 64, "longest": 8, "max_spans": 400, "max_antecedents": 50}
        }

        size: int = 200
        hidden_size: int = 150
        feature_size: int = 20
        dropout: float | int = 0.2
        longest: int = 10
        spans_per_word: float | int = 0.4
        max_spans: int = 2000
        max_antecedents: int = 250

        def validate_share(self):
            """Checks `spans_per_word`."""
            check(self.spans_per_word > 0, "spans_per_word", self.spans_per_word, "a number above 0")

    def __init__(self, config: Any, settings: Any, input_size: int, output_size: int):
        super().__init__()
        self.settings = settings
        self.encoder = StackedBiLstm(input_size, settings.size)
        encoded, feature, hidden = self.encoder.output_size + output_size, settings.feature_size, settings.hidden_size
        span = 2 * encoded + input_size + feature
        self.widths = nn.Parameter(torch.zeros(settings.longest, feature))
        self.distances = nn.Parameter(torch.zeros(DISTANCES, feature))
        self.dropout = nn.Dropout(settings.dropout)
        self.head_score = feed_forward(encoded, hidden, 2, settings.dropout, 1)
        self.mention_score = feed_forward(span, hidden, 2, settings.dropout, 1)
        self.pair_score = feed_forward(3 * span + feature, hidden, 2, settings.dropout, 1)

    def initial_weights(self):
        """Initializes the weights."""
        init.normal_(self.widths, 0.0, 0.5)
        init.normal_(self.distances, 0.0, 0.5)

    def rank(self, document: HeadInput) -> Ranked:
        """A document, a sentence a row."""
        words = only_words(document)
        h = words.with_output(self.encoder(self.dropout(words.x), words.mask))[words.mask]  # (N, size)
        x, lengths = words.x[words.mask], words.mask.sum(1)
        spans = spans_of(lengths.tolist(), self.settings.longest).to(h.device)
        offsets = lengths.cumsum(0) - lengths
        if not len(spans):
            none = spans.new_zeros(0, 0)
            return Ranked(spans, none, h.new_zeros(0, 1, dtype=torch.float32))
        first, last = (offsets[spans[:, 0]] + spans[:, place] for place in (1, 2))
        attention = self.head_score(self.dropout(h)).squeeze(-1)  # (N,)
        vectors = self._vectors(h, x, attention, first, last)  # (spans, size of g)
        mention = self.mention_score(vectors).squeeze(-1).float()
        most = min(math.ceil(self.settings.spans_per_word * len(h)), self.settings.max_spans, len(spans))
        best = keep_best(mention.detach(), first, last, most)
        return Ranked(spans[best], *self._antecedents(vectors[best], mention[best]))

    def _vectors(
        self, h: torch.Tensor, x: torch.Tensor, attention: torch.Tensor, first: torch.Tensor, last: torch.Tensor
    ) -> torch.Tensor:
        step = torch.arange(self.settings.longest, device=h.device)
        places = first[:, None] + step  # (spans, longest)
        inside = places <= last[:, None]
        places = places.clamp(max=len(h) - 1)
        share = masked_softmax(attention[places], inside)  # (spans, longest)
        # As one product with all words: a gather of each span's words would hold ten times the vectors.
        matrix = share.new_zeros(len(first), len(h)).scatter_add(1, places, share)
        return self.dropout(torch.cat([h[first], h[last], matrix @ x, self.widths[last - first]], -1))

    def _antecedents(self, vectors: torch.Tensor, mention: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        count = len(vectors)
        most = min(self.settings.max_antecedents, max(count - 1, 0))
        back = torch.arange(1, most + 1, device=vectors.device)
        numbers = torch.arange(count, device=vectors.device)[:, None] - back  # (K, A)
        there, numbers = numbers >= 0, numbers.clamp(min=0)
        features = self.distances[_bucket(back)]  # (A, feature)
        rows = max(PAIRS // max(most, 1), 1)
        # The first layer reads [g_i; g_j; g_i * g_j; distance]: what one span or one distance brings is computed once.
        sizes = [*[vectors.shape[1]] * 3, features.shape[1]]
        first: Any = self.pair_score[0]
        of_own, of_other, of_product, of_distance = first.weight.split(sizes, 1)
        own = vectors @ of_own.t() + first.bias  # (K, hidden)
        other, distance = vectors @ of_other.t(), features @ of_distance.t()
        parts = []
        for begin in range(0, count, rows):
            rows_slice = slice(begin, begin + rows)
            products = vectors[rows_slice, None] * vectors[numbers[rows_slice]]  # (rows, A, size of g)
            hidden = products @ of_product.t() + own[rows_slice, None] + other[numbers[rows_slice]] + distance
            parts.append(self.pair_score[1:](hidden).squeeze(-1).float())
        scores = torch.cat(parts) + mention[:, None] + mention[numbers]
        scores = scores.masked_fill(~there, -1e4)
        return numbers, torch.cat([scores.new_zeros(count, 1), scores], 1)


def spans_of(lengths: list[int], longest: int) -> torch.Tensor:
    """All spans of up to `longest` words inside of sentences: (spans, 3), sentence, first and last word.

    Example:

    ```python
    >>> from elmo_hf.tasks.coreference.head import spans_of
    >>> spans_of([2, 1], longest=2).tolist()
    [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0]]

    ```
    """
    spans = [
        (number, first, last)
        for number, length in enumerate(lengths)
        for first in range(length)
        for last in range(first, min(first + longest, length))
    ]
    return torch.tensor(spans, dtype=torch.long).reshape(-1, 3)


def keep_best(scores: torch.Tensor, first: torch.Tensor, last: torch.Tensor, most: int) -> torch.Tensor:
    """The numbers of the highest scored spans that do not cross one another, in the order of the text.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.coreference.head import keep_best
    >>> keep_best(torch.tensor([1.0, 3.0, 2.0]), torch.tensor([0, 1, 4]), torch.tensor([1, 3, 5]), most=2).tolist()
    [1, 2]

    ```
    """
    firsts, lasts = first.tolist(), last.tolist()
    # Of the spans kept: the furthest end of those that begin at a word, the earliest begin of those that end at one.
    furthest: dict[int, int] = {}
    earliest: dict[int, int] = {}
    best: list[int] = []
    for number in scores.argsort(descending=True, stable=True).tolist():
        begin, end = firsts[number], lasts[number]
        crosses = any(
            (place > begin and furthest.get(place, -1) > end) or (place < end and earliest.get(place, begin) < begin)
            for place in range(begin, end + 1)
        )
        if not crosses:
            best.append(number)
            furthest[begin] = max(furthest.get(begin, -1), end)
            earliest[end] = min(earliest.get(end, begin), begin)
            if len(best) == most:
                break
    return torch.tensor(sorted(best, key=lambda number: (firsts[number], lasts[number])), device=scores.device)


def _bucket(distance: torch.Tensor) -> torch.Tensor:
    logarithm = distance.float().log2().floor().long() + 2
    return torch.where(distance <= 4, distance - 1, logarithm).clamp(max=DISTANCES - 1)


__all__ = ["Ranked", "SpanRanker", "keep_best", "spans_of"]
