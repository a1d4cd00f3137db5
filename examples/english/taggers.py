"""Trains the taggers that come with the package: heads on the frozen biLM of `english`.

    python examples/english/taggers.py DATA --runs runs                 # train, bundle, measure, write the cards
    python examples/english/taggers.py DATA --runs runs --only english-ner

DATA holds UD English-EWT and Universal NER on the same sentences (both CC BY-SA 4.0):

    pos/en_ewt-ud-{train,dev,test}.conllu.gz
    ner/uner_en_ewt/en_ewt-ud-{train.first-commit-2022,dev,test}.iob2.gz

The epoch with the best score on dev is kept. The test set is read once, by the model as it is bundled. `elmo-hf`
splits raw text as Moses does (`don 't`), the treebank in another way (`do n't`): sentences with such a contraction are
in the training data in both forms.
"""

import argparse
import gzip
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset, concatenate_datasets
from safetensors.torch import load_file, save_file
from transformers import (
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

from elmo_hf import (
    ElmoForTokenClassification,
    ElmoTokenizer,
    SentenceCache,
    bundled_model,
    encode_words,
    entity_metrics,
    label_names,
    read_conllu,
)
from elmo_hf.hub.head_checkpoints import head_weights
from elmo_hf.tasks.load_model import RESULT
from elmo_hf.tasks.tagging.conll import CONLLU_COLUMNS

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "elmo_hf" / "bundled"
MEASURED = Path(__file__).resolve().parent / "measured" / "taggers.json"
HEAD = {"type": "bilstm-crf", "size": 128, "layers": 1, "dropout": 0.3}
MIX_DROPOUT = 0.2
BATCH_SIZE = 32
PARTS = ("train", "dev", "test")
EWT = "[UD English-EWT](https://github.com/UniversalDependencies/UD_English-EWT) 2.16, CC BY-SA 4.0"
UNER = "[Universal NER](https://github.com/UniversalNER/UNER_English-EWT) on UD English-EWT, CC BY-SA 4.0"
DATA_CREDITS = {
    "upos": EWT,
    "xpos": EWT,
    "entities": f"{UNER}. The training labels are those of the first commit of 2022; other kinds of entities are O",
}


class Tagger(NamedTuple):
    """A bundled tagger: its column of labels, the score that chooses the epoch, and how it trains."""

    column: str
    metric: str
    epochs: int
    lr: float
    title: str


TAGGERS = {
    "english-pos": Tagger("upos", "accuracy", 8, 0.002, "universal parts of speech (UPOS), UD English-EWT"),
    "english-xpos": Tagger("xpos", "accuracy", 6, 0.004, "Penn Treebank parts of speech (XPOS), UD English-EWT"),
    "english-ner": Tagger(
        "entities", "f1", 12, 0.002, "persons, places and organizations (PER, LOC, ORG), UNER English-EWT"
    ),
}


def read_entities(path: Path) -> Dataset:
    """UNER's files: number, word and label in columns; labels of other kinds than PER, LOC and ORG become O."""
    rows = {"tokens": [], "entities": []}
    for words in _sentences(path):
        rows["tokens"].append([fields[1] for fields in words])
        rows["entities"].append([_entity(fields[2]) for fields in words])
    return Dataset.from_dict(rows)


def _sentences(path: Path) -> Iterator[list[list[str]]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for block in file.read().split("\n\n"):
            words = [line.split("\t") for line in block.splitlines() if line and not line.startswith("#")]
            if words:
                yield words


def _entity(label: str) -> str:
    return label if label[2:] in ("PER", "LOC", "ORG") else "O"


def read(data: Path, column: str) -> dict[str, Dataset]:
    """The training, development and test sentences with their `labels`."""
    if column == "entities":
        names = ("train.first-commit-2022", "dev", "test")
        parts = [read_entities(data / "ner" / "uner_en_ewt" / f"en_ewt-ud-{name}.iob2.gz") for name in names]
    else:
        parts = [read_conllu(data / "pos" / f"en_ewt-ud-{name}.conllu.gz", [column]) for name in PARTS]
    return {name: part.rename_column(column, "labels") for name, part in zip(PARTS, parts, strict=True)}


def split_as_moses(tokens: list[str]) -> list[str]:
    """The same number of tokens, negative contractions split as in the biLM's text.

    >>> split_as_moses(["I", "do", "n't", "know"])
    ['I', 'don', "'t", 'know']
    """
    tokens = list(tokens)
    for place in range(1, len(tokens)):
        if tokens[place].lower() in ("n't", "n’t"):
            tokens[place - 1], tokens[place] = tokens[place - 1] + tokens[place][0], tokens[place][1:]
    return tokens


def with_moses_contractions(data: Dataset) -> Dataset:
    """The sentences, and those with a negative contraction once more, split as in the biLM's text."""
    changed = [
        {"tokens": split_as_moses(row["tokens"]), "labels": row["labels"]}
        for row in data
        if split_as_moses(row["tokens"]) != row["tokens"]
    ]
    return concatenate_datasets([data, Dataset.from_list(changed, features=data.features)]) if changed else data


def accuracy(names: list[str]) -> Callable:
    """The Trainer's `compute_metrics` for parts of speech."""

    def compute(prediction: Any) -> dict[str, float]:
        logits, gold = prediction  # (N, T, num_labels), (N, T)
        return {"accuracy": float((np.argmax(logits, -1) == gold)[gold != -100].mean())}

    return compute


def trainer_of(model: Any, tokenizer: Any, parts: dict[str, Dataset], tagger: Tagger, output: Path) -> Trainer:
    """A Trainer of the head, which keeps the best epoch."""
    names = [model.config.id2label[number] for number in range(model.config.num_labels)]
    settings = {"tokenizer": tokenizer, "label2id": model.config.label2id}
    encoded = {
        name: part.map(encode_words, batched=True, fn_kwargs=settings, remove_columns=part.column_names)
        for name, part in parts.items()
    }
    arguments = TrainingArguments(
        str(output),
        num_train_epochs=tagger.epochs,
        per_device_train_batch_size=BATCH_SIZE,
        per_device_eval_batch_size=64,
        train_sampling_strategy="group_by_length",
        lr_scheduler_type="linear",
        warmup_steps=0.1,
        max_grad_norm=5.0,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model=tagger.metric,
        logging_steps=100,
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )
    return Trainer(
        model,
        arguments,
        train_dataset=encoded.get("train"),
        eval_dataset=encoded["dev"],
        processing_class=tokenizer,
        data_collator=DataCollatorForTokenClassification(tokenizer),
        compute_metrics=(entity_metrics if tagger.metric == "f1" else accuracy)(names),
        optimizers=(torch.optim.AdamW(model.parameter_groups(tagger.lr)), None),
    )


def train(name: str, data: Path, runs: Path) -> Path:
    """Trains a tagger; returns the folder of the whole model of its best epoch. A finished run is not repeated."""
    tagger, output = TAGGERS[name], runs / name
    if not (output / "best.json").exists():
        parts = read(data, tagger.column)
        labels = label_names(*parts.values())
        parts["train"] = with_moses_contractions(parts["train"])
        set_seed(0)
        tokenizer = AutoTokenizer.from_pretrained(bundled_model("english"))
        model = ElmoForTokenClassification.from_pretrained(
            bundled_model("english"),
            head=HEAD,
            mix_dropout=MIX_DROPOUT,
            id2label=dict(enumerate(labels)),
            label2id={label: number for number, label in enumerate(labels)},
        )
        model.cache_sentences(SentenceCache(megabytes=2000))
        trainer = trainer_of(model, tokenizer, parts, tagger, output)
        trainer.train()
        trainer.save_model(str(output / "model"))
        (output / "best.json").write_text(json.dumps({"score": trainer.state.best_metric}) + "\n", encoding="utf-8")
    return output / "model"


def bundle(name: str, whole: Path, output: Path, column: str):
    """Writes the head alone, in float16 that loads as float32, with its tokenizer."""
    model = ElmoForTokenClassification.from_pretrained(whole)
    model.config.card_data = {"language": "en", "license": "cc-by-sa-4.0", "origin": f"The head {name} of elmo_hf."}
    for weights in head_weights(model).values():
        weights.copy_(weights.half())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, head_only=True, base=bundled_model("english"))
        ElmoTokenizer("moses-en").save_pretrained(folder)
        tensors = load_file(Path(folder) / "model.safetensors")
        halves = {key: tensor.half().contiguous() for key, tensor in tensors.items()}
        save_file(halves, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        output.mkdir(exist_ok=True)
        for path in sorted(Path(folder).iterdir()):
            if path.suffix not in (".py", ".md"):
                shutil.copyfile(path, output / path.name)
    if column in CONLLU_COLUMNS:  # `elmo-hf evaluate` reads the same column
        (output / RESULT).write_text(json.dumps({"columns": {"label": column}}) + "\n", encoding="utf-8")


def measure(name: str, data: Path) -> dict[str, Any]:
    """The scores of a bundled tagger on dev and test, and what it takes on disk."""
    tagger, folder = TAGGERS[name], BUNDLED / name
    parts = read(data, tagger.column)
    model = ElmoForTokenClassification.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as output:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        scores = {
            part: trainer_of(model, tokenizer, {"dev": parts[part]}, tagger, Path(output)).evaluate()
            for part in ("dev", "test")
        }
    names = ("accuracy",) if tagger.metric == "accuracy" else ("precision", "recall", "f1")
    return {
        "sentences": {part: len(rows) for part, rows in parts.items()},
        "labels": sorted(set(model.config.id2label.values())),
        **{part: {key: round(evaluated[f"eval_{key}"], 5) for key in names} for part, evaluated in scores.items()},
        "bytes": (folder / "model.safetensors").stat().st_size,
    }


def card(name: str, result: dict[str, Any]) -> str:
    """The card of a bundled tagger, from its measurements."""
    tagger = TAGGERS[name]
    kinds = sorted(
        {label[2:] for label in result["labels"] if label != "O"} if name == "english-ner" else result["labels"]
    )
    rows = "\n".join(
        f"| {part} | {result['sentences'][part]:,} | "
        + " | ".join(f"{100 * value:.2f}" for value in result[part].values())
        + " |"
        for part in ("dev", "test")
    )
    return (
        (Path(__file__).resolve().parent / "tagger_card_template.md")
        .read_text(encoding="utf-8")
        .format(
            name=name,
            title=tagger.title,
            data=DATA_CREDITS[tagger.column],
            labels=", ".join(f"`{label}`" for label in kinds),
            size=HEAD["size"],
            epochs=tagger.epochs,
            lr=tagger.lr,
            batch=BATCH_SIZE,
            train=result["sentences"]["train"],
            metrics=" | ".join(f"{metric}, %" for metric in result["test"]),
            rule="---:|" * len(result["test"]),
            rows=rows,
            megabytes=result["bytes"] / 1e6,
        )
    )


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="The folder that holds pos/ and ner/.")
    parser.add_argument("--runs", type=Path, default=Path("tagger-runs"), help="Where the runs are written.")
    parser.add_argument("--only", nargs="+", choices=TAGGERS, default=list(TAGGERS), help="Default: all taggers.")
    arguments = parser.parse_args()
    for name in arguments.only:
        bundle(name, train(name, arguments.data, arguments.runs), BUNDLED / name, TAGGERS[name].column)
        results = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
        results[name] = measure(name, arguments.data)
        MEASURED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        (BUNDLED / name / "README.md").write_text(card(name, results[name]), encoding="utf-8")
        print(name, results[name]["dev"], results[name]["test"], flush=True)


if __name__ == "__main__":
    main()
