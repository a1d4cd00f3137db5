"""Perplexity by elmo_hf and by bilm's own test graph: the same weights, vocabulary and text.

    python benchmarks/bilm_perplexity.py                             a random model, the text of Python's own help
    python benchmarks/bilm_perplexity.py --model my-elmo held-out.txt.gz

bilm reads 256 streams, one token of each at a time, carries the state along and drops the tail. A relative difference
above 1e-4 ends with exit code 1. bilm 0.1.post5 runs on TensorFlow 2.21 with tf-keras in an environment of its own,
benchmarks/peers/tensorflow, as `benchmarks/run.py` makes it, or the one that --python names.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import torch

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoScorer, ElmoTokenizer, conversion, perplexity, read_lines

HERE = Path(__file__).resolve().parent
BOUND = 1e-4


def random_model(folder: Path, sentences: list[str]):
    """Two layers with skip connections, clips that bind, and a vocabulary that lacks the rarer words."""
    torch.manual_seed(0)
    counts = Counter(word for sentence in sentences for word in sentence.split())
    vocabulary = ["<S>", "</S>", "<UNK>", *(word for word, _ in counts.most_common(3000))]
    config = ElmoConfig(
        character_cnn_filters=[[1, 16], [2, 16], [3, 32]],
        projection_size=32,
        cell_size=96,
        num_highway_layers=1,
        cell_clip=1.0,
        projection_clip=1.0,
        vocab_size=len(vocabulary),
    )
    model = ElmoForPreTraining(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "scalar_mix" not in name and "embedding" not in name:
                # Larger than at the start of training: predictions then depend on what was read before.
                parameter.normal_(0, 2 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 0.5)
    model.save_pretrained(folder)
    ElmoTokenizer("whitespace", "bytes", word_vocabulary=vocabulary).save_pretrained(folder)


def by_bilm(python: Path, model: Path, text: Path, streams: int, folder: Path) -> float:
    conversion.export(model, folder / "original-files")
    worker = [str(python), str(HERE / "workers" / "bilm_perplexity_worker.py")]
    arguments = [str(folder / "original-files"), str(text), str(streams)]
    # bilm opens files in the encoding of the system.
    done = subprocess.run(
        [*worker, *arguments], env={**os.environ, "PYTHONUTF8": "1"}, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])["perplexity"]


def compare(python: Path, model: Path | None, files: list[str], streams: int) -> float:
    """Prints both perplexities; gives their relative difference."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lines = (
            read_lines(files) if files else (line.strip() for topic in topics.values() for line in topic.split("\n"))
        )
        sentences = [" ".join(line.split()) for line in lines if line]
        # One file: bilm takes several in another order.
        text = folder / "text.txt"
        text.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
        if model is None:
            model = folder / "model"
            random_model(model, sentences)
        scorer = ElmoScorer.from_pretrained(model, splitting="whitespace")
        start = time.perf_counter()
        ours = perplexity(scorer.model, scorer.tokenizer, read_lines(text), streams=streams)
        seconds = time.perf_counter() - start
        print(f"elmo_hf\n{ours}\n{ours.forward.tokens / seconds:,.0f} tokens/s\n", flush=True)
        start = time.perf_counter()
        theirs = by_bilm(python, model, text, streams, folder)
        seconds = time.perf_counter() - start
    difference = abs(ours.perplexity - theirs) / theirs
    print(f"bilm\naverage {theirs:,.4f} (all of it took {seconds:.0f} s)\n")
    print(f"elmo_hf {ours.perplexity:,.4f}, bilm {theirs:,.4f}: relative difference {difference:.1e}")
    return difference


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="text, a sentence a line, words between spaces")
    parser.add_argument("--model", type=Path, help="a folder with a language model; not given, a random one")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--python", type=Path, default=HERE / "peers" / "tensorflow" / "bin" / "python")
    arguments = parser.parse_args()
    if not arguments.python.exists():
        parser.error(f"{arguments.python} does not exist; benchmarks/run.py makes it, or --python names another.")
    difference = compare(arguments.python, arguments.model, arguments.files, arguments.streams)
    sys.exit(0 if difference <= BOUND else f"The difference is above {BOUND}.")


if __name__ == "__main__":
    main()
