"""Whether vectors tell positive from negative words: the words to which SST's annotators gave a polarity.

    python benchmarks/word_polarity.py trees.txt.gz glove.6B.50d.txt.gz

A logistic regression on standardised vectors of single words, scored by cross-validation over words in five folds.
"""

import argparse

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from elmo_hf import ElmoEmbedder, read_word_vectors
from elmo_hf.tasks.sentiment.trees import read_trees

NEUTRAL = 2
# The inverse strength of regularisation, not tuned.
C = 0.01


def polar_words(trees: str) -> dict[str, bool]:
    """Words that are phrases of their own with a label other than neutral; True for positive ones."""
    phrases = read_trees(trees, phrases=True)
    rows = zip(phrases["tokens"], phrases["label"], strict=True)
    polarity: dict[str, bool] = {}
    for words, label in rows:
        if len(words) == 1 and label != NEUTRAL:
            polarity.setdefault(words[0], label > NEUTRAL)
    return polarity


def accuracy(vectors: np.ndarray, labels: np.ndarray) -> float:
    """The mean accuracy over five folds, in percent."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=300))
    return 100 * float(cross_val_score(model, vectors.astype(np.float32), labels, cv=5).mean())


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", help="Trees of the Stanford Sentiment Treebank.")
    parser.add_argument("vectors", help="Word vectors; only words that they know are counted.")
    parser.add_argument("--model", default="english", help="An ELMo.")
    arguments = parser.parse_args()
    polarity = polar_words(arguments.trees)
    known, table = read_word_vectors(arguments.vectors)
    rows = dict(zip(known, table, strict=True))
    words = [word for word in polarity if word.lower() in rows]
    labels = np.array([polarity[word] for word in words])
    print(f"{len(words):,} words, the larger class {100 * max(labels.mean(), 1 - labels.mean()):.1f}%")
    layers = np.stack(ElmoEmbedder.from_pretrained(arguments.model).embed_batch([[word] for word in words]))[:, :, 0]
    static = np.stack([rows[word.lower()] for word in words])
    print(f"word vectors: {accuracy(static, labels):.1f}%")
    for number in range(layers.shape[1]):
        print(f"layer {number}: {accuracy(layers[:, number], labels):.1f}%")
    both = np.concatenate([static, layers.reshape(len(words), -1)], 1)
    print(f"word vectors and all layers: {accuracy(both, labels):.1f}%")


if __name__ == "__main__":
    main()
