"""`elmo-hf finetune`: the whole run, its report, resuming after kills, and every task on a few rows."""

import hashlib
import json
import os

import numpy as np
import pytest
import torch
from kill_harness import complete, killed_at_rename, killed_when
from transformers import pipeline

from elmo_hf import ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.tasks import finetune, task_names
from elmo_hf.tasks.finetuning import run
from elmo_hf.tasks.finetuning.run import RESULT
from elmo_hf.tasks.finetuning.trainer import EpochOrder


def silent(line):
    pass


def run_ner(base_model, data, output, **settings):
    return finetune(
        "ner",
        train=data / "train.conll",
        dev=data / "dev.conll",
        output=output,
        model=str(base_model),
        batch_size=8,
        say=silent,
        **settings,
    )


def test_a_tagger_is_trained_scored_and_saved(tagger):
    folder, lines = tagger
    text = "\n".join(lines)
    assert "train: 64 sentences, 485 words in" in text
    assert "5 labels: O 320, B-PER 64, B-LOC 64" in text
    assert "Head bilstm-crf, preset small" in text and "learning rate 0.01" in text
    assert "left" in text and f"elmo-hf annotate {folder} corpus.txt" in lines[-1]
    result = json.loads((folder / RESULT).read_text())
    assert result["scores"]["dev"]["f1"] > 0.8 and result["scores"]["test"]["f1"] > 0.8
    assert not folder.with_name(f"{folder.name}.run").exists()
    assert result["model"] == "base"
    card = (folder / "README.md").read_text()
    assert "## Scores" in card and f"f1 {100 * result['scores']['test']['f1']:.2f}" in card
    model = ElmoForTokenClassification.from_pretrained(folder).eval()
    tokenizer = ElmoTokenizer.from_pretrained(folder)
    tag = pipeline("token-classification", model, tokenizer=tokenizer, aggregation_strategy="simple")
    entities = tag("No 3 Bob lives in Rome .")
    assert [(entity["entity_group"], entity["word"]) for entity in entities] == [("PER", "Bob"), ("LOC", "Rome")]


def bytes_of(folder):
    names = ("model.safetensors", "config.json", RESULT, "tokenizer_config.json")
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_bytes(base_model, data, tmp_path):
    settings = {"epochs": 3, "lr": 0.02}
    complete(lambda: run_ner(base_model, data, tmp_path / "whole", **settings))

    def again():
        run_ner(base_model, data, tmp_path / "killed", **settings)

    folder = tmp_path / "killed.run"
    first = folder / "checkpoint-8" / "trainer_state.json"
    assert killed_when(again, first.exists)  # while a checkpoint is saved, or right after
    assert killed_when(again, (folder / "checkpoint-16" / "trainer_state.json").exists, 0.05)
    assert killed_at_rename(again, r"/killed$")  # trained, and not yet saved
    assert not (tmp_path / "killed").exists()
    complete(again)
    assert bytes_of(tmp_path / "killed") == bytes_of(tmp_path / "whole")


def test_a_run_that_breaks_off_within_an_epoch_reads_the_rest_in_the_same_order(
    base_model, data, tmp_path, monkeypatch
):
    monkeypatch.setattr(run, "EVALUATION_STEPS", 3)  # of 8 in an epoch
    whole = run_ner(base_model, data, tmp_path / "whole", epochs=1)
    save = EpochOrder.on_save

    def break_off(*arguments, **keywords):
        save(*arguments, **keywords)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(EpochOrder, "on_save", break_off)
        run_ner(base_model, data, tmp_path / "resumed", epochs=1)
    assert [path.name for path in (tmp_path / "resumed.run").glob("checkpoint-*")] == ["checkpoint-3"]
    resumed = run_ner(base_model, data, tmp_path / "resumed", epochs=1)
    losses, of_whole = ([entry.get("loss") for entry in each.state.log_history] for each in (resumed, whole))
    assert losses == of_whole and len({*losses}) > 2


def test_a_run_that_stopped_early_stops_again(base_model, data, tmp_path):
    settings = {"epochs": 40, "patience": 1, "lr": 1e-9}
    complete(lambda: run_ner(base_model, data, tmp_path / "whole", **settings))
    assert killed_at_rename(lambda: run_ner(base_model, data, tmp_path / "again", **settings), r"/again$")
    checkpoints = sorted(path.name for path in (tmp_path / "again.run").glob("checkpoint-*"))
    complete(lambda: run_ner(base_model, data, tmp_path / "again", **settings))
    assert checkpoints == ["checkpoint-16", "checkpoint-8"]
    assert bytes_of(tmp_path / "whole") == bytes_of(tmp_path / "again")


def test_other_settings_and_data_are_not_resumed(base_model, data, tmp_path):
    assert killed_at_rename(lambda: run_ner(base_model, data, tmp_path / "out", epochs=1), r"/out$")
    with pytest.raises(ValueError, match=r"out.run is an interrupted run with lr = None, and now it is 0.5"):
        run_ner(base_model, data, tmp_path / "out", epochs=1, lr=0.5)
    with pytest.raises(ValueError, match=r"interrupted run with data = "):
        finetune(
            "ner",
            train=data / "test.conll",
            dev=data / "dev.conll",
            output=tmp_path / "out",
            model=str(base_model),
            epochs=1,
            batch_size=8,
            say=silent,
        )


def test_a_run_that_was_killed_after_its_last_rename_is_finished(base_model, data, tmp_path):
    assert killed_at_rename(lambda: run_ner(base_model, data, tmp_path / "out", epochs=1), r"/out$", after=True)
    assert (tmp_path / "out.run").exists()
    with pytest.raises(ValueError, match="out holds a finished model"):
        run_ner(base_model, data, tmp_path / "out", epochs=1)
    assert not (tmp_path / "out.run").exists() and (tmp_path / "out" / "README.md").exists()


def test_the_seed_fixes_the_weights(base_model, data):
    runs = [run_ner(base_model, data, None, epochs=1, seed=seed).model.state_dict() for seed in (1, 1, 2)]
    assert all(torch.equal(weight, runs[1][name]) for name, weight in runs[0].items())
    assert not all(torch.equal(weight, runs[2][name]) for name, weight in runs[0].items())


def test_the_best_model_is_kept(base_model, data):
    trainer = run_ner(base_model, data, None, epochs=6, patience=6)
    logged = [entry["eval_f1"] for entry in trainer.state.log_history if "eval_f1" in entry]
    assert trainer.scores["dev"]["f1"] == max(logged)


def test_word_vectors_join_and_are_counted(base_model, data, tmp_path):
    (tmp_path / "vectors.txt").write_text("lives 1 0 2\nrome 0 1 0\n")
    lines = []
    trainer = finetune(
        "ner",
        train=data / "train.conll",
        dev=data / "dev.conll",
        model=str(base_model),
        word_vectors=str(tmp_path / "vectors.txt"),
        elmo_at="both",
        epochs=1,
        say=lines.append,
    )
    assert trainer.model.head_settings.word_vectors == [2, 3]
    assert trainer.model.head_settings.elmo_at == ["input", "output"]
    assert any(line.startswith("Word vectors of 3 numbers: 2 of ") for line in lines)


def test_a_tuned_bilm_changes_and_a_frozen_one_does_not(base_model, data):
    before = ElmoForTokenClassification.from_pretrained(base_model).elmo.bilm.state_dict()
    for tune in (False, True):
        model = run_ner(base_model, data, None, epochs=1, tune_bilm=tune).model
        same = [torch.equal(weight, before[name]) for name, weight in model.elmo.bilm.state_dict().items()]
        assert all(same) != tune


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
def test_adapters_are_merged_into_the_bilm(base_model, data, tmp_path):
    pytest.importorskip("peft")
    trainer = run_ner(base_model, data, tmp_path / "lora", epochs=2, lora=True)
    assert not any("lora" in name for name in trainer.model.state_dict())
    loaded = ElmoForTokenClassification.from_pretrained(tmp_path / "lora").eval()
    before = ElmoForTokenClassification.from_pretrained(base_model)
    changed = [
        not torch.equal(weight, before.elmo.bilm.state_dict()[name])
        for name, weight in loaded.elmo.bilm.state_dict().items()
        if "weight" in name
    ]
    assert all(changed)
    batch = ElmoTokenizer.from_pretrained(base_model)(["Ann lives in Rome ."], return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(loaded(**batch).logits, trainer.model.eval()(**batch).logits)


WORDS = ["Ann", "saw", "her", "."]
ROWS = {
    "ner": {"tokens": WORDS, "labels": ["B-PER", "O", "O", "O"]},
    "pos": {"tokens": WORDS, "upos": ["PROPN", "VERB", "PRON", "PUNCT"]},
    "tagging": {"tokens": WORDS, "labels": ["a", "b", "c", "d"]},
    "classification": {"text": "Ann saw her.", "label": "x"},
    "sentiment": {"text": "Ann saw her.", "label": "x"},
    "regression": {"text": "Ann saw her.", "label": 1.5},
    "inference": {"premise": "Ann saw her.", "hypothesis": "She slept.", "label": "x"},
    "srl": {"words": WORDS, "frames": [{"predicate": 1, "spans": [["ARG0", 0, 0], ["V", 1, 1]]}]},
    "questions": {
        "question": "Who saw her?",
        "context": "Ann saw her.",
        "answers": {"text": ["Ann"], "answer_start": [0]},
    },
    "coreference": {"name": "d", "sentences": [WORDS, WORDS], "clusters": [[(0, 0, 0), (1, 0, 0)]]},
}


@pytest.mark.parametrize("task", ROWS)
def test_every_task_trains_and_is_scored_from_rows(task, base_model):
    row = ROWS[task]
    other = {**row, "label": 2.5 if task == "regression" else "y"} if "label" in row else row
    if task in ("classification", "sentiment", "regression"):
        other["text"] = "It rained."
    trainer = finetune(task, train=[row, other] * 4, dev=[row, other], model=str(base_model), epochs=1, say=silent)
    assert trainer.state.global_step >= 1
    assert all(np.isfinite(list(trainer.scores["dev"].values())))


def test_questions_without_an_answer_are_counted_and_left_out(base_model):
    answered = ROWS["questions"]
    rows = [answered, {**answered, "question": "Who slept?", "answers": {"text": [], "answer_start": []}}] * 4
    settings, lines = {"train": rows, "dev": rows, "model": str(base_model), "epochs": 1}, []
    finetune("questions", say=lines.append, **settings)
    note = "Note: 4 of 8 questions (50.0%) of train have no answer; --answerable-only leaves them out."
    assert note in lines and "train: 8 questions, 60 words in memory" in lines
    lines.clear()
    trainer = finetune("questions", answerable_only=True, say=lines.append, **settings)
    assert "train: 4 questions, 32 words in memory" in lines and not any("no answer" in line for line in lines)
    assert not trainer.model.head_settings.no_answer


def test_all_tasks_are_tested():
    assert list(ROWS) == task_names()


@pytest.mark.parametrize("head", ["linear", "esim"])
def test_pairs_read_both_texts(head, base_model):
    rows = [{"text_a": "same", "text_b": b, "label": b} for b in ("yes", "no")] * 10
    settings = {"model": str(base_model), "head": head, "epochs": 25, "patience": 25, "lr": 0.05}
    trainer = finetune("classification", train=rows, dev=rows, say=silent, **settings)
    assert trainer.scores["dev"]["accuracy"] == 1.0


def test_a_regression_begins_at_the_mean(base_model):
    rows = [{"text": "a b", "score": 1000.0}, {"text": "c d", "score": 1002.0}] * 10
    trainer = finetune("regression", train=rows, dev=rows, model=str(base_model), epochs=1, lr=1e-9, say=silent)
    assert trainer.scores["dev"]["rmse"] < 2.0


def test_formats_of_texts_are_recognised(base_model, data, command, tmp_path):
    for name in ("reviews.jsonl", "reviews.tsv"):
        code, out, err = command(
            *("finetune", "classification", "--train", data / name, "-o", tmp_path / name),
            *("--model", base_model, "--epochs", "1"),
        )
        assert code == 0, err
        assert "No dev data: 6 sentences of train are held out" in out
        assert "2 labels: " in out and "pos" in out
        assert json.loads((tmp_path / name / RESULT).read_text())["examples"] == {"train": 54, "dev": 6}


def test_phrases_of_trees_are_trained_on_and_whole_sentences_are_scored(base_model, tmp_path):
    tree = "(3 (2 It) (4 (2 works) (2 .)))\n(1 (2 It) (0 fails))\n"
    (tmp_path / "trees.txt").write_text(tree * 10)
    lines, trees = [], tmp_path / "trees.txt"
    settings = {"model": str(base_model), "epochs": 1, "say": lines.append}
    finetune("sentiment", train=trees, dev=trees, phrases=True, **settings)
    counts = [line.partition(",")[0] for line in lines if line.startswith(("train: ", "dev: "))]
    assert counts[:2] == ["train: 7 sentences", "dev: 20 sentences"]  # distinct phrases


def test_a_saved_dataset_with_class_names_gives_its_splits(base_model, tmp_path):
    from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

    features = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-PER"]))})
    rows = {"tokens": [["Ann", "came"]] * 4, "ner_tags": [[1, 0]] * 4}
    parts = {name: Dataset.from_dict(rows, features=features) for name in ("train", "validation", "test")}
    DatasetDict(parts).save_to_disk(tmp_path / "saved")
    trainer = finetune("ner", train=str(tmp_path / "saved"), model=str(base_model), epochs=1, say=silent)
    assert set(trainer.scores) == {"dev", "test"} and trainer.model.config.id2label == {0: "O", 1: "B-PER"}


def test_data_hygiene_is_reported(base_model):
    train = [{"text": f"text {n % 50}", "label": "a"} for n in range(60)] + [{"text": "rare", "label": "b"}]
    test = [{"text": "text 0", "label": "a"}, {"text": "new", "label": "c"}]
    lines = []
    finetune("classification", train=train, dev=train, test=test, model=str(base_model), epochs=1, say=lines.append)
    text = "\n".join(lines)
    assert "Note: 10 of 61 sentences (16.4%) of train repeat an earlier one." in text
    assert "Note: 1 of 2 sentences (50.0%) of test are in train too: its scores are too high for new text." in text
    assert "Labels of test that train lacks, and that no model can learn: c (1)." in text
    assert "The labels are imbalanced: a is 60 times as frequent as b (1)." in text


def test_duplicates_are_not_divided_between_train_and_held_out(base_model):
    rows = [{"text": f"text {n % 50}", "label": "ab"[n % 2]} for n in range(100)]
    lines = []
    finetune("classification", train=rows, model=str(base_model), epochs=1, say=lines.append)
    assert not any("are in train too" in line for line in lines)


def test_help_imports_no_torch(root):
    import subprocess
    import sys

    code = "import sys; from elmo_hf.cli import app; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, env={**os.environ})
    assert done.stdout.strip() == "False", done.stderr


def test_small_files_are_given_time_to_learn(base_model, data):
    # An epoch of 64 sentences has 2 steps: three evaluations would say nothing.
    lines = []
    trainer = finetune(
        "ner",
        train=data / "train.conll",
        dev=data / "dev.conll",
        model=str(base_model),
        epochs=10,
        lr=1e-9,
        say=lines.append,
    )
    assert trainer.state.global_step == 20 and not any("Stopped early" in line for line in lines)
