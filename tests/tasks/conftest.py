"""A small ELMo in a folder, and annotated files that it learns in seconds."""

import json

import pytest
from small_models import small

from elmo_hf import ElmoModel, ElmoTokenizer

PEOPLE, PLACES = ["Ann", "Bob", "Eve", "Ivy Lee"], ["Rome", "Oslo", "New York"]


@pytest.fixture(scope="session")
def base_model(tmp_path_factory):
    """The folder of an ELMo without a head."""
    folder = tmp_path_factory.mktemp("models") / "base"
    small(ElmoModel).save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return folder


def entity_rows(count):
    """Sentences such as `Ann lives in Rome .` with labels in BIO."""
    rows = []
    for number in range(count):
        person, place = PEOPLE[number % 4].split(), PLACES[number % 3].split()
        words = [*person, "lives", "in", *place, "."]
        labels = ["B-PER", *["I-PER"] * (len(person) - 1), "O", "O", "B-LOC", *["I-LOC"] * (len(place) - 1), "O"]
        # Numbers make the sentences differ.
        rows.append((["No", str(number), *words], ["O", "O", *labels]))
    return rows


def write_conll(path, rows):
    path.write_text(
        "\n".join("".join(f"{word}\t{label}\n" for word, label in zip(*row, strict=True)) for row in rows), "utf-8"
    )
    return path


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder of train, dev and test files of entities and of reviews."""
    folder = tmp_path_factory.mktemp("data")
    rows = entity_rows(96)
    for name, part in (("train", rows[:64]), ("dev", rows[64:80]), ("test", rows[80:])):
        write_conll(folder / f"{name}.conll", part)
    reviews = [
        {"text": f"The film number {n} was {'good' if n % 2 else 'bad'} .", "label": "pos" if n % 2 else "neg"}
        for n in range(60)
    ]
    (folder / "reviews.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reviews))
    (folder / "reviews.tsv").write_text("".join(f"{row['text']}\t{row['label']}\n" for row in reviews))
    (folder / "corpus.txt").write_text("".join(f"{' '.join(words)}\n" for words, _ in rows * 4))
    return folder


@pytest.fixture(scope="session")
def tagger(base_model, data, tmp_path_factory):
    """The folder of a tagger that was trained for an epoch, and the lines that the run printed."""
    from elmo_hf.tasks import finetune

    folder, lines = tmp_path_factory.mktemp("taggers") / "tagger", []
    finetune(
        "ner",
        train=data / "train.conll",
        dev=data / "dev.conll",
        test=data / "test.conll",
        output=folder,
        model=str(base_model),
        epochs=15,
        patience=15,
        batch_size=8,
        say=lines.append,
    )
    return folder, lines
