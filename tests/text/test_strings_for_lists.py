"""A string where a list is meant is an error: its characters would be taken for sentences or words."""

import pytest

from elmo_hf import ElmoEmbedder, ElmoScorer, embed_corpus
from elmo_hf.analysis import LayerReader, NeighbourIndex, mix_weights, word_surprisal
from elmo_hf.embedding import average_vectors, write_word2vec

TEXT = "The cat sat."


@pytest.fixture(scope="module")
def scorer(lm_folder):
    return ElmoScorer.from_pretrained(lm_folder)


@pytest.fixture(scope="module")
def embedder(scorer):
    return ElmoEmbedder(scorer.model.elmo, scorer.tokenizer)


@pytest.mark.parametrize(
    ("name", "call"),
    {
        "sentences": lambda embedder, path: embedder.encode(TEXT, is_split_into_words=True),
        "sentence": lambda embedder, path: embedder.embed_sentence(TEXT),
        "batch": lambda embedder, path: embedder.embed_batch(TEXT),
        "sentences ": lambda embedder, path: embedder.embed_sentences(TEXT),
        "sentences  ": lambda embedder, path: embedder.words(TEXT),
        "words": lambda embedder, path: embedder.word_vectors(TEXT),
        "sentences   ": lambda embedder, path: embed_corpus(embedder, TEXT, path),
        "sentences    ": lambda embedder, path: average_vectors(embedder, TEXT),
        "words ": lambda embedder, path: average_vectors(embedder, [TEXT], words="cat"),
        "words  ": lambda embedder, path: write_word2vec(path, "cat", embedder.word_vectors(["a", "b", "c"])),
        "models": lambda embedder, path: mix_weights("english"),
        "sentences     ": lambda embedder, path: LayerReader(embedder.model, embedder.tokenizer).read(TEXT),
        "sentences      ": lambda embedder, path: NeighbourIndex.build(
            path, LayerReader(embedder.model, embedder.tokenizer), TEXT
        ),
    }.items(),
)
def test_embedder_stores_and_analysis(name, call, embedder, tmp_path):
    with pytest.raises(ValueError, match=rf"Invalid `{name.strip()}`: the string '.*'\. Expected a list of"):
        call(embedder, tmp_path / "output")
    assert not (tmp_path / "output").exists()


def test_scorer(scorer):
    for call in (scorer.score_stream, lambda text: word_surprisal(scorer, text)):
        with pytest.raises(ValueError, match="Invalid `sentences`: the string 'The cat sat.'. Expected a list"):
            list(call(TEXT))


@pytest.mark.parametrize("value", [None, 3, b"bytes"])
def test_other_values(embedder, value):
    with pytest.raises(ValueError, match="Invalid `sentences`: .* Expected a string, or a list"):
        embedder.encode(value)
