"""What the cards of task models say of fine-tuning, and where it agrees with the README."""

import pytest

from elmo_hf import ElmoForPreTraining, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel
from elmo_hf.hub.model_card import TRAINING, model_card


@pytest.mark.parametrize("kind", [ElmoForTokenClassification, ElmoForSequenceClassification])
def test_cards_of_heads_say_the_rates(kind, small_config):
    assert TRAINING in model_card(kind(small_config), "mine")


def test_other_cards_do_not(small_config):
    assert "Fine-tuning" not in model_card(ElmoModel(small_config), "mine")
    small_config.vocab_size = 5
    assert "Fine-tuning" not in model_card(ElmoForPreTraining(small_config), "mine")


@pytest.mark.parametrize("rate", ["1e-2", "5e-5", "mix_dropout=0.1"])
def test_the_readme_says_the_same_rates(rate, root):
    (rates,) = [
        part for part in (root / "README.md").read_text(encoding="utf-8").split("\n- ") if part[:6] == "Rates:"
    ]
    assert rate in rates and rate in TRAINING
