"""What the recipes share: their options, the model with its inputs, the Trainer."""

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Trainer, TrainerCallback, TrainingArguments, set_seed

from elmo_hf import ElmoTokenizer, SentenceCache, read_word_vectors
from elmo_hf.bundled import find_model

# Where ELMo joins the network: what the rows of the table are called.
PLACES = {"none": [], "input": ["input"], "output": ["output"], "both": ["input", "output"]}

MODEL = "an ELMo: a folder, a name on the Hub, or english for the one that comes with the package"


def folder_of(model: str) -> str:
    """What transformers loads for a model's name."""
    found, surprise = find_model(model)
    if surprise:
        print(surprise, file=sys.stderr)
    return found


def options(
    description: str, epochs: float, batch_size: int = 32, lr: float = 1e-3, places: tuple[str, ...] = tuple(PLACES)
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--train", required=True, help="the file to train on")
    parser.add_argument("--test", required=True, help="the file to score")
    parser.add_argument("--model", type=folder_of, default="english", help=MODEL)
    parser.add_argument("--vectors", help="word vectors, GloVe's or word2vec's text, to put beside ELMo")
    parser.add_argument("--elmo", choices=places, default="input", help="where ELMo joins the network")
    parser.add_argument("--preset", choices=["paper", "small"], default="small", help="sizes of the network")
    parser.add_argument("--output", default="task-model", help="the folder for checkpoints and the model")
    parser.add_argument("--json", type=Path, help="write scores, layer weights and the number of examples here")
    parser.add_argument("--limit", type=limit, help="train on so many examples only, or on a share, as 10%%")
    parser.add_argument("--test-limit", type=int, help="score so many examples only")
    parser.add_argument("--epochs", type=float, default=epochs, help="passes over the training data")
    parser.add_argument("--steps", type=int, help="in place of epochs, so many steps")
    parser.add_argument("--batch-size", type=int, default=batch_size, help="examples in a batch")
    parser.add_argument("--lr", type=float, default=lr, help="learning rate")
    parser.add_argument(
        "--remember", type=float, default=2000, metavar="MB", help="memory for sentences that the biLM has read"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the weights and the order")
    return parser


@functools.lru_cache(maxsize=1)
def sentences(megabytes: float, *files: str) -> SentenceCache:
    """What the biLM makes of the sentences of some files. All runs of one process share it, until other files come."""
    return SentenceCache(megabytes)


def limit(text: str) -> int | float:
    """A number of examples, or a share of them: what ends with a percent sign is a fraction of 1."""
    return float(text[:-1]) / 100 if text.endswith("%") else int(text)


def limited(dataset: Any, most: int | float | None, seed: int = 0) -> Any:
    """A random part of a dataset, the same for every run; a smaller part lies in a greater one."""
    if isinstance(most, float):
        most = max(1, round(most * len(dataset)))
    return dataset if most is None or most >= len(dataset) else dataset.shuffle(seed=seed).select(range(most))


def parts(args: argparse.Namespace, data: Any, test: Any) -> tuple[Any, Any]:
    """What `--limit` leaves of the training data, and `--test-limit` of what is scored; `result` tells how much."""
    part, scored = limited(data, args.limit), limited(test, args.test_limit)
    args.examples = {"examples": len(part), "of": len(data), "scored": len(scored)}
    return part, scored


def load(args: argparse.Namespace, model_class: Any, head: str, words: set[str], labels: list[str] | None = None):
    """The model and its tokenizer, with word vectors for `words` if there are any."""
    set_seed(args.seed)
    settings: dict[str, Any] = {"type": head, "elmo_at": PLACES[args.elmo]}
    if args.preset == "small":
        settings["preset"] = "small"
    known, table = read_word_vectors(args.vectors, words) if args.vectors else (None, None)
    if table is not None:
        settings["word_vectors"] = list(table.shape)
    names = (
        {}
        if labels is None
        else {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}
    )
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    if known is not None:
        tokenizer = ElmoTokenizer.from_pretrained(args.model, vector_words=known)
    # What joins the biLM is new each time: only these weights are missing in its checkpoint.
    model = model_class.from_pretrained(args.model, head=settings, dtype=torch.float32, **names)
    if table is not None:
        model.set_word_vectors(table)
    if args.remember:
        model.cache_sentences(sentences(args.remember, args.train, args.test))
    return model, tokenizer


class SameOrder(TrainerCallback):
    """Gives a run that goes on in the middle of an epoch the order in which that epoch was begun.

    Grouping by length draws it from torch's generator, which the Trainer has at the checkpoint only.
    """

    def __init__(self):
        self.begun = None

    @staticmethod
    def _file(args: TrainingArguments, state: Any) -> Path:
        return Path(args.output_dir, f"checkpoint-{state.global_step}", "epoch_rng_state.pth")

    def on_epoch_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any):
        if self.begun is None and self._file(args, state).exists():
            torch.set_rng_state(torch.load(self._file(args, state)))
        self.begun = torch.get_rng_state()

    def on_save(self, args: TrainingArguments, state: Any, control: Any, **_: Any):
        ended = state.epoch == int(state.epoch)  # then the next one is drawn
        torch.save(torch.get_rng_state() if ended else self.begun, self._file(args, state))


def train(
    args: argparse.Namespace, model: Any, tokenizer: Any, data: Any, collator: Any, metrics: Any = None
) -> Trainer:
    """Trains, going on from the last checkpoint if a run was stopped, and saves the model."""
    arguments = TrainingArguments(
        args.output,
        num_train_epochs=args.epochs,
        max_steps=args.steps or -1,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=64,
        save_total_limit=1,
        save_steps=200,
        seed=args.seed,
        report_to="none",
        train_sampling_strategy="group_by_length",
        lr_scheduler_type="linear",
        warmup_steps=0.1,
        max_grad_norm=5.0,
        use_cpu=not torch.cuda.is_available(),
        logging_steps=50,
    )
    optimizer = torch.optim.AdamW(model.parameter_groups(args.lr))
    trainer = Trainer(
        model,
        arguments,
        train_dataset=data,
        processing_class=tokenizer,
        data_collator=collator,
        compute_metrics=metrics,
        optimizers=(optimizer, None),
        callbacks=[SameOrder()],
    )
    trainer.train(resume_from_checkpoint=any(Path(args.output).glob("checkpoint-*")))
    trainer.save_model(args.output)
    return trainer


def result(args: argparse.Namespace, model: Any, **scores: float) -> dict[str, Any]:
    """Prints the scores and what the mixes have learned; these and the number of examples go to `--json` too."""
    used = {"elmo.scalar_mix": "input", "output_mix": "output"}
    weights = {
        used[name]: [round(weight, 3) for weight in values.tolist()]
        for name, values in model.layer_weights().items()
        if used[name] in model.head_settings.elmo_at
    }
    print("  ".join(f"{name} {value:.2f}" for name, value in scores.items()), "| layer weights:", weights or "no ELMo")
    found = {"scores": scores, "weights": weights, **args.examples}
    if args.json:
        args.json.write_text(json.dumps(found) + "\n", encoding="utf-8")
    return found
