"""What a linear layer reads: ELMo frozen or tuned, its layer 0, a biLM of random weights, word vectors, side by side.

    python examples/tasks/tagging.py pos DATA --sentences 3000 -o pos.json
    python examples/tasks/tagging.py ner DATA --vectors glove.6B.50d.txt -o ner.json

pos: UD English-EWT, UPOS; DATA holds en_ewt-ud-{train,test}.conllu.gz
(https://universaldependencies.org, CC BY-SA 4.0).
ner: WNUT17, whose test entities were never seen; DATA holds wnut17train.conll and emerging.test.annotated
(https://github.com/leondz/emerging_entities_17, CC BY 4.0).
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

from elmo_hf import (
    ElmoForTokenClassification,
    ElmoTokenizer,
    SentenceCache,
    encode_words,
    entity_metrics,
    label_names,
    read_conll,
    read_conllu,
    read_word_vectors,
)
from elmo_hf.bundled import find_model

# What frozen biLMs have made of sentences: of one kind of input, epochs and seeds after the first do not read again.
READ = SentenceCache(megabytes=1000)


class Data(NamedTuple):
    """Sentences with `tokens` and `labels`."""

    train: Dataset
    test: Dataset


class Input(NamedTuple):
    """What the linear layer reads: how the model is loaded, and the learning rates of the head and of the biLM;
    and whether it reads the word vectors of `--vectors` too."""

    options: dict[str, Any]
    random: bool = False
    lr: float = 1e-2
    bilm_lr: float | None = None
    vectors: bool = False


INPUTS = {
    "ELMo, frozen": Input({"freeze_bilm": True}),
    "ELMo, tuned": Input({"freeze_bilm": False}, bilm_lr=1e-3),
    "layer 0, frozen": Input({"freeze_bilm": True, "mix": 0}),
    "random biLM, frozen": Input({"freeze_bilm": True}, random=True),
    "word vectors": Input({"head": {"elmo_at": []}}, vectors=True),
    "[word vectors; ELMo], frozen": Input({"head": {"elmo_at": ["input"]}}, vectors=True),
}


def read_pos(folder: Path) -> Data:
    """Sentences with their UPOS tags."""
    train, test = (read_conllu(folder / f"en_ewt-ud-{part}.conllu.gz") for part in ("train", "test"))
    return Data(train.rename_column("upos", "labels"), test.rename_column("upos", "labels"))


def read_ner(folder: Path) -> Data:
    """Sentences with their entities."""
    names = ("wnut17train.conll", "emerging.test.annotated")
    return Data(*(read_conll(folder / name, separator="\t") for name in names))


def accuracy(labels: list[str]) -> Callable:
    """The share of words with the right label."""

    def compute(prediction: Any) -> dict[str, float]:
        logits, gold = prediction  # (N, T, num_labels), (N, T)
        return {"accuracy": float((logits.argmax(-1) == gold)[gold != -100].mean())}

    return compute


# Of each task: its reader, its metrics, and which of these the table shows.
TASKS = {"pos": (read_pos, accuracy, "accuracy"), "ner": (read_ner, entity_metrics, "f1")}


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("data", type=Path, help="The folder of the annotated files.")
    parser.add_argument("--model", default="english", help="A folder, a repository of the Hub, or english.")
    parser.add_argument("--vectors", help="Word vectors, GloVe's or word2vec's text, for the rows that read them.")
    parser.add_argument("--inputs", nargs="+", choices=INPUTS, help="Rows of the table; not given: all there can be.")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="A run for each.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--sentences", type=int, help="Train on so many sentences, the first; not given: on all.")
    parser.add_argument("-o", "--output", type=Path, help="JSON; runs that it holds already are not run again.")
    args = parser.parse_args()
    readable = [name for name, row in INPUTS.items() if args.vectors or not row.vectors]
    args.inputs = args.inputs or readable
    for name in args.inputs:
        if name not in readable:
            parser.error(f"the row {name!r} reads word vectors, but --vectors names no file of them.")
    return args


def compare(args: argparse.Namespace, data: Data, metrics: Callable[[list[str]], Callable], score: str):
    """Trains and tests every input with every seed; prints the table, and writes it after each run.

    Args:
        args: from `arguments`.
        metrics: the names of the labels -> the Trainer's `compute_metrics`.
        score: which of these the table shows.
    """
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    train = data.train.select(range(min(args.sentences or len(data.train), len(data.train))))
    labels = label_names(data.train, data.test)
    setting = {"sentences": len(train), "epochs": args.epochs, "batch_size": args.batch_size, "score": score}
    results = _results(args.output, setting)
    for name in args.inputs:
        for seed in args.seeds:
            if str(seed) in results["scores"].get(name, {}):
                continue
            start = time.perf_counter()
            metrics_of_test = run(args, Data(train, data.test), INPUTS[name], seed, labels, metrics(labels))
            results["scores"].setdefault(name, {})[str(seed)] = metrics_of_test[f"eval_{score}"]
            if args.output:
                args.output.parent.mkdir(parents=True, exist_ok=True)
                args.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            took = time.perf_counter() - start
            print(
                f"{name}, seed {seed}: {score} {100 * metrics_of_test[f'eval_{score}']:.2f} ({took:.0f} s)", flush=True
            )
    print(table(results))


def _results(path: Path | None, setting: dict[str, Any]) -> dict[str, Any]:
    if path is None or not path.exists():
        return {**setting, "scores": {}}
    results = json.loads(path.read_text(encoding="utf-8"))
    if {name: results.get(name) for name in setting} != setting:
        raise SystemExit(f"{path} holds results of another setting than {setting}. Expected another --output.")
    return results


def run(
    args: argparse.Namespace,
    data: Data,
    chosen: Input,
    seed: int,
    labels: list[str],
    metrics: Callable,
) -> dict[str, float]:
    """Trains one head with one seed; returns what the test data measure."""
    set_seed(seed)
    name, _ = find_model(args.model)
    tokenizer, options, vectors = AutoTokenizer.from_pretrained(name), dict(chosen.options), None
    if chosen.vectors:
        words = {word for part in data for tokens in part["tokens"] for word in tokens}
        known, vectors = read_word_vectors(args.vectors, words)
        tokenizer = ElmoTokenizer.from_pretrained(name, vector_words=known)
        options["head"] = {**options["head"], "word_vectors": list(vectors.shape)}
    numbers = {"id2label": dict(enumerate(labels)), "label2id": {label: n for n, label in enumerate(labels)}}
    if chosen.random:
        model = ElmoForTokenClassification(AutoConfig.from_pretrained(name, **numbers, **options))
    else:
        model = ElmoForTokenClassification.from_pretrained(name, **numbers, **options)
    if vectors is not None:
        model.set_word_vectors(vectors)
    if options.get("freeze_bilm", True):  # as heads have it
        model.cache_sentences(READ)
    settings = {"tokenizer": tokenizer, "label2id": model.config.label2id}
    train, test = (
        part.map(encode_words, batched=True, fn_kwargs=settings, remove_columns=part.column_names) for part in data
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            TrainingArguments(
                folder,
                num_train_epochs=args.epochs,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=64,
                train_sampling_strategy="group_by_length",
                lr_scheduler_type="linear",
                warmup_steps=0.1,  # below 1: a share of all steps
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                disable_tqdm=True,
                seed=seed,
                dataloader_pin_memory=torch.cuda.is_available(),
            ),
            train_dataset=train,
            eval_dataset=test,
            data_collator=DataCollatorForTokenClassification(tokenizer),
            compute_metrics=metrics,
            optimizers=(torch.optim.AdamW(model.parameter_groups(lr=chosen.lr, bilm_lr=chosen.bilm_lr)), None),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return trainer.evaluate()


def table(results: dict[str, Any]) -> str:
    """Markdown: mean and spread, from the least to the greatest, over seeds.

    >>> print(table({"score": "f1", "scores": {"ELMo, frozen": {"0": 0.5, "1": 0.6}}}))
    | input | f1, mean | least - greatest | seeds |
    |---|---|---|---|
    | ELMo, frozen | 55.00 | 50.00 - 60.00 | 2 |
    """
    lines = [f"| input | {results['score']}, mean | least - greatest | seeds |", "|---|---|---|---|"]
    for name in sorted(results["scores"], key=[*INPUTS].index):
        values = [100 * value for value in results["scores"][name].values()]
        spread = f"{min(values):.2f} - {max(values):.2f}"
        lines.append(f"| {name} | {statistics.mean(values):.2f} | {spread} | {len(values)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    args = arguments()
    read, metrics, score = TASKS[args.task]
    compare(args, read(args.data), metrics, score)
