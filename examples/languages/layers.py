"""Compare the layers of pretrained models as input of a tagger that has few training sentences.

    python examples/languages/layers.py --train sme-train.conllu.gz --test sme-test.conllu.gz sme untrained

Each line is one model and one input: a single layer, their learned mix, or all of them side by side. Beside the
accuracy on all words stand those on words that the training sentences do not have and on words with several labels in
the treebank, which only context can tell apart. `untrained` stands for the first model with random weights;
checkpoints of a run, such as sme.run/checkpoint-2000, are models too.
"""

import argparse
from pathlib import Path
from statistics import mean

import torch
from learning_curve import COLUMNS, Experiment, Features, frozen_layers, read_treebank

from elmo_hf import ElmoModel
from elmo_hf.hub.model_names import resolve_model


def inputs_of(layers: torch.Tensor) -> dict[str, torch.Tensor]:
    """Returns the inputs to compare, each (layers, N, size), from all layers (L, N, size)."""
    # Layers have different scales; their mix is normalised by the tagger.
    side_by_side = torch.cat([torch.nn.functional.layer_norm(layer, layer.shape[-1:]) for layer in layers], -1)[None]
    single = {f"layer {number}": layer[None] for number, layer in enumerate(layers)}
    return {**single, "mix": layers, "side by side": side_by_side}


def compare(experiment: Experiment, name: str, sentences: int, seeds: int):
    """Prints the scores of each input of one model."""
    files = (experiment.training, experiment.held_out, experiment.test)
    layers = [frozen_layers(experiment.model, experiment.tokenizer, file) for file in files]
    targets = [experiment.targets(file) for file in files]
    variants = [inputs_of(each) for each in layers]
    for variant in variants[0]:
        features = [Features(each[variant], target) for each, target in zip(variants, targets, strict=True)]
        scores = [experiment.train_and_test(features, sentences, seed) for seed in range(seeds)]
        means = [f"{100 * mean(values):.1f}" for values in zip(*scores, strict=True)]
        print(name, variant, *means, sep="\t", flush=True)


def main(arguments: list[str] | None = None):
    """Prints a line for each model and input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="pretrained models or checkpoints, or untrained")
    parser.add_argument("--train", type=Path, required=True, help="a treebank in CoNLL-U")
    parser.add_argument("--test", type=Path, required=True, help="a treebank in CoNLL-U")
    parser.add_argument("--column", choices=COLUMNS, default="upos")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    training, test = (read_treebank(path, options.column) for path in (options.train, options.test))
    print("model", "input", "all words", "unknown", "ambiguous", sep="\t")
    for name in options.models:
        experiment = Experiment(resolve_model(options.models[0] if name == "untrained" else name), training, test)
        if name == "untrained":
            torch.manual_seed(0)
            experiment.model = ElmoModel(experiment.model.config)
        compare(experiment, name, options.sentences, options.seeds)


if __name__ == "__main__":
    main()
