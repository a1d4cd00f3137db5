"""How well measures of semantic change rank words whose change is known: samples of SemCor with known senses.

For each word with two frequent senses, two samples are drawn in which the shares of the senses differ by a known
amount between 0 and 1. Every measure is computed for every layer and normalisation, and compared with the known
amounts by Spearman's rank correlation.

    python benchmarks/semantic_change.py english semcor.data.xml.xz --seeds 3
"""

import argparse
import itertools
import random
from collections import defaultdict

import numpy as np
from scipy.stats import spearmanr

from elmo_hf.analysis import LayerReader, read_senses
from elmo_hf.analysis.change_measures import MEASURES, compare_means, measure_features, standardise
from elmo_hf.analysis.layer_reader import unit_vectors
from elmo_hf.analysis.usage_clusters import cluster_uses

# Uses of each of the two senses that a word needs, and of each sample.
MIN_USES_OF_A_SENSE, USES = 20, 40


def words_with_two_senses(data, reader, most):
    """For each word the vectors (uses, L + 1, hidden) of its two most frequent senses, and the forms of the uses."""
    by_word = defaultdict(lambda: defaultdict(list))
    for instance in data.instances:
        if instance.stop == instance.start + 1:
            by_word[instance.word][instance.senses[0]].append((instance.sentence, instance.start))
    common = {word: sorted(senses.values(), key=len)[-2:] for word, senses in by_word.items()}
    usable = {w: senses for w, senses in common.items() if len(senses) == 2 and len(senses[0]) >= MIN_USES_OF_A_SENSE}
    balanced = sorted(usable, key=lambda word: (-len(usable[word][0]), word))[:most]
    chosen = {}
    for word in balanced:
        chosen[word] = [random.Random(word).sample(uses, min(len(uses), 150)) for uses in usable[word]]
    needed = sorted({number for senses in chosen.values() for uses in senses for number, _ in uses})
    layers = dict(zip(needed, reader.read(data.sentences[number] for number in needed), strict=True))
    return {
        word: [
            (np.stack([layers[number][:, at] for number, at in uses]), [data.sentences[n][at] for n, at in uses])
            for uses in senses
        ]
        for word, senses in chosen.items()
    }


def draw(senses, share, generator):
    """A sample of uses in which the first sense has a share."""
    size = min(USES, *(len(vectors) for vectors, _ in senses))
    first = round(share * size)
    parts = [
        (vectors[chosen], [forms[number] for number in chosen])
        for (vectors, forms), count in zip(senses, (first, size - first), strict=True)
        if len(chosen := generator.sample(range(len(vectors)), count)) or count == 0
    ]
    return np.concatenate([vectors for vectors, _ in parts]), [form for _, forms in parts for form in forms]


def center_forms(x, forms):
    """Vectors minus the mean of the uses of the same form."""
    x = x.copy()
    lowered = np.array([form.lower() for form in forms])
    for form in set(lowered.tolist()):
        x[lowered == form] -= x[lowered == form].mean(0)
    return x + x.std() * 1e-6


NORMALISATIONS = {
    "none": lambda x, forms: x,
    "centered": lambda x, forms: x - x.mean(0),
    "standardised": lambda x, forms: standardise(x),
    "form-centered": center_forms,
}


# Clusters take the most time, and are not changed by centering.
CLUSTERED = ("none", "form-centered")


def main():
    """Prints a row for each layer and normalisation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("semcor", help="semcor.data.xml.xz, its keys beside it")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--words", type=int, default=100, help="the words whose senses are the most balanced")
    options = parser.parse_args()
    reader = LayerReader.from_pretrained(options.model)
    words = words_with_two_senses(read_senses(options.semcor), reader, options.words)
    print(f"{len(words)} words with two senses of {MIN_USES_OF_A_SENSE} uses or more", flush=True)
    layers = [(f"layer {n}", lambda x, n=n: x[:, n]) for n in range(reader.num_layers)]
    layers.append(("average", lambda x: x.mean(1)))
    scores = defaultdict(list)
    for seed in range(options.seeds):
        generator = random.Random(seed)
        names = sorted(words)
        generator.shuffle(names)
        samples = {}
        for number, name in enumerate(names):
            change = number / (len(names) - 1)
            low = generator.uniform(0, 1 - change)
            old, old_forms = draw(words[name], low, generator)
            new, new_forms = draw(words[name], low + change, generator)
            samples[name] = np.concatenate([old, new]), old_forms + new_forms, len(old), change
        for (layer, select), (how, normalise) in itertools.product(layers, NORMALISATIONS.items()):
            values = defaultdict(list)
            for vectors, forms, num_old, _ in samples.values():
                x = normalise(select(vectors), forms)
                clustered = how in CLUSTERED
                clusters = cluster_uses(x, seed=seed).labels if clustered else np.zeros(len(x), np.int64)
                for measure in MEASURES if clustered else MEASURES[:2]:
                    # The measure's own standardisation of APD is one of the normalisations here.
                    features = unit_vectors(x) if measure == "apd" else measure_features(measure, x, clusters)
                    means = features[:num_old].mean(0), features[num_old:].mean(0)
                    values[measure].append(float(compare_means(measure, *means)))
            truth = [change for *_, change in samples.values()]
            for measure in values:
                scores[layer, how, measure].append(spearmanr(values[measure], truth).statistic)
    print("layer    normalisation  " + "  ".join(f"{measure:>13}" for measure in MEASURES))
    for layer, how in dict.fromkeys((layer, how) for layer, how, _ in scores):
        cells = [scores.get((layer, how, measure)) for measure in MEASURES]
        shown = ["" if cell is None else f"{np.mean(cell):.3f} ± {np.std(cell):.3f}" for cell in cells]
        print(f"{layer:8} {how:13}  " + "  ".join(f"{cell:>13}" for cell in shown))


if __name__ == "__main__":
    main()
