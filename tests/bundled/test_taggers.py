"""The taggers in the package: they are whole, share one biLM, and their cards say what was measured."""

import importlib
import json
import sys

import pytest
import torch
from golden_files import TESTS
from transformers import AutoModelForTokenClassification, pipeline

from elmo_hf import ElmoForTokenClassification, bundled_model
from elmo_hf.bundled import FOLDER
from elmo_hf.bundled.tagger_demo import SENTENCES, BundledTagger, tagged_lines

ENGLISH = TESTS.parent / "examples" / "english"
MEASURED = json.loads((ENGLISH / "measured" / "taggers.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def taggers():
    sys.path.insert(0, str(ENGLISH))
    try:
        yield importlib.import_module("taggers")
    finally:
        sys.path.remove(str(ENGLISH))
        sys.modules.pop("taggers", None)


def test_entities_and_parts_of_speech_of_raw_text():
    tag = pipeline("token-classification", model=bundled_model("english-ner"), aggregation_strategy="simple")
    text = "Angela Merkel flew from Berlin to New York."
    assert [(found["entity_group"], text[found["start"] : found["end"]]) for found in tag(text)] == [
        ("PER", "Angela Merkel"),
        ("LOC", "Berlin"),
        ("LOC", "New York"),
    ]
    tag = pipeline("token-classification", model=bundled_model("english-pos"))
    labels = [found["entity"] for found in tag("She doesn't read old books.")]
    assert labels == ["PRON", "AUX", "PART", "VERB", "ADJ", "NOUN", "PUNCT"]


def test_all_share_the_weights_of_one_bilm():
    models = [AutoModelForTokenClassification.from_pretrained(bundled_model(name)) for name in MEASURED]
    models.append(ElmoForTokenClassification.from_pretrained("english-ner"))
    addresses = {model.elmo.bilm.forward_layers[0].weight_input.data_ptr() for model in models}
    assert len(addresses) == 1
    assert all(model.dtype == torch.float32 for model in models)


@pytest.mark.parametrize("name", MEASURED)
def test_a_tagger_is_a_small_head_on_english(name):
    config = json.loads((FOLDER / name / "config.json").read_text(encoding="utf-8"))
    assert config["base_model"]["name"] == "english"
    files = {path.name: path.stat().st_size for path in (FOLDER / name).iterdir()}
    assert sum(files.values()) < 2e6 and files["model.safetensors"] == MEASURED[name]["bytes"]


@pytest.mark.parametrize("name", MEASURED)
def test_the_card_is_what_its_program_writes(name, taggers):
    assert (FOLDER / name / "README.md").read_text(encoding="utf-8") == taggers.card(name, MEASURED[name])


def test_contractions_are_split_as_in_the_text_of_the_bilm(taggers):
    assert taggers.split_as_moses(["Ca", "n't", "and", "n't"]) == ["Can", "'t", "andn", "'t"]
    from datasets import Dataset

    data = Dataset.from_dict({"tokens": [["do", "n't"], ["Yes"]], "labels": [["AUX", "PART"], ["INTJ"]]})
    assert taggers.with_moses_contractions(data)["tokens"] == [["do", "n't"], ["Yes"], ["don", "'t"]]


def test_other_kinds_of_entities_are_read_as_none(taggers, tmp_path):
    import gzip

    lines = [
        "# a comment",
        "1\tRome\tB-LOC\t-\tx",
        "2\tburns\tO",
        "3\t.\tB-O\t-\tx",
        "",
        "1\tAmerican\tB-OTH\t-\tx",
        "",
    ]
    (tmp_path / "x.iob2.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    read = taggers.read_entities(tmp_path / "x.iob2.gz")
    assert list(read["entities"]) == [["B-LOC", "O", "O"], ["O"]]


def test_the_demonstration_shows_what_the_taggers_say():
    lines = list(tagged_lines())
    assert max(map(len, lines)) <= 80
    for sentence in SENTENCES:
        words = sentence.split()
        row = next(number for number, line in enumerate(lines) if line.split() == words)
        assert lines[row + 1].split() == BundledTagger("english-pos").labels(words)
        # Each kind of entity stands below its word.
        for start, label in zip(_starts(lines[row], words), BundledTagger("english-ner").labels(words), strict=True):
            assert lines[row + 2][start : start + 3].strip() == (label[2:] if label != "O" else "")


def _starts(line, words):
    """The column in which each word begins."""
    start = 0
    for word in words:
        start = line.index(word, start)
        yield start
        start += len(word)
