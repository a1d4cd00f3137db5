"""Pretrain an ELMo on raw text of a language, then tag a UD treebank with 100, 300 and more training sentences.

    python examples/languages/learning_curve.py --text sme.txt --train sme-train.conllu.gz --test sme-test.conllu.gz \
        --output sme --language se --minutes 60

Four taggers are compared for each number of sentences and each seed. All are one linear layer over vectors of words:

- characters: layer 0 of an untrained model, which is a random function of a word's characters;
- layer 0: that of the pretrained model, which knows no context;
- frozen: a learned mix of all layers of the pretrained model, whose weights stay as they are;
- tuned: the frozen tagger, after which all weights of the model are trained too.

Some sentences of the training file are held out, the same for all taggers: training stops when accuracy on them does
not rise any more, and the best weights are used. With --model, a pretrained model is used in place of --text.
Accuracies are written to OUTPUT.tsv; the same command again computes only what is missing there.
"""

import argparse
import copy
import csv
import gzip
import itertools
import random
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.hub.model_names import resolve_model
from elmo_hf.model.modeling_elmo import word_mask
from elmo_hf.pretraining import Settings, pretrain

Sentence = tuple[list[str], list[str]]  # words and their labels
CONDITIONS = ("characters", "layer 0", "frozen", "tuned")
COLUMNS = {"upos": 3, "feats": 5}
# Sentences held out of the training file, and at most this share of them.
HELD_OUT, HELD_OUT_SHARE = 200, 0.2
# Sentences of a large training file that training sentences are drawn from.
DRAWN_FROM = 2500
# Words in a step of the linear layer, sentences in a step of tuning.
WORDS, SENTENCES = 64, 16
HEAD_RATE, TUNING_RATE = 3e-3, 1e-3


class Patience(NamedTuple):
    """When training stops: after `bad` evaluations in a row that were no better, or after `most`.

    Args:
        steps: between two evaluations.
    """

    steps: int
    bad: int
    most: int


HEAD_PATIENCE = Patience(steps=50, bad=15, most=300)
TUNING_PATIENCE = Patience(steps=25, bad=6, most=60)


class Score(NamedTuple):
    """Shares of words with the right label.

    Args:
        accuracy: of all words of the test file.
        unknown: of those whose form is not in the training sentences.
        ambiguous: of those whose form has several labels in the two files.
    """

    accuracy: float
    unknown: float
    ambiguous: float


class Features(NamedTuple):
    """The layers of all words, (L, N, size), and the numbers of their labels, (N,); -1 for a label not in training."""

    layers: torch.Tensor
    targets: torch.Tensor


def read_treebank(path: Path, column: str) -> list[Sentence]:
    """Reads words with their UPOS or their morphological features from a CoNLL-U file, packed or not."""
    sentences, words, labels = [], [], []
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in [*file, "\n"]:
            fields = line.rstrip("\n").split("\t")
            if fields[0].isdigit():
                words.append(fields[1])
                labels.append(fields[COLUMNS[column]])
            elif not line.strip() and words:
                sentences.append((words, labels))
                words, labels = [], []
    return sentences


def hold_out(sentences: list[Sentence]) -> tuple[list[Sentence], list[Sentence]]:
    """Divides the training file into sentences to train on and sentences that decide when training stops."""
    shuffled = random.Random(0).sample(sentences, len(sentences))
    number = min(HELD_OUT, int(HELD_OUT_SHARE * len(sentences)))
    return shuffled[number : number + DRAWN_FROM], shuffled[:number]


class Tagger(nn.Module):
    """A linear layer over a learned mix of layers of words.

    Args:
        layers: how many there are; with one, there is no mix.
        size: of the vectors.
        labels: how many there are.
    """

    def __init__(self, layers: int, size: int, labels: int):
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(layers))
        # Layers have different scales.
        self.norm = nn.LayerNorm(size, elementwise_affine=False)
        self.linear = nn.Linear(size, labels)

    def forward(self, layers: torch.Tensor) -> torch.Tensor:
        """Returns the scores of the labels, (N, labels), from layers (L, N, size)."""
        return self.linear(torch.einsum("l,lnd->nd", self.mix.softmax(0), self.norm(layers)))


def batches(items: list, size: int) -> Iterator[list]:
    """Yields consecutive slices of a list."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def layers_of(model: ElmoModel, tokenizer: ElmoTokenizer, sentences: list[list[str]]) -> torch.Tensor:
    """Returns the layers of all words, (L, N, size), without those of `<S>` and `</S>`."""
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    layers = model(**batch, output_hidden_states=True).hidden_states
    words = word_mask(model.config, batch["attention_mask"].bool(), batch["input_ids"])  # (B, T)
    return torch.stack([layer[words] for layer in layers])


@torch.inference_mode()
def frozen_layers(model: ElmoModel, tokenizer: ElmoTokenizer, sentences: list[Sentence]) -> torch.Tensor:
    """Returns the layers of all words of a file, (L, N, size); the model does not change."""
    model.eval()
    parts = [layers_of(model, tokenizer, [words for words, _ in part]) for part in batches(sentences, 64)]
    return torch.cat(parts, 1)


@torch.inference_mode()
def character_layer(model: ElmoModel, tokenizer: ElmoTokenizer, sentences: list[Sentence]) -> torch.Tensor:
    """Returns layer 0 of all words of a file, (1, N, size), without running the LSTMs."""
    parts = []
    for part in batches(sentences, 64):
        batch = tokenizer([words for words, _ in part], is_split_into_words=True, padding=True, return_tensors="pt")
        tokens, mask = model.encode_tokens(batch["input_ids"], batch["attention_mask"])
        parts.append(tokens[word_mask(model.config, mask, batch["input_ids"])])
    return torch.cat(parts).repeat(1, 2)[None]  # layer 0 is the same in both directions


def train(
    module: nn.Module,
    groups: list[dict],
    losses: Callable[[], Iterator[torch.Tensor]],
    evaluate: Callable[[], float],
    patience: Patience,
):
    """Trains until `evaluate` does not rise any more, and leaves the best weights in the module.

    Args:
        module: what is trained.
        groups: its parameters and their learning rates.
        losses: returns the losses of the steps of one epoch.
        evaluate: returns the accuracy on held-out sentences.
        patience: when training stops.
    """
    optimizer = torch.optim.AdamW(groups)
    best, weights, bad = evaluate(), copy.deepcopy(module.state_dict()), 0
    steps = itertools.chain.from_iterable(losses() for _ in itertools.count())
    for _ in range(patience.most):
        for loss in itertools.islice(steps, patience.steps):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = evaluate()
        bad += 1
        if accuracy > best:
            best, weights, bad = accuracy, copy.deepcopy(module.state_dict()), 0
        if bad == patience.bad:
            break
    module.load_state_dict(weights)


@torch.no_grad()
def accuracy_of(tagger: Tagger, features: Features) -> float:
    """Returns the share of words with the right label."""
    return (tagger(features.layers).argmax(-1) == features.targets).float().mean().item()


def train_head(training: Features, held_out: Features, labels: int, seed: int) -> Tagger:
    """Trains the linear layer and the mix on vectors that do not change."""
    torch.manual_seed(seed)
    layers, number, size = training.layers.shape
    tagger = Tagger(layers, size, labels)

    def losses() -> Iterator[torch.Tensor]:
        for some in torch.randperm(number).split(WORDS):
            yield nn.functional.cross_entropy(tagger(training.layers[:, some]), training.targets[some])

    groups = [{"params": list(tagger.parameters()), "lr": HEAD_RATE}]
    train(tagger, groups, losses, lambda: accuracy_of(tagger, held_out), HEAD_PATIENCE)
    return tagger


class Experiment:
    """The taggers of one language.

    Args:
        folder: a pretrained model.
        training: the treebank to train on; a part of it is held out.
        test: the treebank to test on.
    """

    def __init__(self, folder: Path | str, training: list[Sentence], test: list[Sentence]):
        self.tokenizer, self.model = ElmoTokenizer.from_pretrained(folder), ElmoModel.from_pretrained(folder)
        self.training, self.held_out = hold_out(training)
        self.test = test
        self.labels = {label: n for n, label in enumerate(sorted({tag for _, tags in training for tag in tags}))}
        lengths = [len(words) for words, _ in self.training]
        self.ends = [0, *itertools.accumulate(lengths)]
        kinds: dict[str, set[str]] = {}
        for words, tags in training + test:
            for word, tag in zip(words, tags, strict=True):
                kinds.setdefault(word, set()).add(tag)
        self.ambiguous = torch.tensor([len(kinds[word]) > 1 for words, _ in test for word in words])
        self.cache: dict[tuple[str, int], list[Features]] = {}

    def targets(self, sentences: list[Sentence]) -> torch.Tensor:
        """Returns the numbers of the labels of all words."""
        return torch.tensor([self.labels.get(tag, -1) for _, tags in sentences for tag in tags])

    def features(self, condition: str, seed: int) -> list[Features]:
        """Returns the vectors of training, held-out and test sentences; they are computed once."""
        key = ("characters", seed) if condition == "characters" else ("pretrained", 0)
        if key not in self.cache:
            compute, model = frozen_layers, self.model
            if condition == "characters":
                torch.manual_seed(seed)
                compute, model = character_layer, ElmoModel(self.model.config)
            files = (self.training, self.held_out, self.test)
            self.cache[key] = [Features(compute(model, self.tokenizer, file), self.targets(file)) for file in files]
        if condition == "layer 0":
            return [Features(layers[:1], targets) for layers, targets in self.cache[key]]
        return self.cache[key]

    def run(self, condition: str, size: int, seed: int) -> Score:
        """Trains one tagger and tests it."""
        return self.train_and_test(self.features(condition, seed), size, seed, tune=condition == "tuned")

    def train_and_test(self, features: list[Features], size: int, seed: int, tune: bool = False) -> Score:
        """Trains a tagger on some of the training sentences and tests it.

        Args:
            features: of training, held-out and test sentences.
            size: how many training sentences.
            seed: of the choice of sentences, of weights and of their order.
            tune: train the model too; the features are those of its mix.
        """
        training, held_out, test = features
        numbers = random.Random(seed).sample(range(len(self.training)), size)
        words = torch.cat([torch.arange(self.ends[n], self.ends[n + 1]) for n in numbers])
        drawn = Features(training.layers[:, words], training.targets[words])
        tagger = train_head(drawn, held_out, len(self.labels), seed)
        sentences, layers = [self.training[n] for n in numbers], test.layers
        if tune:
            layers = frozen_layers(self.tune(tagger, sentences, seed), self.tokenizer, self.test)
        with torch.no_grad():
            right = tagger(layers).argmax(-1) == test.targets
        seen = {word for words, _ in sentences for word in words}
        unknown = torch.tensor([word not in seen for words, _ in self.test for word in words])
        parts = (right, right[unknown], right[self.ambiguous])
        return Score(*(part.float().mean().item() for part in parts))

    def tune(self, tagger: Tagger, sentences: list[Sentence], seed: int) -> ElmoModel:
        """Trains all weights of a copy of the model together with the tagger, and returns it."""
        model, order = copy.deepcopy(self.model), random.Random(seed)
        targets = self.targets(self.held_out)

        def losses() -> Iterator[torch.Tensor]:
            order.shuffle(sentences)
            for batch in batches(sentences, SENTENCES):
                model.train()
                scores = tagger(layers_of(model, self.tokenizer, [words for words, _ in batch]))
                yield nn.functional.cross_entropy(scores, self.targets(batch))

        def evaluate() -> float:
            return accuracy_of(tagger, Features(frozen_layers(model, self.tokenizer, self.held_out), targets))

        # Its own mix and task heads are not part of this tagger.
        weights = [*model.token_encoder.parameters(), *model.bilm.parameters()]
        groups = [{"params": weights, "lr": TUNING_RATE}, {"params": list(tagger.parameters()), "lr": HEAD_RATE}]
        train(nn.ModuleList([tagger, model]), groups, losses, evaluate, TUNING_PATIENCE)
        return model


def learning_curve(
    experiment: Experiment, sizes: list[int], seeds: int, output: Path
) -> dict[tuple[str, int], list[Score]]:
    """Returns the scores of each condition and number of training sentences, one for each seed."""
    scores: dict[tuple[str, int], list[Score]] = {}
    if output.exists():
        with open(output, encoding="utf-8") as file:
            done = {
                (row[0], int(row[1]), int(row[2])): Score(*map(float, row[3:]))
                for row in csv.reader(file, "excel-tab")
            }
    else:
        done = {}
    for size, condition in itertools.product(sizes, CONDITIONS):
        for seed in range(seeds):
            score = done.get((condition, size, seed))
            if score is None:
                score = experiment.run(condition, size, seed)
                with open(output, "a", encoding="utf-8") as file:
                    print(condition, size, seed, *(f"{value:.4f}" for value in score), sep="\t", file=file)
            scores.setdefault((condition, size), []).append(score)
        values = [score.accuracy for score in scores[condition, size]]
        spread = f" ({statistics.stdev(values):.1%} over {seeds} seeds)" if seeds > 1 else ""
        print(f"{size:>6} sentences, {condition:10} {statistics.mean(values):.1%}{spread}", flush=True)
    return scores


def main(arguments: list[str] | None = None) -> dict[tuple[str, int], list[Score]]:
    """Pretrains if needed, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", type=Path, help="raw text, a sentence a line; also packed")
    source.add_argument("--model", help="a pretrained model in place of --text, e.g. english")
    parser.add_argument("--train", type=Path, required=True, help="a treebank in CoNLL-U")
    parser.add_argument("--test", type=Path, required=True, help="a treebank in CoNLL-U")
    parser.add_argument("--output", type=Path, required=True, help="folder of the model; OUTPUT.tsv has the scores")
    parser.add_argument("--language", help="BCP 47 tag of the language")
    parser.add_argument("--minutes", type=float, default=60, help="time for pretraining")
    parser.add_argument("--column", choices=COLUMNS, default="upos")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 2000], help="training sentences, at most")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    folder = options.model
    if folder is None:
        folder = options.output
        if not folder.exists():
            settings = Settings(folder, [str(options.text)], minutes=options.minutes, language=options.language)
            pretrain(settings, say=lambda line: print(line, flush=True))
    training, test = (read_treebank(path, options.column) for path in (options.train, options.test))
    experiment = Experiment(resolve_model(folder), training, test)
    sizes = sorted({min(size, len(experiment.training)) for size in options.sizes})
    return learning_curve(experiment, sizes, options.seeds, options.output.with_suffix(".tsv"))


if __name__ == "__main__":
    main()
