"""The comparison with other vectors: its readers, its probe, its scores and its table."""

import importlib
import json
import sys

import numpy as np
import pytest
import torch
from golden_files import TESTS
from torch import nn

MODULES = (
    "compare",
    "compare_cost",
    "compare_data",
    "compare_flair",
    "compare_networks",
    "compare_programs",
    "taggers",
)


@pytest.fixture
def compare(monkeypatch):
    """A function that imports a module of the comparison."""
    monkeypatch.syspath_prepend(str(TESTS.parent / "benchmarks"))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


class Dictionary:
    """As Flair's: the ids of characters are an attribute of an object inside of the embeddings."""

    def __init__(self):
        self.item2idx = {b"<unk>": 0, **{character.encode(): n for n, character in enumerate("\n abcdé", 1)}}


class Embeddings(nn.Module):
    """Stands for Flair's stacked embeddings; reading the file must not build it."""

    built = 0

    def __init__(self):
        super().__init__()
        Embeddings.built += 1
        self.dictionary = Dictionary()
        self.inner = nn.Linear(2, 2)


@pytest.fixture
def tagger(tmp_path):
    """A legacy file as Flair writes it, and its two language models."""
    torch.manual_seed(0)
    state, models = {}, []
    for number in range(2):
        embedding, rnn = nn.Embedding(8, 3), nn.LSTM(3, 5, batch_first=True)
        prefix = f"embeddings.list_embedding_{number}.lm."
        state[prefix + "encoder.weight"] = embedding.weight.detach()
        state |= {f"{prefix}rnn.{name}": value for name, value in rnn.state_dict().items()}
        models.append((embedding, rnn))
    content = {"state_dict": state, "embeddings": Embeddings()}
    options = {"_use_new_zipfile_serialization": False, "pickle_protocol": 4}
    torch.save(content, tmp_path / "pos_model.bin", **options)
    return tmp_path / "pos_model.bin", models


def test_flairs_vectors_are_the_states_around_each_word(compare, tagger):
    path, models = tagger
    built = Embeddings.built
    flair = compare("compare_flair").FlairEmbeddings(path)
    assert Embeddings.built == built and flair.ids["é".encode()] == 7
    sentences = [["ab", "é", "dab"], ["c?"]]
    vectors = flair.encode(sentences)
    assert [array.shape for array in vectors] == [(1, 3, 10), (1, 1, 10)]

    def state(direction, text):
        embedding, rnn = models[direction]
        ids = torch.tensor([[flair.ids.get(character.encode(), 0) for character in text]])
        with torch.no_grad():
            return rnn(embedding(ids))[0][0, -1].numpy()

    for words, array in zip(sentences, vectors, strict=True):
        for place in range(len(words)):
            before, after = " ".join(words[: place + 1]), " ".join(words[place:])
            expected = np.concatenate([state(0, f"\n{before} "), state(1, f"\n{after[::-1]} ")])
            np.testing.assert_allclose(array[0, place], expected, atol=1e-6)


def test_a_word_has_the_mean_of_its_pieces(compare):
    layers = torch.arange(12.0).reshape(1, 6, 2)
    means = compare("compare_programs")._mean_of_pieces(layers, [None, 0, 0, 2, None, None], 3)
    assert means.tolist() == [[[3.0, 4.0], [0.0, 0.0], [6.0, 7.0]]]


def test_programs_return_vectors_in_the_order_of_the_sentences(compare):
    program = compare("compare_programs").Program(
        "x", {"top": [0]}, lambda: lambda batch: [np.full((1, len(words), 1), len(words[0])) for words in batch]
    )
    sentences = [["a" * (50 - number)] for number in range(50)]
    assert [int(array[0, 0, 0]) for array in program.encode(sentences)] == list(range(50, 0, -1))


def test_the_probe_learns_which_layer_has_the_labels(compare):
    torch.manual_seed(0)
    labels = torch.randint(3, (600,))
    noise, signal = torch.randn(600, 4), nn.functional.one_hot(labels, 4).float() + 0.1 * torch.randn(600, 4)
    x = torch.stack([100 * noise, signal], 1)
    predicted = compare("compare").run_probe((x[:400], labels[:400]), (x[400:], labels[400:]), 3, seed=0)
    assert (predicted == labels[400:].numpy()).mean() > 0.95
    only_noise = x[:, :1]
    predicted = compare("compare").run_probe((only_noise[:400], labels[:400]), (only_noise[400:], labels[400:]), 3, 0)
    assert (predicted == labels[400:].numpy()).mean() < 0.5


def test_a_network_learns_from_vectors_of_words(compare, tmp_path):
    """Labels that follow from the word before; the second layer is noise."""
    generator = np.random.default_rng(0)
    ids = [generator.integers(0, 4, generator.integers(2, 8)) for _ in range(300)]

    def encode(sentences):
        return [
            np.stack([np.eye(4)[[int(w) for w in words]], generator.normal(size=(len(words), 4))])
            for words in sentences
        ]

    labels = [["O", *("B-X" if before > 1 else "O" for before in row[:-1])] for row in ids]
    sentences = [[str(word) for word in row] for row in ids]
    data, networks = compare("compare_data"), compare("compare_networks")
    parts = {"train": data.Part(sentences[:250], labels[:250]), "test": data.Part(sentences[250:], labels[250:])}
    program = compare("compare_programs").Program("x", {"mix": [0, 1]}, lambda: encode)
    task = data.Task("text", parts, "accuracy")
    assert networks.score(task, compare("compare").Vectors(tmp_path, program), [0, 1], seed=0) > 95
    assert networks.score(task, compare("compare").Vectors(tmp_path, program), [1], seed=0) < 75


def test_scores_are_of_words_and_of_entities(compare):
    data = compare("compare_data")
    part = data.Part([["Ann", "Lee"], ["Rome"]], [["B-PER", "I-PER"], ["B-LOC"]])
    predicted = ["B-PER", "O", "B-LOC"]
    assert data.Task("x", {"test": part}, "accuracy").score(predicted) == pytest.approx(100 * 2 / 3)
    assert data.Task("x", {"test": part}, "f1").score(predicted) == pytest.approx(50)


def test_neutral_sentences_have_no_label_of_two(compare, tmp_path):
    import gzip

    (tmp_path / "sentiment").mkdir()
    trees = ["(3 (2 Good) (2 film))", "(2 (2 A) (2 film))", "(0 (2 Bad))"] * 400
    for name in ("train", "test"):
        (tmp_path / "sentiment" / f"{name}.txt.gz").write_bytes(gzip.compress("\n".join(trees).encode()))
    data = compare("compare_data")
    five, two = data.TASKS["SST-5"](tmp_path).parts["test"], data.TASKS["SST-2"](tmp_path).parts["test"]
    assert five.sentences[:2] == two.sentences[:2] == [["Good", "film"], ["A", "film"]]
    assert five.labels[:3] == [["3"], ["2"], ["0"]] and two.labels[:3] == [["positive"], [], ["negative"]]
    assert len(data.TASKS["SST-5"](tmp_path).parts["train"].sentences) == data.TRAIN_SENTENCES


def test_vectors_are_computed_once(compare, tmp_path):
    calls = []

    def encode(batch):
        calls.append(len(batch))
        return [np.full((2, len(words), 3), len(words), np.float32) for words in batch]

    program = compare("compare_programs").Program("x", {"top": [1]}, lambda: encode)
    for _ in range(2):
        vectors = compare("compare").Vectors(tmp_path, program).read("text", [["a"], ["b", "c"]])
        assert [array.shape for array in vectors] == [(2, 1, 3), (2, 2, 3)] and vectors[1][0, 0, 0] == 2
    assert calls == [2]


@pytest.mark.skipif(not (TESTS.parent / "benchmarks" / "measured" / "compare.json").exists(), reason="not measured")
def test_the_page_has_the_measured_tables(compare):
    page = (TESTS.parent / "docs" / "results.md").read_text(encoding="utf-8")
    measured = TESTS.parent / "benchmarks" / "measured"
    assert compare("compare").table(json.loads((measured / "compare.json").read_text())) in page
    assert compare("compare").table(json.loads((measured / "compare_networks.json").read_text())) in page
    assert compare("compare_cost").table(json.loads((measured / "compare_cost.json").read_text())) in page
