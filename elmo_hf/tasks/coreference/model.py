"""ElmoForCoreference: which words of a document speak of the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from elmo_hf.model.modeling_elmo_heads import ElmoTaskModel
from elmo_hf.tasks.coreference.head import Ranked

Span = tuple[int, int, int]


@dataclass
class CoreferenceOutput(ModelOutput):
    """What ElmoForCoreference returns.

    Args:
        loss: when labels are given.
        spans: (K, 3), the spans that may be mentions: sentence, first and last word.
        antecedents: (K, A), for each span the numbers of those before it, nearest first.
        scores: (K, A + 1), of no antecedent and of each.
    """

    loss: torch.Tensor | None = None
    spans: torch.Tensor | None = None
    antecedents: torch.Tensor | None = None
    scores: torch.Tensor | None = None


class ElmoForCoreference(ElmoTaskModel):
    """An ELMo that finds mentions and puts those of the same into clusters. Its batch is one document, a sentence a
    row, each read from a fresh state.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForCoreference, ElmoTokenizer
    >>> sizes = dict(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> model = ElmoForCoreference(ElmoConfig(**sizes, head={"preset": "small"})).eval()
    >>> document = [["Ann", "came", "home", "."], ["She", "slept", "."]]
    >>> isinstance(model.clusters(ElmoTokenizer(), document), list)
    True

    ```
    """

    task_class, default_head = "ElmoForCoreference", "spans"
    card_example = """from elmo_hf import ElmoForCoreference, ElmoTokenizer

name = "{name}"
model, tokenizer = ElmoForCoreference.from_pretrained(name), ElmoTokenizer.from_pretrained(name)
print(model.clusters(tokenizer, [["Ann", "came", "home", "."], ["She", "slept", "."]]))
"""
    # A document's loss is a mean over its spans, which nobody can count before.
    accepts_loss_kwargs = False

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        word_vector_ids: torch.Tensor | None = None,
        **keywords: Any,
    ) -> CoreferenceOutput:
        """
        Args:
            input_ids, attention_mask, inputs_embeds, keywords: as ElmoModel takes them, a sentence of the document in
                each row.
            labels: (mentions, 4): sentence, first and last word, both counted from 0 without `<S>`, and cluster.
            word_vector_ids: (B, T), rows of the table of word vectors, if the head has one.
        """
        self.check_keywords(keywords, labels=labels)
        (sentences,), _ = self.head_inputs(
            input_ids, attention_mask, inputs_embeds, None, word_vector_ids, None, **keywords
        )
        if labels is not None:
            if labels.dim() != 2 or labels.shape[1] != 4 or labels.is_floating_point():
                raise ValueError(
                    f"labels has the shape {tuple(labels.shape)} and the type {labels.dtype}. Expected whole "
                    "numbers, (mentions, 4): sentence, first word, last word, cluster."
                )
            _check_mentions(labels.tolist(), sentences.words.sum(1).tolist())
        ranked = self.classifier.rank(sentences)
        loss = None if labels is None else self.task_loss(antecedent_losses(ranked, labels), None)
        return CoreferenceOutput(loss, *ranked)

    @torch.no_grad()
    def clusters(self, tokenizer: Any, document: Sequence[Sequence[str]]) -> list[list[Span]]:
        """The clusters of a document.

        Args:
            tokenizer: the model's.
            document: its sentences, lists of words.

        Returns:
            lists of mentions in the order of the text, each (sentence, first word, last word), words counted from 0.
        """
        if not document:
            return []
        batch = tokenizer(list(document), is_split_into_words=True, padding=True, return_tensors="pt").to(self.device)
        output = self(**batch)
        return resolve(Ranked(output.spans, output.antecedents, output.scores))


def antecedent_losses(ranked: Ranked, labels: torch.Tensor) -> torch.Tensor:
    """`-log sum_j p(j)` for each span over its gold antecedents, or over none where it has none; (K,)."""
    gold = {(sentence, first, last): cluster for sentence, first, last, cluster in labels.tolist()}
    clusters = [gold.get(tuple(span), -1 - number) for number, span in enumerate(ranked.spans.tolist())]
    own = torch.tensor(clusters, device=ranked.scores.device, dtype=torch.long)
    there = ranked.scores[:, 1:] > -5e3
    same = (own[:, None] == own[ranked.antecedents]) & there  # (K, A)
    right = torch.cat([~same.any(1, keepdim=True), same], 1)  # (K, A + 1)
    correct = ranked.scores.masked_fill(~right, torch.finfo(ranked.scores.dtype).min)
    return ranked.scores.logsumexp(1) - correct.logsumexp(1)


def resolve(ranked: Ranked) -> list[list[Span]]:
    """Each span joins the cluster of its best antecedent, if that is better than none.

    Example:

    ```python
    >>> import torch
    >>> from elmo_hf.tasks.coreference.model import resolve
    >>> from elmo_hf.tasks.coreference.head import Ranked
    >>> spans, before = torch.tensor([[0, 0, 0], [0, 2, 2], [1, 0, 0]]), torch.tensor([[0], [0], [1]])
    >>> resolve(Ranked(spans, before, torch.tensor([[0.0, -1e4], [0.0, -2.0], [0.0, 3.0]])))
    [[(0, 2, 2), (1, 0, 0)]]

    ```
    """
    spans = [tuple(span) for span in ranked.spans.tolist()]
    best = ranked.scores.argmax(1).tolist()
    cluster_of: dict[int, list[int]] = {}
    clusters: list[list[int]] = []
    for number, choice in enumerate(best):
        if choice == 0:
            continue
        antecedent = int(ranked.antecedents[number, choice - 1])
        if antecedent not in cluster_of:
            cluster_of[antecedent] = [antecedent]
            clusters.append(cluster_of[antecedent])
        cluster_of[antecedent].append(number)
        cluster_of[number] = cluster_of[antecedent]
    return [[spans[number] for number in cluster] for cluster in clusters]


def _check_mentions(mentions: list[list[int]], lengths: list[int]):
    seen: dict[tuple[int, ...], int] = {}
    for sentence, first, last, cluster in mentions:
        inside = 0 <= sentence < len(lengths) and 0 <= first <= last < lengths[sentence]
        if not inside:
            raise ValueError(
                f"The mention (sentence {sentence}, words {first} to {last}) is not in the document. Expected "
                f"words inside of one of its {len(lengths)} sentences, counted from 0."
            )
        if seen.setdefault((sentence, first, last), cluster) != cluster:
            raise ValueError(
                f"The mention (sentence {sentence}, words {first} to {last}) is in the clusters "
                f"{seen[sentence, first, last]} and {cluster}. Expected a single cluster for a mention."
            )


__all__ = ["CoreferenceOutput", "ElmoForCoreference", "antecedent_losses", "resolve"]
