"""Labels of words at the positions that a model reads."""

import pytest
from datasets import Dataset

from elmo_hf import ElmoTokenizer, align_labels, encode_words, label_names


def test_labels_stand_at_their_words_whatever_the_padding_and_truncation():
    tokenizer = ElmoTokenizer(padding_side="left")
    batch = tokenizer([["a", "New York", ""], ["b"]], is_split_into_words=True, padding=True)
    assert align_labels(batch.word_ids(0), [5, 6, 7]) == [-100, 5, 6, 7, -100]
    assert align_labels(batch.word_ids(1), [5]) == [-100, -100, -100, 5, -100]
    cut = tokenizer([["a", "b", "c"]], is_split_into_words=True, truncation=True, max_length=4)
    assert align_labels(cut.word_ids(0), [5, 6, 7]) == [-100, 5, 6, -100]
    with pytest.raises(ValueError, match="There are 2 labels, but at least 3 words"):
        align_labels(batch.word_ids(0), [5, 6])


def test_a_long_sentence_becomes_rows_that_keep_their_labels():
    batch = {"words": [["a", "b", "c", "d", "e"], ["f"]], "tags": [["A", "B", "A", "B", "A"], ["B"]]}
    options = {"truncation": True, "max_length": 5, "stride": 1, "return_overflowing_tokens": True}
    found = encode_words(batch, ElmoTokenizer(), {"A": 0, "B": 1}, tokens="words", labels="tags", **options)
    assert found["labels"] == [[-100, 0, 1, 0, -100], [-100, 0, 1, 0, -100], [-100, 1, -100]]
    assert [len(rows) for rows in found["input_ids"]] == [5, 5, 3]
    assert set(found) == {"input_ids", "attention_mask", "labels"}


def test_labels_that_do_not_fit_are_named():
    tokenizer, label2id = ElmoTokenizer(), {"O": 0, "B-LOC": 1}
    with pytest.raises(ValueError, match="The label 'B-PER' is not among the model's: O, B-LOC"):
        encode_words({"tokens": [["a"]], "labels": [["B-PER"]]}, tokenizer, label2id)
    with pytest.raises(ValueError, match="The sentence 'a b' has 2 words and 1 label. Expected a label for each"):
        encode_words({"tokens": [["a", "b"]], "labels": [["O"]]}, tokenizer, label2id)


def test_label_names_of_several_datasets():
    one = Dataset.from_dict({"labels": [["B-LOC", "I-LOC"], []]})
    two = Dataset.from_dict({"labels": [["A", "O"]]})
    assert label_names(one, two) == ["O", "A", "B-LOC", "I-LOC"]
