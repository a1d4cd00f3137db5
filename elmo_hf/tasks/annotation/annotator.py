"""ElmoAnnotator: labels texts with one or several fine-tuned models."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import torch

from elmo_hf.embedding.embedder import batches_by_length
from elmo_hf.kernels.sentence_cache import SentenceCache
from elmo_hf.tasks.load_model import load_task_model
from elmo_hf.tasks.tagging.spans import has_span_labels, label_spans
from elmo_hf.tasks.tagging.task import tagged_rows
from elmo_hf.text.inputs import Sentence

# Tokens, padding included, that are read at one time.
BATCH_TOKENS = 8192
# Memory for the layers of one batch, which several models share.
SHARED_MEGABYTES = 2000


class LabeledSpan(NamedTuple):
    """A span of words with a label: its first and last word, counted from 0, and its text."""

    label: str
    first: int
    last: int
    text: str


@dataclass
class Annotation:
    """A sentence with the labels of each model, by the model's name.

    Args:
        words: the words.
        text: the text before it was split, or None if words came in.
        tags: of each tagger, a label for each word.
        tag_scores: their probabilities.
        labels: of each classifier, the label of the sentence; of a regression, its number.
        label_scores: their probabilities; None for a number.

    Example:

    ```python
    >>> from elmo_hf.tasks import Annotation
    >>> Annotation(["Ann", "Lee", "came"], tags={"ner": ["B-PER", "I-PER", "O"]}).spans("ner")
    [LabeledSpan(label='PER', first=0, last=1, text='Ann Lee')]

    ```
    """

    words: list[str]
    text: str | None = None
    tags: dict[str, list[str]] = field(default_factory=dict)
    tag_scores: dict[str, list[float]] = field(default_factory=dict)
    labels: dict[str, str | float] = field(default_factory=dict)
    label_scores: dict[str, float | None] = field(default_factory=dict)

    def spans(self, name: str | None = None) -> list[LabeledSpan]:
        """The spans of a tagger whose labels are in BIO, such as entities; None: of the only tagger."""
        if name is None:
            if len(self.tags) != 1:
                raise ValueError(f"Missing `name`. Expected one of the taggers: {', '.join(self.tags) or 'none'}.")
            name = next(iter(self.tags))
        spans = label_spans(self.tags[name])
        return [LabeledSpan(*span, " ".join(self.words[span.first : span.last + 1])) for span in spans]


class ElmoAnnotator:
    """Labels texts with fine-tuned models: taggers, classifiers and regressions.

    Models whose biLM has the same weights share what it computes for a sentence.

    Args:
        models: by name, each with its tokenizer.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer
    >>> from elmo_hf.tasks import ElmoAnnotator
    >>> labels = {0: "O", 1: "B-PER"}
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, id2label=labels)
    >>> annotator = ElmoAnnotator({"ner": (ElmoForTokenClassification(config).eval(), ElmoTokenizer())})
    >>> len(annotator(["Ann came home."])[0].tags["ner"])
    4

    ```
    """

    def __init__(self, models: dict[str, tuple[Any, Any]]):
        if not models:
            raise ValueError("Missing models. Expected at least one fine-tuned model.")
        self.models = {name: _Labeler(name, *pair) for name, pair in models.items()}
        labelers = [*self.models.values()]
        self.tokenizer, self.device = labelers[0].tokenizer, labelers[0].model.device
        for labeler in labelers[1:]:
            if labeler.tokenizer.splitting != self.tokenizer.splitting:
                raise ValueError(
                    f"{labelers[0].name} splits text by {self.tokenizer.splitting!r}, and {labeler.name} by "
                    f"{labeler.tokenizer.splitting!r}. Expected models that split text by the same rules."
                )
        self._shared = SentenceCache(SHARED_MEGABYTES) if len(labelers) > 1 else None
        for labeler in labelers:
            labeler.model.requires_grad_(False)
            if self._shared is not None:
                labeler.model.cache_sentences(self._shared)

    @classmethod
    def from_pretrained(
        cls, *names: str | os.PathLike, device: str | None = None, **arguments: Any
    ) -> "ElmoAnnotator":
        """Loads one or several fine-tuned models.

        Args:
            names: folders, repositories of the Hub, or bundled taggers.
            device: as `"cuda"`. Default: a GPU if there is one.
            arguments: as any `from_pretrained` takes them, for example `revision`.
        """
        models: dict[str, tuple[Any, Any]] = {}
        for name in names:
            models[_unused_name(name, models)] = load_task_model(name, device, **arguments)
        return cls(models)

    @overload
    def __call__(self, texts: str) -> Annotation: ...  # type: ignore[overload-overlap]  # of a sequence of strings

    @overload
    def __call__(self, texts: Sequence[Sentence]) -> list[Annotation]: ...

    def __call__(self, texts: str | Sequence[Sentence]) -> Annotation | list[Annotation]:
        """Labels a text, or each of several texts or lists of words; each is one sentence for the models."""
        if isinstance(texts, str):
            return self.annotate([texts])[0]
        return self.annotate(texts)

    def split(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        """The words of sentences; those that are lists of words stay as they are."""
        raw = [number for number, sentence in enumerate(sentences) if isinstance(sentence, str)]
        words = [[] if isinstance(sentence, str) else list(sentence) for sentence in sentences]
        for number, split in zip(raw, self.tokenizer.split([sentences[number] for number in raw]), strict=True):
            words[number] = split
        return words

    @torch.inference_mode()
    def annotate(self, sentences: Sequence[Sentence], batch_tokens: int = BATCH_TOKENS) -> list[Annotation]:
        """Labels sentences in batches of like length."""
        words = self.split(sentences)
        annotations = [
            Annotation(split, sentence if isinstance(sentence, str) else None)
            for split, sentence in zip(words, sentences, strict=True)
        ]
        for annotation in annotations:
            for labeler in self.models.values():
                labeler.add_empty(annotation)
        for numbers in _batches(words, batch_tokens):
            for labeler in self.models.values():
                labeler.label([annotations[number] for number in numbers])
            if self._shared is not None:
                self._shared.clear()
        return annotations


def _batches(words: list[list[str]], batch_tokens: int) -> Iterator[list[int]]:
    """Numbers of sentences that are read together; sentences without words are left out."""
    numbers = [number for number, split in enumerate(words) if split]
    for places in batches_by_length([len(words[number]) for number in numbers], batch_tokens, None):
        yield [numbers[place] for place in places]


def _unused_name(name: str | os.PathLike, used: dict[str, Any]) -> str:
    """The last part of a model's name, with a number if another model has it already."""
    base = os.path.basename(os.path.normpath(os.fspath(name)))
    number = next(
        number for number in range(1, len(used) + 2) if (base if number == 1 else f"{base}-{number}") not in used
    )
    return base if number == 1 else f"{base}-{number}"


class _Labeler:
    """A model that labels the words of a sentence, or the sentence."""

    def __init__(self, name: str, model: Any, tokenizer: Any):
        self.name, self.model, self.tokenizer = name, model.eval(), tokenizer
        classes = [base.__name__ for base in type(model).__mro__]
        self.tags_words = "ElmoForTokenClassification" in classes
        kind = "a model for " + model.config.head["type"]
        if not self.tags_words and "ElmoForSequenceClassification" not in classes:
            raise ValueError(
                f"{name} is {kind} ({classes[0]}). Expected a model that labels words or sentences; questions are "
                "answered by `model.answer`, mentions are found by `model.clusters`."
            )
        if model.config.head["type"] == "srl" or getattr(model, "reads_pairs", False):
            needs = "a predicate" if self.tags_words else "a second text"
            raise ValueError(f"{name} is {kind}, which needs {needs} beside each sentence; annotate gives none.")
        self.is_regression = not self.tags_words and model.num_labels == 1
        self.has_spans = self.tags_words and has_span_labels([*model.config.id2label.values()])

    def add_empty(self, annotation: Annotation):
        """What a sentence without words has."""
        if self.tags_words:
            annotation.tags[self.name], annotation.tag_scores[self.name] = [], []
        else:
            annotation.labels[self.name] = float("nan") if self.is_regression else ""
            annotation.label_scores[self.name] = None

    def label(self, batch: list[Annotation]):
        """Adds the labels of this model to annotations."""
        words = [annotation.words for annotation in batch]
        inputs = self.tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
        inputs = {name: values.to(self.model.device) for name, values in inputs.items()}
        if self.tags_words:
            for annotation, (labels, scores) in zip(batch, tagged_rows(self.model, inputs), strict=True):
                annotation.tags[self.name] = labels
                annotation.tag_scores[self.name] = [round(score, 4) for score in scores]
            return
        logits = self.model(**inputs).logits.float().cpu()  # (B, labels)
        if self.is_regression:
            for annotation, value in zip(batch, logits[:, 0].tolist(), strict=True):
                annotation.labels[self.name] = round(value, 4)
            return
        scores, labels = logits.softmax(-1).max(-1)
        for annotation, label, score in zip(batch, labels.tolist(), scores.tolist(), strict=True):
            annotation.labels[self.name] = self.model.config.id2label[label]
            annotation.label_scores[self.name] = round(score, 4)


__all__ = ["Annotation", "ElmoAnnotator", "LabeledSpan"]
