"""Semantic change: measures against their definitions, resampling, whole runs on a corpus with a known change."""

import json
import random
from string import ascii_lowercase
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_models import small
from typer.testing import CliRunner

from elmo_hf import ElmoModel, ElmoTokenizer, SentenceSource
from elmo_hf.analysis import ChangeOptions, ChangeSeries, LayerReader, Target, change, induce
from elmo_hf.analysis.change_measures import (
    adjust_p_values,
    bootstrap_interval,
    frequency_percentiles,
    measure_change,
    permutation_p_value,
)
from elmo_hf.analysis.layer_reader import cosines
from elmo_hf.analysis.semantic_change import TSV_COLUMNS, check_sources
from elmo_hf.analysis.usage_clusters import Clusters, cluster_uses

pytest.importorskip("sklearn")
QUICK = ChangeOptions("prt", min_uses=5, uses=30, permutations=199, resamples=99, details=2)


def _corpus(contexts: dict[str, list[str]], seed: int, number: int = 40) -> list[list[str]]:
    generator = random.Random(seed)
    return [
        [*generator.choices(around, k=3), word, *generator.choices(around, k=2)]
        for _ in range(number)
        for word, around in contexts.items()
    ]


AIR, WOOD, FOOD = ["aaaa", "bbbb", "cccc"], ["xxxx", "yyyy", "zzzz"], ["mmmm", "nnnn", "oooo"]


@pytest.fixture(scope="module")
def reader() -> LayerReader:
    model = small(ElmoModel)
    with torch.no_grad():
        for weight in model.bilm.parameters():
            weight.mul_(5)  # untrained weights hardly look at the context
    return LayerReader(model, ElmoTokenizer())


def test_measures_against_their_definitions():
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(11, 7))
    clusters = np.array([0, 0, 1, 1, 2, 0, 1, 2, 2, 2, 2])
    old, new = vectors[:5], vectors[5:]
    z = (vectors - vectors.mean(0)) / vectors.std(0)
    assert measure_change("apd", vectors, clusters, 5) == pytest.approx(1 - cosines(z[:5], z[5:]).mean())
    assert measure_change("prt", vectors, clusters, 5) == pytest.approx(
        1 - float(cosines(old.mean(0)[None], new.mean(0)[None])[0, 0])
    )
    p, q = np.array([0.4, 0.4, 0.2]), np.array([1 / 6, 1 / 6, 4 / 6])
    m = (p + q) / 2
    divergence = ((p * np.log2(p / m)).sum() + (q * np.log2(q / m)).sum()) / 2
    assert measure_change("jsd", vectors, clusters, 5) == pytest.approx(divergence, rel=1e-6)
    with pytest.raises(ValueError, match="Invalid `measure`: 'cosine'. Expected 'apd', 'prt', 'jsd'"):
        measure_change("cosine", vectors, clusters, 5)


@pytest.mark.parametrize("measure", ["apd", "prt", "jsd"])
def test_resampling(measure):
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(60, 8)) + 1
    moved = vectors.copy()
    moved[30:, 0] += 6
    clusters = np.repeat([0, 1], 30)
    assert permutation_p_value(measure, moved, clusters, 30, 199, 0) == pytest.approx(1 / 200)
    mixed = np.tile([0, 1], 30)
    assert permutation_p_value(measure, vectors, mixed, 30, 199, 0) > 0.05
    low, high = bootstrap_interval(measure, moved, clusters, 30, 199, 0)
    assert low <= measure_change(measure, moved, clusters, 30) + 1e-6 and high >= low


def test_p_values_are_uniform_where_nothing_changed():
    generator = np.random.default_rng(2)
    p_values = [
        permutation_p_value("apd", generator.normal(size=(40, 6)), np.zeros(40, np.int64), 20, 99, seed)
        for seed in range(200)
    ]
    assert 0.01 <= np.mean(np.array(p_values) <= 0.05) <= 0.11
    assert 0.42 < np.mean(p_values) < 0.58


def test_corrections_by_hand():
    assert adjust_p_values([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    values, frequencies = [1.0, 2.0, 9.0, 8.0], [1, 2, 100, 200]
    assert frequency_percentiles(values, frequencies, neighbours=1) == [0, 100, 100, 0]
    assert frequency_percentiles([3.0, 1.0, 2.0], [5, 5, 5]) == [100, 0, 50]


def test_equally_typical_uses_keep_their_order():
    clusters = Clusters(np.array([0, 0, 0, 1, 1]), 0.5, -np.array([0.2, 0.3, 0.1, 0.25 + 1e-7, 0.25 - 1e-7]))
    assert clusters.typical(0, 2) == [2, 0] and clusters.typical(1, 2) == [3, 4]


def test_clusters_of_two_groups():
    generator = np.random.default_rng(3)
    vectors = np.concatenate([generator.normal(size=(20, 5)) * 0.1 + [1, 0, 0, 0, 0]] * 1)
    other = generator.normal(size=(30, 5)) * 0.1 + [0, 1, 0, 0, 0]
    clusters = cluster_uses(np.concatenate([vectors, other]))
    assert clusters.count == 2 and clusters.labels.tolist() == [1] * 20 + [0] * 30
    assert set(clusters.typical(1, 3)) < set(range(20))
    assert cluster_uses(generator.normal(size=(50, 5)), min_silhouette=0.9).count == 1
    assert cluster_uses(np.ones((6, 5))).count == 1  # nothing to tell apart


def test_a_word_that_changed_is_ranked_first(reader):
    old = _corpus({"plane": WOOD, "bread": FOOD}, 0)
    new = _corpus({"plane": AIR, "bread": FOOD}, 1)
    result = change(reader, old, new, words=["bread", "plane", "absent"], options=QUICK)
    assert [word.word for word in result.words] == ["plane", "bread"]
    plane, bread = result.words
    assert plane.p == pytest.approx(0.005) and bread.p > 0.05 and plane.q < 0.05
    assert plane.interval[0] > bread.values["prt"]
    assert result.left_out == {"absent": "absent from old"}
    assert plane.uses == (30, 30) and plane.per_million[0] == pytest.approx(1e6 * 40 / (80 * 6))
    assert [sum(c.shares[side] for c in plane.clusters) for side in (0, 1)] == pytest.approx([1, 1])
    again = change(reader, old, new, words=["plane"], options=QUICK)
    assert again.words[0].values == pytest.approx(plane.values) and again.words[0].p == plane.p


def test_substitutes_belong_to_their_corpus(reader):
    class Scorer:
        def substitutes(self, texts, positions, count, is_split_into_words):
            assert is_split_into_words and {text[place] for text, place in zip(texts, positions, strict=True)} == {
                "plane"
            }
            fitting = ["jet" if AIR[0] in text else "board" for text in texts]
            return [[SimpleNamespace(word=word) for word in (one, "Plane", "thing", ".")] for one in fitting]

    old, new = _corpus({"plane": WOOD}, 0), _corpus({"plane": [AIR[0]]}, 1)
    result = change(reader, old, new, words=["plane"], scorer=Scorer(), options=QUICK)
    assert result.words[0].substitutes == [["board"], ["jet"]]


def test_frequent_words_without_a_list(reader):
    old, new = _corpus({"plane": WOOD}, 0), _corpus({"plane": AIR + WOOD}, 1)
    rare = ChangeOptions(min_uses=10, uses=20, permutations=49, resamples=49, details=0)
    with pytest.raises(ValueError, match="No word occurs 10 times or more in every corpus"):
        change(reader, old, new, options=rare)  # all words are above the frequency of function words
    filler = [[a + b + c] * 10 for a in ascii_lowercase for b in ascii_lowercase for c in ascii_lowercase]
    few = ChangeOptions(min_uses=11, uses=20, permutations=49, resamples=49, details=0)
    result = change(reader, old + filler, new + filler, options=few)
    assert {word.word for word in result.words} == {"plane", *WOOD}


def test_outputs(reader, tmp_path):
    old, new = _corpus({"plane": WOOD, "<b>": FOOD}, 0), _corpus({"plane": AIR, "<b>": FOOD}, 1)
    result = change(reader, old, new, words=["plane", "<b>"], options=QUICK, names=("1800", "2000"))
    rows = [row.split("\t") for row in result.to_tsv().splitlines()]
    assert rows[0] == TSV_COLUMNS and [len(row) for row in rows] == [10] * 3
    assert json.loads(json.dumps(result.to_dict()))["words"][0]["word"] == "plane"
    page = result.to_html()
    assert "<h3>plane</h3>" in page and "<b>" + "</h3>" not in page and "&lt;b&gt;" in page
    assert "http" not in page and "<script" not in page  # self-contained
    assert "[plane]" in str(result) and "cluster 1" in str(result)
    result.plot(tmp_path / "uses.png")
    assert (tmp_path / "uses.png").stat().st_size > 5000


def test_series(reader, tmp_path):
    corpora = [_corpus({"plane": around, "bread": FOOD}, n) for n, around in enumerate((WOOD, WOOD, AIR))]
    result = change(reader, *corpora, words=["plane", "bread", "absent"], options=QUICK)
    assert isinstance(result, ChangeSeries) and result.corpora == ["1", "2", "3"]
    first, second = result.series()["plane"]
    assert second > first and list(result.series())[0] == "plane"
    assert "1 to 2" in str(result) and result.to_tsv().count("\n") == 5
    assert "absent from 1" in str(result)
    result.plot(tmp_path / "series.svg")
    assert "1 and 2" in result.to_html()


def test_induction(reader, tmp_path):
    corpus = _corpus({"plane": WOOD}, 0) + _corpus({"plane": AIR}, 1, 20)
    result = induce(reader, corpus, [Target("plane", ("plane",)), "absent"], min_uses=5, min_silhouette=0.0)
    (word,) = result.words
    assert word.count == 60 and result.left_out == {"absent": "0 uses, fewer than 5"}
    assert sum(cluster.shares[0] for cluster in word.clusters) == pytest.approx(1)
    air = np.array([sentence[0] in AIR for sentence in corpus])
    assert 0.3 < air.mean() < 0.4 and word.clusters[0].shares[0] >= word.clusters[-1].shares[0]
    result.plot(tmp_path / "senses.png")
    with pytest.raises(ValueError, match="No word has 5 uses or more: absent: 0 uses"):
        induce(reader, corpus, ["absent"], min_uses=5)


def test_mistakes(reader, tmp_path):
    with pytest.raises(ValueError, match="Invalid `min_uses`: 300. Expected at most `uses`"):
        ChangeOptions(min_uses=300)
    with pytest.raises(ValueError, match="Invalid number of corpora: 1"):
        change(reader, [["a"]])
    with pytest.raises(ValueError, match="The corpus new has no words"):
        change(reader, [["plane"]], [], words=["plane"], options=QUICK)
    with pytest.raises(ValueError, match=r"No word has 5 uses or more in every corpus: plane \(absent from new\)"):
        change(reader, [["plane"]] * 9, [["bread"]] * 9, words=["plane"], options=QUICK)
    path = tmp_path / "old.txt"
    path.write_text("a b\n", encoding="utf-8")
    with pytest.raises(ValueError, match="is part of two corpora"):
        check_sources([SentenceSource(path), SentenceSource(tmp_path / "../" / tmp_path.name / "old.txt")])


def test_commands(tmp_path):
    from elmo_hf.cli import app

    model, tokenizer = small(ElmoModel), ElmoTokenizer()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    for name, around, seed in (("old", WOOD, 0), ("new", AIR, 1)):
        text = "\n".join(map(" ".join, _corpus({"plane": around}, seed)))
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    words = tmp_path / "words.txt"
    words.write_text("plane,planes\nabsent\n", encoding="utf-8")
    old, new = str(tmp_path / "old.txt"), str(tmp_path / "new.txt")
    options = ["--tokenized", "--min-uses", "5", "--permutations", "99", "--tsv", str(tmp_path / "table.tsv")]
    run = CliRunner().invoke(
        app, ["analyse", "change", str(tmp_path / "model"), old, new, "--words", str(words), *options]
    )
    assert run.exit_code == 0, run.output
    assert "has no softmax over words" in run.output and "absent from old" in run.output
    assert (tmp_path / "table.tsv").read_text(encoding="utf-8").startswith("word\tuses_old")
    run = CliRunner().invoke(app, ["analyse", "change", str(tmp_path / "model"), old])
    assert run.exit_code == 2 and "Only one corpus was given" in run.output
    run = CliRunner().invoke(
        app, ["analyse", "induce", str(tmp_path / "model"), old, "plane", "--tokenized", "--min-uses", "5"]
    )
    assert run.exit_code == 0 and "40 of 40 uses" in run.output
