"""What the page computes: bounded input in, numbers out; nothing of one visitor is kept for another."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from elmo_hf.analysis import LayerReader, WordSurprisal, word_surprisal
from elmo_hf.analysis.layer_reader import cosines, unit_vectors
from elmo_hf.analysis.nearest_neighbours import neighbours
from elmo_hf.analysis.neighbour_index import NeighbourIndex, nearest
from elmo_hf.bundled import find_model, sentences
from elmo_hf.language_model.scorer import ElmoScorer, Prediction
from elmo_hf.tasks.annotation.annotator import Annotation, ElmoAnnotator
from elmo_hf.text.inputs import Sentence
from elmo_hf.text.tokenization_check import looks_tokenized

MAX_CHARACTERS = 2000
MAX_SENTENCES = 5
MAX_WORDS = 60  # of a sentence
MAX_TAGGERS = 4
MAX_MODELS = 2  # in memory
CORPUS_SENTENCES = 1500
NEAREST = 8

Model = TypeVar("Model")


class PageError(ValueError):
    """A sentence for the visitor."""


def lines_of(text: str) -> list[Sentence]:
    """The sentences of a text, one per line; tokenised ones as lists of words. Raises a PageError for too much."""
    if len(text) > MAX_CHARACTERS:
        raise PageError(f"The text has {len(text):,} characters. Expected up to {MAX_CHARACTERS:,}.")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MAX_SENTENCES:
        raise PageError(f"There are {len(lines)} sentences. Expected up to {MAX_SENTENCES}, one per line.")
    return [line.split() for line in lines] if looks_tokenized(lines) else list(lines)


def check_words(split: list[list[str]]) -> list[list[str]]:
    """The sentences that have words; raises a PageError if there is none, or for too long ones."""
    split = [words for words in split if words]
    if not split:
        raise PageError("There is no sentence yet. Write one or more, each on a line of its own.")
    for words in split:
        if len(words) > MAX_WORDS:
            raise PageError(f"A sentence has {len(words)} words. Expected up to {MAX_WORDS}.")
    return split


@dataclass
class WordView:
    """What there is to see of one word.

    Args:
        cosines: of each other sentence its words and their cosines by layer, (L + 1, words).
        neighbours: cosine and sentence of the nearest words of a corpus, with the place of the word.
        context_free: the words nearest at layer 0.
        substitutes: words that fit in its place; None if the model has no softmax over words.
    """

    cosines: list[tuple[int, list[str], np.ndarray]]
    heat: tuple[int, list[str], np.ndarray]
    neighbours: list[tuple[float, list[str], int]]
    context_free: list[tuple[str, float]]
    substitutes: list[Prediction] | None


@dataclass
class _Corpus:
    """Words of a few sentences at the top layer, in memory."""

    sentences: list[list[str]]
    places: list[tuple[int, int]]
    vectors: np.ndarray
    words: list[str]
    word_vectors: np.ndarray


class PageModel:
    """One model, used by one visitor after the other."""

    def __init__(self, name: str, device: str | None = None, index: str | None = None):
        folder, _ = find_model(name)
        self.name, self._lock = name, threading.Lock()
        try:
            scorer = ElmoScorer.from_pretrained(folder, device=device)
        except ValueError as error:
            if "no softmax" not in str(error):
                raise
            scorer = None
        self.scorer = scorer
        if scorer is None:
            self.reader = LayerReader.from_pretrained(folder, device=device)
        else:
            self.reader = LayerReader(scorer.model.eval(), scorer.tokenizer)
        self.index = None if index is None else NeighbourIndex(index)
        self._corpus: _Corpus | None = None

    def split(self, text: str) -> list[list[str]]:
        """The words of each line; raises a PageError for what is too much or nothing."""
        return check_words([self.reader.words(line) for line in lines_of(text)])

    def surprisal(self, split: list[list[str]]) -> list[WordSurprisal] | None:
        """How expected the words are, if the model can say."""
        if self.scorer is None:
            return None
        with self._lock:
            return list(word_surprisal(self.scorer, split))

    def look_at(self, split: list[list[str]], number: int, place: int) -> WordView:
        """Everything about one word."""
        if not (0 <= number < len(split) and 0 <= place < len(split[number])):
            raise PageError("That word is no longer there. Press Read and choose again.")
        with self._lock:
            layers = list(self.reader.read(split))  # (L + 1, words, hidden) each
            others = [other for other in range(len(split)) if other != number]
            word = layers[number][:, place : place + 1]
            similar = [(other, split[other], cosines(word, layers[other])[:, 0]) for other in others]
            beside = others[0] if others else number
            heat = (beside, split[beside], cosines(layers[number], layers[beside]))
            near, free = self._neighbours(split[number], place, word[:, 0])
            fitting = None
            if self.scorer is not None and self.scorer.model.config.bidirectional:
                fitting = self.scorer.substitutes(split[number], place, NEAREST, is_split_into_words=True)
            return WordView(similar, heat, near, free, fitting)

    def _neighbours(
        self, words: list[str], place: int, layers: np.ndarray
    ) -> tuple[list[tuple[float, list[str], int]], list[tuple[str, float]]]:
        if self.index is not None:
            nearest_words = neighbours(self.index, self.reader, words, position=place, k=NEAREST)
            in_context = [(use.cosine, use.sentence, use.position) for use in nearest_words.in_context]
            return in_context, nearest_words.context_free
        corpus = self._corpus = self._corpus or self._read_corpus()
        scores, numbers = nearest(corpus.vectors, layers[-1][None], NEAREST + len(words))
        near, seen = [], {tuple(words)}
        for score, number in zip(scores[0].tolist(), numbers[0], strict=True):
            sentence, position = corpus.places[number]
            if tuple(corpus.sentences[sentence]) not in seen:
                seen.add(tuple(corpus.sentences[sentence]))
                near.append((score, corpus.sentences[sentence], position))
        scores, numbers = nearest(corpus.word_vectors, layers[0][None], NEAREST + 1)
        free = [(corpus.words[number], score) for number, score in zip(numbers[0], scores[0].tolist(), strict=True)]
        return near[:NEAREST], [(word, score) for word, score in free if word != words[place]][:NEAREST]

    def _read_corpus(self) -> _Corpus:
        split = [text.split() for text in sentences()[:CORPUS_SENTENCES]]  # they are tokenised
        top: list[np.ndarray] = []
        places: list[tuple[int, int]] = []
        for number, layers in enumerate(self.reader.read(split)):
            top.append(unit_vectors(layers[-1]).astype(np.float16))
            places += [(number, place) for place in range(layers.shape[1])]
        words = sorted({word for words in split for word in words})
        free = [layers[0, 0] for layers in self.reader.read([word] for word in words)]
        word_vectors = unit_vectors(np.stack(free)).astype(np.float16)
        return _Corpus(split, places, np.concatenate(top), words, word_vectors)

    def warm(self):
        """Reads the corpus before the first visitor asks."""
        with self._lock:
            if self.index is None and self._corpus is None:
                self._corpus = self._read_corpus()


class PageModels:
    """The models that visitors may choose, loaded when they are first asked for; few stay in memory.

    Args:
        names: folders, repositories, or `english`; the first is shown on arrival.
        any_model: whether visitors may name other models too.
        device: such as `"cuda"`.
        index: a folder of `elmo-hf analyse index`, made with the first model.
        taggers: folders, repositories or bundled models that label words.
    """

    def __init__(
        self,
        names: Sequence[str] = ("english",),
        any_model: bool = False,
        device: str | None = None,
        index: str | None = None,
        taggers: Sequence[str] = (),
    ):
        self.names, self.any_model, self._device, self._index = list(names), any_model, device, index
        self.taggers = list(taggers)
        self._models: LoadedModels[PageModel] = LoadedModels(MAX_MODELS)
        self._annotators: LoadedModels[ElmoAnnotator] = LoadedModels(MAX_TAGGERS)
        self._annotating = threading.Lock()

    def get(self, name: Any) -> PageModel:
        """The model of this name."""
        name = str(name or "").strip()
        if name not in self.names and not self.any_model:
            raise PageError(f"The model {name[:80]!r} is not offered here. Expected {', '.join(self.names)}.")
        if not name:
            raise PageError("No model is named. Expected a folder, a repository on the Hub, or english.")
        index = self._index if name == self.names[0] else None
        return self._models.get(name, lambda: PageModel(name, self._device, index))

    def annotate(self, name: Any, text: str) -> list[Annotation]:
        """The labels of a tagger for the sentences of a text."""
        name = str(name or "").strip()
        if name not in self.taggers:
            raise PageError(f"The tagger {name[:80]!r} is not offered here. Expected {', '.join(self.taggers)}.")
        lines = lines_of(text)
        annotator = self._annotators.get(name, lambda: ElmoAnnotator.from_pretrained(name, device=self._device))
        words = check_words(annotator.split(lines))
        with self._annotating:
            return annotator.annotate(words)


class LoadedModels(Generic[Model]):
    """Models in memory by name, up to a number; the least recently used are evicted."""

    def __init__(self, most: int):
        self._most, self._loaded, self._lock = most, OrderedDict[str, Model](), threading.Lock()

    def get(self, name: str, load: Callable[[], Model]) -> Model:
        """The model of this name, loaded if necessary; raises a PageError if it cannot be loaded."""
        with self._lock:
            if name in self._loaded:
                self._loaded.move_to_end(name)
                return self._loaded[name]
        # Loaded without the lock, so that visitors who use another model need not wait.
        try:
            model = load()
        except Exception as error:  # a folder or a repository of any kind can raise anything
            raise PageError(f"{name[:80]} cannot be loaded: {str(error)[:300]}") from error
        with self._lock:
            model = self._loaded.setdefault(name, model)
            while len(self._loaded) > self._most:
                self._loaded.popitem(last=False)
            return model
