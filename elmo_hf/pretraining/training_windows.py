"""Training windows: the sentences of a corpus, shuffled in each epoch and packed into rows of a fixed length.

The packing follows from the lengths of sentences alone, so that each process packs all rows and reads only the text
of its own rows.
"""

import math
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_hf.atomic_files import write_atomically, write_manifest
from elmo_hf.language_model.streams import Packer, Segment
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.tokenization_elmo import UNK, ElmoTokenizer
from elmo_hf.pretraining.corpus import BEGIN, MARKS, Corpus

SENTENCES_AT_ONCE = 4096
# Saved states of the packer: the data loader reads ahead of the step that a checkpoint is made at.
MAX_SAVED_STATES = 16


class SentenceStream:
    """The sentences of a corpus in epoch after epoch; the order of an epoch is computed, not held in memory."""

    def __init__(self, corpus: Corpus, seed: int, shuffle: bool = True):
        self.corpus, self.seed, self.shuffle = corpus, seed, shuffle
        self._block = (-1, -1)
        self._pulled: list = []

    def __call__(self, k: int) -> tuple[int, int]:
        """Returns the number and the predictions of the k-th sentence of the stream."""
        number, place = divmod(k, self.corpus.num_sentences)
        block = number, place // SENTENCES_AT_ONCE
        if block != self._block:
            self._block, self._pulled = block, self._pull(*block)
        return self._pulled[place % SENTENCES_AT_ONCE]

    def _pull(self, number: int, block: int) -> list[tuple[int, int]]:
        """Returns a block of sentences of an epoch with their numbers of predictions."""
        size, start = self.corpus.num_sentences, block * SENTENCES_AT_ONCE
        sentences = np.arange(start, min(start + SENTENCES_AT_ONCE, size))
        if self.shuffle:
            sentences = permuted(sentences, size, [self.seed, number])
        return list(zip(sentences.tolist(), self.corpus.pairs(sentences).tolist(), strict=True))


def permuted(places: np.ndarray, size: int, seed: list[int]) -> np.ndarray:
    """Returns the elements at `places` of a random permutation of 0 .. size - 1, without storing it.

    Four rounds of a Feistel network permute the numbers of an even number of bits; a result that is too large is
    permuted again until it is not.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.pretraining.training_windows import permuted
    >>> sorted(permuted(np.arange(5), 5, [0]).tolist())
    [0, 1, 2, 3, 4]

    ```
    """
    half = max(1, math.ceil(math.log2(max(size, 2)) / 2))
    mask = np.uint64(2**half - 1)
    keys = np.random.default_rng(seed).integers(0, 2**63, 4).astype(np.uint64)
    result, todo = places.astype(np.uint64), np.ones(len(places), bool)
    while todo.any():
        left, right = result[todo] >> np.uint64(half), result[todo] & mask
        for key in keys:
            mixed = (right + key) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
        result[todo] = (left << np.uint64(half)) | right
        todo = result >= size
    return result.astype(np.int64)


class TrainingWindows(torch.utils.data.Dataset):
    """A dataset for sequential sampling: item `window * streams + row` is one row of a window.

    An epoch is a pass over the corpus, rounded down to whole windows. Rows continue from epoch to epoch.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoTokenizer
    >>> from elmo_hf.pretraining import Corpus, TrainingWindows
    >>> tokenizer = ElmoTokenizer("whitespace", word_vocabulary=["<S>", "</S>", "<UNK>", "a", "b"])
    >>> corpus = Corpus.write(["a b a", "b"] * 10, tempfile.mkdtemp() + "/corpus", tokenizer)
    >>> windows = TrainingWindows(corpus, tokenizer, ElmoConfig(vocab_size=5), streams=2, unroll_steps=5)
    >>> {name: tuple(value.shape) for name, value in windows[0].items()}
    {'input_ids': (1, 5, 50), 'labels': (1, 5), 'backward_input_ids': (1, 5, 50), 'backward_labels': (1, 5)}

    ```
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: ElmoTokenizer,
        config: ElmoConfig,
        streams: int = 128,
        unroll_steps: int = 20,
        seed: int = 0,
        shuffle: bool = True,
    ):
        self.corpus, self.streams, self.unroll_steps = corpus, streams, unroll_steps
        self.bidirectional = config.bidirectional
        self.windows_per_epoch = corpus.num_pairs // (streams * unroll_steps)
        if not self.windows_per_epoch:
            raise ValueError(
                f"The corpus has {corpus.num_pairs:,} predictions, but one window of {streams} streams by "
                f"{unroll_steps} steps takes {streams * unroll_steps:,}. Expected a smaller --batch-size."
            )
        self.inputs, self.lines = _tables(corpus, tokenizer)
        self.epoch = 0
        self._packer = Packer(SentenceStream(corpus, seed, shuffle), streams, unroll_steps)
        self._states: deque[dict[str, Any]] = deque(maxlen=MAX_SAVED_STATES)
        self._packed: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self.windows_per_epoch * self.streams

    def set_epoch(self, epoch: int):
        """Sets the epoch that items count from; Trainer calls it."""
        self.epoch = epoch

    def state(self, window: int) -> dict[str, Any] | None:
        """Returns the state of the packer before a recent window, for `restore`; None for an older window."""
        return next((state for state in self._states if state["window"] == window), None)

    def restore(self, state: dict[str, Any] | None):
        """Restores the packer; without a state it starts from the first window, which only takes time."""
        if state is not None:
            self._packer.restore(state)

    def __getitem__(self, item: int) -> dict[str, torch.Tensor]:
        return self.__getitems__([item])

    def __getitems__(self, items: list[int]) -> dict[str, torch.Tensor]:
        """Rows of one window as a batch."""
        windows = {item // self.streams for item in items}
        if len(windows) != 1:
            raise ValueError(
                f"A batch has rows of {len(windows)} windows. Expected batches that divide {self.streams} "
                "streams evenly, sampled in order (train_sampling_strategy='sequential')."
            )
        window = self.window(self.epoch * self.windows_per_epoch + windows.pop())
        return self._batch([window[item % self.streams] for item in items])

    def window(self, number: int) -> list[list[Segment]]:
        """Returns the segments of each row of a window; windows are counted from the beginning of training."""
        if self._packed[0] == number:
            return self._packed[1]
        if number < self._packer.window:
            self._packer = Packer(self._packer.stream, self.streams, self.unroll_steps)
        packed: Any = None
        while self._packer.window <= number:
            self._states.append(self._packer.state())
            packed = self._packer.next()
        self._packed = (number, packed)
        return packed

    def begins_sentence(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Returns which rows of a batch begin with a sentence, in both directions alike; (rows,)."""
        first = batch["input_ids"][:, 0]
        begin = torch.from_numpy(np.array(self.inputs[BEGIN], np.int64)).to(first.device)
        return (first == begin).reshape(len(first), -1).all(1)

    def _batch(self, rows: list[list[Segment]]) -> dict[str, Any]:
        shape = (len(rows), self.unroll_steps)
        names = ["input_ids", "labels"]
        if self.bidirectional:
            names += ["backward_input_ids", "backward_labels"]
        words = {name: np.empty(shape, np.int64) for name in names}  # numbers of the corpus
        for row, segments in enumerate(rows):
            place = 0
            for sentence, start, number in segments:
                columns, text = slice(place, place + number), self.corpus.sentence(sentence)
                words["input_ids"][row, columns] = text[start : start + number]
                words["labels"][row, columns] = text[start + 1 : start + number + 1]
                if self.bidirectional:
                    text = text[::-1]
                    words["backward_input_ids"][row, columns] = text[start : start + number]
                    words["backward_labels"][row, columns] = text[start + 1 : start + number + 1]
                place += number
        return {name: self._model_ids(name, numbers) for name, numbers in words.items()} | (
            {} if self.bidirectional else {"labels_are_targets": True}
        )

    def _model_ids(self, name: str, words: np.ndarray) -> torch.Tensor:
        table = self.lines if name.endswith("labels") else self.inputs
        return torch.from_numpy(table[words].astype(np.int64))


def _tables(corpus: Corpus, tokenizer: ElmoTokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Returns the input ids, (words, C) or (words,), and the line of the vocabulary of each word of the corpus."""
    words = corpus.words[len(MARKS) :]
    # Read through a file: rows of characters are large where the corpus has many different words.
    path = corpus.folder / f"inputs-{tokenizer.max_characters_per_token}-{tokenizer.word_truncation}.npy"
    if tokenizer.word_input:
        inputs = tokenizer.word_table(words)
    else:
        if not path.exists():
            _write_rows(path, words, tokenizer)
        inputs = np.load(path, mmap_mode="r")
    unknown = tokenizer.word_lines[UNK]
    lines = [-100, *(tokenizer.word_lines.get(word, unknown) for word in corpus.words[1:])]
    return inputs, np.array(lines, np.int32)


def _write_rows(path: Path, words: list[str], tokenizer: ElmoTokenizer):
    shape = (len(MARKS) + len(words), tokenizer.max_characters_per_token)

    def write(temporary: Path):
        rows = np.lib.format.open_memmap(temporary, "w+", np.int16, shape)
        rows[: len(MARKS)] = tokenizer.word_table([])
        for start in range(0, len(words), SENTENCES_AT_ONCE):
            block = words[start : start + SENTENCES_AT_ONCE]
            rows[len(MARKS) + start :][: len(block)] = tokenizer.word_table(block)[len(MARKS) :]
        rows.flush()

    write_atomically(path, write)
    write_manifest(path.parent, [path.name])
