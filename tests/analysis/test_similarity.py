"""Cosines of words in their sentences, against vectors that the model gives sentence by sentence."""

import json

import numpy as np
import pytest
import torch

from elmo_hf.analysis import sentence_similarity, word_similarity
from elmo_hf.analysis.layer_reader import cosines
from elmo_hf.analysis.similarity import in_context

SENTENCES = ["the cat sat on the mat .", "a Mat lay there", "mat"]


def layers_alone(model, tokenizer, sentence):
    """One sentence in a batch of its own, without `<S>` and `</S>`."""
    with torch.no_grad():
        output = model(**tokenizer([sentence], return_tensors="pt"), output_hidden_states=True)
    return [layer[0, 1:-1].numpy() for layer in output.hidden_states]


def test_a_reader_gives_the_layers_of_each_sentence_in_its_order(reader, small_model, tokenizer):
    texts = [*SENTENCES, "", "x " * 300, *SENTENCES]
    found = list(reader.read(texts))
    assert [layers.shape[1] for layers in found] == [7, 4, 1, 0, 300, 7, 4, 1]
    for text, layers in zip(texts, found, strict=True):
        if text:
            assert np.allclose(layers, layers_alone(small_model, tokenizer, text), atol=1e-6)


def test_one_word_in_several_sentences(reader, small_model, tokenizer):
    found = word_similarity(reader, SENTENCES, "mat")
    assert found.positions == [5, 1, 0]  # as written where that is found, else whatever its case
    vectors = [
        [layer[place] for layer in layers_alone(small_model, tokenizer, text)]
        for text, place in zip(SENTENCES, found.positions, strict=True)
    ]
    for layer, first, second in np.ndindex(found.cosines.shape):
        a, b = vectors[first][layer], vectors[second][layer]
        expected = float(np.dot(a, b) / np.sqrt(np.dot(a, a) * np.dot(b, b)))
        assert found.cosines[layer, first, second] == pytest.approx(expected, abs=1e-5)
    assert found.cosines[0, 0, 2] == pytest.approx(1) and found.cosines[1, 0, 2] < 0.999
    assert "3  [mat]" in str(found) and "2 and 3" in str(found)


def test_all_words_of_two_sentences(reader):
    found = sentence_similarity(reader, *SENTENCES[:2], layer=1)
    words = word_similarity(reader, SENTENCES[:2], positions=[5, 3])
    assert np.allclose(found.cosines[:, 5, 3], words.cosines[:, 0, 1], atol=1e-6)
    head, *rows = str(found).splitlines()
    assert head.split() == ["layer", "1", "a", "Mat", "lay", "there"] and len(rows) == 7


def test_the_verb_prints_saves_and_draws_the_same_numbers(command, folder, tmp_path):
    code, out, err = command(
        "analyse", "similarity", folder, *SENTENCES, "--word", "mat", "--json", tmp_path / "a.json", "--plot",
        tmp_path / "a.png",
    )  # fmt: skip
    assert code == 0, err
    saved = json.loads((tmp_path / "a.json").read_text())
    assert saved["positions"] == [5, 1, 0]
    assert f"{saved['cosines'][2][0][1]:.2f}" == out.splitlines()[-3].split()[-1]
    from matplotlib.image import imread

    assert imread(tmp_path / "a.png").shape[1] == 800
    code, out, _ = command("analyse", "similarity", folder, *SENTENCES[:2], "--plot", tmp_path / "b.svg")
    assert code == 0 and "layer 2" in out and "<svg" in (tmp_path / "b.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((*SENTENCES, "--word", "dog"), "'dog' is not among the words of 'the cat sat on the mat .'"),
        ((*SENTENCES, "--position", 1), "There are 1 positions for 3 sentences"),
        (("a b", "c", "--position", 1, "--position", 1), "There is no position 1 in 'c'. Expected 0 to 0."),
        (("a", "b", "--layer", 7), "Invalid `layer`: 7. Expected 0 to 2, or -1 for the top."),
        (("a", "b", "--word", "a", "--plot", "picture.gif"), "Expected a name that ends in .png, .svg, .pdf."),
        (("a", ""), "One of the two sentences has no words"),
    ],
)
def test_complaints(command, folder, arguments, complaint):
    code, _, err = command("analyse", "similarity", folder, *arguments)
    assert code == 1 and complaint in err


def test_cosines_and_contexts():
    assert cosines(np.zeros((2, 3)), np.ones((1, 3))).tolist() == [[0.0], [0.0]]
    words = "We sat on the bank of the river .".split()
    assert in_context(words, 4) == "We sat on the [bank] of the river ."
    assert in_context(words, 0, 100) == "[We] sat on the bank of the river ."
