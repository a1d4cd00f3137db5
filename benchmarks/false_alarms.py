"""False alarms of semantic change: p and q values of words in two random halves of one corpus.

python benchmarks/false_alarms.py english corpus.txt --tokenized --words 500 --seeds 3
"""

import argparse
import random
from collections.abc import Iterator

from elmo_hf import SentenceSource
from elmo_hf.analysis import ChangeOptions, LayerReader, change
from elmo_hf.text.inputs import Sentence


class Half:
    """The sentences that a coin, tossed anew for each seed, gives to one of two halves."""

    def __init__(self, source: SentenceSource, half: int, seed: int):
        self.source, self.half, self.seed = source, half, seed

    def __iter__(self) -> Iterator[Sentence]:
        """Reads the half from the start."""
        generator = random.Random(self.seed)
        return (sentence for sentence in self.source if generator.getrandbits(1) == self.half)


def main():
    """Prints a line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--tokenized", action="store_true")
    parser.add_argument("--words", type=int, default=500)
    parser.add_argument("--uses", type=int, default=200)
    parser.add_argument("--measure", default="apd")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    reader = LayerReader.from_pretrained(options.model)
    source = SentenceSource(options.corpus, options.tokenized)
    for seed in range(options.seeds):
        chosen = ChangeOptions(
            options.measure, uses=options.uses, top=options.words, details=0, seed=seed, resamples=2
        )
        result = change(reader, Half(source, 0, seed), Half(source, 1, seed), options=chosen)
        below = sum(word.p < 0.05 for word in result.words)
        smallest = min(word.q for word in result.words)
        print(
            f"seed {seed}: {below} of {len(result.words)} words below p = 0.05; smallest q {smallest:.3f}", flush=True
        )


if __name__ == "__main__":
    main()
