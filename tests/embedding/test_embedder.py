"""ElmoEmbedder against the model called sentence by sentence, and against what bilm itself computed."""

import itertools

import numpy as np
import pytest
import torch
from golden_files import BATCH_SIZE, GOLDEN

from elmo_hf import ElmoEmbedder, ElmoForTokenClassification, ElmoTokenizer, embed
from elmo_hf.kernels import kernels_disabled

# What bilm wrote is itself rounded: up to 1.2e-6 away from the exact values.
AS_BILM = 2.4e-6


@torch.no_grad()
def plainly(embedder, sentence):
    """All layers (L + 1, words, size) of one sentence and the mix, by the plain functions, alone in its batch."""
    words = sentence.split() if isinstance(sentence, str) else sentence
    inputs = embedder.tokenizer([words], is_split_into_words=True, return_tensors="pt")
    with kernels_disabled():
        output = embedder.model(**inputs, output_hidden_states=True)
    return torch.stack(output.hidden_states, 1)[0, :, 1:-1].numpy(), output.last_hidden_state[0, 1:-1].numpy()


def assert_close(actual, expected, tolerance=1e-5):
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def test_layers(embedder, sentences):
    layers, mixes = zip(*(plainly(embedder, sentence) for sentence in sentences), strict=True)
    assert layers[1].shape == (3, 0, 16)
    assert_close(embedder.encode(sentences, layers="all"), layers)
    assert_close(embedder.encode(sentences), mixes)
    assert_close(embedder.encode(sentences, layers="average"), [x.mean(0) for x in layers])
    assert_close(embedder.encode(sentences, layers="top"), [x[-1] for x in layers])
    assert_close(embedder.encode(sentences, layers=-2), [x[1] for x in layers])
    assert_close(embedder.encode(sentences, layers=[2, 0]), [x[[2, 0]] for x in layers])
    assert_close(embedder.encode(sentences, layers=[1]), [x[[1]] for x in layers])


def test_pooling(embedder, sentences):
    layers = [plainly(embedder, sentence)[0] for sentence in sentences]
    means = np.stack([x.mean(1) if x.shape[1] else x.sum(1) for x in layers])
    assert_close([embedder.encode(sentences, "all", "mean")], [means])
    assert_close([embedder.encode(sentences, "top", "mean")], [means[:, -1]])
    assert_close([embedder.encode(sentences[0], 1, "max")], [layers[0][1].max(0)])
    both = [layers[0][2][-1, :8], layers[0][2][0, 8:]]
    assert_close([embedder.encode(sentences[0], 2, "first_last")], [np.concatenate(both)])


def test_batches_order_and_remembered_words_do_not_matter(embedder, sentences):
    expected = embedder.encode(sentences, layers="all")
    for settings in ({"batch_size": 1}, {"batch_size": 7}, {"batch_tokens": 20}, {"batch_tokens": 1}):
        assert_close(embedder.encode(sentences, layers="all", **settings), expected)
    assert_close(embedder.encode(sentences[::-1], layers="all")[::-1], expected)
    with torch.no_grad():
        embedder.model.token_encoder.convolutions[0].weight.mul_(2)
    try:
        assert_close(embedder.encode(sentences[:1], layers="all"), [plainly(embedder, sentences[0])[0]])
    finally:
        with torch.no_grad():
            embedder.model.token_encoder.convolutions[0].weight.div_(2)


def test_what_comes_in_and_goes_out(embedder):
    one = embedder.encode("New York sleeps")
    assert one.shape == (3, 16) and one.dtype == np.float32
    assert embedder.encode(["New York", "sleeps"], is_split_into_words=True).shape == (2, 16)
    assert embedder.encode([["New York", "sleeps"]])[0].shape == (2, 16)
    assert embedder.encode("").shape == (0, 16)
    assert embedder.encode([]) == [] and embedder.encode([], "all", "mean").shape == (0, 3, 16)
    whole = embedder.encode("New York sleeps", boundaries=True)
    np.testing.assert_allclose(whole[1:-1], one, atol=1e-6)
    assert whole.shape == (5, 16)
    half = embedder.encode("New York sleeps", dtype="float16")
    assert half.dtype == np.float16 and np.abs(half - one).max() < 1e-3 * np.abs(one).max()
    assert embedder.encode("a", dtype="bfloat16", as_tensors=True).dtype == torch.bfloat16
    # Word by word as a generator, without end: nothing waits for the last.
    endless = embedder.encode(f"number {number}" for number in itertools.count())
    assert next(endless).shape == (2, 16)
    assert embedder.encode(["word " * 10_000])[0].shape == (10_000, 16)


@pytest.mark.parametrize(
    "settings, complaint",
    [
        ({"layers": 3}, "a number from 0"),
        ({"layers": "first"}, "'mix', 'all', 'top', 'average'"),
        ({"layers": []}, "a list of such numbers"),
        ({"pooling": "sum"}, "None, 'mean', 'max', 'first_last'"),
        ({"pooling": "mean", "boundaries": True}, "one of the two"),
        ({"dtype": "float64"}, "float32, float16, bfloat16"),
        ({"dtype": "bfloat16"}, "as_tensors=True"),
        ({"batch_size": 0}, "at least 1"),
    ],
)
def test_complaints(embedder, settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        embedder.encode(["a"], **settings)
    with pytest.raises(ValueError, match="Expected a string or a list of words"):
        embedder.encode([["a", 1]])


def test_stateful_is_what_the_originals_do(golden, converted):
    if golden.expands_rounding:
        return  # no float32 of any program can be compared over a whole run
    embedder = ElmoEmbedder.from_pretrained(converted(golden), device="cpu")
    for mode in ("stateful", "stateless"):
        expected = [golden.expected_layers(mode, number) for number in range(len(golden.sentences))]
        settings = {"stateful": True, "batch_size": BATCH_SIZE} if mode == "stateful" else {}
        assert_close(embedder.encode(golden.sentences, layers="all", **settings), expected, AS_BILM)


def test_as_allennlp(embedder, sentences):
    lists = [sentence.split() for sentence in sentences]
    expected = [plainly(embedder, words)[0] for words in lists]
    assert_close([embedder.embed_sentence(lists[0]), embedder.embed_sentence([])], [expected[0], expected[1]])
    assert_close(embedder.embed_batch(lists), expected)
    assert_close(embedder.embed_sentences(iter(lists), batch_size=4), expected)
    with pytest.raises(ValueError, match="Invalid sentence: the string .* Expected a list of words"):
        embedder.embed_batch(["a string"])


def test_models_with_heads_word_models_and_the_one_line(model_folder, embedder, converted, tmp_path, sentences):
    head = ElmoForTokenClassification.from_pretrained(model_folder)
    head.save_pretrained(tmp_path)
    ElmoTokenizer(splitting="whitespace").save_pretrained(tmp_path)
    expected = embedder.encode(sentences[:4], layers="all")
    assert_close(ElmoEmbedder(head.elmo, embedder.tokenizer).encode(sentences[:4], layers="all"), expected)
    assert_close(embed(tmp_path, sentences[:4], layers="all"), expected)
    words = ElmoEmbedder.from_pretrained(converted(GOLDEN["word-input"]))
    assert_close(words.encode(sentences[:1], layers="all"), [plainly(words, sentences[0])[0]])
    assert words.word_vectors(["The", "nothing-like-it"]).shape == (2, words.model.config.projection_size)
