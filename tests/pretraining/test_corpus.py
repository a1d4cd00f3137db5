"""Text to numbers on disk: what is written, what is held out, and text that is not as it should be."""

import gzip
import lzma
import tracemalloc

import numpy as np
import pytest
from datasets import Dataset

from elmo_hf import ElmoTokenizer, read_lines
from elmo_hf.pretraining import Corpus, lines_of_dataset
from elmo_hf.pretraining import corpus as module

TOKENIZER = ElmoTokenizer("whitespace")


def test_two_processes_that_write_the_same(tmp_path):
    def lines():
        yield "a b"
        Corpus.write(["a b"], tmp_path / "corpus", ElmoTokenizer("whitespace"))  # the other one is faster

    corpus = Corpus.write(lines(), tmp_path / "corpus", ElmoTokenizer("whitespace"))
    assert corpus.words[3:] == ["a", "b"] and [path.name for path in tmp_path.iterdir()] == ["corpus"]


def write(lines, folder, **settings):
    return Corpus.write(lines, folder / "corpus", TOKENIZER, **settings)


def sentences(corpus):
    words = np.array(corpus.words, dtype=object)
    return [" ".join(words[corpus.sentence(k)]) for k in range(corpus.num_sentences)]


def test_sentences_come_back(tmp_path):
    lines = ["a b  a", "", "   ", "c", "ünï ċode 日本"]
    corpus = write(lines, tmp_path)
    assert sentences(corpus) == ["<S> a b a </S>", "<S> c </S>", "<S> ünï ċode 日本 </S>"]
    assert (corpus.num_sentences, corpus.num_words, corpus.num_pairs) == (3, 7, 10)
    assert dict(zip(corpus.words, corpus.counts.tolist(), strict=True))["a"] == 2


def test_words_that_look_like_marks(tmp_path):
    corpus = write(["<PAD> <S> x"], tmp_path)
    assert corpus.counts[0] == 0 and sentences(corpus) == ["<S> <PAD> <S> x </S>"]


def test_the_fingerprint_is_that_of_the_text(tmp_path):
    one = write(["a b", "c"], tmp_path / "1")
    assert write(["a b ", "", "c"], tmp_path / "2").fingerprint == one.fingerprint
    assert write(["a b", "d"], tmp_path / "3").fingerprint != one.fingerprint
    assert write(["a", "b c"], tmp_path / "4").fingerprint != one.fingerprint


def test_held_out_sentences_are_not_trained_on(tmp_path):
    lines = [f"sentence number {k % 3000}" for k in range(6000)]  # each twice
    corpus = write(lines, tmp_path, hold_out=True)
    kept, held = {line[4:-5] for line in sentences(corpus)}, set(corpus.held_out)
    assert 20 < len(held) < 120 and not kept & held
    assert kept | held == set(lines) and corpus.num_sentences == 6000 - 2 * len(held)


def test_no_more_than_enough_is_held_out(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_HELD_OUT", 10)
    lines = [f"sentence number {k}" for k in range(3000)] * 2
    corpus = write(lines, tmp_path, hold_out=True)
    assert len(corpus.held_out) == 10 and corpus.num_sentences == 6000 - 20
    assert not {line[4:-5] for line in sentences(corpus)} & set(corpus.held_out)
    # From everywhere in the text, not only from its beginning.
    assert max(int(line.split()[-1]) for line in corpus.held_out) > 1000


def test_packed_files_and_empty_shards(tmp_path):
    (tmp_path / "1.txt").write_text("a b\n")
    (tmp_path / "2.txt").write_text("")
    (tmp_path / "3.txt.gz").write_bytes(gzip.compress(b"c\n\n"))
    (tmp_path / "4.txt.xz").write_bytes(lzma.compress(b"d e\r\n"))
    corpus = write(read_lines(tmp_path / "*.txt*"), tmp_path)
    assert sentences(corpus) == ["<S> a b </S>", "<S> c </S>", "<S> d e </S>"]


@pytest.mark.parametrize("streaming", [False, True])
def test_datasets(tmp_path, streaming):
    dataset = Dataset.from_dict({"text": ["a b\nc", "d"]})
    dataset = dataset.to_iterable_dataset() if streaming else dataset
    assert sentences(write(lines_of_dataset(dataset), tmp_path)) == ["<S> a b </S>", "<S> c </S>", "<S> d </S>"]
    with pytest.raises(ValueError, match="no text in a column 'body'; its columns are 'text'"):
        write(lines_of_dataset(dataset, "body"), tmp_path / "other")


def test_an_empty_corpus_leaves_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="The corpus is empty"):
        write(["", "  "], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_invalid_text_is_named_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"fine\nn\xffot\n")
    with pytest.raises(ValueError, match=r"bad\.txt, line 2: not UTF-8"):
        write(read_lines(path), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert sentences(write(read_lines(path, errors="replace"), tmp_path / "out"))[1] == "<S> n\ufffdot </S>"


def test_a_long_line(tmp_path):
    corpus = write([" ".join(["w"] * 100_000), "x"], tmp_path)
    assert len(corpus.sentence(0)) == 100_002


def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", 2**12)

    def peak(number):
        tracemalloc.start()
        write((f"some words {k % 7}" for k in range(number)), tmp_path / str(number))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak(30_000) < 1.1 * peak(10_000)


def test_what_it_was_written_from_is_remembered(tmp_path):
    write(["a"], tmp_path, source=["files", ("x", 3)])
    assert Corpus.is_of(tmp_path / "corpus", ["files", ("x", 3)])
    assert not Corpus.is_of(tmp_path / "corpus", ["files", ("x", 4)])
    assert not Corpus.is_of(tmp_path / "nothing", None)
