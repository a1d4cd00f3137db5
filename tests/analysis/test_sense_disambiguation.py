"""Senses by examples, against a search without vectors of numpy; the readers; the measure."""

import gzip
import json

import numpy as np
import pytest

from elmo_hf.analysis import SenseData, SenseInstance, read_senses, senses
from elmo_hf.analysis.sense_disambiguation import _f1

DATA = """<corpus><text id="d000"><sentence id="d000.s000"><wf lemma="the" pos="DET">The</wf>
<instance id="set1.d000.s000.t000" lemma="Rome" pos="NOUN">city of Rome</instance></sentence>
<sentence id="d000.s001"><instance id="set2.d000.s001.t000" lemma="be" pos="VERB">was</instance></sentence></text>
</corpus>"""


def examples(count, seed):
    draw = np.random.default_rng(seed)
    data = SenseData()
    for number in range(count):
        words = [str(word) for word in draw.choice(["x", "y", "z", "river", "money"], 5)]
        place = int(draw.integers(0, 5))
        words[place] = "bank"
        data.sentences.append(words)
        data.instances.append(SenseInstance("bank", [str(draw.choice(["m", "r"]))], number, place, place + 1))
    return data


def test_the_nearest_example_and_the_nearest_mean(reader):
    for parameter in reader.embedder.model.bilm.parameters():
        parameter.data *= 4  # an untrained model tells neighbours apart by rounding errors only
    train, test = examples(30, 1), examples(20, 2)
    found = {(one.method, one.layer): one.f1["test"] for one in senses(reader, train, {"test": test}).scores}

    def vector(data, number, layer):
        x = list(reader.read([data.sentences[number]]))[0][layer, data.instances[number].start].astype(np.float64)
        return x / np.linalg.norm(x)

    for layer in range(3):
        known = [vector(train, number, layer) for number in range(30)]
        labels = [one.senses[0] for one in train.instances]
        means = {sense: sum(x for x, label in zip(known, labels, strict=True) if label == sense) for sense in "mr"}
        right_nearest = right_mean = 0
        for number, one in enumerate(test.instances):
            query = vector(test, number, layer)
            best = max(range(30), key=lambda place: float(known[place] @ query))
            right_nearest += labels[best] in one.senses
            mean = max(means, key=lambda sense: float(means[sense] @ query) / np.linalg.norm(means[sense]))
            right_mean += mean in one.senses
        if layer:  # at layer 0 all examples are equally near
            assert found["nearest", layer] == pytest.approx(right_nearest / 20)
            assert found["centroid", layer] == pytest.approx(right_mean / 20)


def test_words_without_an_example_get_the_first_sense(reader):
    train = examples(10, 1)
    test = SenseData([["a", "bank"], ["a", "tree"], ["a", "bush"]], [
        SenseInstance("bank", ["m", "r"], 0, 1, 2),  # either is right
        SenseInstance("tree", ["t"], 1, 1, 2),
        SenseInstance("bush", ["b"], 2, 1, 2),
    ])  # fmt: skip
    result = senses(reader, train, {"test": test}, {"tree": "t", "bank": "none"})
    for one in result.scores:
        if one.layer is not None:
            # 2 right of 2 answers for 3 words; and 1 right of 1 answer for 3 words
            assert one.f1["test"] == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))
            assert one.f1_without["test"] == pytest.approx(2 * 1 * (1 / 3) / (1 + 1 / 3))
    assert {one.method for one in result.scores} == {"nearest", "centroid", "first sense", "most frequent"}
    assert result.counts == {"test": {"words": 3, "known": 1}}


def test_the_measure():
    instance = SenseInstance("w", ["a"], 0, 0, 1)
    assert _f1([(instance, "a"), (instance, "b"), (instance, None)]) == pytest.approx(2 * (1 / 2) * (1 / 3) / (5 / 6))
    assert _f1([(instance, None)]) == 0


def test_the_unified_files(tmp_path):
    (tmp_path / "some.data.xml.gz").write_bytes(gzip.compress(DATA.encode()))
    with pytest.raises(ValueError, match=r"some.gold.key.txt.gz, which is not there"):
        read_senses(tmp_path / "some.data.xml.gz")
    keys = "set1.d000.s000.t000 rome%1:15:00::\nset2.d000.s001.t000 be%2:42:03:: be%2:42:06::\n"
    (tmp_path / "some.gold.key.txt.gz").write_bytes(gzip.compress(keys.encode()))
    data = read_senses(tmp_path / "some.data.xml.gz")
    assert data.sentences == [["The", "city", "of", "Rome"], ["was"]]
    assert data.instances[0] == SenseInstance("rome NOUN", ["rome%1:15:00::"], 0, 1, 4, "set1")
    assert data.instances[1].senses == ["be%2:42:03::", "be%2:42:06::"]
    (tmp_path / "some.data.xml.gz").write_bytes(gzip.compress(DATA[:90].encode()))
    with pytest.raises(ValueError, match="is no XML"):
        read_senses(tmp_path / "some.data.xml.gz")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("bank\tm", "2 columns between tabs"),
        ("bank\tm\tno such word", "no word as 'bank'"),
        ("a\tm\ta b\t2", "at '2'"),
    ],
)
def test_complaints_about_tables(tmp_path, line, complaint):
    (tmp_path / "table.tsv").write_text(f"bank\tr\tthe Bank\n{line}\n")
    with pytest.raises(ValueError, match=f"line 2: .*{complaint}"):
        read_senses(tmp_path / "table.tsv")


def test_the_verb(command, small_model, tokenizer, tmp_path):
    small_model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    for name, seed in (("train", 1), ("test", 2)):
        data = examples(12, seed)
        lines = [
            f"bank\t{one.senses[0]}\t{' '.join(data.sentences[one.sentence])}\t{one.start}" for one in data.instances
        ]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines))
    options = ("--store", tmp_path / "kept", "--json", tmp_path / "a.json", "--plot", tmp_path / "a.png")
    arguments = ("analyse", "senses", tmp_path / "model", tmp_path / "train.tsv", tmp_path / "test.tsv", *options)
    code, out, err = command(*arguments)
    assert code == 0 and "12 words, 12 of them in the training data" in out, err
    saved = json.loads((tmp_path / "a.json").read_text())["scores"]
    assert saved[0]["method"] == "most frequent" and f"{100 * saved[0]['f1']['test']:.2f}" in out
    assert command(*arguments)[1] == out and (tmp_path / "a.png").exists()
