"""Word vectors: averages by brute force, word2vec's text by gensim, the originals' cached file."""

import h5py
import numpy as np
import pytest
from golden_files import GOLDEN, SHARED_FIXTURES

from elmo_hf import ElmoEmbedder
from elmo_hf.embedding import average_vectors, model_of_token_vectors, write_token_vectors, write_word2vec


def test_averages(embedder, sentences):
    contexts = {}
    for sentence in sentences:
        for word, vector in zip(sentence.split(), embedder.encode(sentence, layers=2), strict=True):
            contexts.setdefault(word, []).append(vector)
    words, vectors = average_vectors(embedder, iter(sentences), layers=2)
    counts = [len(contexts[word]) for word in words]
    assert set(words) == set(contexts) and counts == sorted(counts, reverse=True)
    for word, vector in zip(words, vectors, strict=True):
        np.testing.assert_allclose(vector, np.mean(contexts[word], 0), atol=1e-5)
    words, vectors = average_vectors(embedder, sentences, ["mat", "unheardof"], layers=2)
    assert words == ["mat", "unheardof"]
    np.testing.assert_allclose(vectors[0], np.mean(contexts["mat"], 0), atol=1e-5)
    np.testing.assert_allclose(vectors[1], embedder.encode("unheardof", layers=2)[0], atol=1e-5)
    many = [f"word{number}" for number in range(2100)]
    assert average_vectors(embedder, many)[1].shape == (2100, 16)
    with pytest.raises(ValueError, match="one vector a word"):
        average_vectors(embedder, sentences, layers="all")


def test_word2vec_text(embedder, tmp_path):
    models = pytest.importorskip("gensim.models", reason="pip install gensim")
    words = ["cat", "mat", "Ünïcödé", "日本語"]
    vectors = embedder.word_vectors(words)
    # Layer 0 has this vector in each of its halves.
    np.testing.assert_allclose(embedder.encode("mat", layers=0)[0], np.tile(vectors[1], 2), atol=1e-6)
    write_word2vec(tmp_path / "words.txt", words, vectors)
    loaded = models.KeyedVectors.load_word2vec_format(tmp_path / "words.txt")
    assert loaded.index_to_key == words
    np.testing.assert_array_equal(loaded.vectors, vectors.numpy())


@pytest.mark.parametrize(
    "words, complaint",
    [(["a b", "c"], "white space"), (["", "c"], "nothing"), (["a", "a"], "once"), (["a"], "one vector for")],
)
def test_what_word2vec_cannot_hold(words, complaint, tmp_path):
    with pytest.raises(ValueError, match=complaint):
        write_word2vec(tmp_path / "words.txt", words, np.zeros((2, 3)))
    assert list(tmp_path.iterdir()) == []


def test_cached_token_vectors(embedder, sentences, tmp_path):
    vocabulary = ["<S>", "</S>", "<UNK>", *sorted({word for sentence in sentences for word in sentence.split()})]
    write_token_vectors(tmp_path / "cached.hdf5", embedder, vocabulary)
    cached = model_of_token_vectors(embedder, tmp_path / "cached.hdf5", vocabulary)
    assert cached.model.config.word_input
    expected = embedder.encode(sentences, layers="all")
    for one, other in zip(cached.encode(sentences, layers="all"), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    unknown = cached.encode("unheardof", layers="all")
    np.testing.assert_allclose(unknown, embedder.encode([["<UNK>"]], layers="all")[0], atol=1e-5)
    with pytest.raises(ValueError, match="no <S>"):
        write_token_vectors(tmp_path / "x.hdf5", embedder, ["a"])
    with pytest.raises(ValueError, match="one for each word"):
        model_of_token_vectors(embedder, tmp_path / "cached.hdf5", vocabulary[:-1])
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["else"] = 1
    with pytest.raises(ValueError, match="has no dataset 'embedding'"):
        model_of_token_vectors(embedder, tmp_path / "other.hdf5", vocabulary)


def test_the_originals_own_file(converted, tmp_path):
    golden = GOLDEN["allennlp"]
    if not golden.available:
        pytest.skip(f"the files are not in {SHARED_FIXTURES}")
    embedder = ElmoEmbedder.from_pretrained(converted(golden), device="cpu")
    write_token_vectors(tmp_path / "ours.hdf5", embedder, golden.vocabulary)
    theirs = SHARED_FIXTURES / "allennlp" / "elmo_token_embeddings.hdf5"
    with h5py.File(tmp_path / "ours.hdf5") as one, h5py.File(theirs) as other:
        np.testing.assert_allclose(one["embedding"][()], other["embedding"][()], rtol=0, atol=2e-6)
    cached = model_of_token_vectors(embedder, theirs, golden.vocabulary)
    words = golden.vocabulary.read_text().split()[:6]
    assert "<UNK>" not in words
    np.testing.assert_allclose(cached.encode([words])[0], embedder.encode([words])[0], rtol=0, atol=5e-6)
