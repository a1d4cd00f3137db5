"""The reference itself against the vectors and states that bilm computed, and against itself where bilm has no say."""

import numpy as np
import pytest
from golden_files import (
    GOLDEN,
    RANDOM,
    SHARED_FIXTURES,
    leaves,
    load_arrays,
    run,
    run_differences,
    step_differences,
)
from reference_bilm import ReferenceBilm, scalar_mix


@pytest.fixture
def plain():
    return GOLDEN["plain"]


def reference(checkpoint, **lstm_options):
    options = checkpoint.options_content
    return ReferenceBilm({**options, "lstm": {**options["lstm"], **lstm_options}}, checkpoint.arrays)


def all_rows(checkpoint):
    return [checkpoint.rows(words) for words in checkpoint.sentences]


def assert_same(actual, expected):
    """Both are lists of layers, or of states: equal to the last bit."""
    if isinstance(actual, list | tuple):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(actual, expected)


# Against bilm


def test_every_random_checkpoint_is_here():
    assert len(RANDOM) == 16 and all(checkpoint.available for checkpoint in RANDOM.values())


EXPANDING = [name for name, checkpoint in GOLDEN.items() if checkpoint.expands_rounding]
STEADY = [name for name in GOLDEN if name not in EXPANDING]
modes = pytest.mark.parametrize("mode", ["stateful", "stateless"])


@modes
@pytest.mark.parametrize("golden", STEADY, indirect=True)
def test_layers_and_final_states_are_those_of_bilm(golden, mode):
    of_layers, of_states = run_differences(reference(golden), golden, mode)
    print(f"{golden.name} {mode}: layers {of_layers:.1e}, states {of_states:.1e}")
    assert of_layers <= golden.tolerance and of_states <= golden.tolerance


@modes
def test_every_step_from_bilms_own_state_is_bilms(golden, mode):
    of_output, of_state = step_differences(reference(golden), golden, mode)
    print(f"{golden.name} {mode}: one step {of_output:.1e}, states {of_state:.1e}")
    assert of_output <= golden.step_tolerance and of_state <= golden.step_tolerance


@modes
@pytest.mark.parametrize("name", EXPANDING)
def test_where_rounding_expands_bilm_is_as_far_off_as_rounding_the_weights(name, mode):
    checkpoint, random = GOLDEN[name], np.random.default_rng(0)
    exact, _ = run(reference(checkpoint), checkpoint, mode)
    by_rounding = np.zeros(len(exact))
    for _ in range(5):
        half_a_bit = {path: random.uniform(-6e-8, 6e-8, array.shape) for path, array in checkpoint.arrays.items()}
        arrays = {path: array * (1 + half_a_bit[path]) for path, array in checkpoint.arrays.items()}
        layers, _ = run(ReferenceBilm(checkpoint.options_content, arrays), checkpoint, mode)
        off = [np.abs(one - other).max() for one, other in zip(layers, exact, strict=True)]
        by_rounding = np.maximum(by_rounding, off)
    for number, layers in enumerate(exact):
        assert np.abs(layers - checkpoint.expected_layers(mode, number)).max() <= 10 * by_rounding[number]


def test_token_vectors_are_those_cached_by_the_original():
    checkpoint = GOLDEN["allennlp"]
    if not checkpoint.available:
        pytest.skip(f"the files of {checkpoint.name} are not in {SHARED_FIXTURES}")
    cached = load_arrays(SHARED_FIXTURES / "allennlp" / "elmo_token_embeddings.hdf5")["embedding"]
    model = reference(checkpoint)
    # Row k of the cache is line k of the vocabulary, <S> and </S> among its lines.
    rows = ReferenceBilm.rows(checkpoint.word_ids)[1:-1]
    vectors = [model.token_vector(row) for row in rows]
    np.testing.assert_allclose(vectors, cached, rtol=0, atol=checkpoint.tolerance)


# Variants no golden file covers: each must be what a covered one is, written differently


def test_one_direction_is_the_forward_half(plain):
    names = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
    arrays = {}
    for path, array in plain.arrays.items():
        if path.startswith("RNN_0/RNN/"):
            cell, name = path.removeprefix("RNN_0/RNN/").rsplit("/", 1)
            arrays[f"rnn/{cell}/{names[name]}"] = array
        elif not path.startswith("RNN_1/"):
            arrays[path] = array
    both, both_states = reference(plain)(all_rows(plain))
    layers, states = ReferenceBilm(plain.options_content, arrays)(all_rows(plain))
    assert_same(layers, [sentence[..., :6] for sentence in both])
    assert_same(states, [state[:1] for state in both_states])


@pytest.mark.parametrize("directions", [1, 2])
def test_one_layer_may_be_named_without_its_number(directions):
    checkpoint = GOLDEN["one-layer"]
    names = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
    arrays = {path.replace("MultiRNNCell/Cell0/", ""): array for path, array in checkpoint.arrays.items()}
    if directions == 1:
        cell = {f"rnn/LSTMCell/{new}": arrays[f"RNN_0/RNN/LSTMCell/{old}"] for old, new in names.items()}
        arrays = {path: array for path, array in arrays.items() if not path.startswith("RNN_")} | cell
    expected, _ = reference(checkpoint)(all_rows(checkpoint))
    layers, _ = ReferenceBilm(checkpoint.options_content, arrays)(all_rows(checkpoint))
    assert_same(layers, [sentence[..., : 6 * directions] for sentence in expected])


def test_a_clip_of_null_is_no_clip():
    for name, null in (("no-clips", {"cell_clip": None, "proj_clip": None}), ("cell-clip-only", {"proj_clip": None})):
        checkpoint = GOLDEN[name]
        assert not set(null) & set(checkpoint.options_content["lstm"])
        assert_same(reference(checkpoint, **null)(all_rows(checkpoint)), reference(checkpoint)(all_rows(checkpoint)))


def test_without_a_projection_its_clip_does_nothing():
    checkpoint = GOLDEN["cell-equals-projection"]
    rows = all_rows(checkpoint)
    assert_same(reference(checkpoint, proj_clip=1e-3)(rows), reference(checkpoint)(rows))


def test_no_highway_may_be_said_or_left_out():
    checkpoint = GOLDEN["no-highway"]
    assert "n_highway" not in checkpoint.options_content["char_cnn"]
    for zero in (0, None):
        options = {
            **checkpoint.options_content,
            "char_cnn": {**checkpoint.options_content["char_cnn"], "n_highway": zero},
        }
        actual = ReferenceBilm(options, checkpoint.arrays)(all_rows(checkpoint))
        assert_same(actual, reference(checkpoint)(all_rows(checkpoint)))


def test_fewer_filters_than_projection(plain):
    options = {**plain.options_content, "char_cnn": {**plain.options_content["char_cnn"], "filters": [[1, 3]]}}
    arrays = dict(plain.arrays)
    for name in ("W_carry", "W_transform"):
        arrays[f"CNN_high_0/{name}"] = np.zeros((3, 3))
    arrays["CNN_high_0/b_carry"] = np.full(3, -1000.0)  # the gate is shut: the highway passes its input on
    arrays["CNN_high_0/b_transform"] = np.ones(3)
    arrays["CNN_proj/W_proj"], arrays["CNN_proj/b_proj"] = np.eye(3, 6), np.arange(6.0)
    vector = ReferenceBilm(options, arrays).token_vector(plain.rows(["cat"])[1])
    table = np.vstack([np.zeros((1, 4)), plain.arrays["char_embed"]])[plain.rows(["cat"])[1]]
    filters = np.maximum((table @ plain.arrays["CNN/W_cnn_0"][0, 0] + plain.arrays["CNN/b_cnn_0"]).max(axis=0), 0)
    np.testing.assert_allclose(vector, np.concatenate([filters, np.zeros(3)]) + np.arange(6), atol=1e-6)


def test_a_sentence_in_two_halves_is_the_whole_one_forward(plain):
    model, rows = reference(plain), plain.rows(plain.sentences[0])
    (whole,), (final,) = model([rows])
    (left,), middle = model([rows[:4]])
    (right,), (joined,) = model([rows[4:]], middle)
    assert_same(np.concatenate([left, right], axis=1)[..., :6], whole[..., :6])
    assert_same(joined[0], final[0])


def test_a_sentence_of_no_tokens_passes_its_state_on(plain):
    model = reference(plain)
    _, states = model([plain.rows(["a", "b"])])
    (layers,), after = model([[]], states)
    assert layers.shape == (3, 0, 12)
    assert_same(after, states)


def test_float32_stays_float32(plain):
    layers, states = ReferenceBilm(plain.options_content, plain.arrays, np.float32)([plain.rows(["a", "cat"])])
    assert {array.dtype for array in [*layers, *leaves(states)]} == {np.dtype(np.float32)}


# Rows


def test_rows():
    begin, word, end = ReferenceBilm.rows(["é"], max_characters=6)
    assert begin.tolist() == [259, 257, 260, 261, 261, 261]
    assert word.tolist() == [259, 0xC3 + 1, 0xA9 + 1, 260, 261, 261]
    assert end.tolist() == [259, 258, 260, 261, 261, 261]


def test_a_long_word_is_cut_at_its_bytes():
    _, exact, longer, cut, _ = ReferenceBilm.rows(["abcd", "abcdef", "abcé"], max_characters=6)
    assert exact.tolist() == longer.tolist() == [259, 98, 99, 100, 101, 260]
    assert cut.tolist() == [259, 98, 99, 100, 0xC3 + 1, 260]  # half of é


# Mix


@pytest.fixture
def sentences():
    random = np.random.default_rng(0)
    return [random.normal(2, 3, (3, tokens, 4)) for tokens in (5, 3)]


WORDS = [np.array([False, True, True, True, False]), np.array([False, True, False])]


def test_mix_of_equal_weights_is_the_average(sentences):
    for mix, layers in zip(scalar_mix(sentences, np.zeros(3), 2.0), sentences, strict=True):
        np.testing.assert_allclose(mix, 2 * layers.mean(axis=0))


def test_mix_weights_by_softmax(sentences):
    for mix, (a, b, c) in zip(scalar_mix(sentences, np.log([1, 2, 5]), 1.0), sentences, strict=True):
        np.testing.assert_allclose(mix, (a + 2 * b + 5 * c) / 8)


ONLY_LAYER_ONE = np.array([-np.inf, 0, -np.inf])


def test_sentence_norm_counts_words_only(sentences):
    for mix, layers, words in zip(
        scalar_mix(sentences, ONLY_LAYER_ONE, 1, "sentence", WORDS), sentences, WORDS, strict=True
    ):
        assert abs(mix[words].mean()) < 1e-9 and abs(mix[words].std() - 1) < 1e-9
        # The boundaries are shifted and scaled as the words are.
        slope, shift = np.polyfit(layers[1].ravel(), mix.ravel(), 1)
        np.testing.assert_allclose(mix, slope * layers[1] + shift)


def test_batch_norm_counts_the_words_of_all_sentences(sentences):
    mixes = scalar_mix(sentences, ONLY_LAYER_ONE, 1, "batch", WORDS)
    numbers = np.concatenate([mix[words] for mix, words in zip(mixes, WORDS, strict=True)])
    assert abs(numbers.mean()) < 1e-9 and abs(numbers.std() - 1) < 1e-9
    assert abs(mixes[0][WORDS[0]].mean()) > 1e-3


def test_a_batch_of_one_is_its_sentence(sentences):
    alone, alone_words = sentences[:1], WORDS[:1]
    for words in (alone_words, None):
        assert_same(
            scalar_mix(alone, np.arange(3.0), 1, "batch", words),
            scalar_mix(alone, np.arange(3.0), 1, "sentence", words),
        )
