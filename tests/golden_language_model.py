"""Golden checkpoints with a softmax over their vocabulary: a converted folder, and the same in plain NumPy."""

import h5py
import numpy as np
from reference_bilm import ReferenceBilm

from elmo_hf import conversion


def write_random_softmax(path, words, size):
    """Writes a softmax in the original format; returns its weight (words, size) and bias (words,)."""
    random = np.random.default_rng(0)
    # Large enough that words differ by much more than rounding does.
    weight = random.normal(size=(words, size)).astype(np.float32) * 3
    bias = random.normal(size=words).astype(np.float32)
    with h5py.File(path, "w") as file:
        file["softmax/W"], file["softmax/b"] = weight, bias
    return weight, bias


class GoldenLanguageModel:
    """A language model in plain NumPy, and `folder`, the conversion of the same arrays by `elmo-hf convert`."""

    def __init__(self, checkpoint, folder):
        self.checkpoint, self.folder = checkpoint, folder / "model"
        self.words = [word for word in checkpoint.vocabulary.read_text(encoding="utf-8").split("\n") if word]
        self.lines = {word: line for line, word in enumerate(self.words)}
        self.bilm = ReferenceBilm(checkpoint.options_content, checkpoint.arrays)
        self.weight, self.bias = write_random_softmax(
            folder / "softmax.hdf5", len(self.words), self.bilm.projection_size
        )
        conversion.convert(
            checkpoint.options,
            checkpoint.weights,
            output_dir=self.folder,
            vocabulary=checkpoint.vocabulary,
            softmax=folder / "softmax.hdf5",
            splitting="whitespace",
        )

    def line(self, word):
        return self.lines.get(word, self.lines["<UNK>"])

    def distributions(self, words):
        """The log probabilities (tokens, V) of each direction after reading each token of <S>, the words, </S>."""
        (layers,), _ = self.bilm([self.checkpoint.rows(words)])
        return [self.log_softmax(top) for top in np.split(layers[-1], self.bilm.num_directions, -1)]

    def log_softmax(self, top):
        logits = top @ self.weight.T.astype(np.float64) + self.bias
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def scores(self, words):
        """The log probabilities of <S>, the words, </S> by each direction; 0 for the token that it starts from."""
        forward, backward = self.distributions(words)
        targets = [self.line(token) for token in ("<S>", *words, "</S>")]
        before = [forward[t - 1, targets[t]] for t in range(1, len(targets))]
        after = [backward[t + 1, targets[t]] for t in range(len(targets) - 1)]
        return np.array([0.0, *before]), np.array([*after, 0.0])
