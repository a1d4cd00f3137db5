"""The learning curve of a language, end to end on tiny data."""

import importlib.util
from pathlib import Path

import pytest
from small_texts import WORDS, write_text

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


def test_all_taggers_learn(module, tmp_path):
    write_text(tmp_path)
    settings = Settings(tmp_path / "model", [str(tmp_path / "text.txt")], size=str(tmp_path / "config.json"))
    settings.epochs, settings.batch_size, settings.unroll_steps = 3, 4, 5
    pretrain(settings, say=lambda line: None)
    files = ["--train", write_treebank(tmp_path / "train.conllu", 40), "--test", write_treebank(tmp_path / "t", 11)]
    options = ["--model", tmp_path / "model", "--output", tmp_path / "scores", "--sizes", *SIZES, "--seeds", 2]
    scores = module.main([str(value) for value in [*files, *options]])
    assert scores.keys() == {(condition, size) for condition in module.CONDITIONS for size in SIZES}
    assert len((tmp_path / "scores.tsv").read_text().splitlines()) == 2 * len(scores)
    # "A", the most frequent tag, is a fourth of the words. Eight numbers of an untrained model say little of a word.
    for condition, least in {"characters": 0.3, "layer 0": 0.5, "frozen": 0.5, "tuned": 0.6}.items():
        assert sum(scores[condition, 20]) / 2 > least, (condition, scores)
