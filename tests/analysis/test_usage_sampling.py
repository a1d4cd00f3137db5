"""Sampling of uses: every use equally likely, a sample that depends on its own word only, bounded memory."""

import random
from collections import Counter

import pytest

from elmo_hf.analysis import Target, read_targets, sample_uses
from elmo_hf.analysis.usage_sampling import (
    MAX_SENTENCE_WORDS,
    count_words,
    frequent_targets,
    spelling_table,
    split_sentences,
    trim_to_same_size,
)


def test_every_use_is_equally_likely():
    corpus = [["a", "cell", str(number)] for number in range(20)]
    drawn = Counter(
        use.sentence_number
        for seed in range(600)
        for use in sample_uses(corpus, [Target("cell", ("cell",))], uses=5, seed=seed).uses["cell"]
    )
    # 600 draws of 5 of 20: 150 each, with a standard deviation of 10.6.
    assert set(drawn) == set(range(20))
    assert all(100 < count < 200 for count in drawn.values())


def test_a_trimmed_sample_is_random():
    corpus = [["cell"] for _ in range(20)]
    first = Counter()
    for seed in range(400):
        samples = [
            sample_uses(corpus, [Target("cell", ("cell",))], uses=10, seed=seed, name="old"),
            sample_uses(corpus[:4], [Target("cell", ("cell",))], uses=10, seed=seed, name="new"),
        ]
        trim_to_same_size(samples)
        assert [len(sample.uses["cell"]) for sample in samples] == [4, 4]
        first.update(use.sentence_number for use in samples[0].uses["cell"])
    assert all(45 < first[number] < 120 for number in range(20))  # 80 each, with a standard deviation of 8


def test_the_sample_of_a_word_does_not_depend_on_other_words():
    generator = random.Random(0)
    corpus = [generator.choices(["cell", "plane", "of", "the"], k=6) for _ in range(300)]
    alone = sample_uses(corpus, [Target("cell", ("cell",))], uses=20, seed=3)
    together = sample_uses(corpus, [Target("plane", ("plane",)), Target("cell", ("cell",))], uses=20, seed=3)
    assert alone.uses["cell"] == together.uses["cell"]
    assert alone.counts["cell"] == sum(words.count("cell") for words in corpus) == together.counts["cell"]


def test_forms():
    table = spelling_table([Target("plane", ("plane", "planes")), Target("May", ("May",))])
    assert set(table) == {"plane", "Plane", "PLANE", "planes", "Planes", "PLANES", "May"}
    with pytest.raises(ValueError, match="is a form of both 'plane' and 'planes'"):
        spelling_table([Target("plane", ("plane", "planes")), Target("planes", ("planes",))])


def test_long_sentences_are_cut_around_the_use():
    words = ["w"] * 5000 + ["cell"] + ["w"] * 5000
    (use,) = sample_uses([words], [Target("cell", ("cell",))]).uses["cell"]
    assert len(use.words) == MAX_SENTENCE_WORDS and use.words[use.position] == "cell"
    for corpus in (["cell", *words[:4000]], [*words[:4000], "cell"]):
        (use,) = sample_uses([corpus], [Target("cell", ("cell",))]).uses["cell"]
        assert use.words[use.position] == "cell"


def test_frequent_targets_need_uses_in_every_corpus():
    old = count_words([["The", "cell", "the", "plane", "42", "the"]] * 10)
    new = count_words([["the", "cell", "CELL", "of"]] * 10)
    assert old["the"] == 30 and "42" not in old
    assert [t.name for t in frequent_targets([old, new], 5, 10, max_per_million=1e6)] == ["the", "cell"]
    assert [t.name for t in frequent_targets([old, new], 5, 1, max_per_million=1e6)] == ["the"]
    assert frequent_targets([old, new], 5, 10, max_per_million=100.0) == []


def test_files_of_targets(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("plane, planes\n\ncell\n", encoding="utf-8")
    assert read_targets(path) == [Target("plane", ("plane", "planes")), Target("cell", ("cell",))]
    path.write_text("New York\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1: a form of 'New York' has a space"):
        read_targets(path)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match="names no word"):
        read_targets(path)


def test_strings_are_split_and_lists_are_not():
    split = lambda sentences: [["split"] for _ in sentences]  # noqa: E731
    assert list(split_sentences(["a b", ["c", "d"]])) == [["a", "b"], ["c", "d"]]
    assert list(split_sentences(["a b"], split)) == [["split"]]
    assert list(split_sentences([["c", "d"]], split)) == [["c", "d"]]
