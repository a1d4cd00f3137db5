"""Parts of speech: a linear layer on ELMo, trained on UD English-EWT (UPOS), tested on its test set.

    python examples/tasks/pos.py DATA --sentences 3000 -o pos.json

DATA holds en_ewt-ud-train.conllu.gz and en_ewt-ud-test.conllu.gz (https://universaldependencies.org, CC BY-SA 4.0).
"""

from pathlib import Path

import numpy as np
from tagging import Data, arguments, compare

from elmo_hf import read_conllu


def read(folder: Path) -> Data:
    """The training and the test sentences."""
    return Data(
        *(
            read_conllu(folder / f"en_ewt-ud-{part}.conllu.gz").rename_column("upos", "labels")
            for part in ("train", "test")
        )
    )


def accuracy(labels: list[str]):
    """The share of words with the right label."""

    def compute(prediction) -> dict[str, float]:
        logits, gold = prediction  # (N, T, num_labels), (N, T)
        words = gold != -100
        return {"accuracy": float((np.argmax(logits, -1) == gold)[words].mean())}

    return compute


if __name__ == "__main__":
    given = arguments(__doc__, epochs=3)
    compare(given, read(given.data), accuracy, "accuracy")
