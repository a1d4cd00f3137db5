"""A corpus's word vectors on disk, and the search for the nearest: exact, memory-mapped, made in steps."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_hf.atomic_files import write_text_atomically
from elmo_hf.text.inputs import check_is_list

from .layer_reader import LayerReader, unit_vectors
from .similarity import chosen_layer

VERSION = 1
SENTENCES_A_STEP = 2048
# Vectors that are made float32 at one time: few enough to stay near the processor.
VECTORS_AT_ONCE = 4096
DESCRIPTION = "index.json"
# What grows with the corpus; the description says how much of each file counts.
VECTORS, PLACES, SENTENCES, STARTS = "vectors.f16", "places.i32", "sentences.jsonl", "starts.i64"
WORDS, WORD_VECTORS = "words.json", "word_vectors.f16"


@dataclass
class _State:
    """What of an index is done; saved after each step, by a rename."""

    version: int
    layer: int
    size: int
    vectors: int = 0
    sentences: int = 0
    characters: int = 0  # bytes of the file of sentences
    finished: bool = False


class NeighbourIndex:
    """The vectors of all words of a corpus at one layer, and of its frequent words without context (layer 0).

    Vectors have length 1 and are float16. They stay on disk, mapped into memory, which other processes share.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.analysis import LayerReader, NeighbourIndex
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> reader = LayerReader(ElmoModel(config).eval(), ElmoTokenizer())
    >>> index = NeighbourIndex.build(tempfile.mkdtemp(), reader, ["The bank lends .", "We sat there ."])
    >>> len(index), index.sentence(1), index.words
    (8, ['We', 'sat', 'there', '.'], ['.', 'The', 'We', 'bank', 'lends', 'sat', 'there'])
    >>> scores, numbers = index.nearest(index.vectors[3:4], k=2)
    >>> int(numbers[0, 0])
    3

    ```
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)
        state = _read_state(self.folder)
        if state is None or not state.finished:
            raise ValueError(f"{folder} holds no finished index. Expected the output of `elmo-hf analyse index`.")
        self.layer, self.num_sentences = state.layer, state.sentences
        self.vectors = _mapped(self.folder / VECTORS, np.float16, (state.vectors, state.size))
        self.places = _mapped(self.folder / PLACES, np.int32, (state.vectors, 2))  # sentence, position
        self._starts = _mapped(self.folder / STARTS, np.int64, (state.sentences,))
        self.words = json.loads((self.folder / WORDS).read_text(encoding="utf-8"))
        self.word_vectors = _mapped(self.folder / WORD_VECTORS, np.float16, (len(self.words), state.size))

    def __len__(self) -> int:
        return len(self.vectors)

    @classmethod
    def build(
        cls,
        folder: str | os.PathLike,
        reader: LayerReader,
        sentences: Iterable[str | Sequence[str]],
        layer: int = -1,
        limit: int | None = None,
        num_words: int = 50_000,
        progress: Callable[[int], Any] | None = None,
    ) -> "NeighbourIndex":
        """Builds an index, or resumes one that was interrupted, from the same corpus and model.

        Args:
            folder: a new folder, or that of the interrupted index.
            layer: the one whose vectors are stored, from 0, or from -1 for the top.
            limit: the number of vectors; the sentence that reaches it is the last.
            num_words: how many of the most frequent words are stored without context too.
            progress: called with the number of vectors after each step.
        """
        check_is_list(sentences, "sentences")
        folder, layer = Path(folder), chosen_layer(layer, reader.num_layers)
        state = _read_state(folder)
        if state is None:
            if folder.exists() and any(folder.iterdir()):
                raise ValueError(f"{folder} holds files, but no index. Expected a new folder.")
            folder.mkdir(parents=True, exist_ok=True)
            state = _State(VERSION, layer, reader.size)
            # Before any other file: a run that ends in its first step is resumed too.
            _write_state(folder, state)
        if (state.layer, state.size) != (layer, reader.size):
            raise ValueError(
                f"{folder} was begun with layer {state.layer} and vectors of {state.size} numbers, not with layer "
                f"{layer} and {reader.size}. Expected the same model and layer, or another folder."
            )
        if not state.finished:
            _write_vectors(folder, state, reader, sentences, limit, progress)
            _write_words(folder, reader, num_words)
            state.finished = True
            _write_state(folder, state)
        return cls(folder)

    def sentence(self, number: int) -> list[str]:
        """The words of a sentence."""
        with open(self.folder / SENTENCES, "rb") as file:
            file.seek(int(self._starts[number]))
            return json.loads(file.readline())

    def nearest(self, queries: np.ndarray, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and numbers (queries, k) of the vectors nearest to each query (queries, size), nearest first."""
        return nearest(self.vectors, queries, k)

    def nearest_words(self, query: np.ndarray, k: int = 10) -> list[tuple[str, float]]:
        """The words nearest to a vector of layer 0, and their cosines."""
        scores, numbers = nearest(self.word_vectors, query[None], k)
        return [(self.words[number], score) for number, score in zip(numbers[0], scores[0].tolist(), strict=True)]

    def check_model(self, reader: LayerReader):
        """Raises unless the reader's vectors are those of the index, by the first sentence that has words."""
        place = int(self.places[0, 1])
        vector = unit_vectors(next(reader.read([self.sentence(int(self.places[0, 0]))]))[self.layer, place])
        stored = self.vectors[0].astype(np.float32)
        if vector.shape != stored.shape or float(vector @ stored) < 0.999:
            raise ValueError(f"{self.folder} was made with another model. Expected the same model.")


def nearest(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and numbers (n, k) of those of `vectors` (N, size), of length 1, that are nearest to `queries`."""
    unit_queries = torch.from_numpy(unit_vectors(queries.astype(np.float32)))
    scores = torch.empty(len(unit_queries), len(vectors))
    for start in range(0, len(vectors), VECTORS_AT_ONCE):
        # Torch turns float16 into float32 several times faster than NumPy; the copy is of a part only.
        chunk = torch.from_numpy(np.array(vectors[start : start + VECTORS_AT_ONCE])).float()
        scores[:, start : start + len(chunk)] = unit_queries @ chunk.T
    best = scores.topk(min(k, len(vectors)))
    return best.values.numpy(), best.indices.numpy()


def _write_vectors(
    folder: Path,
    state: _State,
    reader: LayerReader,
    sentences: Iterable[str | Sequence[str]],
    limit: int | None,
    progress: Callable[[int], Any] | None,
):
    sizes = {
        VECTORS: state.vectors * state.size * 2,
        PLACES: state.vectors * 8,
        SENTENCES: state.characters,
        STARTS: state.sentences * 8,
    }
    files = {name: open(folder / name, "ab") for name in sizes}
    try:
        for name, size in sizes.items():
            if files[name].tell() < size:
                raise ValueError(
                    f"{folder / name} has {files[name].tell()} bytes, but should have {size}: it is broken."
                )
            files[name].truncate(size)  # what an interrupted step has left
        for batch in _steps(sentences, state.sentences):
            if limit is not None and state.vectors >= limit:
                break
            _write_step(files, state, reader, batch, limit)
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
            _write_state(folder, state)
            if progress is not None:
                progress(state.vectors)
    finally:
        for file in files.values():
            file.close()
    if not state.vectors:
        raise ValueError("The corpus has no words. Expected a text.")


def _steps(sentences: Iterable[Any], done: int) -> Iterator[list[Any]]:
    following = islice(sentences, done, None)
    while batch := list(islice(following, SENTENCES_A_STEP)):
        yield batch


def _write_step(files: dict[str, Any], state: _State, reader: LayerReader, batch: list[Any], limit: int | None):
    split = [reader.words(sentence) for sentence in batch]
    for words, layers in zip(split, reader.read(split), strict=True):
        if limit is not None and state.vectors >= limit:
            return
        line = json.dumps(words, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        places = np.empty((len(words), 2), np.int32)
        places[:, 0], places[:, 1] = state.sentences, np.arange(len(words))
        files[VECTORS].write(unit_vectors(layers[state.layer]).astype(np.float16).tobytes())
        files[PLACES].write(places.tobytes())
        files[SENTENCES].write(line)
        files[STARTS].write(np.int64(state.characters).tobytes())
        state.vectors += len(words)
        state.sentences += 1
        state.characters += len(line)


def _write_words(folder: Path, reader: LayerReader, num_words: int):
    with open(folder / SENTENCES, "rb") as file:
        counts = Counter(word for line in file for word in json.loads(line))
    # Of equally frequent words the first by letters: the same words whatever the order of a set.
    chosen = sorted(sorted(counts), key=lambda word: -counts[word])[:num_words]
    with open(folder / WORD_VECTORS, "wb") as file:
        for layers in reader.read([word] for word in chosen):
            file.write(unit_vectors(layers[0, 0]).astype(np.float16).tobytes())
    (folder / WORDS).write_text(json.dumps(chosen, ensure_ascii=False), encoding="utf-8")


def _mapped(path: Path, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    expected = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if path.stat().st_size != expected:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, but should have {expected}: the index is broken.")
    return np.memmap(path, dtype, "r", shape=shape) if expected else np.zeros(shape, dtype)


def _read_state(folder: Path) -> _State | None:
    path = folder / DESCRIPTION
    if not path.exists():
        return None
    try:
        state = _State(**json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError):
        raise ValueError(f"{path} is not the description of an index.") from None
    if state.version != VERSION:
        raise ValueError(f"{path} is of version {state.version}. Expected version {VERSION}.")
    return state


def _write_state(folder: Path, state: _State):
    write_text_atomically(folder / DESCRIPTION, json.dumps(asdict(state)))
