"""Kills runs of embed_corpus at random moments and goes on: is the store that of a run that nobody killed?

    python tests/fuzz/embed_kills.py [KILLS] [SEED]

Formats, layers, types, parts, shards and carried state are drawn anew for each store. A store must be the same byte
for byte, without a temporary file, and one more run changes nothing.
"""

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from small_models import small

from elmo_hf import ElmoEmbedder, ElmoModel, ElmoTokenizer, embed_corpus, open_store

FORMATS = {"safetensors": ("float32", "float16", "bfloat16"), "parquet": ("float32", "float16")}
FORMATS |= dict.fromkeys(("bilm-hdf5", "allennlp-hdf5"), ("float32", "float16"))
LETTERS = "abcé日/.$ \t"


def draw(rng: random.Random) -> tuple[list[str], dict, int]:
    """Sentences, settings and a number of shards."""
    sentences = ["".join(rng.choices(LETTERS, k=rng.choice((0, 3, 20, 60)))) for _ in range(rng.randrange(120))]
    format = rng.choice(list(FORMATS))
    settings = {
        "format": format,
        "dtype": rng.choice(FORMATS[format]),
        "layers": rng.choice(("mix", "all", 1, [0, 2])),
        "part_sentences": rng.randrange(1, 30),
        "part_characters": rng.choice((50, 10_000)),
    }
    if rng.random() < 0.3:
        return sentences, settings | {"stateful": True, "batch_size": rng.randrange(1, 5)}, 1
    return sentences, settings | {"pooling": rng.choice((None, None, "mean"))}, rng.randrange(1, 4)


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else path.iterdir()
    return {one.name: one.read_bytes() for one in files}


def run_and_kill(run, seconds: float) -> bool:
    """Runs in a forked process and kills it after a while; whether it came to that."""
    child = os.fork()
    if not child:
        try:
            run()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def main(kills: int = 200, seed: int = 0):
    rng, embedder = random.Random(seed), ElmoEmbedder(small(ElmoModel), ElmoTokenizer("whitespace"))
    left, stores = kills, 0
    while left > 0:
        sentences, settings, shards = draw(rng)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            start = time.perf_counter()
            embed_corpus(embedder, sentences, folder / "whole" / "store", **settings)
            seconds, expected = time.perf_counter() - start, contents(folder / "whole" / "store")
            store, finished = folder / "killed" / "store", False

            def run(numbers, store=store, sentences=sentences, settings=settings, shards=shards):
                for number in numbers:
                    shard = None if shards == 1 else (number + 1, shards)
                    embed_corpus(embedder, sentences, store, shard=shard, **settings)

            for _ in range(rng.randrange(1, 8)):
                numbers = rng.sample(range(shards), shards)
                left -= run_and_kill(lambda numbers=numbers: run(numbers), rng.random() * 1.2 * seconds)
            while not finished:
                run(range(shards))
                finished = (store / "store.json").exists() or store.is_file()
            if contents(store) != expected or os.listdir(store.parent) != ["store"]:
                sys.exit(f"Store {stores} is not that of a run that nobody killed (seed {seed}): {settings}.")
            before = {path: path.stat().st_mtime_ns for path in store.parent.rglob("*")}
            run(range(shards))
            if before != {path: path.stat().st_mtime_ns for path in store.parent.rglob("*")}:
                sys.exit(f"One more run changed store {stores} (seed {seed}): {settings}.")
            assert len(list(open_store(store))) == len(sentences)
            stores += 1
    print(f"{kills - left} kills of {stores} stores: all ended byte for byte as those that nobody killed")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
