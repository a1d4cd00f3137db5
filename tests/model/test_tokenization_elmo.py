"""ElmoTokenizer: words, rows, places, padding, saving."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import datasets
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_bilm import ReferenceBilm
from transformers import AutoTokenizer

from elmo_hf import ElmoTokenizer, byte_rows
from elmo_hf.model.splitting_elmo import SPLITTINGS, split_words
from elmo_hf.model.tokenization_elmo import word_of_row

PROPERTY = settings(deadline=None, max_examples=150, derandomize=True)
ANY_WORD = st.text(st.characters(codec=None), max_size=60)
ODD_WORDS = [
    "don't",
    "New York",
    "$5",
    "",
    "x" * 10_000,
    "\ud800",
    "a\udfffb",
    "\0",
    "👩‍👩‍👧",
    "e\u0301",
    "<PAD>",
    "<UNK>",
]


# Rows


@PROPERTY
@given(words=st.lists(ANY_WORD, max_size=6), width=st.integers(3, 50))
def test_bytes_are_the_rows_of_the_original(words, width):
    tokenizer = ElmoTokenizer(word_truncation="bytes", max_characters_per_token=width)
    batch = tokenizer(words, is_split_into_words=True, return_tensors="np")
    np.testing.assert_array_equal(batch["input_ids"][0], ReferenceBilm.rows(words, width))


@PROPERTY
@given(word=ANY_WORD, width=st.integers(3, 50))
def test_no_character_is_cut_in_two(word, width):
    (row,) = byte_rows([word], width, "characters")
    content = bytes(int(value) - 1 for value in row if value <= 256)
    saved = content.decode("utf-8")  # raises if a character is torn
    clean = word.encode("utf-8", "ignore").decode("utf-8")
    assert clean.startswith(saved)
    following = clean[len(saved) : len(saved) + 1]
    assert not following or len((saved + following).encode("utf-8")) > width - 2
    assert word_of_row(row.tolist()) == saved or saved == ""


def test_a_torn_character_in_bytes_mode():
    characters, torn = (byte_rows(["aé"], 4, truncation)[0].tolist() for truncation in ("characters", "bytes"))
    assert characters == [259, 98, 260, 261] and torn == [259, 98, 196, 260]


# Words that are already split


@pytest.mark.parametrize("splitting", SPLITTINGS)
def test_a_word_stays_one_token(splitting):
    tokenizer = ElmoTokenizer(splitting=splitting)
    batch = tokenizer(ODD_WORDS, is_split_into_words=True, return_offsets_mapping=True)
    places = range(len(ODD_WORDS))
    assert batch.tokens() == ["<S>", *ODD_WORDS, "</S>"] and batch.word_ids() == [None, *places, None]
    assert batch["offset_mapping"] == [(0, 0), *((0, len(word)) for word in ODD_WORDS), (0, 0)]
    rows = torch.tensor(batch["input_ids"])
    assert rows.shape == (len(ODD_WORDS) + 2, 50) and (rows[1:-1, 0] == 259).all()
    for word, row in zip(ODD_WORDS, batch["input_ids"][1:-1], strict=True):
        assert row == byte_rows([word], 50)[0].tolist()


def test_boundaries_among_words_are_boundaries():
    batch = ElmoTokenizer()(["<S>", "a", "</S>"], is_split_into_words=True, add_special_tokens=False)
    assert [row[:3] for row in batch["input_ids"]] == [[259, 257, 260], [259, 98, 260], [259, 258, 260]]
    inside = ElmoTokenizer("whitespace")("a<S> <S>", add_special_tokens=False)
    assert inside.tokens() == ["a<S>", "<S>"] and inside["input_ids"][0][:6] == [259, 98, 61, 84, 63, 260]


def test_a_string_is_not_a_list_of_words():
    with pytest.raises(ValueError, match="Expected a list of words with `is_split_into_words=True`"):
        ElmoTokenizer()("a b", is_split_into_words=True)
    with pytest.raises(ValueError, match="Invalid `text`: int. Expected strings"):
        ElmoTokenizer()(5)


# Raw text


def test_splitting():
    text = "It's  a \u00a0test, isn't it?"
    assert ElmoTokenizer("whitespace").tokenize(text) == ["It's", "a", "test,", "isn't", "it?"]
    assert ElmoTokenizer().tokenize(text) == ["It", "'s", "a", "test", ",", "isn", "'t", "it", "?"]
    with pytest.raises(
        ValueError,
        match="Invalid `splitting`: 'spacy'. Expected 'moses-en', .* or 'residues'",
    ):
        ElmoTokenizer("spacy")


@PROPERTY
@given(text=st.text(st.characters(codec=None), max_size=40), splitting=st.sampled_from(["moses-en", "whitespace"]))
def test_offsets_slice_back_to_the_words(text, splitting):
    tokenizer = ElmoTokenizer(splitting)
    batch = tokenizer(text, return_offsets_mapping=True)
    words = batch.tokens()[1:-1]
    assert [text[begin:end] for begin, end in batch["offset_mapping"][1:-1]] == words
    assert batch.word_ids()[1:-1] == list(range(len(words)))
    # Without Encodings, the shorter way gives the same.
    assert tokenizer(text)["input_ids"] == batch["input_ids"] and tokenizer(text).tokens() == batch.tokens()


def test_places_of_characters():
    batch = ElmoTokenizer()(["Hi, you", "x"])
    assert batch.char_to_token(0, 4) == 3 and batch.token_to_chars(0, 2) == (2, 3)
    assert batch.word_to_tokens(0, 1) == (2, 3) and batch.token_to_word(1, 1) == 0
    assert batch.is_fast and batch.n_sequences == 1 and len(batch.encodings) == 2


# Batches


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("split", [True, False])
def test_padding(side, split):
    tokenizer = ElmoTokenizer("whitespace", padding_side=side)
    texts = [["a", "b"], [], ["c"]] if split else ["a b", "", "c"]
    batch = tokenizer(texts, is_split_into_words=split, padding=True, pad_to_multiple_of=3, return_tensors="pt")
    assert batch["input_ids"].shape == (3, 6, 50) and batch["input_ids"].dtype == torch.int64
    assert batch["attention_mask"].sum(1).tolist() == [4, 2, 3]
    assert (batch["input_ids"].any(-1) == batch["attention_mask"].bool()).all()
    assert batch["attention_mask"][1].tolist() == ([1, 1, 0, 0, 0, 0] if side == "right" else [0, 0, 0, 0, 1, 1])
    expected = ["<PAD>"] * 4
    assert batch.tokens(1) == (["<S>", "</S>", *expected] if side == "right" else [*expected, "<S>", "</S>"])
    longest = tokenizer(texts, is_split_into_words=split, padding="max_length", max_length=7, return_tensors="np")
    assert longest["input_ids"].shape == (3, 7, 50)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("tensors", [None, "pt", "np"])
def test_padding_afterwards_is_padding_at_once(side, tensors):
    tokenizer = ElmoTokenizer("whitespace", padding_side=side)
    texts = ["a b", "", "c"]
    at_once = tokenizer(texts, padding=True, return_tensors=tensors)
    for encoded in (tokenizer(texts), [tokenizer(text) for text in texts]):
        later = tokenizer.pad(encoded, return_tensors=tensors)
        for key in ("input_ids", "attention_mask"):
            assert np.array_equal(np.asarray(later[key]), np.asarray(at_once[key]))
    arrays = [tokenizer(text, return_tensors="np")["input_ids"][0] for text in texts]
    assert np.array_equal(np.asarray(tokenizer.pad({"input_ids": arrays})["input_ids"]), at_once["input_ids"])
    first = tokenizer.pad(tokenizer("a"), padding="max_length", max_length=5)
    assert len(first["input_ids"]) == 5 and first["attention_mask"].count(1) == 3
    with pytest.raises(ValueError, match="Invalid `encoded_inputs`: 'labels'. Expected 'input_ids' among them"):
        tokenizer.pad({"labels": [1]})


def test_ragged_tensors_are_refused():
    with pytest.raises(ValueError, match="activate truncation and/or padding"):
        ElmoTokenizer()(["a", "a b"], return_tensors="pt")


def test_one_text_has_no_batch_dimension_unless_tensors_are_asked_for(tokenizer):
    assert np.shape(tokenizer("a b")["input_ids"]) == (4, 50) and np.shape(tokenizer("a b")["attention_mask"]) == (4,)
    assert tokenizer("a b", return_tensors="pt")["input_ids"].shape == (1, 4, 50)
    assert tokenizer([])["input_ids"] == []


@pytest.mark.parametrize("split", [True, False])
def test_truncation_with_overflow_and_stride(split, tokenizer):
    text = "a b c d e f g"
    batch = tokenizer(
        [text.split() if split else text],
        is_split_into_words=split,
        truncation=True,
        max_length=5,
        stride=1,
        return_overflowing_tokens=True,
        padding=True,
        return_tensors="pt",
    )
    tokens = [batch.tokens(k)[1:-1] for k in range(3)]
    assert tokens == [["a", "b", "c"], ["c", "d", "e"], ["e", "f", "g"]] and batch.word_ids(2)[1:-1] == [4, 5, 6]
    assert batch["overflow_to_sample_mapping"].tolist() == [0, 0, 0] and batch["input_ids"].shape == (3, 5, 50)
    # A text that fits is not cut, and a text that does not is cut the same way without overflow.
    assert tokenizer(text, truncation=True, max_length=9).tokens()[1:-1] == text.split()
    assert tokenizer(text, truncation=True, max_length=4).tokens() == ["<S>", "a", "b", "</S>"]


@pytest.mark.parametrize("split", [True, False])
def test_pairs(split, tokenizer):
    first, second = ["a b", "c"], ["d", "e f g"]
    if split:
        first, second = [[text.split() for text in texts] for texts in (first, second)]
    batch = tokenizer(first, second, is_split_into_words=split, padding=True, return_token_type_ids=True)
    assert batch.tokens(0) == ["<S>", "a", "b", "</S>", "<S>", "d", "</S>", "<PAD>"]
    assert batch["token_type_ids"] == [[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1, 1]]
    assert batch.sequence_ids(1) == [None, 0, None, None, 1, 1, 1, None] and batch.n_sequences == 2
    plain = tokenizer("a b", "d", return_tensors="pt")
    assert plain["input_ids"][0].tolist() == batch["input_ids"][0][:7]
    short = tokenizer(first, second, is_split_into_words=split, truncation="only_second", max_length=7)
    assert short.tokens(1) == ["<S>", "c", "</S>", "<S>", "e", "f", "</S>"]
    with pytest.raises(
        ValueError, match="Invalid `text_pair`: list of length 1. Expected a list of 2, one for each text"
    ):
        tokenizer(["a", "b"], ["c"])


def test_token_type_ids_of_single_texts(tokenizer):
    assert tokenizer("a", return_token_type_ids=True)["token_type_ids"] == [0, 0, 0]
    assert "token_type_ids" not in tokenizer("a")


def test_other_outputs(tokenizer):
    batch = tokenizer(["a", "b c"], return_special_tokens_mask=True, return_length=True, return_attention_mask=False)
    assert batch["special_tokens_mask"] == [[1, 0, 1], [1, 0, 0, 1]] and batch["length"] == [3, 4]
    assert "attention_mask" not in batch


# Words of the language model


def test_labels_and_word_input(tmp_path):
    words = ["<S>", "</S>", "<UNK>", "the", "cat"]
    (tmp_path / "words.txt").write_text("\n".join([*words, "!!!MAXTERMID"]), encoding="utf-8")
    tokenizer = ElmoTokenizer("whitespace", word_vocabulary=tmp_path / "words.txt")
    batch = tokenizer(["the dog", "cat"], padding=True, return_lm_labels=True, return_tensors="pt")
    assert batch["labels"].tolist() == [[0, 3, 2, 1], [0, 4, 1, -100]] and tokenizer.word_vocabulary == words
    ids = ElmoTokenizer("whitespace", word_vocabulary=words, word_input=True)(["the dog", "cat"], padding=True)
    assert ids["input_ids"] == [[1, 4, 3, 2], [1, 5, 2, 0]]
    with pytest.raises(
        ValueError, match="<UNK> missing. Expected <S>, </S> and <UNK> among the words of a language model"
    ):
        ElmoTokenizer(word_vocabulary=["<S>", "</S>"])("a", return_lm_labels=True)
    with pytest.raises(
        ValueError, match="This tokenizer has no `word_vocabulary`. Expected a file or a list of words"
    ):
        ElmoTokenizer()("a", return_lm_labels=True)
    with pytest.raises(ValueError, match="Invalid `word_vocabulary`: None. Expected the words for `word_input=True`"):
        ElmoTokenizer(word_input=True)


# Back to text


def test_decode(tokenizer):
    batch = tokenizer(["a naïve 🙂", "b"], padding=True, return_tensors="pt")
    assert tokenizer.decode(batch["input_ids"]) == ["<S> a naïve 🙂 </S>", "<S> b </S>"]
    assert tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True) == ["a naïve 🙂", "b"]
    assert tokenizer.convert_ids_to_tokens(batch["input_ids"][1]) == ["<S>", "b", "</S>", "<PAD>", "<PAD>"]
    assert tokenizer.pad_token_id == 0 and tokenizer.convert_ids_to_tokens([0, 1]) == ["<PAD>", "<S>"]
    words = ElmoTokenizer("whitespace", word_vocabulary=["<S>", "</S>", "<UNK>", "a"], word_input=True)
    assert words.decode(words(["a b"])["input_ids"]) == ["<S> a <UNK> </S>"]


# Saving, copying, sharing


@pytest.mark.parametrize("load", [ElmoTokenizer, AutoTokenizer])
def test_save_and_load(load, tmp_path):
    words = ["<S>", "</S>", "<UNK>", "the", "the"]
    tokenizer = ElmoTokenizer("whitespace", "bytes", words, max_characters_per_token=12, padding_side="left")
    for generation in range(2):
        tokenizer.save_pretrained(tmp_path / str(generation))
        tokenizer = load.from_pretrained(tmp_path / str(generation))
    assert type(tokenizer) is ElmoTokenizer and tokenizer.word_vocabulary == words
    settings = (
        tokenizer.splitting,
        tokenizer.word_truncation,
        tokenizer.max_characters_per_token,
        tokenizer.padding_side,
    )
    assert settings == ("whitespace", "bytes", 12, "left")
    again = load.from_pretrained(tmp_path / "0", splitting="moses-en")
    assert again.tokenize("don't") == ["don", "'t"] and tokenizer.tokenize("don't") == ["don't"]


def test_added_tokens_are_found_in_raw_text_only(tmp_path, tokenizer):
    assert tokenizer("in New York").tokens()[1:-1] == ["in", "New", "York"]
    tokenizer.add_tokens(["New York"])
    tokenizer.add_special_tokens({"extra_special_tokens": ["[E]"]})
    tokenizer.save_pretrained(tmp_path)
    for first in (tokenizer, ElmoTokenizer.from_pretrained(tmp_path), copy.deepcopy(tokenizer)):
        batch = first("in New York [E]x", return_offsets_mapping=True)
        assert batch.tokens()[1:-1] == ["in", "New York", "[E]", "x"]
        assert batch["offset_mapping"][2] == (3, 11)
        assert batch["input_ids"][2] == byte_rows(["New York"], 50)[0].tolist()
        assert first(["a New York x"], is_split_into_words=True).tokens()[1:-1] == ["a New York x"]


def test_copies_and_threads(tmp_path):
    words = ["<S>", "</S>", "<UNK>", "the"]
    (tmp_path / "words.txt").write_text("\n".join(words), encoding="utf-8")
    tokenizer = ElmoTokenizer(word_vocabulary=tmp_path / "words.txt")
    texts = [f"Text number {k}, isn't it the one?" for k in range(40)]
    expected = [tokenizer(text, return_lm_labels=True).data for text in texts]
    for twin in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert twin(texts[3], return_lm_labels=True).data == expected[3]
    assert len(pickle.dumps(tokenizer)) < 20_000

    def run(k):
        if k % 2:
            return tokenizer(texts[k], return_lm_labels=True).data
        padded = tokenizer(texts[k], return_lm_labels=True, padding="max_length", max_length=30 + k, truncation=True)
        length = sum(padded["attention_mask"])
        assert len(padded["input_ids"]) == 30 + k
        return {key: value[:length] for key, value in padded.items()}

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, range(40)))
    assert all(dict(first) == dict(other) for first, other in zip(results, expected, strict=True))
    batch = pickle.loads(pickle.dumps(tokenizer(texts)))
    assert batch.tokens(1) == tokenizer(texts[1]).tokens()


def test_several_processes_give_what_one_gives(tokenizer):
    texts = datasets.Dataset.from_dict({"text": [f"Text number {k} isn't the same ." for k in range(50)] + [""]})
    first, two = (
        texts.map(lambda batch: tokenizer(batch["text"]), batched=True, batch_size=7, num_proc=number)
        for number in (None, 2)
    )
    assert first[:] == two[:] and first[50]["attention_mask"] == [1, 1]


def test_lengths_that_change_from_call_to_call_leave_nothing_behind():
    tokenizer = ElmoTokenizer()
    for length in range(3, 103):
        actual = tokenizer("one two three four", truncation=True, max_length=length, return_offsets_mapping=True)
        assert len(actual["input_ids"]) == min(length, 6)
    assert len(tokenizer._backends) <= 16


@pytest.mark.parametrize("letterless", ["1", "1,", "-", "5."])
def test_a_word_of_a_million_characters_without_a_letter(letterless):
    text = letterless * (1_000_000 // len(letterless))
    batch = ElmoTokenizer()(["before " + text], return_tensors="pt", return_offsets_mapping=True)
    assert batch["offset_mapping"][0, 1].tolist() == [0, 6] and batch["offset_mapping"].max() == len(text) + 7


def test_where_rust_gives_up_is_an_error(monkeypatch):
    class PanicException(BaseException):
        pass

    class Splitter:
        def pre_tokenize_str(self, text):
            raise PanicException("retry-limit-in-match over")

    with pytest.raises(ValueError, match="it cannot be split into words: retry-limit-in-match over"):
        split_words(["text"], Splitter(), "whitespace", {})


@pytest.mark.parametrize("longest", [{}, [], "many", True, 0, -5])
def test_a_longest_text_that_is_no_number(longest):
    with pytest.raises(ValueError, match="Invalid `model_max_length`: .* Expected a number of words from 1, or None"):
        ElmoTokenizer(model_max_length=longest)


@pytest.mark.parametrize(
    "name, change",
    [
        ("tokenizer_config.json", {"unk_token": 3}),
        ("tokenizer_config.json", {"pad_token": []}),
        ("tokenizer_config.json", {"splitting": {}}),
        ("tokenizer_config.json", {"__class__": [1]}),
        ("tokenizer.json", {"added_tokens": None}),
    ],
)
def test_values_of_another_type_in_its_files_are_named(name, change, tmp_path):
    ElmoTokenizer().save_pretrained(tmp_path)
    content = json.loads((tmp_path / name).read_text())
    content |= change
    (tmp_path / name).write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    with pytest.raises(ValueError, match=r"tokenizer_config.json of .*|Invalid `splitting`: \{\}"):
        ElmoTokenizer.from_pretrained(tmp_path)


def test_an_argument_with_the_name_of_a_method_is_no_mistake_of_a_file(tmp_path):
    ElmoTokenizer().save_pretrained(tmp_path)
    with pytest.raises(AttributeError, match="split conflicts with the method split"):
        ElmoTokenizer.from_pretrained(tmp_path, split=True)
