"""The packer by hand and against the original's, restated; what a window holds; going on from a state."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoTokenizer
from elmo_hf.language_model.streams import Packer
from elmo_hf.pretraining import Corpus, TrainingWindows, build_vocabulary
from elmo_hf.pretraining.training_windows import SentenceStream, permuted

sentence_lists = st.lists(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=9), min_size=1, max_size=30)


def original_windows(sentences, rows, steps):
    """bilm-tf's `_get_batch` for lists of tokens: windows of (inputs, targets), each (rows, steps)."""
    stream, current = iter(sentences), [None] * rows
    while True:
        inputs = [[None] * steps for _ in range(rows)]
        targets = [[None] * steps for _ in range(rows)]
        for i in range(rows):
            position = 0
            while position < steps:
                if current[i] is None or len(current[i]) <= 1:
                    try:
                        current[i] = list(next(stream))
                    except StopIteration:
                        return
                many = min(len(current[i]) - 1, steps - position)
                inputs[i][position : position + many] = current[i][:many]
                targets[i][position : position + many] = current[i][1 : many + 1]
                position += many
                current[i] = current[i][many:]
        yield inputs, targets


def pack(sentences, rows, steps):
    """Windows of segments over a finite list of sentences, each with n + 1 predictions."""
    packer = Packer(lambda k: (k, len(sentences[k]) + 1) if k < len(sentences) else None, rows, steps)
    while (window := packer.next()) is not None:
        yield window


def test_a_worked_example():
    # <S> a b </S> has 3 predictions, <S> c </S> 2, <S> d e f g </S> 5, <S> h </S> 2, <S> i j </S> 3.
    windows = list(pack(["ab", "c", "defg", "h", "ij"], rows=2, steps=3))
    # The first row takes sentence 0 whole. The second takes sentence 1 and the first prediction of sentence 2.
    assert windows[0] == [[(0, 0, 3)], [(1, 0, 2), (2, 0, 1)]]
    # The first row has run dry and pulls sentence 3 and, dry again, 4; the second goes on with sentence 2.
    assert windows[1] == [[(3, 0, 2), (4, 0, 1)], [(2, 1, 3)]]
    # The first row ends sentence 4 and finds nothing: the window is dropped, with what the second had left.
    assert len(windows) == 2


@pytest.mark.parametrize("backward", [False, True])
@given(sentence_lists, st.integers(1, 4), st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_windows_are_the_originals(backward, sentences, rows, steps):
    marked = [["<S>", *words, "</S>"][:: -1 if backward else 1] for words in sentences]
    expected = list(original_windows(marked, rows, steps))
    found = list(pack(sentences, rows, steps))
    assert len(found) == len(expected)
    for window, (inputs, targets) in zip(found, expected, strict=True):
        for row, segments in enumerate(window):
            assert sum((marked[k][start : start + n] for k, start, n in segments), []) == inputs[row]
            assert sum((marked[k][start + 1 : start + n + 1] for k, start, n in segments), []) == targets[row]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """A function that makes windows of sentences; word k is its own letters, so that it can be read back."""

    def windows(sentences, streams=2, steps=3, config=None, **settings):
        folder = tmp_path_factory.mktemp("corpus") / "corpus"
        plain = ElmoTokenizer("whitespace")
        corpus = Corpus.write([" ".join(words) for words in sentences], folder, plain)
        words = build_vocabulary(corpus.words, corpus.counts.tolist())
        tokenizer = ElmoTokenizer("whitespace", word_vocabulary=words)
        return TrainingWindows(corpus, tokenizer, config or ElmoConfig(), streams, steps, **settings), tokenizer

    return windows


@functools.cache
def rows_of(words):
    """Each word by the bytes of its row, which is what a model reads."""
    table = ElmoTokenizer().word_table(list(words))
    rows = zip(table, ["", "<S>", "</S>", *words], strict=True)
    return {row.tobytes(): word for row, word in rows if word not in ("<S>", "</S>")} | {
        table[1].tobytes(): "<S>",
        table[2].tobytes(): "</S>",
    }


def read(windows, tokenizer, number):
    """A window as words: four arrays (rows, steps)."""
    first = (number % windows.windows_per_epoch) * windows.streams
    windows.set_epoch(number // windows.windows_per_epoch)
    batch = windows.__getitems__(list(range(first, first + windows.streams)))
    words = np.array(tokenizer.word_vocabulary, dtype=object)
    rows = rows_of(tuple(words))
    found = {}
    for name, value in batch.items():
        if "labels" in name:
            found[name] = words[value.numpy()]
        else:
            found[name] = np.array([[rows[row.tobytes()] for row in one] for one in value.numpy()], dtype=object)
    return found


@given(sentence_lists, st.integers(1, 3), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_each_word_is_a_target_once_in_each_pass_and_rows_go_on(make, sentences, streams, steps, seed):
    assume(sum(len(words) + 1 for words in sentences) >= streams * steps)
    windows, tokenizer = make(sentences, streams, steps, seed=seed)
    number = min(3 * windows.windows_per_epoch, 60)
    read_windows = [read(windows, tokenizer, k) for k in range(number)]
    # What every row read and predicted, one window after the other, in sentences.
    order = [int(SentenceStream(windows.corpus, seed)(k)[0]) for k in range(3 * len(sentences))]
    for names, step in ((("input_ids", "labels"), 1), (("backward_input_ids", "backward_labels"), -1)):
        marked = [["<S>", *words, "</S>"][::step] for words in sentences]
        stream = original_windows([marked[k] for k in order], streams, steps)
        for window, (inputs, targets) in zip(read_windows, stream, strict=False):
            assert window[names[0]].tolist() == inputs and window[names[1]].tolist() == targets
    # Each pass has each sentence, hence n + 1 predictions of each direction, once.
    for p in range(3):
        assert sorted(order[p * len(sentences) : (p + 1) * len(sentences)]) == list(range(len(sentences)))


def test_orders_differ_from_pass_to_pass_unless_told_not_to(make):
    sentences = [[f"w{k}"] for k in range(50)]
    windows, _ = make(sentences)
    stream = SentenceStream(windows.corpus, seed=1)
    first, second = ([stream(k)[0] for k in range(p * 50, (p + 1) * 50)] for p in (0, 1))
    assert first != second and first != sorted(first) and sorted(first) == sorted(second)
    plain = SentenceStream(windows.corpus, seed=1, shuffle=False)
    assert [plain(k)[0] for k in range(100)] == [*range(50), *range(50)]


@given(st.integers(1, 3000), st.integers(0, 5))
def test_a_permutation_has_every_number_once(size, seed):
    assert sorted(permuted(np.arange(size), size, [seed]).tolist()) == list(range(size))


def test_processes_share_the_streams(make):
    """Half of the streams are the same rows as they have among all streams."""
    windows, _ = make([list("abcd"), list("efg"), list("ab")] * 9, streams=4)
    whole = windows.__getitems__([8, 9, 10, 11])
    for half in ([8, 9], [10, 11]):
        part = windows.__getitems__(half)
        for name in whole:
            torch.testing.assert_close(part[name], whole[name][[k - 8 for k in half]])


def test_going_on_from_a_state_or_without_one(make):
    sentences = [list("abcd")[: 1 + k % 4] for k in range(40)]
    whole, tokenizer = make(sentences, seed=4)
    expected = [read(whole, tokenizer, k) for k in range(12)]
    state = whole.state(9)
    assert state["window"] == 9
    for known in (state, None):
        again, _ = make(sentences, seed=4)
        again.restore(known)
        for k in (9, 10, 11):
            found = read(again, tokenizer, k)
            assert all((found[name] == expected[k][name]).all() for name in found)
    assert (read(again, tokenizer, 2)["labels"] == expected[2]["labels"]).all()  # back to an earlier one


def test_one_direction(make):
    windows, _ = make([list("abc")] * 5, config=ElmoConfig(bidirectional=False))
    assert set(windows.__getitems__([0, 1])) == {"input_ids", "labels", "labels_are_targets"}


def test_what_does_not_fit_is_said(make):
    with pytest.raises(
        ValueError, match=r"4 predictions, but one window of 2 streams by 3 steps takes 6.*--batch-size"
    ):
        make([list("abc")])
    windows, _ = make([list("abc")] * 5)
    with pytest.raises(ValueError, match="rows of 2 windows"):
        windows.__getitems__([1, 2])
