"""Kills `embed_corpus` and `pretrain` at random moments and resumes them: is the result that of a run without kills?

    python tests/fuzz/kills.py embed|pretrain [--kills 100] [--seed 0]

`embed`: formats, layers, types, shards and carried state are drawn for each store. A store must be the same byte for
byte, without a temporary file.

`pretrain`: runs are killed while they start, read the text, train, save checkpoints, and save the model. The weights
must be the same bit for bit.

One more start of a finished run changes nothing.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kill_harness import complete, killed_at_rename, killed_when
from small_models import small
from small_texts import write_text

from elmo_hf import ElmoEmbedder, ElmoModel, ElmoTokenizer, embed_corpus, open_store
from elmo_hf.pretraining import Settings, pretrain

FORMATS = {"safetensors": ("float32", "float16", "bfloat16"), "parquet": ("float32", "float16")}
FORMATS |= dict.fromkeys(("bilm-hdf5", "allennlp-hdf5"), ("float32", "float16"))
LETTERS = "abcé日/.$ \t"
STEPS = 60


def kill(run: Callable[[], Any], rng: random.Random, seconds: float) -> bool:
    """Kills at a random time of a run that takes so many seconds, or at a random rename."""
    if rng.random() < 0.5:
        return killed_at_rename(run, "", int(rng.expovariate(0.3)), rng.random() < 0.5)
    return killed_when(run, lambda: True, rng.random() * 1.2 * seconds)


def contents(path: Path) -> dict[str, bytes]:
    """The files of a folder, or one file, by name."""
    files = [path] if path.is_file() else path.iterdir()
    return {file.name: file.read_bytes() for file in files if file.is_file()}


def check(name: str, result: Path, expected: Path, resume: Callable[[], Any]):
    """Ends the program if the result is another one, or if one more start changes it."""
    if contents(result) != contents(expected):
        sys.exit(f"{name} did not end as the run without kills.")
    before = {path: path.stat().st_mtime_ns for path in [result, *result.rglob("*")]}
    resume()
    if before != {path: path.stat().st_mtime_ns for path in [result, *result.rglob("*")]}:
        sys.exit(f"One more start changed {name}.")


def draw_store(rng: random.Random) -> tuple[list[str], dict[str, Any], int]:
    """Sentences, settings and a number of shares."""
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


def kill_embed(kills: int, rng: random.Random):
    """Kills and resumes `embed_corpus` until there were so many kills."""
    embedder = ElmoEmbedder(small(ElmoModel), ElmoTokenizer("whitespace"))
    killed = stores = 0
    while killed < kills:
        sentences, settings, shares = draw_store(rng)
        with tempfile.TemporaryDirectory() as name:
            expected, store = Path(name, "expected", "store"), Path(name, "killed", "store")
            start = time.perf_counter()
            embed_corpus(embedder, sentences, expected, **settings)
            seconds = time.perf_counter() - start

            def run(numbers, store=store, sentences=sentences, settings=settings, shares=shares):
                for number in numbers:
                    shard = None if shares == 1 else (number + 1, shares)
                    embed_corpus(embedder, sentences, store, shard=shard, **settings)

            for _ in range(rng.randrange(1, 8)):
                killed += kill(partial(run, rng.sample(range(shares), shares)), rng, seconds)
            run(range(shares))
            check(f"store {stores}, {settings}", store, expected, partial(run, range(shares)))
            assert os.listdir(store.parent) == ["store"] and len(list(open_store(store))) == len(sentences)
            stores += 1
    print(f"{killed} kills of {stores} stores: all ended byte for byte as those without kills")


def newest_step(run_folder: Path) -> int:
    """The step of the newest checkpoint; 0 if there is none."""
    return max((int(path.name.rpartition("-")[2]) for path in run_folder.glob("checkpoint-*")), default=0)


def kill_pretrain(kills: int, rng: random.Random):
    """Kills and resumes `pretrain` until there were so many kills."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    killed = runs = late = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder, dropout=0.2)

        def run(output: Path):
            texts = [str(folder / "text.txt")]
            settings = Settings(output, texts, size=str(folder / "config.json"), resume=True, min_count=1, threads=1)
            settings.batch_size, settings.unroll_steps, settings.num_sampled = 4, 5, 4
            settings.stop_after, settings.save_every, settings.evaluate_every = str(STEPS), "4", "9"
            pretrain(settings, lambda line: None)

        start = time.perf_counter()
        expected = folder / "expected" / "model"
        complete(partial(run, expected))
        seconds = time.perf_counter() - start
        while killed < kills:
            output = folder / f"run-{runs}" / "model"
            run_folder, resume = output.with_name("model.run"), partial(run, output)
            for _ in range(rng.randrange(2, 6)):
                moment = partial(lambda place, step: newest_step(place) >= step, run_folder, rng.randrange(4, STEPS))
                killed += kill(resume, rng, seconds) or killed_when(resume, moment, rng.random() * 0.2)
            # After the last checkpoint, and while the model is moved to its place.
            last = partial(lambda place: newest_step(place) == STEPS, run_folder)
            saving = rf"{output}(/|\.run/model$)", rng.randrange(8), rng.random() < 0.5
            ends = killed_when(resume, last, rng.random() * 0.3) + killed_at_rename(resume, *saving)
            killed, late = killed + ends, late + ends
            complete(resume)
            check(f"run {runs}", output, expected, partial(complete, resume))
            runs += 1
            print(f"{killed} kills", flush=True)
    print(f"{killed} kills in {runs} runs, {late} of them after the last checkpoint: all ended bit-identical")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("embed", "pretrain"))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    {"embed": kill_embed, "pretrain": kill_pretrain}[args.what](args.kills, random.Random(args.seed))
