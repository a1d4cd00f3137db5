"""Readers and scores of the tasks: the files as they are published, and what is refused."""

import itertools
import json
import random
import tarfile
from pathlib import Path

import numpy as np
import pytest

from elmo_hf import ElmoTokenizer, read_word_vectors
from elmo_hf.tasks.coreference.conll2012 import coreference_files, parts_of, read_coreference
from elmo_hf.tasks.coreference.metrics import _best_pairing, coreference_scores
from elmo_hf.tasks.inference.snli import read_snli
from elmo_hf.tasks.questions.metrics import squad_scores
from elmo_hf.tasks.questions.squad import encode_answers, read_squad
from elmo_hf.tasks.sentiment.trees import read_trees
from elmo_hf.tasks.srl.frames import bio_spans, encode_predicates, read_srl
from elmo_hf.tasks.srl.metrics import role_metrics

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.mark.parametrize(
    "read, text, sentence",
    [
        (read_srl, "{", "line 1: invalid JSON .*. Expected an object per line"),
        (read_srl, '{"words": []}', "line 1: 'frames' is missing. Expected words, frames"),
        (
            read_srl,
            '{"words": ["a"], "frames": [{"predicate": 0, "spans": [["A", 0, 1]]}]}',
            "line 1: the span A from 0 to 1 is not in 1 word",
        ),
        (
            read_srl,
            '{"words": ["a"], "frames": [{"predicate": 0, "spans": [["A", 0, 0], ["B", 0, 0]]}]}',
            "line 1: the span B from 0 to 0 meets another",
        ),
        (read_srl, '{"words": ["a"], "frames": [{"predicate": 4, "spans": []}]}', "the predicate 4 is not in 1 word"),
        (read_snli, '{"sentence1": "", "sentence2": "", "gold_label": "yes"}', "the label 'yes'. Expected entail"),
        (read_trees, "(3 (2 It) (4 works)", "line 1: no tree. Expected one such as"),
        (read_trees, "(7 It)", "no tree"),
        (read_trees, "word", "no tree"),
        (read_trees, "(2 a) (2 b)", "no tree"),
        (read_squad, "[]", "is no file of SQuAD"),
        (read_coreference, "d 0 0 Ann (0)", "line 1 is in no document"),
        (read_coreference, "#begin document (d)\nd 0 0 Ann (0)", "the document d has no '#end document'"),
        (
            read_coreference,
            "#begin document (d)\nd 0 0 Ann 0)\n#end document",
            "line 2: a mention .* 0 ends",
        ),
        (read_coreference, "#begin document (d)\nd 0 0 Ann (0\n#end document", "line 2: a mention .* does not end in"),
        (read_coreference, "#begin document (d)\nd 0 0 Ann x\n#end document", "'x' is no mark of a mention"),
        (
            read_coreference,
            "#begin document (d)\nd 0 0\n#end document",
            "line 2: 3 columns. Expected those of CoNLL",
        ),
        (read_word_vectors, "a 1 2\nb 1", "line 2: 1 numbers. Expected a word and 2"),
        (read_word_vectors, "a 1 2\nb 1 x", "line 2: not all of the last 2 fields are numbers"),
        (read_word_vectors, "", "has no vector of any of the words"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(read, text, sentence, tmp_path):
    path = tmp_path / "file.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read(path)


def test_an_answer_that_is_not_where_it_should_be(tmp_path):
    answer = {"text": "Bob", "answer_start": 0}
    one = {"context": "Ann came.", "qas": [{"id": "q7", "question": "Who?", "answers": [answer]}]}
    (tmp_path / "bad.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": [one]}]}))
    with pytest.raises(ValueError, match="question q7: 'Bob' is not at 0"):
        read_squad(tmp_path / "bad.json")


def test_roles_there_and_back():
    random.seed(0)
    for _ in range(100):
        labels = []
        while len(labels) < 9:
            role = random.choice(["O", "A", "B"])
            labels += ["O"] if role == "O" else [f"B-{role}", *[f"I-{role}"] * random.randrange(3)]
        spans = bio_spans(labels)
        again = ["O"] * len(labels)
        for role, first, last in spans:
            again[first : last + 1] = [f"B-{role}", *[f"I-{role}"] * (last - first)]
        assert again == labels
    assert bio_spans(["I-A", "I-A", "B-A", "O", "I-B", "I-A"]) == [("A", 0, 1), ("A", 2, 2), ("B", 4, 4), ("A", 5, 5)]


def test_the_predicate_is_marked_behind_the_boundary():
    batch = {"tokens": [["Ann", "sold", "it"], ["It", "rains"]], "predicate": [1, 0], "labels": [["O"] * 3, ["O"] * 2]}
    rows = encode_predicates(batch, ElmoTokenizer(), {"O": 0})
    assert rows["token_type_ids"] == [[0, 0, 1, 0, 0], [0, 1, 0, 0]]


def test_the_score_of_roles_counts_whole_arguments_but_not_the_predicate():
    names = dict(enumerate(["O", "B-V", "B-A", "I-A"]))
    gold, guess = np.array([[-100, 2, 3, 1, 2, -100]]), [[0, 2, 0, 1, 2, 0]]
    scores = role_metrics(names)((np.eye(4)[guess], gold))
    assert scores == {"precision": 0.5, "recall": 0.5, "f1": 0.5}


def test_answers_are_at_the_words_that_hold_them():
    tokenizer = ElmoTokenizer()
    batch = {
        "question": ["Who?", "Where?", "Why?"],
        "context": ["Then Ann-Marie Lee, aged 7, came.", "In New York.", "No reason."],
        "answers": [["Marie Lee"], ["New York"], []],
        "answer_starts": [[9], [3], []],
    }
    rows = encode_answers(batch, tokenizer)
    found = [
        tokenizer.convert_ids_to_tokens(ids)[start : end + 1]
        for ids, start, end in zip(rows["input_ids"], rows["start_positions"], rows["end_positions"], strict=True)
    ]
    assert found == [["Ann-Marie", "Lee"], ["New", "York"]]
    assert encode_answers(batch, tokenizer, no_answer=True)["start_positions"][2] == 0
    cut = encode_answers(batch, tokenizer, max_length=8, no_answer=True)
    assert len(cut["input_ids"][0]) == 8 and cut["start_positions"][0] == 0


def test_the_pairing_is_the_best_of_all():
    generator = np.random.default_rng(0)
    for rows, columns in itertools.product(range(1, 5), repeat=2):
        for _ in range(5):
            values = generator.random((rows, columns)).round(1)
            wide = values if rows <= columns else values.T
            best = max(
                sum(wide[row, column] for row, column in enumerate(chosen))
                for chosen in itertools.permutations(range(wide.shape[1]), wide.shape[0])
            )
            assert _best_pairing(values) == pytest.approx(best)


def random_clusters(generator):
    groups = {}
    for n in generator.permutation(16)[: generator.integers(4, 16)]:
        groups.setdefault(int(generator.integers(4)), []).append((0, int(n), int(n)))
    # The other program leaves clusters of one mention out.
    return [cluster for cluster in groups.values() if len(cluster) > 1]


def test_coreference_scores_are_those_of_another_program():
    from corefeval import Document, Scorer

    generator = np.random.default_rng(0)
    documents = [(random_clusters(generator), random_clusters(generator)) for _ in range(40)]
    scorer = Scorer()
    for found, gold in documents:
        scorer.update(Document(found, gold))
    ours = coreference_scores(*zip(*documents, strict=True))
    theirs = dict(zip(("muc", "b_cubed", "ceaf_e"), (100 * metric.get_f1() for metric in scorer.all[:3]), strict=True))
    assert ours == pytest.approx({**theirs, "conll": sum(theirs.values()) / 3}, abs=1e-6)


def test_coreference_scores_of_examples_worked_out_by_hand():
    gold = [["a", "b", "c"], ["d", "e", "f", "g"]]
    assert coreference_scores([gold], [gold])["conll"] == pytest.approx(100)
    found = [["a", "b"], ["c", "d"], ["f", "g", "h", "i"]]
    scores = coreference_scores([found], [gold])
    # The example of Pradhan et al. 2014, "Scoring coreference partitions of predicted mentions".
    assert scores["muc"] == pytest.approx(40.0, abs=0.01)
    assert scores["b_cubed"] == pytest.approx(45.45, abs=0.01)
    assert scores["ceaf_e"] == pytest.approx(52.0, abs=0.01)
    assert coreference_scores([[]], [gold])["conll"] == 0


def test_vectors_of_words_that_are_wanted(tmp_path):
    (tmp_path / "v.txt").write_text("the 1 2\nrome 3 4\nRome 5 6\nthe 7 8\n")
    assert read_word_vectors(tmp_path / "v.txt")[0] == ["the", "rome", "Rome"]
    words, vectors = read_word_vectors(tmp_path / "v.txt", words=["Rome"])
    assert words == ["rome", "Rome"] and vectors.tolist() == [[3, 4], [5, 6]]
    assert len(read_word_vectors(tmp_path / "v.txt", most=1)[0]) == 1
    tokenizer = ElmoTokenizer(vector_words=["the", "rome"])
    ids = tokenizer(["The Rome x"], ["the"])["word_vector_ids"]
    assert ids == [[0, 2, 3, 1, 0, 0, 2, 0]]


def test_words_of_vectors_may_hold_spaces(tmp_path):
    (tmp_path / "v.txt").write_text("3 2\nnew york city 1 2\n. . . 3 4\na 5 6 \n")
    words, vectors = read_word_vectors(tmp_path / "v.txt")
    assert words == ["new york city", ". . .", "a"] and vectors.tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not here")
def test_the_published_files_are_read(tmp_path):
    frames = read_srl(DATA / "srl/ewt_srl.dev.jsonl.gz")
    assert len(frames) == 4949
    labels = {label: number for number, label in enumerate(sorted({x for row in frames["labels"] for x in row}))}
    rows = encode_predicates(frames[:50], ElmoTokenizer(), labels)
    assert all(sum(marks) == 1 for marks in rows["token_type_ids"])
    assert len(read_snli(DATA / "nli/snli_dev.jsonl.gz")) == 9842
    trees = read_trees(DATA / "sentiment/dev.txt.gz")
    assert len(trees) == 1101 and trees[0]["tokens"][:2] == ["It", "'s"] and trees[0]["label"] == 3
    questions = read_squad(DATA / "qa/squad2_dev_half.json.gz")
    assert len(questions) == 6078 and sum(map(bool, questions["answers"])) == 2910
    assert squad_scores([(texts or [""])[0] for texts in questions["answers"]], questions["answers"])["f1"] == 100
    with tarfile.open(DATA / "coref/litbank_conll.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    documents = [one for path in sorted(tmp_path.glob("*.conll")) for one in read_coreference(path)]
    assert len(documents) == 100
    assert sum(len(cluster) for document in documents for cluster in document.clusters) == 29103
    part = parts_of(documents[0], 10)[1]
    assert all(part.sentences[s][i : j + 1] for cluster in part.clusters for s, i, j in cluster)


@pytest.mark.parametrize("packing", ["", "gz", "xz"])
def test_a_truncated_archive_of_documents_is_named(packing, tmp_path):
    document = tmp_path / "1_a.conll"
    document.write_text("#begin document (a); part 0\n" + "a 0 0 Ann (0)\n" * 3000 + "\n#end document")
    path = tmp_path / f"files.tar{packing and '.'}{packing}"
    with tarfile.open(path, f"w:{packing}") as archive:
        archive.add(document, document.name)
    assert list(coreference_files(path)) == ["1_a.conll"]
    whole = path.read_bytes()
    for size in (len(whole) // 2, 100):
        path.write_bytes(whole[:size])
        with pytest.raises(
            ValueError, match=r"files\.tar.* (is broken and cannot be unpacked|is a broken archive|not)"
        ):
            coreference_files(path)
