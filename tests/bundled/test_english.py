"""The English model in the package: that it is whole, what it claims, and that its card says what was measured."""

import importlib.util
import json
import sys

import numpy as np
import pytest
import torch
from golden_files import TESTS
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from elmo_hf import ElmoScorer, bundled_model
from elmo_hf.bundled import FOLDER, senses
from elmo_hf.bundled.demo import total_share
from elmo_hf.bundled.sense_test import separation
from elmo_hf.bundled.whitespace_reader import WhitespaceReader

ENGLISH = TESTS.parent / "examples" / "english"


@pytest.fixture(scope="module")
def scorer():
    return ElmoScorer.from_pretrained(bundled_model("english"))


@pytest.fixture(scope="module")
def tested(scorer):
    reader = WhitespaceReader(scorer.model, scorer.tokenizer)
    return [separation(word, lines, reader) for word, lines in senses().items()]


def test_it_loads_as_float32_and_is_small(capsys):
    tokenizer, model = AutoTokenizer.from_pretrained(bundled_model()), AutoModel.from_pretrained(bundled_model())
    assert (
        model.dtype == torch.float32 and AutoModelForPreTraining.from_pretrained(bundled_model()).dtype == model.dtype
    )
    assert tokenizer("It's here.").tokens()[1:4] == ["It", "'s", "here"]
    assert sum(path.stat().st_size for path in (FOLDER / "english").iterdir()) < 20e6
    assert "UNEXPECTED" not in "".join(capsys.readouterr())


def test_its_tensors_are_float16_on_disk():
    with open(FOLDER / "english" / "model.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    assert {about["dtype"] for name, about in header.items() if name != "__metadata__"} == {"F16"}


def test_it_predicts_english(scorer):
    """Sentences beside the same words in another order: the sentence is the likelier, from both sides."""
    draw = np.random.default_rng(0)
    for line in ("The old man sat by the window and read a book .", "I do not know where she went last night ."):
        words = line.split()
        mixed = [" ".join(draw.permutation(words)) for _ in range(20)]
        own, *others = (score.both.sum() for score in scorer.score([line, *mixed]))
        assert own > max(others)
    assert "he" in [one.word for one in scorer.next_words("I do not know what", k=10)]


def test_two_of_one_sense_are_closer_than_two_of_different_senses(tested):
    """The demonstration's claim. Chance would be a half; the card has what was measured, word by word."""
    shares = total_share(tested)
    assert len(tested) >= 8 and shares[0] == 0
    assert min(shares[1:]) >= 0.8
    # Senses that are also different parts of speech come apart nearly always.
    assert all(one.right[-1] / one.comparisons >= 0.8 for one in tested if one.word in ("bear", "lead", "play"))


def test_the_card_has_the_senses_that_the_model_has(tested):
    measured = json.loads((ENGLISH / "measured" / "senses.json").read_text(encoding="utf-8"))
    for one in tested:
        np.testing.assert_allclose(measured["share"][one.word], one.right / one.comparisons, atol=0.06)


@pytest.fixture
def card_module(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("english_card", ENGLISH / "card.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_card_is_what_its_program_writes(card_module):
    assert (FOLDER / "english" / "README.md").read_text(encoding="utf-8") == card_module.card()


def test_a_number_that_changes_changes_the_card(card_module, monkeypatch):
    load = card_module.load
    perplexity = load("perplexity")
    perplexity["perplexity"]["enwik8"]["average"] += 100
    monkeypatch.setattr(card_module, "load", lambda name: perplexity if name == "perplexity" else load(name))
    changed = f"{perplexity['perplexity']['enwik8']['average']:.1f}"
    assert changed in card_module.card()
    perplexity["perplexity"]["enwik8"]["tokens"] += 1
    with pytest.raises(ValueError, match="the biLM predicted"):
        card_module.card()
