"""The learning curve of a language, end to end on tiny data."""

import importlib.util
from pathlib import Path

import pytest
from small_texts import WORDS, write_text

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.pretraining import Settings, pretrain

FILE = Path(__file__).resolve().parents[2] / "examples" / "languages" / "learning_curve.py"
SIZES = [5, 20]


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("learning_curve", FILE)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def write_treebank(path, sentences):
    """Each word has the tag of its first letter, so that the tag of a word is the same everywhere."""
    lines = []
    for number in range(sentences):
        words = [WORDS[(number * 3 + place) % len(WORDS)] for place in range(2 + number % 5)]
        lines.append(f"# text = {' '.join(words)}\n1-2\tboth\t_\t_\t_\t_")
        lines += [f"{n}\t{word}\t_\t{word[0].upper()}\t_\t_\t_\t_\t_\t_" for n, word in enumerate(words, 1)]
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_reading(module, tmp_path):
    sentences = module.read_treebank(write_treebank(tmp_path / "a.conllu", 3), "upos")
    assert sentences[:2] == [(["the", "cat"], ["T", "C"]), (["on", "a", "mat"], ["O", "A", "M"])]
    assert [len(words) for words, _ in sentences] == [2, 3, 4]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    write_text(folder)
    settings = Settings(folder / "model", [str(folder / "text.txt")], size=str(folder / "config.json"))
    settings.epochs, settings.batch_size, settings.unroll_steps = 3, 4, 5
    pretrain(settings, say=lambda line: None)
    return folder / "model"


@pytest.fixture
def arguments(model, tmp_path):
    files = ["--train", write_treebank(tmp_path / "train.conllu", 40), "--test", write_treebank(tmp_path / "t", 11)]
    options = ["--model", model, "--output", tmp_path / "scores", "--sizes", *SIZES, "--seeds", 2]
    return [str(value) for value in [*files, *options]]


@pytest.mark.slow
def test_all_taggers_learn(module, arguments, monkeypatch):
    monkeypatch.setattr(module, "HEAD_RATE", 0.03)
    monkeypatch.setattr(module, "HEAD_PATIENCE", module.Patience(steps=20, bad=3, most=5))
    monkeypatch.setattr(module, "TUNING_PATIENCE", module.Patience(steps=5, bad=3, most=5))
    scores = module.main([*arguments[: arguments.index("--sizes")], "--sizes", "20", "--seeds", "2"])
    assert scores.keys() == {(condition, 20) for condition in module.CONDITIONS}
    # "A", the most frequent tag, is a fourth of the words. Eight numbers of an untrained model say little of a word.
    for condition, least in {"characters": 0.3, "layer 0": 0.5, "frozen": 0.5, "tuned": 0.6}.items():
        assert sum(score.accuracy for score in scores[condition, 20]) / 2 > least, (condition, scores)


def test_only_missing_scores_are_computed(module, arguments, tmp_path, monkeypatch):
    calls = []

    def run(self, *arguments):
        calls.append(arguments)
        return module.Score(0.5, 0.25, 0.125)

    monkeypatch.setattr(module.Experiment, "run", run)
    module.main(arguments)
    lines = (tmp_path / "scores.tsv").read_text().splitlines(keepends=True)
    assert len(calls) == len(lines) == 2 * 2 * len(module.CONDITIONS)
    (tmp_path / "scores.tsv").write_text("".join(lines[:3] + lines[4:]))
    scores = module.main(arguments)
    assert calls[-1] == calls[3] and len(calls) == len(lines) + 1
    assert scores["tuned", 20] == [module.Score(0.5, 0.25, 0.125)] * 2


def test_layers_of_files_are_those_of_the_model(module, model):
    tokenizer, elmo = ElmoTokenizer.from_pretrained(model), ElmoModel.from_pretrained(model).eval()
    sentences = [(["the", "cat"], ["T", "C"]), (["on", "a", "mat"], ["O", "A", "M"])]
    layers = module.frozen_layers(elmo, tokenizer, sentences)
    assert layers.shape[1] == 5
    batch = tokenizer([["on", "a", "mat"]], is_split_into_words=True, return_tensors="pt")
    states = elmo(**batch, output_hidden_states=True).hidden_states
    for layer, state in zip(layers, states, strict=True):
        assert layer[2:].allclose(state[0, 1:-1], atol=1e-5)
    assert module.character_layer(elmo, tokenizer, sentences).allclose(layers[:1], atol=1e-5)


def test_held_out_sentences_are_not_trained_on(module):
    sentences = [([str(number)], ["X"]) for number in range(50)]
    training, held_out = module.hold_out(sentences)
    assert (len(training), len(held_out)) == (40, 10)
    assert sorted(training + held_out) == sorted(sentences)
