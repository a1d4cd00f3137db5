"""How expected words are, against the formulas on the whole table of probabilities and against the scorer."""

import json
import re

import numpy as np
import pytest
import torch
from small_models import small

from elmo_hf import ElmoForPreTraining, ElmoScorer, ElmoTokenizer
from elmo_hf.analysis import word_surprisal

SENTENCES = ["The cat sat on the mat .", "I unheardof <b>apples</b> !", "a"]


@pytest.fixture(scope="module")
def scorer(lm_folder):
    return ElmoScorer.from_pretrained(lm_folder)


def test_a_plot_of_too_many_words_is_refused(scorer, tmp_path):
    """It would take minutes, and nobody could read it."""
    (result,) = word_surprisal(scorer, ["a " * 301])
    with pytest.raises(ValueError, match="301 words are too many for a plot. Expected at most 300"):
        result.plot(tmp_path / "plot.png")


def test_left_and_right_are_what_the_scorer_says(scorer):
    for found, score in zip(word_surprisal(scorer, SENTENCES), scorer.score(SENTENCES), strict=True):
        assert found.words == score.tokens[1:-1]
        assert np.allclose(found.left, -score.forward[1:-1] / np.log(2), atol=1e-5)
        assert np.allclose(found.right, -score.backward[1:-1] / np.log(2), atol=1e-5)
        assert found.unknown.tolist() == score.unknown[1:-1].tolist()


def test_both_is_the_product_of_both_normalised_over_the_vocabulary(scorer):
    found = list(word_surprisal(scorer, SENTENCES[:1]))[0]
    batch = scorer.tokenizer(SENTENCES[:1], return_lm_labels=True, return_tensors="pt")
    with torch.no_grad():
        top = scorer.model.elmo(batch["input_ids"], output_hidden_states=True).hidden_states[-1][0]
        forward, backward = (scorer.model.softmax(half).double() for half in top.chunk(2, -1))
    for place in range(len(found.words)):
        product = torch.exp(forward[place]) * torch.exp(backward[place + 2])
        expected = -torch.log2(product[batch["labels"][0, place + 1]] / product.sum())
        assert found.both[place] == pytest.approx(float(expected), abs=1e-4)


def test_a_model_that_only_reads_forward_has_one_side():
    words = ["<S>", "</S>", "<UNK>", "cats", "sleep"]
    model = small(ElmoForPreTraining, bidirectional=False, vocab_size=len(words))
    scorer = ElmoScorer(model, ElmoTokenizer(word_vocabulary=words))
    found = list(word_surprisal(scorer, ["cats sleep", ["sleep"]]))
    assert [list(one.sides) for one in found] == [["left"], ["left"]]
    for one, score in zip(found, scorer.score(["cats sleep", "sleep"]), strict=True):
        assert np.allclose(one.shown, -score.forward[1:-1] / np.log(2), atol=1e-5)


def test_the_verb(command, lm_folder, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES))
    options = ("--json", tmp_path / "a.json", "--html", tmp_path / "a.html")
    code, out, err = command("analyse", "surprise", lm_folder, tmp_path / "text.txt", *options)
    assert code == 0, err
    saved = json.loads((tmp_path / "a.json").read_text())["sentences"]
    assert [one["words"] for one in saved] == [text.split() for text in SENTENCES]
    cells = re.split(r"\s{2,}", out.splitlines()[2])
    assert cells == ["cat", *(f"{saved[0][side][1]:.2f}" for side in ("left", "right", "both"))]
    assert "\x1b" not in out and "not in the vocabulary" in out
    page = (tmp_path / "a.html").read_text()
    assert "&lt;b&gt;apples&lt;/b&gt;" in page and "<b>" not in page and f"both {saved[0]['both'][0]:.1f} bits" in page

    code, _, err = command(
        "analyse", "surprise", lm_folder, "--text", " ".join(SENTENCES * 3), "--plot", tmp_path / "a.png"
    )
    assert code == 0 and (tmp_path / "a.png").stat().st_size > 5000, err
    code, _, err = command("analyse", "surprise", lm_folder, tmp_path / "text.txt", "--plot", tmp_path / "b.png")
    assert code == 1 and "Invalid `--plot`: the text has 3 sentences. Expected one sentence." in err


def test_colours_grow_darker(scorer):
    found = list(word_surprisal(scorer, SENTENCES[:1]))[0]
    found.both = np.array([0.5, 5, 8, 11, 14, 17, 40])
    painted = re.findall(r"48;2;(\d+);(\d+);(\d+)m", found.coloured())
    light = [sum(map(int, colour)) for colour in painted]
    assert light[:6] == sorted(set(light), reverse=True) and light[5] == light[6]
