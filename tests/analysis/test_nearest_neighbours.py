"""Neighbours by an index on disk, against brute force in float64; interruptions; damage."""

import json

import numpy as np
import pytest

from elmo_hf import ElmoConfig, ElmoModel
from elmo_hf.analysis import LayerReader, NeighbourIndex, neighbours
from elmo_hf.analysis import neighbour_index as module

SENTENCES = [" ".join(f"w{(7 * number + place) % 23}" for place in range(1 + number % 6)) for number in range(40)]


def test_the_nearest_are_those_of_brute_force(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "VECTORS_AT_ONCE", 13)  # the last part is shorter
    index = NeighbourIndex.build(tmp_path / "index", reader, SENTENCES, layer=1)
    every = np.concatenate([layers[1] for layers in reader.read(SENTENCES)], 0).astype(np.float64)
    assert len(index) == len(every) == sum(len(text.split()) for text in SENTENCES)
    every /= np.linalg.norm(every, axis=1, keepdims=True)
    expected = every @ every[5]
    scores, numbers = index.nearest(index.vectors[5:6], k=len(every))
    assert np.allclose(scores[0], np.sort(expected)[::-1], atol=2e-3)
    assert np.allclose(expected[numbers[0]], scores[0], atol=2e-3)
    sentence, place = index.places[5]
    assert index.sentence(sentence) == SENTENCES[sentence].split() and index.sentence(sentence)[place]


def test_neighbours_come_from_other_sentences_and_once_each(reader, tmp_path):
    index = NeighbourIndex.build(tmp_path / "index", reader, [*SENTENCES, *SENTENCES])
    found = neighbours(index, reader, SENTENCES[5], position=2, k=6)
    texts = [" ".join(one.sentence) for one in found.in_context]
    assert len(set(texts)) == len(texts) == 6 and SENTENCES[5] not in texts
    assert [one.cosine for one in found.in_context] == sorted((one.cosine for one in found.in_context), reverse=True)
    word = SENTENCES[5].split()[2]
    assert word not in [other for other, _ in found.context_free] and len(found.context_free) == 6
    others = neighbours(index, reader, SENTENCES[5], word=word, k=6, other_words=True)
    assert len(others.in_context) == 6 and word not in [one.word for one in others.in_context]


def test_an_interrupted_index_ends_as_one_that_was_not(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SENTENCES_A_STEP", 7)
    whole = NeighbourIndex.build(tmp_path / "whole", reader, SENTENCES, limit=100, num_words=9)

    class Stop(Exception):
        pass

    def stop(done):
        if done > 40:
            raise Stop

    with pytest.raises(Stop):
        NeighbourIndex.build(tmp_path / "again", reader, SENTENCES, limit=100, num_words=9, progress=stop)
    with pytest.raises(ValueError, match="holds no finished index"):
        NeighbourIndex(tmp_path / "again")
    with open(tmp_path / "again" / "vectors.f16", "ab") as file:
        file.write(b"what a killed step left behind")
    again = NeighbourIndex.build(tmp_path / "again", reader, SENTENCES, limit=100, num_words=9)
    for path in whole.folder.iterdir():
        assert path.read_bytes() == (again.folder / path.name).read_bytes(), path.name
    assert 100 <= len(whole) < 106 and len(whole.words) == 9


def test_an_index_whose_text_cannot_be_read_is_begun_again(reader, tmp_path):
    def unreadable():
        raise ValueError("There is no file")
        yield

    with pytest.raises(ValueError, match="There is no file"):
        NeighbourIndex.build(tmp_path / "index", reader, unreadable())
    assert len(NeighbourIndex.build(tmp_path / "index", reader, ["The bank lends ."])) == 4


def test_what_is_not_an_index_of_this_model_is_refused(reader, tokenizer, tmp_path):
    index = NeighbourIndex.build(tmp_path / "index", reader, SENTENCES)
    sizes = {"character_cnn_filters": [[1, 8]], "projection_size": 8, "cell_size": 12}
    other = LayerReader(ElmoModel(ElmoConfig(**sizes)).eval(), tokenizer)
    with pytest.raises(ValueError, match="was made with another model"):
        neighbours(index, other, "w1 w2", "w1")
    with pytest.raises(ValueError, match="was begun with layer 2"):
        NeighbourIndex.build(tmp_path / "index", reader, SENTENCES, layer=1)
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "file").touch()
    with pytest.raises(ValueError, match="holds files, but no index"):
        NeighbourIndex.build(tmp_path / "some", reader, SENTENCES)
    with pytest.raises(ValueError, match="The corpus has no words"):
        NeighbourIndex.build(tmp_path / "empty", reader, [])
    with open(tmp_path / "index" / "vectors.f16", "ab") as file:
        file.truncate(10)
    with pytest.raises(ValueError, match="the index is broken"):
        NeighbourIndex(tmp_path / "index")


def test_the_verbs(command, folder, tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(SENTENCES))
    code, out, err = command("analyse", "index", folder, tmp_path / "corpus.txt", "-o", tmp_path / "index")
    assert code == 0 and "words in 40 sentences" in out, err
    options = ("--word", "w3", "-k", 3, "--json", tmp_path / "a.json", "--plot", tmp_path / "a.png")
    code, out, err = command("analyse", "neighbours", folder, tmp_path / "index", "w2 w3 w4", *options)
    assert code == 0 and out.startswith("w2 [w3] w4\n"), err
    saved = json.loads((tmp_path / "a.json").read_text())
    assert f"{saved['in_context'][0]['cosine']:.2f}" == out.splitlines()[3].split()[0]
    assert len(saved["context_free"]) == 3 and (tmp_path / "a.png").stat().st_size > 5000
