"""Annotated files in all their spellings, and the published sizes of some."""

import gzip
from pathlib import Path

import pytest

from elmo_hf import label_names, read_conll, read_conllu
from elmo_hf.tasks.tagging.task import NerTask

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
    with pytest.raises(ValueError, match=r"line 3: 1 column. Expected a column for each of 'tokens', 'labels'"):
        read_conll(write("a O\n\nb\nc\n"))
    assert read_conll(write("b\nc\n"), columns={"tokens": 0})[0] == {"tokens": ["b", "c"]}
    with pytest.raises(ValueError, match=r"file\.conll, line 2: not UTF-8"):
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
    with pytest.raises(ValueError, match=r"x, line 5: the word's number is '3'. Expected 2, the next one"):
        read_conllu(write("\n".join(lines[:4] + lines[6:]), "x"))
    with pytest.raises(ValueError, match=r"x, line 1: 4 columns between tabs. Expected the ten of CoNLL-U"):
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


def test_comments_with_two_words_are_no_rows_and_a_hash_is_a_word(tmp_path):
    """The files of Universal NER begin with `# newdoc id = ...`; their last columns are notes on the annotation."""
    path = tmp_path / "uner.iob2"
    path.write_text("# newdoc id = a\n# text = Rome # 1\n1\tRome\tB-LOC\t-\tann\n2\t#\tO\t-\t-\n\n")
    assert NerTask().read(str(path))[0] == {"tokens": ["Rome", "#"], "labels": ["B-LOC", "O"]}
    path.write_text("# O\nRome B-LOC\n\n")
    assert NerTask().read(str(path))[0] == {"tokens": ["#", "Rome"], "labels": ["O", "B-LOC"]}
