"""Pretrain an ELMo on raw text of a language, then tag a UD treebank with 100, 300 and all training sentences.

    python examples/languages/learning_curve.py --text sme.txt --train sme-train.conllu.gz --test sme-test.conllu.gz \
        --output sme --language se --minutes 60

Four taggers are compared for each number of sentences and each seed. All have one linear layer over vectors of words:

- characters: layer 0 of an untrained model, which is a random function of a word's characters;
- layer 0: that of the pretrained model, which knows no context;
- frozen: a learned mix of all layers of the pretrained model, whose weights stay as they are;
- tuned: the same mix, and all weights of the model are trained too.

With --model, a pretrained model is used in place of --text. Accuracies are printed and written to OUTPUT.tsv.
"""

import argparse
import gzip
import random
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.pretraining import Settings, pretrain

Sentence = tuple[list[str], list[str]]  # words and their labels
CONDITIONS = ("characters", "layer 0", "frozen", "tuned")
COLUMNS = {"upos": 3, "feats": 5}
EPOCHS, BATCH_SIZE = 10, 16
# A linear layer on frozen vectors takes a higher rate than the weights of the model.
HEAD_RATE, MODEL_RATE = 1e-2, 1e-3


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


class Tagger(nn.Module):
    """A linear layer over one layer of an ELMo, or over a learned mix of all of them.

    Args:
        model: the ELMo, whose weights are trained only with `tune`.
        tokenizer: its tokenizer.
        labels: all labels.
        layer: the layer to use; None for the learned mix.
        tune: whether to train the weights of the model too.
    """

    def __init__(self, model: ElmoModel, tokenizer: ElmoTokenizer, labels: list[str], layer: int | None, tune: bool):
        super().__init__()
        self.model, self.tokenizer, self.layer, self.tune = model, tokenizer, layer, tune
        self.labels = {label: number for number, label in enumerate(labels)}
        self.mix = nn.Parameter(torch.zeros(model.config.num_hidden_layers + 1))
        # Normalised vectors let layers of different scales learn at the same rate.
        self.norm = nn.LayerNorm(model.config.hidden_size, elementwise_affine=False)
        self.linear = nn.Linear(model.config.hidden_size, len(labels))

    def vectors(self, words: list[list[str]]) -> torch.Tensor:
        """Returns the layers of all words of a batch, (layers, N, size)."""
        batch = self.tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
        with torch.set_grad_enabled(self.tune and self.training):
            layers = torch.stack(self.model(**batch, output_hidden_states=True).hidden_states)
        mask = batch["attention_mask"].bool()
        lengths = mask.sum(1)
        inside = mask.clone()  # without <S> and </S>
        inside[:, 0] = False
        inside[torch.arange(len(words)), lengths - 1] = False
        return layers[:, inside]

    def forward(self, layers: torch.Tensor) -> torch.Tensor:
        """Returns the scores of the labels, (N, labels), from layers (layers, N, size)."""
        if self.layer is not None:
            return self.linear(self.norm(layers[self.layer]))
        return self.linear(self.norm(torch.einsum("l,lnd->nd", self.mix.softmax(0), layers)))

    def targets(self, sentences: list[Sentence]) -> torch.Tensor:
        """Returns the numbers of the labels; -1 for one that training did not have."""
        return torch.tensor([self.labels.get(label, -1) for _, labels in sentences for label in labels])


def batches(items: list, size: int = BATCH_SIZE) -> Iterator[list]:
    """Yields consecutive slices of a list."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def cached_vectors(tagger: Tagger, sentences: list[Sentence]) -> Callable[[list[Sentence]], torch.Tensor]:
    """Returns a function that gives the layers of sentences; a frozen model computes them only once."""
    if tagger.tune:
        return lambda some: tagger.vectors([words for words, _ in some])
    cache = {}
    for batch in batches(sentences):
        layers = tagger.vectors([words for words, _ in batch])
        lengths = [len(words) for words, _ in batch]
        cache |= {id(words): part for (words, _), part in zip(batch, layers.split(lengths, 1), strict=True)}
    return lambda some: torch.cat([cache[id(words)] for words, _ in some], 1)


def accuracy(tagger: Tagger, sentences: list[Sentence]) -> float:
    """Computes the share of words with the right label."""
    tagger.eval()
    right = number = 0
    with torch.no_grad():
        for batch in batches(sentences, 64):
            targets = tagger.targets(batch)
            right += int((tagger(tagger.vectors([words for words, _ in batch])).argmax(-1) == targets).sum())
            number += len(targets)
    return right / number


def train_tagger(tagger: Tagger, sentences: list[Sentence], seed: int):
    """Trains a tagger with a learning rate that decays linearly; small sets get more epochs."""
    epochs = EPOCHS * max(1, min(5, 1000 // len(sentences)))
    vectors, order = cached_vectors(tagger, sentences), random.Random(seed)
    groups = [{"params": [tagger.mix, *tagger.linear.parameters()], "lr": HEAD_RATE}]
    if tagger.tune:
        groups.append({"params": list(tagger.model.parameters()), "lr": MODEL_RATE})
    optimizer = torch.optim.AdamW(groups)
    steps = epochs * -(-len(sentences) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    sentences = list(sentences)
    for _ in range(epochs):
        order.shuffle(sentences)
        tagger.train()
        for batch in batches(sentences):
            loss = nn.functional.cross_entropy(tagger(vectors(batch)), tagger.targets(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def make_tagger(condition: str, folder: Path, labels: list[str], seed: int) -> Tagger:
    """Builds the tagger of a condition."""
    tokenizer = ElmoTokenizer.from_pretrained(folder)
    model = ElmoModel.from_pretrained(folder, freeze_bilm=condition != "tuned")
    torch.manual_seed(seed)
    if condition == "characters":
        model = ElmoModel(model.config)
    layer = 0 if condition in ("characters", "layer 0") else None
    return Tagger(model, tokenizer, labels, layer, tune=condition == "tuned")


def learning_curve(
    folder: Path, train: list[Sentence], test: list[Sentence], sizes: list[int], seeds: int, output: Path
) -> dict[tuple[str, int], list[float]]:
    """Returns the accuracies of each condition and number of training sentences, one for each seed."""
    scores: dict[tuple[str, int], list[float]] = {}
    with open(output, "w", encoding="utf-8") as file:
        for size in sizes:
            for condition in CONDITIONS:
                for seed in range(seeds):
                    sentences = random.Random(seed).sample(train, min(size, len(train)))
                    labels = sorted({label for _, labels in sentences for label in labels})
                    tagger = make_tagger(condition, folder, labels, seed)
                    train_tagger(tagger, sentences, seed)
                    scores.setdefault((condition, size), []).append(accuracy(tagger, test))
                    print(f"{condition}\t{size}\t{seed}\t{scores[condition, size][-1]:.4f}", file=file, flush=True)
                values = scores[condition, size]
                spread = f" ({statistics.stdev(values):.1%} over {seeds} seeds)" if seeds > 1 else ""
                print(f"{size:>6} sentences, {condition:10} {statistics.mean(values):.1%}{spread}", flush=True)
    return scores


def main(arguments: list[str] | None = None) -> dict[tuple[str, int], list[float]]:
    """Pretrains if needed, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", type=Path, help="raw text, a sentence a line; also packed")
    source.add_argument("--model", type=Path, help="a pretrained model in place of --text")
    parser.add_argument("--train", type=Path, required=True, help="a treebank in CoNLL-U")
    parser.add_argument("--test", type=Path, required=True, help="a treebank in CoNLL-U")
    parser.add_argument("--output", type=Path, required=True, help="folder of the model; OUTPUT.tsv has the scores")
    parser.add_argument("--language", help="BCP 47 tag of the language")
    parser.add_argument("--minutes", type=float, default=60, help="time for pretraining")
    parser.add_argument("--column", choices=COLUMNS, default="upos")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 10**6], help="training sentences")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    train, test = (read_treebank(path, options.column) for path in (options.train, options.test))
    sizes = sorted({min(size, len(train)) for size in options.sizes})
    folder = options.model
    if folder is None:
        folder = options.output
        if not folder.exists():
            settings = Settings(folder, [str(options.text)], minutes=options.minutes, language=options.language)
            pretrain(settings, say=lambda line: print(line, flush=True))
    return learning_curve(folder, train, test, sizes, options.seeds, options.output.with_suffix(".tsv"))


if __name__ == "__main__":
    main()
