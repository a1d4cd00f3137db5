"""Damaged files of text, compressed or not: readers return lines, or an error names the file."""

import bz2
import gzip
import lzma
import random
from pathlib import Path

from elmo_hf import read_conll, read_conllu, read_lines, read_word_vocabulary
from fuzz.damage import damaged
from fuzz.tokenizer import text

try:
    from compression import zstd  # Python 3.14
except ImportError:
    from backports import zstd

PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstd.compress}
CONLLU = "# text\n1-2 al _ _ _ _ _ _ _ _\n1 a a ADP _ _ 0 root _ _\n2 el el DET _ _ 1 det _ _\n\n".replace(" ", "\t")


def trial(rng: random.Random, folder: Path) -> str:
    """Reads a damaged file."""
    content = rng.choice(
        [
            "".join(f"{text(rng, 9)} {rng.choice(['O', 'B-X', ''])}\n" * rng.choice([1, 0]) + "\n" for _ in range(9)),
            CONLLU * rng.choice([1, 3]),
            text(rng, 300),
            "".join(f"{word}\n" for word in ["<S>", "</S>", "<UNK>", text(rng, 5)]),
        ]
    ).encode("utf-8", rng.choice(["replace", "surrogatepass"]))
    if rng.random() < 0.4:
        content = damaged(rng, content)
    ending, pack = rng.choice(sorted(PACKERS.items()))
    packed = pack(content)
    if rng.random() < 0.5:
        packed = damaged(rng, packed)
    path = folder / f"text{ending}"
    path.write_bytes(packed)
    errors = rng.choice(["strict", "replace", "ignore"])
    readers = [
        lambda: list(read_lines(path, errors)),
        lambda: read_conll(path, comment=rng.choice([None, "#"])),
        lambda: read_conllu(path, ["upos"]),
        lambda: read_word_vocabulary(path),
    ]
    try:
        lines = rng.choice(readers)()
    except (ValueError, OSError) as error:
        assert str(path) in str(error), f"the file is not named: {error}"
        return str(error)
    finally:
        path.unlink()
    if isinstance(lines, list):
        assert all(isinstance(line, str) and "\n" not in line for line in lines)
    return "accepted"
