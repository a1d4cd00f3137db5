"""Golden checkpoints with a softmax over their vocabulary: a converted folder, and the same in plain NumPy."""

import h5py
import numpy as np
from reference_bilm import ReferenceBilm

from elmo_hf import conversion


class GoldenLanguageModel:
    """Log probabilities by the formulas, and `folder`, what `elmo-hf convert` made of the same arrays."""

    def __init__(self, checkpoint, folder):
        self.checkpoint, self.folder = checkpoint, folder / "model"
        self.words = [word for word in checkpoint.vocabulary.read_text(encoding="utf-8").split("\n") if word]
        self.lines = {word: line for line, word in enumerate(self.words)}
        self.bilm = ReferenceBilm(checkpoint.options_content, checkpoint.arrays)
        random = np.random.default_rng(0)
        # Large enough that words differ by much more than rounding does.
        self.weight = random.normal(size=(len(self.words), self.bilm.projection_size)).astype(np.float32) * 3
        self.bias = random.normal(size=len(self.words)).astype(np.float32)
        with h5py.File(folder / "softmax.hdf5", "w") as file:
            file["softmax/W"], file["softmax/b"] = self.weight, self.bias
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
        """(tokens, V) of each direction: what it says after reading a token of <S>, the words, </S>."""
        (layers,), _ = self.bilm([self.checkpoint.rows(words)])
        return [self.log_softmax(top) for top in np.split(layers[-1], self.bilm.num_directions, -1)]

    def log_softmax(self, top):
        logits = top @ self.weight.T.astype(np.float64) + self.bias
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def scores(self, words):
        """The log probabilities of <S>, the words, </S> by each direction, 0 for what is given."""
        forward, backward = self.distributions(words)
        targets = [self.line(token) for token in ("<S>", *words, "</S>")]
        before = [forward[t - 1, targets[t]] for t in range(1, len(targets))]
        after = [backward[t + 1, targets[t]] for t in range(len(targets) - 1)]
        return np.array([0.0, *before]), np.array([*after, 0.0])
