"""The shard writer. A shard depends on its own sentences and the settings only: its bytes are always the same."""

import hashlib
import json
import os
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from elmo_hf.atomic_files import write_atomically
from elmo_hf.model.splitting_elmo import replace_surrogates
from elmo_hf.vector_settings import vector_settings

from .embedder import ElmoEmbedder
from .output_spec import OutputSpec
from .safetensors_shards import save_tensors
from .sentence_chunks import Chunk
from .shard_protocol import WrittenShard
from .shard_records import write_recorded
from .shards import Shard, shard_name
from .store import FORMATS, store_name

# Each process has its own model: more processes are started only if asked for.
MAX_PROCESSES = 4


@dataclass(frozen=True)
class WriterSpec:
    """What another process needs to write shards: where the model is, and the settings of the store."""

    model: str
    device: str | None
    arguments: dict[str, Any]
    folder: str
    settings: dict[str, Any]

    def load(self) -> "ShardWriter":
        """Loads a shard writer with its own model."""
        return ShardWriter(load_embedder(self.model, self.settings["splitting"], self.device, self.arguments), self)


def load_embedder(model: str, splitting: str | None, device: str | None, arguments: dict[str, Any]) -> ElmoEmbedder:
    """An embedder without a cache of word vectors: a shard must not depend on the one before."""
    return ElmoEmbedder.from_pretrained(model, splitting, device, remember=0, **arguments)


class ShardWriter:
    """Writes the vectors of chunks of sentences as shards."""

    def __init__(self, embedder: ElmoEmbedder, spec: WriterSpec):
        self.embedder, self.settings, self.folder = embedder, spec.settings, Path(spec.folder)
        self.device = embedder.model.device
        self.format = FORMATS[self.settings["format"]]
        layers = self.settings["layers"]
        self.spec = OutputSpec(
            layers if isinstance(layers, str) else tuple(layers),
            *(self.settings[name] for name in ("several", "pooling", "boundaries", "dtype")),
        )

    def write(self, chunk: Chunk) -> WrittenShard:
        """Embeds the sentences of a chunk and writes its shard."""
        settings = self.settings
        words = self.embedder.words(chunk.sentences)
        with use_threads(settings["threads"]):
            if settings["stateful"]:
                vectors = self._go_on(words, chunk.number)
            else:
                vectors = self.embedder.read(words, self.spec, settings["batch_tokens"], settings["batch_size"])
        stored_words, texts = stored_strings(chunk, words)
        count = sum(map(len, words))
        notes = {
            "part": chunk.number,
            "first": chunk.first,
            "sentences": len(words),
            "words": count,
            "digest": chunk.digest(),
            "store": store_name(settings),
            "layers": self.spec.count,
            "several": self.spec.several,
            "pooled": self.spec.pooling is not None,
            "size": settings["size"],
            "checksum": content_checksum(stored_words, texts, (x.float().numpy() for x in vectors)),
        }
        shard = Shard(notes, stored_words, texts, vectors)
        path = self._path(chunk)
        write_recorded(path, notes["digest"], lambda temporary: self.format.write(temporary, shard))
        if settings["stateful"] and chunk.number:
            self._state_file(chunk.number - 1).unlink(missing_ok=True)
        return WrittenShard(chunk.number, len(words), count)

    def is_intact(self, chunk: Chunk) -> bool:
        """Whether the shard of a chunk can be read completely and has the words and texts of the chunk.

        A shard of other sentences is intact: it must not be overwritten.
        """
        count = len(chunk.sentences)
        try:
            reader = self.format.read(self._path(chunk))
            if reader.notes["digest"] != chunk.digest():
                return True
            words, texts = stored_strings(chunk, self.embedder.words(chunk.sentences))
            checksum = content_checksum(words, texts, (x.astype(np.float32) for x in reader.vectors(0, count)))
            texts = texts if texts is not None else [" ".join(sentence) for sentence in words]
            # Shards of former versions have checksums of pages or sentences only, which their readers check.
            is_right = reader.notes.get("checksum", checksum) == checksum
            return is_right and reader.words(0, count) == words and reader.texts(0, count) == texts
        except Exception:  # a flipped bit can lead to any error
            return False

    def _path(self, chunk: Chunk) -> Path:
        return self.folder / shard_name(chunk.number, self.format.ending)

    # -- the state of --stateful, saved before the shard that it is the end of

    def _state_file(self, number: int) -> Path:
        return self.folder / f".state-{number:06d}.safetensors"

    def _go_on(self, words: list[list[str]], number: int) -> list[torch.Tensor]:
        states = self._load_states(number - 1) if number else None
        vectors, states = self.embedder.read_in_order(words, self.spec, self.settings["batch_size"], states)
        flat = {f"{kind}.{layer}": x for layer, pair in enumerate(states) for kind, x in zip("hc", pair, strict=True)}
        flat = {name: x.cpu().contiguous() for name, x in flat.items()}
        write_atomically(self._state_file(number), lambda path: save_tensors(flat, path))
        return vectors

    def _load_states(self, number: int) -> Any:
        path = self._state_file(number)
        if not path.exists():
            raise ValueError(
                f"{path} is missing: the state after shard {number}, which the next shard needs. A store with "
                "stateful=True is computed from its beginning: remove it and repeat the command."
            )
        layers = range(self.embedder.model.config.num_hidden_layers)
        try:
            with safe_open(path, framework="pt", device=str(self.embedder.model.device)) as file:
                return tuple((file.get_tensor(f"h.{layer}"), file.get_tensor(f"c.{layer}")) for layer in layers)
        except SafetensorError as error:
            raise ValueError(
                f"{path} is damaged ({error}): the state after part {number}, needed to go on."
            ) from error


def remove_states(folder: Path):
    """Removes the states, which a finished store does not need."""
    for path in folder.glob(".state-*.safetensors*"):
        path.unlink(missing_ok=True)


def stored_strings(chunk: Chunk, words: list[list[str]]) -> tuple[list[list[str]], list[str] | None]:
    """The words and texts of a chunk as shards store them: a lone surrogate, which is not Unicode, is U+FFFD.

    Texts are None if all sentences of the chunk are lists of words.
    """
    texts = None
    if any(isinstance(sentence, str) for sentence in chunk.sentences):
        texts = [sentence if isinstance(sentence, str) else " ".join(sentence) for sentence in chunk.sentences]
    try:
        "".join(text if isinstance(text, str) else "".join(text) for text in chunk.sentences).encode()
    except UnicodeEncodeError:
        words = [[replace_surrogates(word) for word in sentence] for sentence in words]
        texts = None if texts is None else [replace_surrogates(text) for text in texts]
    return words, texts


def content_checksum(words: list[list[str]], texts: list[str] | None, vectors: Iterable[np.ndarray]) -> int:
    """A checksum of all that a shard holds; `vectors` are the arrays (layers, rows, size) of its sentences."""
    checksum = zlib.crc32(json.dumps([words, texts]).encode())
    for array in vectors:
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return checksum


class use_threads:
    """Has torch use a number of threads for a while: sums may depend on it in their last bits."""

    def __init__(self, number: int):
        self.number = number

    def __enter__(self):
        self.before = torch.get_num_threads()
        if self.before != self.number:
            torch.set_num_threads(self.number)

    def __exit__(self, *_: Any):
        if self.before != self.number:
            torch.set_num_threads(self.before)


def fingerprint(model: Any, tokenizer: Any) -> str:
    """A digest of everything that vectors depend on: weights, configuration and tokenizer."""
    settings = vector_settings(model.config)
    del settings["dictionary"]  # the tokenizer's says more
    vocabulary = tokenizer.word_vocabulary if model.config.word_input else None
    facts = [settings, tokenizer.word_truncation, vocabulary]
    if tokenizer.dictionary is not None:  # only then: stores that were begun without one go on
        facts.append(tokenizer.dictionary.to_dict())
    whole = hashlib.blake2b(digest_size=16)
    whole.update(json.dumps(facts, sort_keys=True).encode())
    tensors = sorted(model.state_dict().items())
    # A hundred million numbers are a second of work for one thread, before the first shard is begun.
    with ThreadPoolExecutor(min(MAX_PROCESSES, num_processors())) as pool:
        digests = pool.map(_digest, (tensor for _, tensor in tensors))
        for (name, tensor), digest in zip(tensors, digests, strict=True):
            whole.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode() + digest)
    return whole.hexdigest()


def _digest(tensor: torch.Tensor) -> bytes:
    return hashlib.blake2b(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data).digest()


def num_processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
