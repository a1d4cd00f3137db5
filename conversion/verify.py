"""Compares a model with vectors that the original programs dumped."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch
from tqdm import tqdm

from elmo_hf.model.modeling_elmo import ElmoModel, word_mask
from elmo_hf.model.tokenization_elmo import ElmoTokenizer
from elmo_hf.tensors import resize_states

from .hdf5 import MAX_SENTENCES, open_weights


@dataclass(frozen=True)
class Verification:
    """The outcome: what was compared, over how many sentences and words, and how far it was off at most.

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
        model: a folder, a repository of the Hub, or a model (then `tokenizer` is needed too).
        expected: the dumped HDF5: for each sentence, under its number or its text, all layers (L + 1, words, 2P), or
            the top layer by direction (2, words, P), or one layer (words, 2P).
        sentences: a text file, a sentence a line, words between spaces, empty lines as empty sentences; or the lists
            of words.
        batch_size: sentences that the original ran at once. It carried its state from batch to batch.
        stateless: the dump was made without carried state.

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
        raise ValueError("A model in memory comes with a tokenizer: verify(model, ..., tokenizer=...).")
    if isinstance(sentences, (str, os.PathLike)):
        sentences = [line.split() for line in Path(sentences).read_text(encoding="utf-8").splitlines()]
    if batch_size < 1:
        raise ValueError(f"Invalid `batch_size`: {batch_size}. Expected an integer of at least 1.")
    dump = _Dump(expected, sentences, model)
    differences: dict[str, float] = {}
    states, model = None, model.eval()
    starts = range(0, len(sentences), batch_size)
    for start in tqdm(starts, desc="verifying", unit="batch", disable=None):
        batch = [list(words) for words in sentences[start : start + batch_size]]
        inputs = tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt")
        before = None if stateless or states is None else resize_states(states, len(batch))
        with torch.inference_mode():
            output = model(**inputs, past_states=before, output_hidden_states=True, use_cache=True)
        states = output.past_states
        layers = torch.stack(output.hidden_states, 1).float().numpy()  # (B, L + 1, T, hidden)
        inner = word_mask(model.config, inputs["attention_mask"].bool(), inputs["input_ids"]).numpy()
        for row in range(len(batch)):
            for name, difference in dump.compare(start + row, layers[row][:, inner[row]]).items():
                differences[name] = max(differences.get(name, 0.0), difference)
    if not differences:
        raise ValueError("There is no sentence to compare.")
    return Verification(differences, len(sentences), sum(map(len, sentences)))


class _Dump:
    """Dumped vectors, whichever way a program names its sentences and lays out its layers."""

    def __init__(self, path: str | os.PathLike, sentences: Sequence[Sequence[str]], model: ElmoModel):
        self.path, self.sentences, self.config = os.fspath(path), sentences, model.config
        with open_weights(path, max_names=MAX_SENTENCES) as file:
            self.vectors = {name: file.read(name) for name in file.names() if name != "sentence_to_index"}
        # AllenNLP lists which sentence has which number; equal sentences share one.
        self.numbers: dict[str, str] = {}
        with h5py.File(path, "r") as file:
            if "sentence_to_index" in file:
                listed = file["sentence_to_index"][()].ravel()[0]
                self.numbers = json.loads(listed if isinstance(listed, str) else listed.decode("utf-8"))

    def compare(self, number: int, layers: np.ndarray) -> dict[str, float]:
        """Largest difference of each layer of sentence `number`; layers (L + 1, words, hidden)."""
        wanted = self._of(number)
        words, hidden = layers.shape[1:]
        size = self.config.projection_size
        if wanted.shape == layers.shape:
            pairs = {f"layer {k}": (layers[k], wanted[k]) for k in range(len(layers))}
        elif wanted.shape == (self.config.num_directions, words, size):
            halves = zip(
                ("top forward", "top backward"), np.split(layers[-1], self.config.num_directions, -1), strict=False
            )
            pairs = {name: (half, wanted[d]) for d, (name, half) in enumerate(halves)}
        elif wanted.shape == (words, hidden):
            mixes = {"average": layers.mean(0), "top": layers[-1]}
            nearest = min(mixes, key=lambda name: np.abs(mixes[name] - wanted).sum())
            pairs = {nearest: (mixes[nearest], wanted)}
        else:
            raise ValueError(
                f"{self.path}: sentence {number} ({words} words) has the shape {wanted.shape}. Expected "
                f"{layers.shape} (all layers), {(self.config.num_directions, words, size)} (top layer by direction) "
                f"and {(words, hidden)} (one layer)."
            )
        return {name: float(np.abs(ours - theirs).max(initial=0.0)) for name, (ours, theirs) in pairs.items()}

    def _of(self, number: int) -> np.ndarray:
        text = " ".join(self.sentences[number])
        escaped = text.replace(".", "$period$").replace("/", "$backslash$")
        names = [self.numbers.get(text), str(number), text, escaped]
        for name in names:
            if name in self.vectors:
                return self.vectors[name]
        raise ValueError(
            f"{self.path} has no vectors of sentence {number} ({text[:60]!r}); it holds {len(self.vectors):,} "
            "sentences, named by their number or their text."
        )
