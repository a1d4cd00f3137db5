"""Words per second of ElmoTokenizer, end to end: texts in, padded tensors out, in batches of 64 on one thread.

python benchmarks/tokenizer.py
"""

import os

# Rust and OpenMP read these when they are loaded.
os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")

import statistics
import time
from collections.abc import Callable

import text

from elmo_hf import ElmoTokenizer

BATCH = 64
ROUNDS = 7


def main():
    sentences = text.sentences()
    raw = [" ".join(words) for words in sentences]
    ways: dict[str, Callable[[int], object]] = {}
    for splitting in ("moses-en", "whitespace"):
        tokenizer = ElmoTokenizer(splitting)
        ways[f"raw text, {splitting}"] = lambda at, tokenizer=tokenizer: tokenizer(
            raw[at : at + BATCH], padding=True, return_tensors="pt"
        )
    ways["words that are split already"] = lambda at: tokenizer(
        sentences[at : at + BATCH], is_split_into_words=True, padding=True, return_tensors="pt"
    )
    words = sum(map(len, sentences))
    print(f"{len(sentences):,} sentences, {words:,} words, the median of {ROUNDS} rounds (lowest - highest)")
    for name, encode in ways.items():
        speeds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for at in range(0, len(sentences), BATCH):
                encode(at)
            speeds.append(words / (time.perf_counter() - start) / 1e6)
        print(f"{name:30} {statistics.median(speeds):.2f}M words/s ({min(speeds):.2f} - {max(speeds):.2f})")


if __name__ == "__main__":
    main()
