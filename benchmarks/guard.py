"""Compares the speed of this checkout with that of another one, in one interleaved run.

python benchmarks/guard.py ../other-checkout
python benchmarks/guard.py HEAD~3 --rounds 10 --no-kernels

The other checkout is a folder with a virtual environment of its own in .venv, or a git revision, for which a worktree
and an environment on top of this one are made and removed again. Each checkout has one worker process; the two take
turns, so that a machine whose speed drifts slows both. A ratio is the median over pairs of neighbouring turns; above
1 this checkout is faster. Compare a checkout with itself to see how noisy the machine is.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from text import sentences

ROOT = Path(__file__).resolve().parent.parent
FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
SIZES = {
    "small": {"projection_size": 128, "cell_size": 1024, "num_highway_layers": 1},
    "original": {"projection_size": 512, "cell_size": 4096, "num_highway_layers": 2},
}
VOCABULARY_SIZE, NUM_SAMPLED, STREAMS, WINDOW = 33_000, 8192, 128, 20


# A worker: one process in one checkout. It reads a job per line and prints the seconds that it took.


class Worker:
    """Models of one checkout, made when they are first needed."""

    def __init__(self, text: str, threads: int):
        import torch

        import elmo_hf

        torch.set_num_threads(threads)
        self.torch, self.elmo_hf = torch, elmo_hf
        lines = (line.split() for line in Path(text).read_text(encoding="utf-8").splitlines())
        self.sentences = [words for words in lines if words]
        self.tokenizer = elmo_hf.ElmoTokenizer("whitespace")
        self.models: dict = {}

    def config(self, size: str, **settings):
        return self.elmo_hf.ElmoConfig(character_cnn_filters=FILTERS, **SIZES[size], **settings)

    def model(self, name: str, make):
        if name not in self.models:
            self.torch.manual_seed(0)
            self.models[name] = make()
        return self.models[name]

    def texts(self, turn: int, count: int) -> list[list[str]]:
        """The same sentences in both checkouts; for each turn others, as long as there are others."""
        start = turn * count % max(1, len(self.sentences) - count)
        return self.sentences[start : start + count]

    def inference(self, size: str, batch: int, turn: int, remembered: bool = False, constant: bool = False) -> float:
        def make():
            model = self.elmo_hf.ElmoModel(self.config(size)).eval()
            if hasattr(model, "cache_words"):
                model.cache_words(megabytes=64 if remembered else 0)
            return model

        model = self.model(f"{size} {remembered}", make)
        calls = max(1, 8 // batch)  # a single sentence takes so little time that several are measured together
        batches = [self.texts(turn * calls + call, batch) for call in range(calls)]
        kernels = importlib.import_module("elmo_hf.kernels") if constant else None
        with self.torch.inference_mode(), getattr(kernels, "constant_weights", nullcontext)():
            for texts in batches * remembered:
                model(**self.tokenized(texts))
            start = time.perf_counter()
            for texts in batches:
                model(**self.tokenized(texts))
            return (time.perf_counter() - start) / calls

    def tokenized(self, texts):
        return self.tokenizer(texts, is_split_into_words=True, padding=True, return_tensors="pt")

    def pretraining(self, turn: int) -> float:
        def make():
            settings = {"vocab_size": VOCABULARY_SIZE, "num_sampled": NUM_SAMPLED, "dropout": 0.1}
            model = self.elmo_hf.ElmoForPreTraining(self.config("small", **settings)).train()
            return model, self.torch.optim.Adagrad(model.parameters(), lr=0.01)

        model, optimizer = self.model("pretraining", make)
        needed = STREAMS * WINDOW
        # Full windows of words in their order, without boundaries; the labels are low numbers more often.
        words = [word for sentence in self.texts(turn, needed) for word in sentence]
        rows = [words[row * WINDOW : (row + 1) * WINDOW] for row in range(STREAMS)]
        batch = self.tokenized(rows)
        ids = batch["input_ids"][:, 1:-1]
        generator = self.torch.Generator().manual_seed(turn)
        labels = (self.torch.rand(2, STREAMS, WINDOW, generator=generator) ** 3 * VOCABULARY_SIZE).long()
        batch = {"input_ids": ids, "labels": labels[0], "backward_input_ids": ids, "backward_labels": labels[1]}
        return self.step(model, optimizer, batch)

    def fine_tuning(self, turn: int) -> float:
        def make():
            config = self.config("small", num_labels=9, freeze_bilm=True)
            model = self.elmo_hf.ElmoForTokenClassification(config).train()
            if hasattr(model, "cache_words"):
                model.cache_words(0)
            return model, self.torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])

        model, optimizer = self.model("fine-tuning", make)
        batch = self.tokenized(self.texts(turn, 32))
        labels = batch["attention_mask"].cumsum(1) % 9
        return self.step(model, optimizer, {**batch, "labels": labels})

    def step(self, model, optimizer, batch) -> float:
        start = time.perf_counter()
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - start

    def serve(self):
        print(json.dumps(str(Path(self.elmo_hf.__file__).parent)), flush=True)
        for line in sys.stdin:
            job = json.loads(line)
            print(json.dumps(getattr(self, job.pop("do"))(**job)), flush=True)


# The comparison


class Checkout:
    """A worker process of a checkout."""

    def __init__(self, folder: Path, python: Path, given: argparse.Namespace, kernels: bool = True):
        # Freed memory stays with the process: to get it again from the system takes longer than what is measured.
        memory = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30), "MALLOC_ARENA_MAX": "1"}
        env = {**os.environ, **memory, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": str(given.threads)}
        if not kernels:
            env["ELMO_HF_KERNELS"] = "0"
        command = [str(python), str(Path(__file__).resolve()), "--worker", str(given.text), str(given.threads)]
        self.process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.package = self._answer()
        assert Path(self.package).parent.resolve() == folder.resolve(), f"{python} imports {self.package}"

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"The worker of {self.process.args[0]} ended; its error stands above.")
        return json.loads(line)

    def seconds(self, job: dict) -> float:
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self._answer()


@contextmanager
def other_checkout(name: str) -> Iterator[tuple[Path, Path]]:
    """Folder and Python of the other checkout."""
    if Path(name).is_dir():
        folder = Path(name).resolve()
        own = folder / ".venv" / "bin" / "python"
        yield folder, own if own.exists() else Path(sys.executable)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "checkout"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), name], check=True)
        try:
            # Versions of torch and of all else are those of this environment.
            yield folder, Path(sys.executable)
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


@contextmanager
def natural_text(given: Path | None) -> Iterator[Path]:
    """The given file, or one of this Python's documentation, whose sentences stay in their order."""
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "text.txt"
        if given is None:
            file.write_text("\n".join(" ".join(words) for words in sentences()), encoding="utf-8")
        yield file if given is None else given.resolve()


def jobs(given: argparse.Namespace) -> dict[str, dict]:
    """What is measured: a row of the table each."""
    found = {}
    for size in given.sizes:
        for remembered in (False, True):
            for batch in given.batches:
                job = {"do": "inference", "size": size, "batch": batch, "remembered": remembered}
                job["constant"] = given.constant_weights
                found[f"{size}, batch {batch}, words {'remembered' if remembered else 'new'}"] = job
    if given.training:
        found["pretraining step, 128 x 20, 8192 of 33k words"] = {"do": "pretraining"}
        found["fine-tuning step, tagger, 32 sentences"] = {"do": "fine_tuning"}
    return found


def measure(here: Checkout, other: Checkout, given: argparse.Namespace) -> Iterator[tuple[str, list, list]]:
    """Name, seconds here, seconds of the other checkout; the order within a pair changes from pair to pair."""
    for name, job in jobs(given).items():
        seconds = defaultdict(list)
        for turn in range(given.rounds + 2):
            for one in (here, other) if turn % 2 else (other, here):
                seconds[one].append(one.seconds({**job, "turn": turn}))
        # The first two turns warm up.
        yield name, seconds[here][2:], seconds[other][2:]


def main():
    if sys.argv[1:2] == ["--worker"]:
        return Worker(sys.argv[2], int(sys.argv[3])).serve()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", help="a folder with a checkout, or a git revision")
    parser.add_argument("--rounds", type=int, default=12, help="pairs per row; default: %(default)s")
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES))
    parser.add_argument("--batches", nargs="*", type=int, default=[1, 8, 32, 64])
    parser.add_argument("--no-training", dest="training", action="store_false", help="inference only")
    parser.add_argument("--constant-weights", action="store_true", help="verify weights once a turn, where possible")
    parser.add_argument("--no-kernels", action="store_true", help="ELMO_HF_KERNELS=0 in the other checkout")
    parser.add_argument("--text", type=Path, help="a tokenised sentence a line; default: Python's documentation")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each worker; default: %(default)s")
    given = parser.parse_args()
    with other_checkout(given.other) as (folder, python), natural_text(given.text) as given.text:
        checkouts = [
            Checkout(ROOT, Path(sys.executable), given),
            Checkout(folder, python, given, not given.no_kernels),
        ]
        print(f"\nThis checkout against {given.other}{' without kernels' if given.no_kernels else ''}; ratio above 1:")
        print("this one is faster. Medians of milliseconds; quartiles of the ratios of neighbouring turns.\n")
        print("| | this | other | ratio | quartiles |\n|---|---:|---:|---:|---:|", flush=True)
        for name, of_this, of_other in measure(*checkouts, given):
            ratios = [there / here for here, there in zip(of_this, of_other, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
            medians = [f"{1000 * statistics.median(values):.1f}" for values in (of_this, of_other)]
            print(f"| {name} | {' | '.join(medians)} | {middle:.2f} | {low:.2f}-{high:.2f} |", flush=True)
        for checkout in checkouts:
            checkout.process.communicate()  # the end of its input ends it


if __name__ == "__main__":
    main()
