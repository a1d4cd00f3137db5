"""What counting alone reaches: an interpolated modified Kneser-Ney model on a biLM's text, vocabulary and words.

    python benchmarks/kneser_ney.py MODEL TEXT --wikitext test.txt.gz -o kneser_ney.json

MODEL gives the tokenizer and its vocabulary, TEXT is the folder that examples/english/prepare.py wrote. Formulas:
Chen and Goodman 1999, section 4.1.6: modified Kneser-Ney, every n-gram kept, interpolated down to the uniform
distribution. N-grams lie within a sentence; those that begin with its boundary keep their counts, as there is nothing
to continue. Whatever the vocabulary does not have is `<UNK>`, in the text and when it is predicted, as for the biLM.

N-grams are numbers: that of an n-gram is (the number of its first n - 1 words, the last word), so that 64 bits are
enough for any order, and counting is sorting.
"""

import argparse
import itertools
import json
import math
import resource
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "english"))

from held_out import LEFT_OUT, held_out_texts, sentences_of

from elmo_hf import ElmoTokenizer
from elmo_hf.bundled import find_model

# Where counts of counts are too few to estimate discounts (all of a short vocabulary's words are frequent).
PLAIN_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclass
class Order:
    """All n-grams of one length. The two last are by the number of the context, an n-gram one shorter.

    Args:
        keys: sorted; context * vocabulary size + last word.
        discounted: of each n-gram, its count less its discount.
        total: sum of a context's counts.
        rest: the share of its probability that a context passes on to the shorter context.
    """

    keys: np.ndarray
    discounted: np.ndarray
    total: np.ndarray
    rest: np.ndarray


class KneserNey:
    """Counts a stream of sentences, and gives probabilities.

    Args:
        tokens: lines of the vocabulary, every sentence between `begin` and `end`.
        vocab_size: lines of the vocabulary; all but `begin` may be predicted.
        begin: the boundary that sentences begin with.
        order: words of the longest n-gram.

    >>> words = np.array([0, 2, 3, 1, 0, 2, 4, 1, 0, 3, 2, 3, 1])
    >>> model = KneserNey(words, vocab_size=5, begin=0, order=3)
    >>> model.log_probabilities(np.array([0, 2, 3, 1])).round(2)  # of 2, 3 and 1; the first token is given
    array([-0.76, -0.73, -0.37], dtype=float32)
    """

    def __init__(self, tokens: np.ndarray, vocab_size: int, begin: int, order: int = 5):
        self.vocab_size, self.begin, self.order = vocab_size, begin, order
        depth = _depths(tokens, begin, order)
        ids = tokens.astype(np.int32)  # of the n-gram that ends at a token; meaningless where depth < n - 1
        counts = np.bincount(ids, minlength=vocab_size)
        keys, at_begin = np.arange(vocab_size, dtype=np.uint64), np.arange(vocab_size) == begin
        self.orders: list[Order] = []
        for size in range(2, order + 1):
            longer = np.flatnonzero(depth >= size - 1)
            longer_keys, longer_ids = _number(ids[longer - 1], tokens[longer], vocab_size)
            suffixes = np.zeros(len(longer_keys), np.int32)
            suffixes[longer_ids] = ids[longer]
            # Of all but the longest n-grams it counts how many words they were seen after.
            counts = np.where(at_begin, counts, np.bincount(suffixes, minlength=len(keys)))
            self._add(keys, counts)
            at_begin = np.zeros(len(longer_keys), bool)
            at_begin[longer_ids[depth[longer] == size - 1]] = True
            ids[longer] = longer_ids
            keys, counts = longer_keys, np.bincount(longer_ids, minlength=len(longer_keys))
        self._add(keys, counts)

    def _add(self, keys: np.ndarray, counts: np.ndarray):
        if not self.orders:
            counts[self.begin] = 0  # never predicted
        contexts = np.zeros(len(keys), np.int64) if not self.orders else (keys // self.vocab_size).astype(np.int64)
        number = 1 if not self.orders else len(self.orders[-1].keys)
        discount = np.array([0.0, *_discounts(counts)])[np.minimum(counts, 3)]
        total = np.bincount(contexts, counts, number).astype(np.float32)
        passed_on = np.bincount(contexts, discount, number)
        rest = np.divide(passed_on, total, out=np.ones(number), where=total > 0).astype(np.float32)
        self.orders.append(Order(keys, (counts - discount).astype(np.float32), total, rest))

    def log_probabilities(self, tokens: np.ndarray) -> np.ndarray:
        """Natural logarithms of each token's probability given those before it; sentence beginnings are left out."""
        depth, first = _depths(tokens, self.begin, self.order), self.orders[0]
        words = tokens.astype(np.int64)
        found = first.discounted[words] / first.total[0] + first.rest[0] / (self.vocab_size - 1)
        ids = words
        for size, level in enumerate(self.orders[1:], 2):
            contexts = np.concatenate([[-1], ids[:-1]])  # of size - 1 words; -1: never seen
            contexts[depth < size - 1] = -1
            keys = (np.maximum(contexts, 0) * self.vocab_size + words).astype(np.uint64)
            places = np.minimum(np.searchsorted(level.keys, keys), len(level.keys) - 1)
            ids = np.where((contexts >= 0) & (level.keys[places] == keys), places, -1)
            # Nothing follows a context at the end of the text: its total is 0, and the shorter one decides.
            total = np.where(contexts >= 0, level.total[contexts], 0)
            own = np.where(ids >= 0, level.discounted[places], 0) / np.maximum(total, 1)
            found = np.where(total > 0, own + level.rest[contexts] * found, found)
        return np.log(found[depth > 0])


def _depths(tokens: np.ndarray, begin: int, most: int) -> np.ndarray:
    """How many tokens of its sentence stand before each token, at most `most`."""
    places = np.arange(len(tokens))
    starts = np.maximum.accumulate(np.where(tokens == begin, places, 0))
    return np.minimum(places - starts, most).astype(np.int8)


def _number(contexts: np.ndarray, words: np.ndarray, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The different pairs of context and word, sorted, as keys; and of each pair the place of its key."""
    keys = contexts.astype(np.uint64) * np.uint64(vocab_size) + words.astype(np.uint64)
    order = np.argsort(keys)
    keys = keys[order]
    new = np.concatenate([[True], keys[1:] != keys[:-1]])
    ids = np.empty(len(order), np.int32)
    ids[order] = np.cumsum(new, dtype=np.int32) - 1
    return keys[new], ids


def _discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """What is taken from n-grams that were seen once, twice, and more often."""
    once, twice, thrice, four = (np.count_nonzero(counts == number) for number in (1, 2, 3, 4))
    if not (once and twice and thrice and four):
        return PLAIN_DISCOUNTS
    share = once / (once + 2 * twice)
    found = tuple(
        number - (number + 1) * share * more / less
        for number, (less, more) in enumerate([(once, twice), (twice, thrice), (thrice, four)], 1)
    )
    fits = all(0 <= discount <= number for number, discount in enumerate(found, 1))
    return found if fits else PLAIN_DISCOUNTS


def stream(sentences: Iterable[list[str]], tokenizer: ElmoTokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Lines of the vocabulary, a sentence after the other between its boundaries; and which are LEFT_OUT."""
    lines = tokenizer.word_lines
    unknown = lines["<UNK>"]
    tokens, skipped = [], []
    following = iter(sentences)
    while batch := list(itertools.islice(following, 10_000)):
        words = [word for sentence in batch for word in ("<S>", *sentence, "</S>")]
        tokens.append(np.fromiter((lines.get(word, unknown) for word in words), np.int32, len(words)))
        skipped.append(np.fromiter((word == LEFT_OUT for word in words), bool, len(words)))
    return np.concatenate(tokens), np.concatenate(skipped)


def measure(model: KneserNey, tokens: np.ndarray, skipped: np.ndarray) -> tuple[float, int]:
    """Mean loss of a text, and how many tokens it was asked for."""
    asked = ~skipped[tokens != model.begin]
    return float(-model.log_probabilities(tokens)[asked].mean()), int(asked.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="A folder with the tokenizer and its vocabulary, or english.")
    parser.add_argument("text", type=Path, help="The folder with train/ and held-out/.")
    parser.add_argument("--wikitext", type=Path, help="WikiText-2's test.txt.gz.")
    parser.add_argument("--order", type=int, default=5, help="Words of the longest n-gram.")
    parser.add_argument("-o", "--output", type=Path, help="A file for the numbers (JSON).")
    given = parser.parse_args()

    start = time.perf_counter()
    tokenizer = ElmoTokenizer.from_pretrained(find_model(given.model)[0])
    files = sorted((given.text / "train").glob("*.txt"))
    tokens, _ = stream((words for path in files for words in sentences_of(path)), tokenizer)
    tests = {
        name: stream(sentences_of(path), tokenizer)
        for name, path in held_out_texts(given.text, given.wikitext).items()
    }
    lines, losses = tokenizer.word_lines, {name: {} for name in tests}
    print(f"{len(tokens):,} tokens read in {time.perf_counter() - start:.0f} s", flush=True)
    for direction, begin, step in (("forward", "<S>", 1), ("backward", "</S>", -1)):
        model = KneserNey(tokens[::step], len(lines), lines[begin], given.order)
        sizes = ", ".join(f"{len(level.keys):,}" for level in model.orders)
        print(f"{direction}: {sizes} n-grams, {time.perf_counter() - start:.0f} s", flush=True)
        for name, (test, skipped) in tests.items():
            losses[name][direction], losses[name]["tokens"] = measure(model, test[::step], skipped[::step])
        del model
    found = {
        name: {
            "forward": math.exp(one["forward"]),
            "backward": math.exp(one["backward"]),
            "average": math.exp((one["forward"] + one["backward"]) / 2),
            "tokens": one["tokens"],
        }
        for name, one in losses.items()
    }
    for name, one in found.items():
        print(f"{name:<14}{one['forward']:>9.2f}{one['backward']:>9.2f}{one['average']:>9.2f}{one['tokens']:>10,}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{time.perf_counter() - start:.0f} s, peak memory {peak:.1f} GB")
    if given.output:
        given.output.write_text(json.dumps({"order": given.order, "perplexity": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
