"""Parts as safetensors: the vectors of all words behind each other, and beside them where each sentence begins."""

import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from .shards import NOTES, REMEDY, BrokenShard, Shard, ShardFormat, notes_text, read_notes, starts_of


def write(path: Path, shard: Shard):
    # (rows, layers, size): a sentence is one run of bytes.
    """Writes a shard to a file."""
    starts = starts_of([vectors.shape[1] for vectors in shard.vectors])
    rows = torch.cat([vectors.transpose(0, 1) for vectors in shard.vectors]).contiguous()
    tensors = {
        "vectors": rows,
        "sentence_starts": torch.from_numpy(starts),
        "checksums": torch.tensor([_checksum(rows[a:b]) for a, b in zip(starts[:-1], starts[1:], strict=True)]),
        "word_counts": torch.tensor([len(words) for words in shard.words], dtype=torch.long),
        **_strings("words", [word for words in shard.words for word in words]),
    }
    if shard.texts is not None:
        tensors |= _strings("texts", shard.texts)
    # The order of several keys in a header is random: one makes files that are equal byte for byte.
    save_tensors(tensors, path, {NOTES: notes_text(shard.notes)})


def save_tensors(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str] | None = None):
    """As `save_file`, but into this very file: that writes another one beside it first, which stays after a kill."""
    path.write_bytes(save(tensors, metadata))


def _strings(name: str, strings: list[str]) -> dict[str, torch.Tensor]:
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    joined = bytearray(b"".join(encoded))
    letters = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.zeros(0, dtype=torch.uint8)
    return {name: letters, f"{name}_starts": torch.from_numpy(starts_of([len(string) for string in encoded]))}


def _checksum(rows: torch.Tensor) -> int:
    return zlib.crc32(rows.reshape(-1).view(torch.uint8).numpy().data)


class Reader:
    """An open shard; only what is asked for is read."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = safe_open(path, framework="pt")
            self.notes = read_notes((self._file.metadata() or {}).get(NOTES), path)
            self._starts = self._file.get_tensor("sentence_starts").numpy()  # of each sentence's rows
            self._word_starts: np.ndarray | None = None
        except (SafetensorError, OSError) as error:
            raise BrokenShard.because(f"{path} is damaged, or no safetensors file", error) from None

    def vectors(self, start: int, stop: int) -> list[np.ndarray]:
        """The vectors (layers, rows, size) of each sentence from `start` to `stop`."""
        starts, arrays = self._starts[start : stop + 1], []
        rows = self._file.get_slice("vectors")[int(starts[0]) : int(starts[-1])]  # (rows, layers, size)
        checksums = self._file.get_slice("checksums")[start:stop].tolist()
        for number, (a, b) in enumerate(zip(starts[:-1] - starts[0], starts[1:] - starts[0], strict=True)):
            if _checksum(rows[a:b]) != checksums[number]:
                raise BrokenShard(
                    f"{self.path} is damaged: the numbers of its sentence {start + number} have changed. {REMEDY}"
                )
            values = rows[a:b].float() if rows.dtype == torch.bfloat16 else rows[a:b]
            arrays.append(values.numpy().transpose(1, 0, 2))
        return arrays

    def words(self, start: int, stop: int) -> list[list[str]]:
        """The words of each sentence from `start` to `stop`."""
        if self._word_starts is None:
            self._word_starts = starts_of(self._file.get_tensor("word_counts").numpy())
        starts = self._word_starts[start : stop + 1]
        flat = self._strings("words", starts[0], starts[-1])
        return [flat[a - starts[0] : b - starts[0]] for a, b in zip(starts[:-1], starts[1:], strict=True)]

    def texts(self, start: int, stop: int) -> list[str]:
        """The text of each sentence from `start` to `stop`."""
        if "texts" not in self._file.keys():
            return [" ".join(words) for words in self.words(start, stop)]
        return self._strings("texts", start, stop)

    def _strings(self, name: str, start: int, stop: int) -> list[str]:
        starts = self._file.get_slice(f"{name}_starts")[int(start) : int(stop) + 1].numpy()
        letters = self._file.get_slice(name)[int(starts[0]) : int(starts[-1])].numpy().tobytes()
        return [
            letters[a - starts[0] : b - starts[0]].decode("utf-8", "surrogatepass")
            for a, b in zip(starts[:-1], starts[1:], strict=True)
        ]


SAFETENSORS = ShardFormat("safetensors", ".safetensors", ("float32", "float16", "bfloat16"), write, Reader)
