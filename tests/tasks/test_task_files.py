"""Files of annotated data: every format that a task reads gives the same examples, and mistakes are sentences."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from elmo_hf import Answer
from elmo_hf.tasks.finetuning.file_formats import detect_format, read_table
from elmo_hf.tasks.finetuning.task_names import find_task
from elmo_hf.tasks.tagging.task import TaggedSentence

ROLES = [
    {"words": ["Ann", "saw", "her"], "frames": [{"predicate": 1, "spans": [["A0", 0, 0], ["V", 1, 1], ["A1", 2, 2]]}]},
    {"words": ["It", "rains"], "frames": [{"predicate": 1, "spans": [["V", 1, 1]]}]},
]
QUESTIONS = [
    {"question": "Who?", "context": "Ann saw her.", "answers": {"text": ["Ann"], "answer_start": [0]}},
    {"question": "When?", "context": "Ann saw her.", "answers": {"text": [], "answer_start": []}},
]
DOCUMENT = """#begin document (d); part 000
d 0 0 Ann NNP - - - - - - (1)
d 0 1 slept VBD - - - - - - -

d 0 0 She PRP - - - - - - (1)
d 0 1 snored VBD - - - - - - -

#end document
"""


def write(path, rows):
    """Rows as JSON lines, or as Parquet if the name ends so."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


# Strings and numbers in one list, as a span is, have no type in Parquet.
@pytest.mark.parametrize(("task", "rows", "ending"), [("srl", ROLES, "jsonl"), ("questions", QUESTIONS, "jsonl")])
def test_rows_and_files_give_the_same_examples(task, rows, ending, tmp_path):
    task = find_task(task)
    expected = task.from_rows(rows).to_list()
    assert len(expected) == 2
    assert task.read(write(tmp_path / f"data.{ending}", rows)).to_list() == expected
    with pytest.raises(ValueError, match=r"a\.conll looks like .*\. Expected JSON"):
        (tmp_path / "a.conll").write_text("a\tO\n")
        task.read(str(tmp_path / "a.conll"))


def test_questions_as_squad_and_as_parquet(tmp_path):
    task = find_task("questions")
    expected = task.from_rows(QUESTIONS).to_list()
    assert task.no_answer and task.read(write(tmp_path / "data.parquet", QUESTIONS)).to_list() == expected
    asked = [
        {
            "id": str(number),
            "question": row["question"],
            "answers": [
                {"text": text, "answer_start": start}
                for text, start in zip(*(row["answers"][name] for name in ("text", "answer_start")), strict=True)
            ],
        }
        for number, row in enumerate(QUESTIONS)
    ]
    squad = {"data": [{"title": "", "paragraphs": [{"context": "Ann saw her.", "qas": asked}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    found = task.read(str(tmp_path / "squad.json")).to_list()
    names = ("question", "context", "answers", "answer_starts")
    assert [[row[name] for name in names] for row in found] == [[row[name] for name in names] for row in expected]
    with pytest.raises(ValueError, match="The data: no question has an answer"):
        task.from_rows(QUESTIONS[1:])
    with pytest.raises(ValueError, match="The data has no column 'answers'"):
        task.from_rows([{"question": "Who?", "context": "Ann."}])


def test_worst_answers_are_wrong_ones_that_the_model_is_sure_of():
    task = find_task("questions")
    examples = task.from_rows([QUESTIONS[0]] * 3)
    answers = [Answer("Ann", 0, 3, 9.0), Answer("her", 8, 11, 1.0), Answer("saw", 4, 7, 5.0)]
    errors = task.errors(examples, answers)
    assert errors[0] == 0 and errors[2] > errors[1] >= 1
    assert task.show(examples[1], answers[1]) == "Who? ['her', not 'Ann'] Ann saw her."
    assert task.counts(examples, answers).tolist() == [[1, 1, 1], [0, 0, 1], [0, 0, 1]]


def test_roles_of_tokens_with_labels_and_what_is_shown():
    task = find_task("srl")
    rows = [{"tokens": ["Ann", "slept"], "predicate": 1, "labels": ["B-A0", "B-V"]}]
    examples = task.from_rows(rows)
    assert examples.to_list() == rows
    shown = task.show(examples[0], TaggedSentence(["O", "B-V"], [0.9, 0.9]))
    assert shown.startswith("(slept) ") and "A0" in shown


def test_documents_of_coreference(tmp_path):
    task = find_task("coreference")
    (tmp_path / "d.conll").write_text(DOCUMENT)
    documents = task.read(str(tmp_path / "d.conll"))
    assert [document.sentences for document in documents] == [[["Ann", "slept"], ["She", "snored"]]]
    clusters = [[(0, 0, 0), (1, 0, 0)]]
    assert [sorted(map(tuple, cluster)) for cluster in documents[0].clusters] == clusters
    assert task.errors(documents, [clusters]) == [0] and task.errors(documents, [[]]) == [1]
    shown = task.show(documents[0], [[(0, 0, 0), (1, 0, 1)]])
    assert shown.endswith("1 clusters, not 1: Ann, She snored")
    (tmp_path / "none.conll").write_text(DOCUMENT.replace("(1)", "-"))
    with pytest.raises(ValueError, match="no document has a mention"):
        task.read(str(tmp_path / "none.conll"))
    with pytest.raises(ValueError, match=r"looks like .* Expected CoNLL 2012"):
        task.read(write(tmp_path / "rows.jsonl", ROLES))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("#begin document (d); part 000\n", "documents"),
        ("(3 (2 It) (3 rains))\n", "trees"),
        ('{"text": "a", "label": "b"}\n', "jsonl"),
        ('[\n {"text": "a"}\n]\n', "json"),
        ('{"data": [{"paragraphs": []}]}\n', "json"),
        ("# text = a\n1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n", "conllu"),
        ("a\tO\nb\tB-X\n", "conll"),
    ],
)
def test_a_file_without_an_ending_is_known_by_its_lines(content, expected, tmp_path):
    (tmp_path / "data").write_text(content)
    assert detect_format(str(tmp_path / "data")) == expected


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", '{"text": "a"}\n{,\n', r"a\.jsonl, line 2 is not JSON"),
        ("a.jsonl", '{"text": "a"}\n[1]\n', r"line 2 holds \[1\]\. Expected a JSON object"),
        ("a.json", "[1", r"a\.json is not JSON"),
        ("a.json", '{"text": "a"}', "holds one JSON object. Expected a list of objects"),
        ("a.csv", "text,label\na,b,c\n", "line 2: 3 columns, but the first row has 2"),
        ("a.parquet", "PAR0", r"a\.parquet is damaged, or no Parquet file"),
    ],
)
def test_mistakes_in_tables(name, content, sentence, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=sentence):
        read_table(str(tmp_path / name), name.partition(".")[2])


def test_tables_with_and_without_a_header(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"a, b",x\n\nc,y\n')
    assert read_table(str(tmp_path / "a.csv"), "csv") == {"text": ["a, b", "c"], "label": ["x", "y"]}
    (tmp_path / "a.tsv").write_text('"a\tx\nb\ty\n')
    assert read_table(str(tmp_path / "a.tsv"), "tsv") == {"0": ['"a', "b"], "1": ["x", "y"]}
    # As many different texts as labels: labels are shorter.
    (tmp_path / "b.tsv").write_text("It rains.\tx\nIt pours.\ty\n" * 10)
    assert {*find_task("classification").read(str(tmp_path / "b.tsv"))["label"]} == {"x", "y"}
    rows = [{"text": "a", "label": "x"}, {"text": "b"}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    columns = {"text": ["a", "b"], "label": ["x", None]}
    assert read_table(str(tmp_path / "a.json"), "json") == columns
    assert read_table(write(tmp_path / "a.parquet", rows), "parquet") == columns
