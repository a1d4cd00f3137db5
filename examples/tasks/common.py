"""What the recipes share: their options, and a run of `elmo_hf.tasks.finetune` with them."""

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmo_hf import SentenceCache
from elmo_hf.tasks import find_task, finetune

PLACES = ("none", "input", "output", "both")
MODEL = "an ELMo: a folder, a name on the Hub, or english, which comes with the package"
# With fewer examples than this, the training examples choose the best model too.
FEWEST_TO_HOLD_OUT = 20


def parser_of(
    description: str, epochs: float, lr: float, batch_size: int, places: tuple[str, ...], flags: dict[str, str]
) -> Any:
    """The options of a recipe."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--train", required=True, help="the file to train on")
    parser.add_argument("--dev", help="the file that chooses the best model; by default a tenth of --train")
    parser.add_argument("--test", required=True, help="the file to score")
    parser.add_argument("--model", default="english", help=MODEL)
    parser.add_argument("--vectors", help="word vectors, GloVe's or word2vec's text, beside ELMo")
    parser.add_argument("--elmo", choices=places, default="input", help="where ELMo joins the network")
    parser.add_argument("--preset", choices=["paper", "small"], help="sizes of the network; not given: small")
    parser.add_argument("--output", default="task-model", help="the folder for checkpoints")
    parser.add_argument("--json", type=Path, help="write scores, layer weights and the number of examples here")
    parser.add_argument("--limit", type=limit, help="train on so many examples only, or on a share, as 10%%")
    parser.add_argument("--test-limit", type=int, help="score so many examples only")
    parser.add_argument("--epochs", type=float, default=epochs, help="passes over the training data, at most")
    parser.add_argument("--batch-size", type=int, default=batch_size, help="examples in a batch")
    parser.add_argument("--lr", type=float, default=lr, help="learning rate")
    parser.add_argument("--remember", type=float, default=2000, metavar="MB", help="memory for sentences of the biLM")
    parser.add_argument("--mix-dropout", type=float, help="dropout of ELMo's vectors; by default by their size")
    parser.add_argument("--seed", type=int, default=1, help="of the weights and the order")
    for flag, meaning in flags.items():
        parser.add_argument(f"--{flag}", action="store_true", help=meaning)
    return parser


def limit(text: str) -> int | float:
    """A number of examples, or a share of them: what ends with a percent sign is a fraction of 1."""
    return float(text[:-1]) / 100 if text.endswith("%") else int(text)


def limited(examples: Any, most: int | float | None) -> Any:
    """Random examples, the same for every run; a smaller choice lies in a larger one."""
    count = len(examples)
    if most is not None:
        count = min(max(1, round(most * count)) if isinstance(most, float) else most, count)
    return examples if count == len(examples) else examples.shuffle(seed=0).select(range(count))


def read_files(task: Any, train: str, test: str) -> tuple[Any, Any]:
    """The examples of two files."""
    return task.read(train), task.read(test, "test")


def recipe(
    name: str,
    description: str,
    epochs: float,
    lr: float,
    batch_size: int = 32,
    places: tuple[str, ...] = PLACES,
    read: Callable[[Any, str, str], tuple[Any, Any]] = read_files,
    flags: dict[str, str] | None = None,
) -> Callable[..., dict[str, Any]]:
    """The `main` of a recipe: reads options, fine-tunes, and prints and returns the scores on --test.

    Args:
        name: of the task.
        description: for --help.
        epochs, lr, batch_size: defaults of the options.
        places: where ELMo may join the network.
        read: task, --train and --test -> their examples.
        flags: further options without a value, which are attributes of the task, with their help.
    """

    def main(arguments: list[str] | None = None, cache: SentenceCache | None = None) -> dict[str, Any]:
        args = parser_of(description, epochs, lr, batch_size, places, flags or {}).parse_args(arguments)
        task = find_task(name)
        for flag in flags or {}:
            setattr(task, flag, getattr(args, flag))
        data, test = read(task, args.train, args.test)
        train, scored = limited(data, args.limit), limited(test, args.test_limit)
        dev = train if len(train) < FEWEST_TO_HOLD_OUT else None
        if args.dev:
            dev = task.read(args.dev, "dev") if read is read_files else read(task, args.train, args.dev)[1]
        output = Path(args.output, "model")
        if output.exists():  # a run that was killed after it
            shutil.rmtree(output)
        trainer = finetune(
            name,
            train=train,
            dev=dev,
            test=scored,
            output=output,
            model=args.model,
            preset=args.preset,
            elmo_at=args.elmo,
            word_vectors=args.vectors,
            lr=args.lr,
            epochs=args.epochs,
            batch_size=args.batch_size,
            seed=args.seed,
            mix_dropout=args.mix_dropout,
            cache_megabytes=args.remember,
            sentence_cache=cache,
        )
        counts = {"examples": len(train), "of": len(data), "scored": len(scored)}
        return result(trainer, counts, args.json)

    return main


def result(trainer: Any, counts: dict[str, int], json_file: Path | None) -> dict[str, Any]:
    """Prints the scores and what the mixes have learned; these and the number of examples go to a file too."""
    places = {"elmo.scalar_mix": "input", "output_mix": "output"}
    weights = {
        places[name]: [round(weight, 3) for weight in values.tolist()]
        for name, values in trainer.model.layer_weights().items()
        if places[name] in trainer.model.head_settings.elmo_at
    }
    scores = {name: 100 * value for name, value in trainer.scores["test"].items()}
    print("  ".join(f"{name} {value:.2f}" for name, value in scores.items()), "| layer weights:", weights or "no ELMo")
    results = {"scores": scores, "weights": weights, **counts}
    if json_file:
        json_file.write_text(json.dumps(results) + "\n", encoding="utf-8")
    return results
