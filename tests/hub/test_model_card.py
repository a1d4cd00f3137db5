"""What the cards of task models say of fine-tuning, and where it agrees with the README."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from elmo_hf import ElmoForPreTraining, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel
from elmo_hf.hub.model_card import TRAINING, model_card
from elmo_hf.pretraining.training_card import card_data


@pytest.mark.parametrize("kind", [ElmoForTokenClassification, ElmoForSequenceClassification])
def test_cards_of_heads_say_the_rates(kind, small_config):
    assert TRAINING in model_card(kind(small_config), "mine")


def test_other_cards_do_not(small_config):
    assert "Fine-tuning" not in model_card(ElmoModel(small_config), "mine")
    small_config.vocab_size = 5
    assert "Fine-tuning" not in model_card(ElmoForPreTraining(small_config), "mine")


@pytest.mark.parametrize("rate", ["1e-2", "5e-5", "mix_dropout=0.1"])
def test_the_guide_says_the_same_rates(rate, root):
    guide = (root / "docs" / "guides" / "fine-tune.md").read_text(encoding="utf-8")
    assert rate in guide and rate in TRAINING


def test_names_of_corpora_and_folders_are_escaped(small_config):
    """A card is Markdown: a name must not become a link, a tag or a second line of it."""
    settings = SimpleNamespace(
        corpus_name="my [link](x) `code`\n# <b>", start=Path("models/`start`"), chosen=lambda name: 1, held_out=None
    )
    settings.new_vocab = False
    settings.batch_size = settings.unroll_steps = settings.accumulate = 1
    settings.license = settings.language = None
    corpus = SimpleNamespace(num_sentences=1, num_words=2)
    origin = card_data(settings, small_config, corpus, 1, {}, "whitespace")["origin"]
    assert "from _start_ on my _link_(x) _code_ # _b_: 1 sentences" in origin
    small_config.card_data = {"origin": origin}
    assert origin in model_card(ElmoModel(small_config), "mine")


@pytest.mark.parametrize(
    "name", ["a [b](c) `d` <i>\n# e\n```", 'quote" \\ back', "\udcff bytes", "tab\tend", "ünï 日本"], ids=range(5)
)
def test_names_of_folders_stay_in_their_places(name, small_model, tmp_path):
    """The title is one line without Markdown, and the example names the folder as Python reads it."""
    small_model.save_pretrained(tmp_path / name)
    card = (tmp_path / name / "README.md").read_text(encoding="utf-8")
    (title,) = [line for line in card.splitlines() if line.startswith("# ") and "one vector" not in line]
    assert not set(title) & set('[]`<>"\\') and card.count("\n```") == 4
    code = card.split("```python\n")[1].split("\n```")[0]
    (assignment,) = [line for line in code.splitlines() if line.startswith("name = ")]
    assert ast.literal_eval(assignment.removeprefix("name = ")) == str(tmp_path / name)


def test_the_licence_is_one_line(small_config):
    small_config.card_data = {"license": "mit\n\n# Buy <b>this</b>"}
    assert "Licence of the weights: mit # Buy _b_this_/b_.\n" in model_card(ElmoModel(small_config), "mine")
