"""A model for another language: extending the English one, its card, and its upload to a Hub on loopback."""

import pytest
import torch
from local_hub import LocalHub
from remote import run_python
from small_texts import write_text

from elmo_hf import ElmoForPreTraining, ElmoTokenizer, bundled_model
from elmo_hf.pretraining import Settings, pretrain
from elmo_hf.pretraining.starting_point import check_repository

REPOSITORY = "tester/elmo-sme"
SAMI = "Mii boahtit odne, muhto don it boađe. Sii leat dáppe! Gos don orut, dahje gos son orru?"
PRETRAIN = """
from elmo_hf.pretraining import Settings, pretrain
settings = Settings(folder + "/model", [folder + "/text.txt"], size=folder + "/config.json", batch_size=4,
    unroll_steps=5, epochs=1, push_to=repository, language="se", license="cc-by-4.0", corpus_name="Sámi sentences")
pretrain(settings)
"""
LOAD = """
from elmo_hf import ElmoForPreTraining, ElmoTokenizer
print(ElmoForPreTraining.from_pretrained(repository).config.vocab_size)
print(len(ElmoTokenizer.from_pretrained(repository).word_vocabulary))
"""


def test_a_finished_model_is_uploaded_with_its_card(tmp_path):
    write_text(tmp_path)
    with LocalHub() as hub:
        said = run_python(PRETRAIN, hub.env, with_package=True, folder=str(tmp_path), repository=REPOSITORY)
        assert f"uploaded: {REPOSITORY}" in said
        files = hub.files(REPOSITORY)
        card = files["README.md"].decode()
        assert "language: se" in card and "license: cc-by-4.0" in card and "Sámi sentences" in card
        assert "Perplexity of sentences of that text that were held out" in card and f'name = "{REPOSITORY}"' in card
        assert not any(name.startswith("checkpoint") or name == "tokens.int32" for name in files)
        loaded = run_python(LOAD, hub.env, with_package=True, repository=REPOSITORY)
        assert len(set(loaded.split())) == 1 and int(loaded.split()[0]) > 3


def test_a_repository_that_cannot_be_written_is_refused_before_training():
    with pytest.raises(ValueError, match=r"Invalid --push-to: 'no//repository'"):
        check_repository("no//repository")


def test_the_english_model_with_the_vocabulary_of_another_language(tmp_path):
    """With a frozen biLM, only the softmax is new; the splitting is that of the text."""
    (tmp_path / "text.txt").write_text("\n".join([SAMI] * 20), encoding="utf-8")
    english = bundled_model("english")
    settings = {"start": english, "new_vocab": True, "freeze_steps": 2, "stop_after": "2", "language": "se"}
    settings |= {"batch_size": 2, "unroll_steps": 5, "num_sampled": 0, "held_out": [str(tmp_path / "text.txt")]}
    folder = tmp_path / "model"
    perplexities = pretrain(Settings(folder, [str(tmp_path / "text.txt")], **settings), say=lambda line: None)
    assert perplexities["after"] < perplexities["before"]
    tokenizer = ElmoTokenizer.from_pretrained(folder)
    assert tokenizer.splitting == "unicode-words" and {"muhto", "boađe", "?"} <= set(tokenizer.word_vocabulary)
    model, before = ElmoForPreTraining.from_pretrained(folder), ElmoForPreTraining.from_pretrained(english)
    expected = before.elmo.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in model.elmo.state_dict().items())
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "language: se" in card and "language: en" not in card
