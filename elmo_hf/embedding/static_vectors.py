"""Vectors of words by themselves: word2vec's text, context-free or averaged over a corpus, and the originals' file of
cached token vectors, out and in.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from elmo_hf.atomic_files import write_atomically
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo import ElmoModel
from elmo_hf.model.tokenization_elmo import BOS, EOS, UNK, ElmoTokenizer, read_word_vocabulary
from elmo_hf.text.inputs import Sentence, check_is_list

from .embedder import ElmoEmbedder

# The originals' name of the table of token vectors.
TABLE = "embedding"


def average_vectors(
    embedder: ElmoEmbedder, sentences: Iterable[Sentence], words: Sequence[str] | None = None, **settings: Any
) -> tuple[list[str], np.ndarray]:
    """The mean vector of each word over all its contexts in a corpus.

    Args:
        sentences: as ElmoEmbedder.encode takes them; read once, in memory that grows with the words alone.
        words: which words; not given, all that occur, the most frequent first. Those that do not occur get their
            vector as a sentence of one word.
        settings: `layers` (one of them, or a mix) and what else `encode` takes.

    Returns:
        The words, and their vectors (words, hidden_size).

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.embedding import average_vectors
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16))
    >>> words, vectors = average_vectors(ElmoEmbedder(model, ElmoTokenizer()), ["a b a", "a"], layers="top")
    >>> words, vectors.shape
    (['a', 'b'], (2, 16))

    ```
    """
    check_is_list(sentences, "sentences")
    check_is_list(words or [], "words", "a list of words")
    lines = {word: line for line, word in enumerate(words or [])}
    num_requested, size = len(lines), embedder.model.config.hidden_size
    sums, counts = np.zeros((max(num_requested, 1024), size)), np.zeros(max(num_requested, 1024), dtype=np.int64)
    sentences_ahead: list[list[str]] = []

    def split() -> Iterable[list[str]]:
        for sentence in sentences:
            sentences_ahead.append(embedder.words([sentence])[0])
            yield sentences_ahead[-1]

    for vectors in embedder.encode(split(), **settings):
        if vectors.ndim != 2:
            raise ValueError(
                "An average is of one vector a word: `layers` is one of them or a mix, without `pooling`."
            )
        for word, vector in zip(sentences_ahead.pop(0), vectors, strict=True):
            line = lines.get(word) if num_requested else lines.setdefault(word, len(lines))
            if line is None:
                continue
            if line == len(counts):
                sums, counts = np.concatenate([sums, np.zeros_like(sums)]), np.concatenate([counts, 0 * counts])
            sums[line] += vector
            counts[line] += 1
    means = sums[: len(lines)] / np.maximum(counts[: len(lines), None], 1)
    names = list(lines)
    missing = np.flatnonzero(counts[: len(lines)] == 0)
    if len(missing):
        alone = embedder.encode([[names[line]] for line in missing], **settings)
        means[missing] = np.concatenate(alone)
    order = np.arange(len(names)) if num_requested else np.argsort(-counts[: len(names)], kind="stable")
    return [names[line] for line in order], means[order].astype(np.float32)


def write_word2vec(path: str | os.PathLike, words: Sequence[str], vectors: np.ndarray | torch.Tensor):
    """Writes words and their vectors (words, size) as word2vec's text, which gensim and many others read.

    A line is a word, a space, and numbers between spaces: a word with white space in it cannot be written.

    Example:

    ```python
    >>> import numpy as np, pathlib, tempfile
    >>> from elmo_hf.embedding import write_word2vec
    >>> path = pathlib.Path(tempfile.mkdtemp(), "words.txt")
    >>> write_word2vec(path, ["a", "b"], np.array([[1.0, 0.5], [2.0, -1.0]]))
    >>> print(path.read_text())
    2 2
    a 1 0.5
    b 2 -1
    <BLANKLINE>

    ```
    """
    check_is_list(words, "words", "a list of words")
    vectors = vectors.float().cpu().numpy() if isinstance(vectors, torch.Tensor) else np.asarray(vectors)
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise ValueError(
            f"{len(words)} words do not fit vectors of the shape {vectors.shape}. Expected one vector for each word."
        )
    wrong = [word for word in words if not word or word.split() != [word]]
    if wrong:
        raise ValueError(
            f"The word {wrong[0]!r} has white space or nothing in it, which a line of word2vec cannot hold."
        )
    if len(set(words)) != len(words):
        raise ValueError("A word is there more than once; word2vec's text has one line for each.")

    def write(place: Path):
        with open(place, "w", encoding="utf-8") as file:
            file.write(f"{len(words)} {vectors.shape[1]}\n")
            for word, vector in zip(words, vectors, strict=True):
                # Nine digits give back the same float32.
                file.write(f"{word} {' '.join(f'{value:.9g}' for value in vector.tolist())}\n")

    write_atomically(path, write)


def write_token_vectors(path: str | os.PathLike, embedder: ElmoEmbedder, words: Sequence[str] | str | os.PathLike):
    """Writes the context-free vectors of a vocabulary as bilm-tf's dump_token_embeddings does: HDF5, one dataset
    `embedding` (words, projection_size), line k for word k. bilm-tf and AllenNLP use it in place of the characters.

    Args:
        words: a list, or a file with one a line. `<S>`, `</S>` and `<UNK>` belong to it.
    """
    words = _vocabulary(words)
    vectors = embedder.word_vectors(words).float().cpu().numpy()
    # `word_vectors` gives a word; the boundaries are no words, and have rows of their own.
    table = embedder.model.encode_tokens(_boundary_rows(embedder))[0][0].detach().float().cpu().numpy()
    for mark, vector in zip((BOS, EOS), table, strict=True):
        vectors[words.index(mark)] = vector

    def write(place: Path):
        with h5py.File(place, "w") as file:
            file[TABLE] = vectors

    write_atomically(path, write)


def model_of_token_vectors(
    embedder: ElmoEmbedder, path: str | os.PathLike, words: Sequence[str] | str | os.PathLike
) -> ElmoEmbedder:
    """The same biLM, which reads words of a fixed vocabulary by a file of cached token vectors, and no characters.

    Words that the vocabulary does not have become `<UNK>`; all others get the same vectors as before.

    Args:
        path: HDF5 with the dataset `embedding`, as `write_token_vectors` and bilm-tf write it.
        words: the vocabulary that it was made of, a list or a file.
    """
    words = _vocabulary(words)
    try:
        with h5py.File(path, "r") as file:
            if TABLE not in file:
                raise ValueError(f"{path} has no dataset {TABLE!r}; it holds {', '.join(file) or 'nothing'}.")
            vectors = file[TABLE][()]
    except OSError as error:
        raise ValueError(f"{path} is damaged, or no HDF5 file: {error}.") from None
    size = embedder.model.config.projection_size
    if vectors.shape != (len(words), size):
        raise ValueError(
            f"{path} holds vectors of the shape {vectors.shape}. Expected {(len(words), size)}: one for each word "
            "of the vocabulary, of the model's projection size."
        )
    settings = embedder.model.config.to_dict() | {"word_input": True, "vocab_size": len(words)}
    model = ElmoModel(ElmoConfig(**{name: value for name, value in settings.items() if name not in ("model_type",)}))
    state = {name: x for name, x in embedder.model.state_dict().items() if not name.startswith("token_encoder.")}
    table = torch.cat([torch.zeros(1, size), torch.from_numpy(vectors).float()])
    model.load_state_dict(state | {"token_encoder.embedding.weight": table})
    tokenizer = ElmoTokenizer(embedder.tokenizer.splitting, word_vocabulary=words, word_input=True)
    return ElmoEmbedder(model.to(embedder.model.device), tokenizer)


def _vocabulary(words: Sequence[str] | str | os.PathLike) -> list[str]:
    vocabulary = read_word_vocabulary(words) if isinstance(words, (str, os.PathLike)) else list(words)
    missing = [mark for mark in (BOS, EOS, UNK) if mark not in vocabulary]
    if missing:
        raise ValueError(f"The vocabulary has no {' and no '.join(missing)}, which belong to those of the originals.")
    return vocabulary


def _boundary_rows(embedder: ElmoEmbedder) -> torch.Tensor:
    rows = torch.from_numpy(embedder.tokenizer.word_table([])[1:3])
    return rows[None].to(embedder.model.device)
