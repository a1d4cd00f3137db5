"""ElmoEmbedder: computes vectors of sentences."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import torch
from tqdm import tqdm

from elmo_hf.device import choose_device
from elmo_hf.hub.consistency import check_agreement
from elmo_hf.kernels import constant_weights
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo import ElmoModel
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import BOS, EOS, ElmoTokenizer
from elmo_hf.tensors import resize_states
from elmo_hf.text.inputs import Sentence, check_is_list

from .output_spec import OutputSpec
from .sentence_chunks import chunks

# Tokens of one batch, <S> and </S> included.
BATCH_TOKENS = 4096
# Distinct words whose vectors are made at one time.
WORDS_AT_ONCE = 4096

# What errors expect.
SENTENCES, WORD_LISTS = "a string, or a list of strings or of lists of words", "a list of lists of words"

Layers = str | int | Sequence[int]


class Reading(TypedDict, total=False):
    """The arguments of `encode` that do not change the type of its result."""

    batch_tokens: int
    batch_size: int | None
    stateful: bool
    dtype: str | torch.dtype
    boundaries: bool
    show_progress: bool | None


class ElmoEmbedder:
    """Computes vectors of any number of sentences in constant memory: batches by length, results in input order.

    The state is reset at sentence starts, unless `stateful=True`: vectors depend on nothing but their own sentence.

    Args:
        model: an ElmoModel (for another class, its `elmo`).
        tokenizer: its ElmoTokenizer.
        remember: how many word vectors the model caches from call to call, see `ElmoModel.cache_words`; 0 for none.
            Default: as many as fit into 64 MB, unless the model has a cache already.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16))
    >>> embedder = ElmoEmbedder(model, ElmoTokenizer())
    >>> [tuple(vectors.shape) for vectors in embedder.encode(["It's raining.", "Yes"])]
    [(4, 16), (1, 16)]
    >>> embedder.encode(["It's raining.", "Yes"], pooling="mean").shape
    (2, 16)
    >>> embedder.encode([["New York", "is", "big"]], layers="all")[0].shape
    (3, 3, 16)

    ```
    """

    def __init__(self, model: Any, tokenizer: Any, remember: int | None = None):
        check_agreement(model.config, tokenizer)
        self.model, self.tokenizer = model.eval(), tokenizer
        if remember is not None:
            model.cache_words(remember)
        elif not model.config.word_input and model.base_model.token_encoder.word_cache is None:
            model.cache_words(megabytes=64)

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike,
        splitting: str | None = None,
        device: str | torch.device | None = None,
        remember: int | None = None,
        **kwargs: Any,
    ) -> "ElmoEmbedder":
        """Loads model and tokenizer.

        Args:
            name: a folder, a repository of the Hub, or `"english"`; of a model with a head, its ELMo is taken.
            splitting: how strings are split into words, see ElmoTokenizer. Default: as saved with the model.
            device: a device of torch, e.g. `"cuda"`. Default: a GPU if available.
            remember: see the class.
            kwargs: other arguments of `from_pretrained`, e.g. `revision`.
        """
        device = choose_device(device)  # before anything is loaded
        chosen = {} if splitting is None else {"splitting": splitting}
        revision = {key: kwargs[key] for key in ("revision", "token", "cache_dir", "subfolder") if key in kwargs}
        # First, because a tokenizer looks for ten files: without a network each would be asked for again and again.
        # A language model as what it is: loaded as an ElmoModel its softmax would be reported as unexpected.
        architectures = ElmoConfig.from_pretrained(name, **revision).architectures or []
        tokenizer = ElmoTokenizer.from_pretrained(name, **chosen, **revision)
        model_class = ElmoForPreTraining if "ElmoForPreTraining" in architectures else ElmoModel
        # In half precision a CPU is several times slower: the files may be, the work is not unless asked for.
        loaded = model_class.from_pretrained(name, **{"dtype": torch.float32, **kwargs})
        model = getattr(loaded, loaded.base_model_prefix, loaded)
        model.to(device)  # type: ignore[arg-type]  # the decorator of `to` hides its signature
        return cls(model, tokenizer, remember)

    # The type of the result depends on the arguments; where it is known only at run time, it is Any.

    @overload
    def encode(
        self, sentences: str, layers: Layers = "mix", pooling: str | None = None, **reading: Unpack[Reading]
    ) -> np.ndarray: ...

    @overload
    def encode(
        self, sentences: list[Any] | tuple[Any, ...], layers: Layers = "mix", **reading: Unpack[Reading]
    ) -> list[np.ndarray]: ...

    @overload
    def encode(
        self,
        sentences: list[Any] | tuple[Any, ...],
        layers: Layers = "mix",
        *,
        pooling: str,
        **reading: Unpack[Reading],
    ) -> np.ndarray: ...

    @overload
    def encode(
        self,
        sentences: Iterator[Sentence],
        layers: Layers = "mix",
        pooling: str | None = None,
        **reading: Unpack[Reading],
    ) -> Iterator[np.ndarray]: ...

    @overload
    def encode(
        self,
        sentences: list[str],
        layers: Layers = "mix",
        pooling: str | None = None,
        *,
        is_split_into_words: Literal[True],
        **reading: Unpack[Reading],
    ) -> np.ndarray: ...

    @overload
    def encode(
        self,
        sentences: Iterable[Sentence],
        layers: Layers = "mix",
        pooling: str | None = None,
        *,
        is_split_into_words: bool = False,
        as_tensors: bool = False,
        **reading: Unpack[Reading],
    ) -> Any: ...

    def encode(
        self,
        sentences: str | Sequence[str] | Iterable[Sentence],
        layers: Layers = "mix",
        pooling: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        batch_size: int | None = None,
        stateful: bool = False,
        dtype: str | torch.dtype = "float32",
        boundaries: bool = False,
        is_split_into_words: bool = False,
        as_tensors: bool = False,
        show_progress: bool | None = None,
    ) -> Any:
        """Computes the vectors of sentences.

        Args:
            sentences: one string, or any number of strings or lists of words; for a generator a generator is returned.
                With `is_split_into_words=True` one list of words is one sentence.
            layers: `"mix"`, `"average"`, `"top"`, a layer's number, or several of them: `"all"`, or a list of numbers.
            pooling: None for a vector of each word; `"mean"`, `"max"` or `"first_last"` for one of each sentence.
            batch_tokens: number of tokens in a batch; a longer sentence is a batch of its own.
            batch_size: number of sentences in a batch, in place of `batch_tokens`.
            stateful: carry the state of the LSTMs from batch to batch, as the original programs do: sentence k of a
                batch continues the state of sentence k of the batch before. Batches then consist of `batch_size`
                consecutive sentences (default 1). The state is zero at the beginning of every call.
            dtype: `"float32"`, `"float16"` or `"bfloat16"`.
            boundaries: vectors of `<S>` and `</S>` too, as first and last of each sentence.
            as_tensors: torch tensors in place of NumPy arrays (which have no bfloat16).
            show_progress: show a progress bar. Default: on a terminal, for more than 1,000 sentences.

        Returns:
            A list of arrays (words, size), one for each sentence; with several layers (layers, words, size). With
            `pooling` one array, (sentences, size) or (sentences, layers, size). For a single sentence, its array.
        """
        spec = OutputSpec.from_arguments(self.model.config, layers, pooling, boundaries, dtype)
        if spec.dtype == "bfloat16" and not as_tensors:
            raise ValueError(
                "Invalid `dtype`: 'bfloat16', which NumPy does not have. Expected as_tensors=True with it."
            )
        if is_split_into_words or not isinstance(sentences, str):
            check_is_list(sentences, "sentences", WORD_LISTS if is_split_into_words else SENTENCES)
        single = isinstance(sentences, str)
        if is_split_into_words and isinstance(sentences, (list, tuple)):
            single = not sentences or isinstance(sentences[0], str)
        whole = single or isinstance(sentences, (list, tuple))
        texts: Any = [sentences] if single else sentences
        total = len(texts) if whole else None
        stream = self._stream(texts, spec, batch_tokens, batch_size, stateful, _bar(show_progress, total))
        arrays = (spec.squeeze(vectors) if as_tensors else spec.squeeze(vectors).numpy() for vectors in stream)
        if not whole:
            return arrays
        results = list(arrays)
        if single:
            return results[0]
        if pooling is None:
            return results
        size = (spec.count, self.model.config.hidden_size)[0 if spec.several else 1 :]
        if as_tensors:
            return torch.stack(results) if results else torch.zeros(0, *size, dtype=spec.torch_dtype)
        return np.stack(results) if results else np.zeros((0, *size), dtype=spec.dtype)

    def _stream(
        self,
        sentences: Iterable[Sentence],
        spec: OutputSpec,
        batch_tokens: int,
        batch_size: int | None,
        stateful: bool,
        bar: Any,
    ) -> Iterator[torch.Tensor]:
        states, together = None, (batch_size or 1) if stateful else 1
        _check_budget(batch_tokens, batch_size)
        with bar:
            for chunk in chunks(sentences, together=together):
                words = self.words(chunk.sentences)
                if stateful:
                    vectors, states = self.read_in_order(words, spec, together, states)
                else:
                    vectors = self.read(words, spec, batch_tokens, batch_size)
                bar.update(len(words))
                yield from vectors

    # -- as AllenNLP's ElmoEmbedder

    def embed_sentence(self, sentence: Sequence[str]) -> np.ndarray:
        """All layers of one list of words, (layers, words, size), as AllenNLP's ElmoEmbedder gives them."""
        check_is_list(sentence, "sentence", "a list of words")
        return self.encode(list(sentence), layers="all", is_split_into_words=True)

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """All layers of each list of words, as AllenNLP's ElmoEmbedder gives them."""
        check_is_list(batch, "batch", WORD_LISTS)
        return list(self.encode(_lists(batch), layers="all", show_progress=False))

    def embed_sentences(self, sentences: Iterable[Sequence[str]], batch_size: int = 64) -> Iterator[np.ndarray]:
        """All layers of any number of lists of words, one array after the other."""
        check_is_list(sentences, "sentences", WORD_LISTS)
        return self.encode(
            (words for words in _lists(sentences)), layers="all", batch_size=batch_size, show_progress=False
        )

    # -- one chunk

    def words(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        """The words of each sentence: strings are split by the tokenizer, lists stay as they are."""
        check_is_list(sentences, "sentences")
        strings = [sentence for sentence in sentences if isinstance(sentence, str)]
        split = iter(self.tokenizer.split(strings))
        return [next(split) if isinstance(sentence, str) else list(sentence) for sentence in sentences]

    @torch.inference_mode()
    @constant_weights()
    def read(
        self,
        sentences: Sequence[Sequence[str]],
        spec: OutputSpec,
        batch_tokens: int = BATCH_TOKENS,
        batch_size: int | None = None,
    ) -> list[torch.Tensor]:
        """The vectors (layers, rows, size) of each list of words, with the state reset at its start."""
        results: list[Any] = [None] * len(sentences)
        table, lines = self._word_table(sentences)
        for numbers in batches_by_length([len(words) for words in sentences], batch_tokens, batch_size):
            batch = [sentences[number] for number in numbers]
            vectors, _ = self._read_batch(batch, spec, table, lines, None)
            for number, rows in zip(numbers, vectors, strict=True):
                results[number] = rows
        return results

    @torch.inference_mode()
    @constant_weights()
    def read_in_order(
        self, sentences: Sequence[Sequence[str]], spec: OutputSpec, batch_size: int, states: Any = None
    ) -> tuple[list[torch.Tensor], Any]:
        """The same in batches of consecutive sentences that carry the state; and the state after the last batch."""
        results = []
        table, lines = self._word_table(sentences)
        for start in range(0, len(sentences), batch_size):
            batch = sentences[start : start + batch_size]
            if states is None:
                states = self.model.bilm.initial_states(len(batch), table)
            vectors, states = self._read_batch(batch, spec, table, lines, resize_states(states, len(batch)))
            results += vectors
        return results, states

    def word_vectors(self, words: Sequence[str]) -> torch.Tensor:
        """The context-free vectors (words, P) of words, which the biLM reads: one half of layer 0."""
        check_is_list(words, "words", "a list of words")
        return self._vectors_of_rows(self.tokenizer.word_table(list(words))[3:])

    def _word_table(self, sentences: Sequence[Sequence[str]]) -> tuple[torch.Tensor, dict[str, int]]:
        """Vectors (lines, P) of all distinct words, and the line of each; line 0 stands for padding."""
        # Words come from the user: None, which no word equals, stands for padding.
        lines: dict[Any, int] = {word: line for line, word in enumerate((None, BOS, EOS))}
        for sentence in sentences:
            for word in sentence:
                lines.setdefault(word, len(lines))
        return self._vectors_of_rows(self.tokenizer.word_table(list(lines)[3:])), lines

    @torch.inference_mode()
    def _vectors_of_rows(self, rows: np.ndarray) -> torch.Tensor:
        pieces = [torch.from_numpy(rows[at : at + WORDS_AT_ONCE]) for at in range(0, max(len(rows), 1), WORDS_AT_ONCE)]
        encode, device = self.model.encode_tokens, self.model.device
        return torch.cat([encode(piece[None].to(device))[0][0] for piece in pieces])

    def _read_batch(
        self, batch: Sequence[Sequence[str]], spec: OutputSpec, table: torch.Tensor, lines: dict[str, int], states: Any
    ) -> tuple[list[torch.Tensor], Any]:
        begin, end = lines[BOS], lines[EOS]
        lengths = torch.tensor([len(words) for words in batch])
        rows = np.zeros((len(batch), int(lengths.max()) + 2), dtype=np.int64)
        for row, words in zip(rows, batch, strict=True):
            row[: len(words) + 2] = [begin, *map(lines.__getitem__, words), end]
        ids = torch.from_numpy(rows).to(table.device)  # (B, T)
        output = self.model(
            inputs_embeds=table[ids],
            attention_mask=(ids != 0).long(),
            past_states=states,
            output_hidden_states=spec.layers != "mix",
        )
        chosen = spec.select_layers(output.last_hidden_state, output.hidden_states)
        return spec.gather(chosen, lengths, self.model.config.num_directions), output.past_states


@overload
def embed(model: str | os.PathLike, sentences: str, *, layers: Layers = "mix") -> np.ndarray: ...


@overload
def embed(model: str | os.PathLike, sentences: list[Any], *, layers: Layers = "mix") -> list[np.ndarray]: ...


@overload
def embed(model: str | os.PathLike, sentences: Any, **kwargs: Any) -> Any: ...


def embed(model: str | os.PathLike, sentences: Any, **kwargs: Any) -> Any:
    """Computes vectors of sentences in one call. The model of the last call is cached.

    Args:
        model: a folder, a repository of the Hub, or a bundled model, e.g. `"english"`.
        sentences, kwargs: see `ElmoEmbedder.encode`.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer, embed
    >>> folder = tempfile.mkdtemp()
    >>> ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)).save_pretrained(folder)
    >>> _ = ElmoTokenizer().save_pretrained(folder)
    >>> embed(folder, "It's raining.", layers="top").shape
    (4, 16)

    ```
    """
    return _kept_embedder(os.fspath(model)).encode(sentences, **kwargs)


@lru_cache(maxsize=1)
def _kept_embedder(name: str) -> ElmoEmbedder:
    return ElmoEmbedder.from_pretrained(name)


def batches_by_length(lengths: Sequence[int], batch_tokens: int, batch_size: int | None) -> Iterator[list[int]]:
    """Batches of sentences of similar lengths, as their numbers; the longest first."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        # The first is the longest, and the others are padded to its length.
        if batch and (
            len(batch) == batch_size
            or (batch_size is None and (len(batch) + 1) * (lengths[batch[0]] + 2) > batch_tokens)
        ):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _check_budget(batch_tokens: int, batch_size: int | None):
    for name, value in (("batch_tokens", batch_tokens), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise ValueError(f"Invalid `{name}`: {value}. Expected a whole number of at least 1.")


def _lists(sentences: Iterable[Any]) -> list[list[str]] | Iterator[list[str]]:
    """The sentences, each checked to be a list of words."""

    def check(sentence: Any) -> list[str]:
        if isinstance(sentence, str):
            raise ValueError(f"Invalid sentence: the string {sentence!r:.60}. Expected a list of words.")
        return list(sentence)

    return (
        [check(sentence) for sentence in sentences] if isinstance(sentences, (list, tuple)) else map(check, sentences)
    )


def _bar(show: bool | None, total: int | None) -> Any:
    worth_it = total is None or total > 1000
    disable = (None if worth_it else True) if show is None else not show
    return tqdm(total=total, unit="sentence", disable=disable)
