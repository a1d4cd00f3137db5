"""Probes: what a linear layer can and cannot read, scores against scikit-learn, and resumed vectors."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score
from small_models import small

from elmo_hf import ElmoModel
from elmo_hf.analysis import LayerReader, probe
from elmo_hf.analysis import probe as probe_function
from elmo_hf.analysis.probing import _label_scores, _static

RANDOM = np.random.default_rng(0)


def sentences(count):
    """The label of a word is which word stands before it: nothing that sees one word alone can know it."""
    rows = [[str(word) for word in RANDOM.choice(["a", "b"], 6)] for _ in range(count)]
    return rows, [["none", *("after-" + word for word in row[:-1])] for row in rows]


def test_layers_with_context_know_what_the_words_alone_do_not(tokenizer, tmp_path):
    model = small(ElmoModel, projection_size=128, cell_size=256)
    for parameter in model.bilm.parameters():
        parameter.data *= 4  # so that much of a word before comes through
    reader = LayerReader(model, tokenizer)
    glove = tmp_path / "glove.txt"
    glove.write_text("a 1 0\nb 0 1\n")
    data = {"train": sentences(150), "dev": sentences(20), "test": sentences(40)}
    found = probe(reader, data, "before", glove, tmp_path / "store", epochs=60)
    accuracy = {one.name: one.accuracy["test"] for one in found.results}
    assert list(accuracy) == ["layer 0", "layer 1", "layer 2", "average", "learned mix", "word vectors"]
    assert accuracy["layer 0"] < 0.7 and accuracy["word vectors"] < 0.7
    assert accuracy["layer 1"] > 0.85 and accuracy["learned mix"] > 0.85
    mix = found.results[4].mix
    assert sum(mix) == pytest.approx(1) and max(mix) > 0.34
    # Read from the store the second time, and the same to the last bit.
    again = probe(reader, data, "before", glove, tmp_path / "store", epochs=60)
    assert again.to_dict() == found.to_dict()


def test_scores_of_labels_are_those_of_scikit_learn():
    import torch

    gold, guesses = RANDOM.integers(0, 3, 200), RANDOM.integers(0, 4, 200)
    scores = _label_scores(torch.tensor(guesses), torch.tensor(gold), list("abcd"), dict.fromkeys("abc", 0) | {
        label: int((gold == number).sum()) for number, label in enumerate("abc")
    })  # fmt: skip
    expected = f1_score(gold, guesses, labels=[0, 1, 2], average=None)
    assert np.allclose(list(scores.values()), expected)


def test_labels_that_training_does_not_have_count_as_wrong(reader):
    train = ([["a", "b"]] * 8, [["A", "B"]] * 8)
    found = probe_function(reader, {"train": train, "dev": train, "test": ([["a", "b"]], [["A", "new"]])}, epochs=60)
    assert found.results[0].accuracy == {"dev": accuracy_score([0, 1], [0, 1]), "test": 0.5}


def test_word_vectors_are_looked_up_in_lower_case_too(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("3 2\nthe 1 2\nrome 3 4\nRome 5 6\n")
    found = _static(path, {"train": ([["The", "Rome"], ["unknown"]], [])})
    assert found["train"].tolist() == [[[1, 2], [5, 6], [0, 0]]]


def test_the_verb(command, small_model, tokenizer, tmp_path):
    small_model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    for name in ("train", "dev", "test"):
        rows, labels = sentences(20)
        lines = [
            "\n".join(f"{word} x {label}" for word, label in zip(*pair, strict=True))
            for pair in zip(rows, labels, strict=True)
        ]
        (tmp_path / f"{name}.conll").write_text("\n\n".join(lines) + "\n")
    files = [tmp_path / f"{name}.conll" for name in ("train", "dev", "test")]
    options = ("--epochs", 2, "--plot", tmp_path / "a.png", "--json", tmp_path / "a.json")
    code, out, err = command("analyse", "probe", tmp_path / "model", *files, "--column", 1, "--column", 2, *options)
    assert code == 0, err
    saved = json.loads((tmp_path / "a.2.json").read_text())
    assert f"{100 * saved['results'][1]['accuracy']['test']:.2f}" in out and (tmp_path / "a.1.png").exists()
    assert "weights of the learned mix" in out and "after-a" in out
    code, _, err = command("analyse", "probe", tmp_path / "model", *files, "--column", "upos")
    assert code == 1 and "Expected a number" in err
