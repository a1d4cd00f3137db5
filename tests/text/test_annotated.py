import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from elmo_hf import ElmoTokenizer, align_labels, encode_words, entity_metrics, label_names, read_conll, read_conllu

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
CONLLU = """\
# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_
5.1\tnada\tnada\tNOUN\t_\t_\t_\t_\t1:dep\t_

1\tNew York\tNew York\tPROPN\t_\t_\t0\troot\t_\t_"""


@pytest.fixture
def write(tmp_path):
    def write(content, name="file.conll"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# -- CoNLL columns


@pytest.mark.parametrize(
    "content",
    [
        "Rome B-LOC\nburns O\n\n# O\n",
        "Rome B-LOC\nburns O\n\n# O",  # no newline at the end
        "\n\nRome B-LOC\nburns O\n \t\n\n\n# O\n\n",  # empty lines anywhere, with blanks in them
        "Rome\tB-LOC\r\nburns\tO\r\n\r\n#\tO\r\n",
        "\ufeffRome B-LOC\nburns   O \n\n# \t O\n",
        "-DOCSTART- -X- -X- O\n\nRome B-LOC\nburns O\n\n-DOCSTART- O\n# O\n",
    ],
)
def test_conll_in_all_its_spellings(write, content):
    found = read_conll(write(content))
    assert found[:] == {"tokens": [["Rome", "burns"], ["#"]], "labels": [["B-LOC", "O"], ["O"]]}


def test_conll_columns_separators_and_comments(write):
    path = write("// a comment\n1\tNew York\tNNP\tB-LOC\n2\t\u2028\u00a0x\tNN\tO\n")
    found = read_conll(path, columns={"tokens": 1, "pos": 2, "ner": -1}, separator="\t", comment="//")
    assert found[0] == {"tokens": ["New York", "\u2028\u00a0x"], "pos": ["NNP", "NN"], "ner": ["B-LOC", "O"]}


def test_conll_of_nothing_has_its_columns(write):
    found = read_conll(write(""))
    assert found.num_rows == 0 and found.column_names == ["tokens", "labels"]
    assert found.features == read_conll(write("a O\n")).features


def test_conll_errors_name_the_file_and_the_line(write):
    path = write("a O\n\nb O\nc\n")
    with pytest.raises(ValueError, match=r"file\.conll, line 4: 1 column, but line 3 of the same sentence has 2"):
        read_conll(path)
    with pytest.raises(ValueError, match=r"file\.conll, line 1: 2 columns, so there is no column 2 for `pos`"):
        read_conll(path, columns={"tokens": 0, "pos": 2})
    with pytest.raises(ValueError, match=r"file\.conll, line 2: b'\\xff O\\n' is not UTF-8"):
        read_conll(write(b"a O\n\xff O\n"))


def test_wnut17_has_its_published_size():
    path = SHARED / "ner" / "wnut17train.conll"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    found = read_conll(path)
    assert (found.num_rows, sum(map(len, found["tokens"]))) == (3394, 62730)
    types = ("corporation", "creative-work", "group", "location", "person", "product")
    assert label_names(found) == ["O", *(f"{mark}-{kind}" for mark in "BI" for kind in types)]


# -- CoNLL-U


@pytest.mark.parametrize("name", ["file.conllu", "file.conllu.gz"])
def test_conllu_keeps_syntactic_words(write, name):
    content = CONLLU.encode()
    found = read_conllu(write(gzip.compress(content) if name.endswith("gz") else content, name), ["upos", "head"])
    assert found["tokens"][:] == [["Vamos", "nos", "a", "el", "mar"], ["New York"]]
    assert found["upos"][:] == [["VERB", "PRON", "ADP", "DET", "NOUN"], ["PROPN"]]
    assert found["head"][0] == ["0", "1", "5", "5", "1"]


def test_conllu_errors_name_the_file_and_the_line(write):
    lines = CONLLU.split("\n")
    with pytest.raises(ValueError, match=r"x, line 5: the word's number is '3'; accepted are 2, the next one"):
        read_conllu(write("\n".join(lines[:4] + lines[6:]), "x"))
    with pytest.raises(ValueError, match=r"x, line 1: 4 columns between tabs; accepted are CoNLL-U's ten"):
        read_conllu(write("1\ta\tb\tc\n", "x"))
    with pytest.raises(ValueError, match="no column 'ner' beside the words; it has lemma, upos"):
        read_conllu(write(CONLLU), ["ner"])


def test_universal_dependencies_have_their_published_size():
    path = SHARED / "pos" / "en_ewt-ud-dev.conllu.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    found = read_conllu(path)
    assert (found.num_rows, len(label_names(found, column="upos"))) == (2001, 17)
    assert found[0]["tokens"][:4] == ["From", "the", "AP", "comes"]


# -- labels at input positions


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
    with pytest.raises(ValueError, match="The sentence 'a b' has 2 words and 1 label; accepted is a label for each"):
        encode_words({"tokens": [["a", "b"]], "labels": [["O"]]}, tokenizer, label2id)


def test_label_names_of_several_datasets():
    one = Dataset.from_dict({"labels": [["B-LOC", "I-LOC"], []]})
    two = Dataset.from_dict({"labels": [["A", "O"]]})
    assert label_names(one, two) == ["O", "A", "B-LOC", "I-LOC"]


# -- scores


def test_entities_are_scored_whole():
    names = ["O", "B-PER", "I-PER", "B-LOC"]
    gold = np.array([[-100, 1, 2, 0, 3, -100, -100], [-100, 0, 0, 1, -100, -100, -100]])
    guess = np.array([[1, 1, 2, 0, 1, 1, 1], [1, 0, 3, 1, 0, 0, 0]])  # two of three found, two of four right
    scores = entity_metrics(names)((np.eye(4)[guess], gold))
    assert scores == pytest.approx({"precision": 2 / 4, "recall": 2 / 3, "f1": 4 / 7, "accuracy": 5 / 7})
    assert scores == entity_metrics(dict(enumerate(names)))((np.eye(4)[guess], gold))
    nothing = entity_metrics(names)((np.eye(4)[np.zeros((1, 3), int)], np.array([[-100, 0, -100]])))
    assert nothing == {"precision": 0, "recall": 0, "f1": 0, "accuracy": 1}


def test_a_missing_seqeval_is_named_before_training(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval", None)
    with pytest.raises(ImportError, match=r"seqeval, which is not installed: pip install 'elmo-hf\[train\]'"):
        entity_metrics(["O"])
