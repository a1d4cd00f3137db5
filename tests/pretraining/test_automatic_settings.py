"""Settings that follow from the text and the time, and the length of a run."""

import math

import pytest
from small_texts import lines

from elmo_hf import ElmoConfig, ElmoTokenizer
from elmo_hf.pretraining import Corpus, Settings, TrainingWindows
from elmo_hf.pretraining.automatic_settings import PLANS, choose_plan, choose_sizes
from elmo_hf.pretraining.model_initialization import config_of_size
from elmo_hf.pretraining.run_folder import RunFolder
from elmo_hf.pretraining.run_length import UNLIMITED_STEPS, RunLength
from elmo_hf.pretraining.splitting_choice import choose_splitting


@pytest.fixture
def corpus(tmp_path):
    return Corpus.write(lines(60), tmp_path / "corpus", ElmoTokenizer("whitespace"))


def settings(**changes):
    return Settings("my-elmo", ["text.txt"], **changes)


def test_plans_grow_with_text_and_time():
    for plan in PLANS:
        config_of_size(plan.size)
        assert choose_plan(10**12, plan.minutes) == choose_plan(plan.words, 10**9) == plan
    assert choose_plan(10**12, 10).size == "tiny" and choose_plan(1000, 10**9).size == "tiny"


def test_sizes_are_chosen_by_the_time(corpus):
    said = []
    chosen = choose_sizes(settings(minutes=3), corpus, said.append)
    plan = choose_plan(corpus.num_words, 3)
    assert (chosen.size, chosen.max_size, chosen.learning_rate) == (plan.size, plan.vocabulary, plan.learning_rate)
    assert chosen.epochs is None and chosen.min_count == 2 and 1 <= chosen.batch_size < 128
    assert "0:03:00" in said[0] and "size tiny" in said[0] and "about" in said[1] and "epochs" in said[1]
    assert "estimate" not in said[1]


def test_a_speed_that_was_not_measured_is_called_an_estimate(corpus):
    said = []
    choose_sizes(settings(minutes=3, size="medium"), corpus, said.append)
    assert "an estimate: size medium was not measured" in said[1]


def test_given_settings_stay(corpus):
    chosen = choose_sizes(settings(minutes=3, max_size=7, learning_rate=1.0, batch_size=2), corpus, print)
    assert (chosen.max_size, chosen.learning_rate, chosen.batch_size) == (7, 1.0, 2)
    chosen = choose_sizes(settings(minutes=3, size="medium", epochs=2, min_count=9), corpus, print)
    assert (chosen.size, chosen.max_size, chosen.epochs, chosen.min_count) == ("medium", None, 2, 9)


def test_without_a_time_it_is_ten_epochs_of_the_small_size(corpus):
    chosen = choose_sizes(settings(), corpus, print)
    assert (chosen.size, chosen.epochs, chosen.learning_rate) == ("small", 10, None)


@pytest.mark.parametrize(
    ("changes", "steps", "seconds"),
    [
        ({"minutes": 3}, UNLIMITED_STEPS, 180),  # ten epochs must not end it
        ({"stop_after": "3min"}, UNLIMITED_STEPS, 180),
        ({"stop_after": "500"}, 500, math.inf),  # more than ten epochs
        ({"minutes": 3, "epochs": 2}, 2, 180),
        ({"stop_after": "500", "epochs": 2}, 2, math.inf),
        ({"epochs": 2}, 2, math.inf),
    ],
)
def test_a_time_replaces_the_number_of_epochs(corpus, tmp_path, changes, steps, seconds):
    tokenizer = ElmoTokenizer("whitespace", word_vocabulary=["<S>", "</S>", "<UNK>", "a"])
    windows = TrainingWindows(corpus, tokenizer, ElmoConfig(vocab_size=4), 4, 5)
    chosen = choose_sizes(settings(**changes), corpus, lambda line: None)
    length = RunLength.of(chosen, windows, RunFolder(tmp_path / "model"), resumes=False)
    expected = steps * windows.windows_per_epoch if "epochs" in changes else steps
    assert (length.steps, length.seconds) == (expected, seconds)


def splitting(tmp_path, text, **changes):
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    said = []
    chosen = choose_splitting(Settings("my-elmo", [str(tmp_path / "text.txt")], **changes), said.append)
    return chosen.splitting, chosen.tokenized, "\n".join(said)


def test_the_splitting_is_chosen_by_the_text(tmp_path):
    assert splitting(tmp_path, "Das Haus ist groß, sagte sie.")[:2] == ("unicode-words", False)
    chosen, tokenized, said = splitting(tmp_path, "It 's late , they said .\n" * 5)
    assert (chosen, tokenized) == ("moses-en", True) and "raw text will be split by: moses-en" in said
    assert splitting(tmp_path, "We are late , they said :-) .\n")[:2] == ("whitespace", True)
    assert splitting(tmp_path, "It 's late , they said .", tokenized=False)[1] is False
    chosen, tokenized, said = splitting(tmp_path, "Das Haus ist groß.", splitting="moses-en")
    assert (chosen, tokenized, said) == ("moses-en", False, "splitting: moses-en (as given)")
