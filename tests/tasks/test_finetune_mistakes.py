"""Mistakes of users of `finetune`, `annotate` and `evaluate`: one sentence each, before anything is trained."""

import json
import sys

import pytest
from transformers import BertConfig, BertModel


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory, data):
    """Files with one mistake each."""
    folder = tmp_path_factory.mktemp("mistakes")
    good = (data / "dev.conll").read_text()
    rows = [{"text": f"text {n}", "label": "ab"[n % 2]} for n in range(40)]

    def jsonl(name, rows):
        write(folder / name, "".join(json.dumps(row) + "\n" for row in rows))

    write(folder / "good.conll", good)
    write(folder / "empty.conll", "")
    write(folder / "blank.conll", "\n\n")
    write(folder / "one_label.conll", "Rome\tX\nburns\tX\n\n" * 20)
    write(folder / "words_only.conll", "Rome\nburns\n\n" * 5)
    (folder / "latin.conll").write_bytes(good.encode() + "\ncafé\tO\n".encode("latin-1"))
    write(folder / "spaces.conll", "Rome B-big city\nburns O\n\n" * 5)
    write(folder / "text.txt", "".join(f"{'a word ' * (2 + n % 9)}and more .\n" for n in range(40)))
    write(folder / "pos.conll", "Rome\tNOUN\nburns\tVERB\n\n" * 20)
    write(folder / "tree.conllu", "1\tRome\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n" * 5)
    write(folder / "ragged.tsv", "text\tlabel\nGood.\tpos\nBad.\n")
    write(folder / "broken.jsonl", '{"text": "a", "label": "b"}\n{"text": \n')
    write(folder / "no_rows.tsv", "text\tlabel\n")
    write(folder / "words.bin", "a 1 2\nb 1 2\n")
    jsonl("good.jsonl", rows)
    jsonl("few.jsonl", rows[:6])
    jsonl("many_labels.jsonl", [{"text": f"text {n}", "label": str(n)} for n in range(100_000)])
    jsonl("unlabeled.jsonl", [{"text": f"text {n}", "label": None} for n in range(20)])
    jsonl("numbers.jsonl", [{"text": "a", "label": {"id": 3}}] * 20)
    jsonl("lengths.jsonl", [{"tokens": ["a", "b"], "labels": ["X"]}] * 20)
    jsonl("constant.jsonl", [{"text": f"text {n}", "label": 1} for n in range(20)])
    bert = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertModel(bert).save_pretrained(folder / "bert")
    (folder / "full").mkdir()
    write(folder / "full" / "notes.txt", "mine")
    return folder


MISTAKES = {
    "unknown task": ("nre good.conll", "Invalid task: 'nre'. Expected ner, pos, tagging, classification"),
    "missing file": ("ner missing.conll", "There is no file missing.conll"),
    "a name without its ending": ("ner good", "There is no file good. Did you mean good.conll? Expected a file of"),
    "a word": ("ner nofile", "There is no file nofile. Expected a file of annotated data, or a dataset of the Hub"),
    "phrases and no dev": ("sentiment good.jsonl --phrases", "`phrases` needs dev data"),
    "phrases of a table": ("sentiment good.jsonl --phrases", "Expected trees, whose phrases have labels"),
    "phrases of words": ("ner good.conll --phrases", "Invalid `phrases`: the task 'ner' has no such setting"),
    "dropout of 1": ("ner good.conll --mix-dropout 1", "Invalid `mix_dropout`: 1.0. Expected a probability"),
    "empty file": ("ner empty.conll", "empty.conll is empty. Expected annotated data."),
    "blank file": ("ner blank.conll", "blank.conll is empty. Expected annotated data."),
    "only a header": ("classification no_rows.tsv", "no_rows.tsv holds no rows"),
    "wrong column": (
        "classification good.jsonl --column class",
        "no column of labels: expected 'class', but its columns",
    ),
    "wrong number": ("ner good.conll --column 7", "2 columns, so there is no column 7"),
    "column by name": ("ner good.conll --column tag", "Invalid column: 'tag'. Columns of CoNLL"),
    "one label": ("tagging one_label.conll", "every word has the label 'X', so there is nothing to learn"),
    "one class": ("classification constant.jsonl", "every sentence has the label '1', so there is nothing to learn"),
    "no labels": ("ner words_only.conll", "one column. Expected a word and its label on each line"),
    "test without labels": ("ner good.conll --test words_only.conll", "words_only.conll: one column"),
    "rows without labels": ("classification unlabeled.jsonl", "no row has a label. Expected a label in each row"),
    "mixed encodings": ("ner latin.conll", "not UTF-8 (byte 0xe9 at 4)"),
    "another kind of model": ("ner good.conll --model bert", "bert holds a model of type 'bert'. Expected an ELMo"),
    "missing model": ("ner good.conll --model nowhere/at-all", "nowhere/at-all"),
    "label with a space": ("ner spaces.conll", "2 columns, but line 1 of the same sentence has 3"),
    "100,000 labels": ("classification many_labels.jsonl", "100,000 different labels in 100,000 rows"),
    "a folder": ("ner full", "full is a folder. Expected words with labels"),
    "a folder without documents": ("coreference full", "full holds no file whose name ends in conll"),
    "other labels in dev": ("tagging good.conll --dev pos.conll", "none of its labels ('NOUN', 'VERB') is one of"),
    "preset of a head without": ("classification good.jsonl --preset small", "The head 'linear' has no presets"),
    "few examples and no dev": ("classification few.jsonl", "6 sentences and no dev data: too few to hold some out"),
    "unknown head": ("ner good.conll --head crf", "Invalid `head`: 'crf'. Expected"),
    "head of another task": ("ner good.conll --head bcn", "Invalid `head`: 'bcn'. Expected"),
    "head for pairs": ("classification good.jsonl --head esim", "'esim', which reads pairs"),
    "text instead of CoNLL": (
        "ner text.txt",
        "looks like text, a sentence on each line. Expected a word and its label",
    ),
    "labels of another task": ("ner pos.conll", "These labels are not those of entities: 'NOUN', 'VERB'"),
    "entities of a treebank": ("ner tree.conllu", "is CoNLL-U, which has no column of entities"),
    "CoNLL for classification": ("classification good.conll", "looks like CoNLL. Expected texts with labels"),
    "texts for tagging": ("ner good.jsonl", "has no column of words"),
    "single texts for inference": ("inference good.jsonl", "has single texts. Expected pairs"),
    "ragged rows": ("classification ragged.tsv", "ragged.tsv, line 3: 1 columns, but the first row has 2"),
    "broken JSON": ("classification broken.jsonl", "broken.jsonl, line 2 is not JSON"),
    "label that is an object": ("classification numbers.jsonl", "row 0: the label {'id': 3}. Expected a string"),
    "words without labels": ("tagging lengths.jsonl", "row 0: 2 words and 1 label. Expected a label for each word"),
    "words as numbers": ("regression good.jsonl", "'a' is no number. Expected numbers; for classes the task is"),
    "equal numbers": ("regression constant.jsonl", "every row has the number 1. Expected numbers that differ"),
    "no ELMo, no vectors": ("ner good.conll --elmo-at none", "it needs `word_vectors`"),
    "wrong place": ("ner good.conll --elmo-at top", "Invalid `elmo_at`: 'top'"),
    "vectors of other words": (
        "ner good.conll --word-vectors words.bin",
        "words.bin has no vector of any of the words",
    ),
    "both ways to tune": ("ner good.conll --lora --tune-bilm", "Expected one of the two"),
    "rate of a frozen biLM": ("ner good.conll --bilm-lr 1", "it needs `tune_bilm` or `lora`"),
    "learning rate of 0": ("ner good.conll --lr 0", "Invalid `lr`: 0.0. Expected a number above 0"),
    "patience of 0": ("ner good.conll --patience 0", "Invalid `patience`: 0. Expected a whole number of at least 1"),
}


def complaint(command, *arguments):
    code, _, err = command(*arguments)
    assert code == 1 and "Traceback" not in err and err.startswith("Error: "), err
    assert err.count("\n") == 1
    return err


def test_the_trainer_that_is_missing_is_noticed_before_data_are_read(command, files, monkeypatch):
    monkeypatch.setattr("elmo_hf.tasks.finetuning.run.find_spec", lambda name: None)
    err = complaint(command, "finetune", "ner", "--train", files / "missing.conll", "-o", files / "out")
    assert "Fine-tuning needs accelerate, which comes with: pip install 'elmo-hf[train]'" in err


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(command, files, base_model, monkeypatch, mistake):
    monkeypatch.chdir(files)
    (task, train, *options), expected = MISTAKES[mistake][0].split(), MISTAKES[mistake][1]
    dev = [] if "dev" in mistake else ["--dev", train]
    model = [] if "--model" in options else ["--model", base_model]
    err = complaint(command, "finetune", task, "--train", train, *dev, "-o", "out", *model, *options)
    assert expected in err
    assert not (files / "out").exists() and not (files / "out.run").exists()


def test_a_folder_with_other_files_is_not_written_into(command, files, base_model, monkeypatch):
    monkeypatch.chdir(files)
    arguments = ("finetune", "ner", "--train", "good.conll", "--model", base_model)
    assert "full is there already. Expected a new folder" in complaint(command, *arguments, "-o", "full")
    assert (files / "full" / "notes.txt").read_text() == "mine"


def test_adapters_without_peft(command, files, base_model, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setitem(sys.modules, "peft", None)
    arguments = ("--train", "good.conll", "--dev", "good.conll", "--model", base_model, "-o", "out", "--lora")
    assert "LoRA needs peft, which is not installed: pip install peft" in complaint(
        command, "finetune", "ner", *arguments
    )


def test_a_large_dev_file_is_noticed(command, data, base_model, tmp_path):
    train = write(tmp_path / "few.conll", "Ann\tB-PER\ncame\tO\n\n" * 5)
    options = ("--model", base_model, "-o", tmp_path / "out", "--epochs", 1)
    code, out, err = command("finetune", "ner", "--train", train, "--dev", data / "train.conll", *options)
    assert code == 0, err
    assert "Note: dev has 64 sentences, and train has 5: are the files swapped?" in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("annotate {base} corpus.txt -o out.conll", "base has no head for a task: it is an ElmoModel"),
        ("annotate bert corpus.txt -o out.conll", "bert holds a model of type 'bert'. Expected an ELMo"),
        ("annotate {tagger} missing.txt -o out.conll", "There is no file missing.txt"),
        (
            "annotate {tagger} corpus.txt -o out.xml",
            "Invalid `output`: 'out.xml'. Expected conll, jsonl, html, parquet",
        ),
        ("annotate {tagger} corpus.txt -o out --format tsv", "Invalid `format`: 'tsv'"),
        ("annotate {tagger} corpus.txt -o out.conll --shard 3/2", "Invalid `shard`: 3/2. Expected 1/N to N/N"),
        ("annotate {tagger} empty.txt -o out.conll", "empty.txt contains no sentence"),
        ("evaluate {base} good.conll", "base has no head for a task"),
        ("evaluate {tagger} empty.conll", "empty.conll is empty"),
        ("evaluate {tagger} words_only.conll", "one column"),
        ("evaluate {tagger} good.jsonl", "has no column of words"),
    ],
)
def test_mistakes_of_annotate_and_evaluate(command, files, data, base_model, tagger, monkeypatch, arguments, expected):
    monkeypatch.chdir(files)
    (files / "corpus.txt").write_bytes((data / "corpus.txt").read_bytes())
    (files / "empty.txt").write_bytes(b"")
    names = {"base": base_model, "tagger": tagger[0]}
    assert expected in complaint(command, *(word.format(**names) for word in arguments.split()))
    assert not (files / "out.conll").exists()


def test_a_model_alone_is_no_corpus(command, tagger):
    code, _, err = command("annotate", tagger[0])
    assert code == 2 and "Expected one or several models and an input" in " ".join(err.replace("│", " ").split())
