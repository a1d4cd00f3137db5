"""Compares a model with vectors that the original programs dumped."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo import ElmoModel, word_mask
from elmo_hf.model.tokenization_elmo import ElmoTokenizer
from elmo_hf.tensors import resize_states

from .hdf5 import MAX_SENTENCES, Hdf5Weights, open_weights
from .options import parse_json

INDEX = "sentence_to_index"


@dataclass(frozen=True)
class Verification:
    """The largest differences between a model and dumped vectors, by layer.

    Example:

    ```python
    >>> from elmo_hf.conversion import Verification
    >>> found = Verification({"layer 0": 1e-7, "layer 1": 3e-7}, sentences=2, words=9)
    >>> found.largest
    3e-07
    >>> print(found)
    largest difference over 2 sentences, 9 words:
    layer 0  1.00e-07
    layer 1  3.00e-07

    ```
    """

    differences: dict[str, float]
    sentences: int
    words: int

    @property
    def largest(self) -> float:
        """The largest difference of all layers."""
        return max(self.differences.values())

    def __str__(self) -> str:
        lines = [f"{name:>18}  {difference:.2e}" for name, difference in self.differences.items()]
        return "\n".join([f"largest difference over {self.sentences:,} sentences, {self.words:,} words:", *lines])


def verify(
    model: str | os.PathLike | ElmoModel,
    expected: str | os.PathLike,
    sentences: str | os.PathLike | Sequence[Sequence[str]],
    batch_size: int = 1,
    stateless: bool = False,
    tokenizer: ElmoTokenizer | None = None,
) -> Verification:
    """Compares a model with the vectors that bilm-tf or AllenNLP dumped for the same sentences.

    Args:
        model: a folder, a repository on the Hub, or a model (then `tokenizer` is needed too).
        expected: the dumped HDF5. It holds for each sentence, by its number or its text, all layers (L + 1, words,
            2P), the top layer by direction (2, words, P), or one layer (words, 2P).
        sentences: a text file with a sentence on each line, words between spaces, empty lines as empty sentences; or
            lists of words.
        batch_size: the number of sentences that the original ran at once. It carried its state from batch to batch.
        stateless: whether the original was run without carried state.
        tokenizer: the tokenizer of a model in memory.

    Example:

    ```python
    >>> import h5py, tempfile, torch
    >>> from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
    >>> from elmo_hf.conversion import verify
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)).eval()
    >>> tokenizer, dumped = ElmoTokenizer(), tempfile.mkdtemp() + "/dumped.hdf5"
    >>> batch = tokenizer([["It", "rains"]], is_split_into_words=True, return_tensors="pt")
    >>> with h5py.File(dumped, "w") as file, torch.inference_mode():
    ...     file["0"] = torch.cat(model(**batch, output_hidden_states=True).hidden_states)[:, 1:-1].numpy()
    >>> verify(model, dumped, [["It", "rains"]], tokenizer=tokenizer).largest < 1e-6
    True

    ```
    """
    if isinstance(model, (str, os.PathLike)):
        tokenizer = ElmoTokenizer.from_pretrained(model)
        model = ElmoModel.from_pretrained(model)
    if tokenizer is None:
        raise ValueError("A model in memory needs a tokenizer: verify(model, ..., tokenizer=...).")
    if isinstance(sentences, (str, os.PathLike)):
        sentences = [line.split() for line in Path(sentences).read_text(encoding="utf-8").splitlines()]
    if batch_size < 1:
        raise ValueError(f"Invalid `batch_size`: {batch_size}. Expected an integer of at least 1.")
    with open_weights(expected, max_names=MAX_SENTENCES) as weights:
        dump = _Dump(weights, sentences, model.config)
        differences = _differences(dump, model.eval(), tokenizer, sentences, batch_size, stateless)
    if not differences:
        raise ValueError("There is no sentence to compare.")
    return Verification(differences, len(sentences), sum(map(len, sentences)))


def _differences(
    dump: "_Dump",
    model: ElmoModel,
    tokenizer: ElmoTokenizer,
    sentences: Sequence[Sequence[str]],
    batch_size: int,
    stateless: bool,
) -> dict[str, float]:
    """The largest difference in each layer over all sentences."""
    differences: dict[str, float] = {}
    states = None
    starts = range(0, len(sentences), batch_size)
    for start in tqdm(starts, desc="verifying", unit="batch", disable=None):
        batch = [list(words) for words in sentences[start : start + batch_size]]
        inputs = tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt")
        past_states = None if stateless or states is None else resize_states(states, len(batch))
        with torch.inference_mode():
            output = model(**inputs, past_states=past_states, output_hidden_states=True, use_cache=True)
        states = output.past_states
        layers = torch.stack(output.hidden_states, 1).float().numpy()  # (B, L + 1, T, hidden)
        is_word = word_mask(model.config, inputs["attention_mask"].bool(), inputs["input_ids"]).numpy()  # (B, T)
        for row in range(len(batch)):
            for name, difference in dump.compare(start + row, layers[row][:, is_word[row]]).items():
                differences[name] = max(differences.get(name, 0.0), difference)
    return differences


class _Dump:
    """Dumped vectors, however a program names its sentences and arranges its layers."""

    def __init__(self, weights: Hdf5Weights, sentences: Sequence[Sequence[str]], config: ElmoConfig):
        self._weights, self._sentences, self._config = weights, sentences, config
        # AllenNLP maps the text of a sentence to its name; equal sentences share one.
        self._names: dict[str, str] = {}
        if INDEX in weights.names():
            expected = "the names of the sentences"
            index = parse_json(weights.read_text(INDEX), f"{weights.where}: {INDEX}", expected)
            if not isinstance(index, dict):
                raise ValueError(f"{weights.where}: {INDEX} is a {type(index).__name__}. Expected {expected}.")
            self._names = {text: str(name) for text, name in index.items()}

    def compare(self, number: int, layers: np.ndarray) -> dict[str, float]:
        """The largest difference in each layer of a sentence; layers (L + 1, words, hidden)."""
        expected = self._read(number)
        words, hidden = layers.shape[1:]
        by_direction = (self._config.num_directions, words, self._config.projection_size)
        if expected.shape == layers.shape:
            pairs = {f"layer {k}": (layers[k], expected[k]) for k in range(len(layers))}
        elif expected.shape == by_direction:
            names = ("top forward", "top backward")[: self._config.num_directions]
            halves = np.split(layers[-1], self._config.num_directions, -1)
            pairs = dict(zip(names, zip(halves, expected, strict=True), strict=True))
        elif expected.shape == (words, hidden):
            mixes = {"average": layers.mean(0), "top": layers[-1]}
            nearest = min(mixes, key=lambda name: np.abs(mixes[name] - expected).sum())
            pairs = {nearest: (mixes[nearest], expected)}
        else:
            raise ValueError(
                f"{self._weights.where}: sentence {number} ({words} words) has the shape {expected.shape}. Expected "
                f"{layers.shape} (all layers), {by_direction} (top layer by direction) or {(words, hidden)} (one "
                "layer)."
            )
        return {name: float(np.abs(ours - theirs).max(initial=0.0)) for name, (ours, theirs) in pairs.items()}

    def _read(self, number: int) -> np.ndarray:
        text = " ".join(self._sentences[number])
        escaped = text.replace(".", "$period$").replace("/", "$backslash$")
        for name in (self._names.get(text), str(number), text, escaped):
            if name in self._weights.datasets:
                if self._weights.dtype(name).kind != "f":
                    raise ValueError(f"{self._weights.where}: {name} has the type {self._weights.dtype(name)}.")
                return self._weights.read(name)
        num_sentences = len(self._weights.datasets.keys() - {INDEX})
        raise ValueError(
            f"{self._weights.where} has no vectors of sentence {number} ({text[:60]!r}); it holds {num_sentences:,} "
            "sentences, named by their number or their text."
        )
