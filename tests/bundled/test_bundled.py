"""Names of bundled models, and the parts of the demonstration, on small models."""

import hashlib
import itertools
import math

import numpy as np
import pytest
import torch

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoForPreTraining, ElmoScorer, ElmoTokenizer, bundled_model, embed
from elmo_hf.analysis import mix_weights
from elmo_hf.bundled import FOLDER, demo, find_model, senses, sentences
from elmo_hf.bundled.sense_test import position_of, separation
from elmo_hf.bundled.whitespace_reader import WhitespaceReader, cosines

WORDS = ["<S>", "</S>", "<UNK>", *sorted({word for line in sentences()[:200] for word in line.split()})]
TINY = ("--epochs", "1", "--batch-size", "4", "--unroll-steps", "10")


@pytest.fixture(scope="module")
def scorer():
    torch.manual_seed(0)
    config = ElmoConfig(character_cnn_filters=[[1, 8], [2, 8]], projection_size=6, cell_size=12, vocab_size=len(WORDS))
    return ElmoScorer(ElmoForPreTraining(config), ElmoTokenizer("whitespace", word_vocabulary=WORDS))


@pytest.fixture(scope="module")
def reader(scorer):
    return WhitespaceReader(scorer.model, scorer.tokenizer)


def test_a_name_is_the_packages_model_unless_a_folder_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_model("english") == (bundled_model("english"), None)
    assert find_model("other/model") == ("other/model", None)
    (tmp_path / "english").mkdir()
    name, remark = find_model("english")
    assert name == "english" and str(tmp_path / "english") in remark and bundled_model() in remark


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="Invalid `name`: 'german'. Expected a bundled model: english"):
        bundled_model("german")


@pytest.mark.parametrize(
    "arguments",
    [
        ("perplexity", "english", "text.txt"),
        ("score", "english", "text.txt"),
        ("substitute", "english", "a b", "1"),
        ("predict", "english", "a"),
        ("export", "english", "original"),
        ("pretrain", "text.txt", "-o", "tuned", "--from", "english", "--held-out", "text.txt", *TINY),
        ("demo", "english"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_verb_takes_a_folder_of_that_name_and_says_so(arguments, command, scorer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scorer.model.save_pretrained("english")
    scorer.tokenizer.save_pretrained("english")
    (tmp_path / "text.txt").write_text("a b\n" * 300, encoding="utf-8")
    monkeypatch.setattr("elmo_hf.bundled.demo.sentences", lambda: sentences()[:50])
    code, out, err = command(*arguments)
    assert code == 0, err
    assert f"english is the folder {tmp_path / 'english'}" in err
    assert out


def test_the_reader_gives_each_words_vectors(reader, scorer):
    lines = ["one two three", "four", "five six"] * 30
    for line, found in zip(lines, reader.read(lines), strict=True):
        batch = scorer.tokenizer([line.split()], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            expected = torch.cat(scorer.model.elmo(**batch, output_hidden_states=True).hidden_states)[:, 1:-1]
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_comparisons_are_counted_one_by_one(reader):
    lines = {"a": ["x bank y", "bank z z z", "y y bank"], "b": ["bank bank2", "z bank"]}
    found = separation("bank", lines, reader)
    tokens = {
        sense: [reader.read([line])[0][:, line.split().index("bank")] for line in own] for sense, own in lines.items()
    }
    right, count = np.zeros(3), 0
    for sense, other in (("a", "b"), ("b", "a")):
        for anchor, partner in itertools.permutations(tokens[sense], 2):
            for stranger in tokens[other]:
                count += 1
                for layer in range(3):
                    near, far = (
                        float(torch.cosine_similarity(torch.tensor(anchor[layer]), torch.tensor(one[layer]), dim=0))
                        for one in (partner, stranger)
                    )
                    right[layer] += near > far + 1e-6
    assert found.comparisons == count == 3 * 2 * 2 + 2 * 1 * 3
    assert found.right.tolist() == right.tolist()
    assert found.right[0] == 0  # one spelling, one vector: nothing is closer


def test_cosines_broadcast():
    one, others = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[[0.0, 1.0], [2.0, 2.0]], [[5.0, 0.0], [-1.0, -1.0]]])
    np.testing.assert_allclose(cosines(one, others), [[0, 1], [1, -1]], atol=1e-12)


def test_a_word_must_stand_once():
    with pytest.raises(
        ValueError, match="Invalid `sentence`: 'can can'. Expected the word 'can' once; it occurs 2 times"
    ):
        position_of("can", "can can")


def test_the_senses_are_those_that_were_written_down_before_any_model_read_them():
    text = (FOLDER / "senses.json").read_bytes()
    assert hashlib.sha256(text).hexdigest() == "34ef9dc9ca6fa620ec6b297c9a8155b02b60d0939e4b3f728fa5cd4c8cf8d198"
    assert len(senses()) >= 8
    for word, both in senses().items():
        assert len(both) == 2 and all(len(lines) == 3 for lines in both.values())
        assert all(line.split()[position_of(word, line)] == word for lines in both.values() for line in lines)


def test_the_sentences_are_a_few_thousand_of_named_sources():
    assert 2000 <= len(sentences()) == len(set(sentences())) <= 5000
    assert (FOLDER / "sentences.txt").stat().st_size < 250_000
    notice = (FOLDER / "NOTICE.txt").read_text(encoding="utf-8")
    for name in ("Tatoeba", "CC BY 2.0 FR", "OpenStax", "CC BY 4.0", "LitBank", "public domain"):
        assert name in notice


def test_the_demonstration_says_what_the_model_computes(scorer, reader, monkeypatch):
    pool = sentences()[:60]
    monkeypatch.setattr(demo, "sentences", lambda: pool)
    lines = list(demo.demonstration(scorer))
    assert max(map(len, lines)) <= 100

    # The pairs: each cosine again, and hit or miss by them.
    marked = [demo.MarkedSentence.parse(text) for text in demo.PAIRS[0]]
    first, same, other = (torch.tensor(reader.read([one.sentence])[0][:, one.position]) for one in marked)
    for one, vectors in zip(marked[1:], (same, other), strict=True):
        shown = "".join(f"{value:>6.2f}" for value in torch.cosine_similarity(first, vectors))
        assert any(str(one) in line and shown in line for line in lines)

    # Neighbours: the nearest word of the pool, by brute force.
    query = demo.MarkedSentence.parse(demo.NEIGHBOURS_OF[0])
    wanted = torch.tensor(reader.read([query.sentence])[0][-1, query.position])
    scores = {
        (line, place): float(torch.cosine_similarity(wanted, torch.tensor(vector), dim=0))
        for line, layers in zip(pool, reader.read(pool), strict=True)
        for place, vector in enumerate(layers[-1])
    }
    (sentence, place), score = max(scores.items(), key=lambda item: item[1])
    nearest = lines[lines.index(f"   {query}") + 1]
    assert nearest.startswith(f"     {score:.2f}  ") and f"[{sentence.split()[place]}]" in nearest

    # The odd word: the lowest mean of both directions' log probabilities.
    odd = demo.MarkedSentence.parse(demo.ODD[0])
    score = scorer.score(odd.sentence)
    known = {place: value for place, value in enumerate(score.both[1:-1]) if not score.unknown[1 + place]}
    lowest = min(known, key=known.get)
    expected = f"   {demo.MarkedSentence(odd.sentence, lowest)}"
    assert any(line.startswith(expected) and f"{-known[lowest] / math.log(2):.1f} bits" in line for line in lines)

    # All words of the sense test, misses as well.
    assert all(any(line.strip().startswith(f"{word}: ") for line in lines) for word in senses())


def test_the_picture_has_every_word_and_layer(reader, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    from elmo_hf.bundled.sense_plot import plot_senses

    plot_senses(reader, tmp_path / "senses.svg")
    assert (tmp_path / "senses.svg").read_text(encoding="utf-8").count("<svg") == 1
    plot_senses(reader, tmp_path / "senses.png")
    assert (tmp_path / "senses.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_without_matplotlib_says_what_is_missing(reader, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    from elmo_hf.bundled.sense_plot import plot_senses

    with pytest.raises(ValueError, match="pip install"):
        plot_senses(reader, tmp_path / "senses.png")


def test_the_name_of_the_bundled_model_works_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert embed("english", "It's raining.").shape == (4, 256)
    assert ElmoEmbedder.from_pretrained("english").encode(["Yes"])[0].shape == (1, 256)
    assert mix_weights(["english"]).weights[0] == pytest.approx([1 / 3] * 3)
