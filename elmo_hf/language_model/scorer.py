"""ElmoScorer: probabilities of the words of sentences, predicted words, and substitutes of words."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import torch
from transformers import PreTrainedModel

from elmo_hf.device import choose_device
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import BOS, EOS, UNK, ElmoTokenizer
from elmo_hf.text.files import excerpt
from elmo_hf.text.inputs import check_is_list

from .probabilities import NEEDED, best_words, check_language_model, log_probabilities, top_layers

# A batch holds fewer sentences where they are so long that their padded rows are more tokens than this.
PADDED_TOKENS_AT_ONCE = 2**15
# Sentences are read ahead and batched by length, but never more words than this: results come in steps of so many.
WORDS_AHEAD = 2**16


@dataclass(frozen=True)
class SentenceScore:
    """Log probabilities (natural logarithms) of the tokens of one sentence.

    Args:
        tokens: `<S>`, the words, `</S>`.
        forward: of each token given all before it; 0 for `<S>`, which is given.
        backward: of each token given all after it; 0 for `</S>`, which is given. None if the model only reads forward.
        unknown: which tokens the vocabulary does not have. They are scored as `<UNK>`.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf import SentenceScore
    >>> forward, backward = np.array([0.0, -2.0, -1.0]), np.array([-3.0, -4.0, 0.0])
    >>> score = SentenceScore(["<S>", "Yes", "</S>"], forward, backward, np.array([False, False, False]))
    >>> score.both.tolist(), float(score.forward.sum())
    ([-1.5, -3.0, -0.5], -3.0)

    ```
    """

    tokens: list[str]
    forward: np.ndarray
    backward: np.ndarray | None
    unknown: np.ndarray

    @property
    def both(self) -> np.ndarray:
        """The mean of both directions (of one, if there is but one): minus their sum is the sentence's loss."""
        return self.forward if self.backward is None else (self.forward + self.backward) / 2


class Prediction(NamedTuple):
    """A proposed word and its log probability; for a substitute also that of each direction by itself.

    Example:

    ```python
    >>> from elmo_hf import Prediction
    >>> best = max([Prediction("cat", -1.5), Prediction("dog", -0.5)], key=lambda one: one.score)
    >>> best.word, best.forward
    ('dog', None)

    ```
    """

    word: str
    score: float
    forward: float | None = None
    backward: float | None = None


class ReadBatch(NamedTuple):
    """Sentences that were read together.

    Args:
        numbers: which of the sentences.
        labels, mask: (B, T), of each token its line in the vocabulary, and where there is one; padded on the right.
        tops: the top layer (B, T, P) of each direction.
    """

    numbers: list[int]
    labels: torch.Tensor
    mask: torch.Tensor
    tops: tuple[torch.Tensor, ...]


class ElmoScorer:
    """Uses a language model: scores of words and sentences, next and previous words, substitutes.

    In all methods `texts` is one string or a list of strings, which the tokenizer splits; with
    `is_split_into_words=True` it is one list of words or a list of such lists. The result for one text is one result,
    for a list a list of results. The state is reset at sentence starts: results do not depend on other sentences.

    Args:
        model: an ElmoForPreTraining.
        tokenizer: its ElmoTokenizer, with the vocabulary.
        batch_size: sentences in a batch.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoScorer, ElmoTokenizer
    >>> words = ["<S>", "</S>", "<UNK>", "cats", "dogs", "sleep", "bark"]
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16, vocab_size=len(words))
    >>> scorer = ElmoScorer(ElmoForPreTraining(config), ElmoTokenizer(word_vocabulary=words))
    >>> score = scorer.score("cats purr")
    >>> score.tokens, score.unknown.tolist(), score.forward.shape
    (['<S>', 'cats', 'purr', '</S>'], [False, False, True, False], (4,))
    >>> [len(scorer.next_words("dogs", k=3)), len(scorer.previous_words(["bark", "sleep"], k=3))]
    [3, 2]
    >>> sorted(one.word for one in scorer.substitutes("dogs bark", position=0))
    ['bark', 'cats', 'dogs', 'sleep']

    ```
    """

    def __init__(self, model: PreTrainedModel, tokenizer: Any, batch_size: int = 32):
        check_language_model(model, tokenizer)
        if batch_size < 1:
            raise ValueError(f"Invalid `batch_size`: {batch_size}. Expected a whole number of at least 1.")
        self.model, self.tokenizer, self.batch_size = model, tokenizer, batch_size

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike,
        splitting: str | None = None,
        device: str | torch.device | None = None,
        batch_size: int = 32,
        **kwargs: Any,
    ) -> "ElmoScorer":
        """Loads model and tokenizer.

        Args:
            name: a folder, a repository of the Hub, or a bundled model, e.g. `"english"`. On a CPU, weights that were
                saved in float16 are loaded in float32, unless `dtype` says otherwise.
            splitting: how text is split into words, see ElmoTokenizer. Default: as saved with the model.
            device: a device of torch, e.g. `"cuda"`. Default: a GPU if available.
            batch_size: sentences in a batch.
            kwargs: other arguments of `from_pretrained`, e.g. `revision`.
        """
        device = choose_device(device)
        config = ElmoConfig.from_pretrained(name, **kwargs)
        # Loading an ElmoModel as a language model would give it a random softmax.
        if "ElmoForPreTraining" not in (config.architectures or []):
            architectures = " and ".join(config.architectures or ["a model without a name"])
            raise ValueError(f"{name} holds {architectures}, which has no softmax over words. {NEEDED}.")
        chosen = {} if splitting is None else {"splitting": splitting}
        tokenizer = ElmoTokenizer.from_pretrained(name, **chosen, **kwargs)
        if device.type == "cpu" and str(config.dtype).removeprefix("torch.") == "float16":
            kwargs.setdefault("dtype", torch.float32)  # a processor is five times slower with halves
        model = ElmoForPreTraining.from_pretrained(name, **kwargs)
        model.to(device)  # type: ignore[arg-type]  # the decorator of `to` hides its signature
        return cls(model, tokenizer, batch_size)

    # -- how likely a sentence is

    @overload
    def score(self, texts: str, is_split_into_words: Literal[False] = False) -> SentenceScore: ...

    @overload
    def score(  # type: ignore[overload-overlap]  # a string is a sequence of strings, too
        self, texts: Sequence[str], is_split_into_words: Literal[True]
    ) -> SentenceScore: ...

    @overload
    def score(self, texts: list[str], is_split_into_words: Literal[False] = False) -> list[SentenceScore]: ...

    @overload
    def score(self, texts: Sequence[Sequence[str]], is_split_into_words: Literal[True]) -> list[SentenceScore]: ...

    def score(self, texts: Any, is_split_into_words: bool = False) -> Any:
        """Log probability of each word: a SentenceScore, or a list of them."""
        single, sentences = self._sentences(texts, is_split_into_words)
        scores = list(self.score_stream(sentences))
        return scores[0] if single else scores

    def score_stream(self, sentences: Iterable[str | Sequence[str]]) -> Iterator[SentenceScore]:
        """The same for any number of sentences, strings or lists of words, in their order; a few are read ahead."""
        for ahead in self.ahead(sentences):
            yield from self._score(ahead)

    def _score(self, sentences: list[list[str]]) -> list[SentenceScore]:
        scores: list[Any] = [None] * len(sentences)
        line_of_unknown = self.tokenizer.word_lines[UNK]
        for numbers, labels, mask, tops in self.read(sentences):
            directions = [
                self._score_direction(*direction, labels, mask) for direction in zip(tops, (1, -1), strict=False)
            ]
            for row, number in enumerate(numbers):
                tokens = [BOS, *sentences[number], EOS]
                forward, *backward = (values[row, : len(tokens)] for values in directions)
                unknown = (labels[row, : len(tokens)] == line_of_unknown).numpy()
                scores[number] = SentenceScore(tokens, forward, backward[0] if backward else None, unknown)
        return scores

    def _score_direction(self, top: torch.Tensor, step: int, labels: torch.Tensor, mask: torch.Tensor) -> np.ndarray:
        """Log probabilities (B, T) of each token by the top layer (B, T, P) at the token `step` before it."""
        earlier, later = slice(None, -1), slice(1, None)
        read, predicted = (earlier, later) if step == 1 else (later, earlier)
        pairs = mask[:, later]  # padding is on the right: where there is a token, there is one before it
        log_likelihoods = log_probabilities(
            self.model, [top[:, read][pairs.to(top.device)]], labels[:, predicted][pairs]
        )
        values = torch.zeros(mask.shape, dtype=torch.float64)
        values[:, predicted][pairs] = log_likelihoods[:, 0].cpu()
        return values.numpy()

    # -- which words would fit

    @overload
    def next_words(
        self, texts: str, k: int = 10, specials: bool = False, is_split_into_words: Literal[False] = False
    ) -> list[Prediction]: ...

    @overload
    def next_words(  # type: ignore[overload-overlap]
        self, texts: Sequence[str], k: int = 10, specials: bool = False, *, is_split_into_words: Literal[True]
    ) -> list[Prediction]: ...

    @overload
    def next_words(
        self, texts: list[str], k: int = 10, specials: bool = False, is_split_into_words: Literal[False] = False
    ) -> list[list[Prediction]]: ...

    @overload
    def next_words(
        self,
        texts: Sequence[Sequence[str]],
        k: int = 10,
        specials: bool = False,
        *,
        is_split_into_words: Literal[True],
    ) -> list[list[Prediction]]: ...

    def next_words(self, texts: Any, k: int = 10, specials: bool = False, is_split_into_words: bool = False) -> Any:
        """The k likeliest words after a text, as a list of Predictions, or a list of such lists.

        `specials=True` lets `</S>` (the text ends here), `<S>` and `<UNK>` be proposed too.
        """
        single, sentences = self._sentences(texts, is_split_into_words)
        predictions = self._best(sentences, [[len(words) for words in sentences], None], k, specials)
        return predictions[0] if single else predictions

    @overload
    def previous_words(
        self, texts: str, k: int = 10, specials: bool = False, is_split_into_words: Literal[False] = False
    ) -> list[Prediction]: ...

    @overload
    def previous_words(  # type: ignore[overload-overlap]
        self, texts: Sequence[str], k: int = 10, specials: bool = False, *, is_split_into_words: Literal[True]
    ) -> list[Prediction]: ...

    @overload
    def previous_words(
        self, texts: list[str], k: int = 10, specials: bool = False, is_split_into_words: Literal[False] = False
    ) -> list[list[Prediction]]: ...

    @overload
    def previous_words(
        self,
        texts: Sequence[Sequence[str]],
        k: int = 10,
        specials: bool = False,
        *,
        is_split_into_words: Literal[True],
    ) -> list[list[Prediction]]: ...

    def previous_words(
        self, texts: Any, k: int = 10, specials: bool = False, is_split_into_words: bool = False
    ) -> Any:
        """The k likeliest words before a text; as `next_words`."""
        single, sentences = self._sentences(texts, is_split_into_words)
        predictions = self._best(sentences, [None, [1] * len(sentences)], k, specials)
        return predictions[0] if single else predictions

    @overload
    def substitutes(
        self, texts: Any, position: int, k: int = 10, specials: bool = False, is_split_into_words: bool = False
    ) -> list[Prediction]: ...

    @overload
    def substitutes(
        self,
        texts: Any,
        position: Sequence[int],
        k: int = 10,
        specials: bool = False,
        is_split_into_words: bool = False,
    ) -> list[list[Prediction]]: ...

    def substitutes(
        self,
        texts: Any,
        position: int | Sequence[int],
        k: int = 10,
        specials: bool = False,
        is_split_into_words: bool = False,
    ) -> Any:
        """The k words that fit best in the place of one word, whatever that word is: it is not looked at.

        A word's score is log p_forward(word | all to the left) + log p_backward(word | all to the right), normalised
        over the vocabulary.

        Args:
            position: the word to replace, counted from 0; for a list of texts one for each.
            specials: let `<S>`, `</S>` and `<UNK>` be proposed too.
        """
        single, sentences = self._sentences(texts, is_split_into_words)
        places = _places(sentences, position, single)
        # Word p is token p + 1: forward has then read up to token p, backward down to token p + 2.
        predictions = self._best(sentences, [places, [place + 2 for place in places]], k, specials)
        return predictions[0] if single else predictions

    def _best(
        self, sentences: list[list[str]], asked: list[list[int] | None], k: int, specials: bool
    ) -> list[list[Prediction]]:
        """`asked` says for each direction after which token of each sentence it is asked, or that it is not."""
        if k < 1:
            raise ValueError(f"Invalid `k`: {k}. Expected a whole number of at least 1.")
        if asked[1] is not None and not self.model.config.bidirectional:
            raise ValueError("This model only reads forward; words before a text take one that also reads backward.")
        words, lines_of = self.tokenizer.word_vocabulary, self.tokenizer.word_lines
        never = [] if specials else [lines_of[token] for token in (BOS, EOS, UNK)]
        predictions: list[Any] = [None] * len(sentences)
        for numbers, _, _, tops in self.read(sentences):
            rows = [
                top[range(len(numbers)), [places[number] for number in numbers]]  # (B, P)
                for top, places in zip(tops, asked, strict=False)
                if places is not None
            ]
            for number, (lines, scores) in zip(numbers, best_words(self.model, rows, k, never), strict=True):
                pairs = zip(lines, scores, strict=True)
                predictions[number] = [Prediction(words[line], *values) for line, values in pairs]
        return predictions

    # -- sentences in, top layers out

    def words(self, sentence: str | Sequence[str]) -> list[str]:
        """A sentence's words: split by the tokenizer if it is a string."""
        return self.tokenizer.tokenize(sentence) if isinstance(sentence, str) else list(sentence)

    def _sentences(self, texts: Any, is_split_into_words: bool) -> tuple[bool, list[list[str]]]:
        """Whether it is one text only, and the words of each."""
        if is_split_into_words:
            single = not (isinstance(texts, (list, tuple)) and texts and isinstance(texts[0], (list, tuple)))
        else:
            single = isinstance(texts, str)
        sentences = [texts] if single else list(texts)
        types, expected = ((list, tuple), "lists of words") if is_split_into_words else (str, "strings")
        for sentence in sentences:
            if not isinstance(sentence, types):
                option = f"is_split_into_words={is_split_into_words}"
                raise ValueError(f"Invalid text: {sentence!r:.40}. Expected {expected} with {option}.")
        return single, [self.words(sentence) for sentence in sentences]

    def ahead(self, sentences: Iterable[str | Sequence[str]]) -> Iterator[list[list[str]]]:
        """The words of any number of sentences, as many sentences at a time as are read ahead."""
        check_is_list(sentences, "sentences")
        ahead, words = [], 0
        for sentence in sentences:
            ahead.append(self.words(sentence))
            words += len(ahead[-1])
            if len(ahead) == 16 * self.batch_size or words >= WORDS_AHEAD:
                yield ahead
                ahead, words = [], 0
        yield ahead

    def read(self, sentences: list[list[str]]) -> Iterator[ReadBatch]:
        """The top layers of sentences, in batches of about equal lengths."""
        for numbers in self._batches([len(words) for words in sentences]):
            batch = self.tokenizer(
                [sentences[number] for number in numbers],
                is_split_into_words=True,
                padding=True,
                padding_side="right",
                return_lm_labels=True,
                return_tensors="pt",
            )
            tops = top_layers(self.model, batch["input_ids"], batch["attention_mask"])
            yield ReadBatch(numbers, batch["labels"], batch["attention_mask"].bool(), tops)

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        for number in sorted(range(len(lengths)), key=lengths.__getitem__):
            full = len(batch) == self.batch_size or (len(batch) + 1) * lengths[number] > PADDED_TOKENS_AT_ONCE
            if batch and full:
                yield batch
                batch = []
            batch.append(number)
        if batch:
            yield batch


def _places(sentences: list[list[str]], position: int | Sequence[int], single: bool) -> list[int]:
    is_number = isinstance(position, (int, np.integer))
    places: list[int] = [position] if isinstance(position, (int, np.integer)) else list(position)
    if is_number != single or len(places) != len(sentences):
        raise ValueError(
            f"Invalid `position`: {position}. Expected one number for one text, or one for each text of a list."
        )
    for words, place in zip(sentences, places, strict=True):
        if not 0 <= place < len(words):
            shown = " ".join(f"{number}={word}" for number, word in enumerate(words[:20]))
            listed = f", counted from 0: {excerpt(shown)}" if words else ""
            raise ValueError(f"Position {place} is not in the text, which has {len(words)} words{listed}.")
    return places
