"""`elmo-hf evaluate`: scores against seqeval and scikit-learn, intervals and tests against formulas."""

import json
import math

import numpy as np
import pytest
import sklearn.metrics
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

from elmo_hf.tasks import evaluate
from elmo_hf.tasks.classification.regression import RegressionTask
from elmo_hf.tasks.classification.task import ClassificationTask, ClassifiedText
from elmo_hf.tasks.evaluation.evaluate import _worst
from elmo_hf.tasks.evaluation.resampling import bootstrap_interval, paired_difference, randomization_test
from elmo_hf.tasks.tagging.spans import label_spans
from elmo_hf.tasks.tagging.task import TaggedSentence, TaggingTask


def random_labels(generator, names, lengths):
    return [[names[n] for n in generator.integers(0, len(names), length)] for length in lengths]


@pytest.mark.parametrize("marks", ["BI", "BIES"])
def test_spans_and_scores_are_those_of_seqeval(marks):
    generator = np.random.default_rng(0)
    names = ["O", *(f"{mark}-{kind}" for mark in marks for kind in ("X", "Y"))]
    gold, guess = (random_labels(generator, names, [*range(1, 12)] * 30) for _ in range(2))
    for labels in gold:
        assert [tuple(span) for span in label_spans(labels)] == get_entities(labels)
    task = TaggingTask()
    task.use_labels(names)
    rows = task.from_rows([{"tokens": ["w"] * len(labels), "labels": labels} for labels in gold])
    predictions = [TaggedSentence(labels, [1.0] * len(labels)) for labels in guess]
    scores = task.scores(task.counts(rows, predictions).sum(0))
    assert float(scores["f1"]) == pytest.approx(f1_score(gold, guess))


def test_scores_of_classes_are_those_of_scikit_learn():
    generator = np.random.default_rng(0)
    gold, guess = (generator.choice(["a", "b", "c"], 200).tolist() for _ in range(2))
    task = ClassificationTask()
    task.use_labels(["a", "b", "c"])
    rows = task.from_rows([{"text": "w", "label": label} for label in gold])
    counts = task.counts(rows, [ClassifiedText(label, 1.0) for label in guess])
    scores = task.scores(counts.sum(0))
    assert float(scores["accuracy"]) == pytest.approx(sklearn.metrics.accuracy_score(gold, guess))
    assert float(scores["macro_f1"]) == pytest.approx(sklearn.metrics.f1_score(gold, guess, average="macro"))


def test_scores_of_a_regression_are_those_of_numpy():
    generator = np.random.default_rng(0)
    gold, guess = generator.normal(1000, 1, 80), generator.normal(1000, 1, 80)
    task = RegressionTask()
    rows = task.from_rows([{"text": "w", "label": label} for label in gold])
    counts = task.counts(rows, [ClassifiedText(value, 1.0) for value in guess])
    assert float(task.scores(counts.sum(0))["pearson"]) == pytest.approx(np.corrcoef(gold, guess)[0, 1])
    assert float(task.scores(counts.sum(0))["rmse"]) == pytest.approx(math.sqrt(((gold - guess) ** 2).mean()))


def accuracy(sums):
    return sums[..., 0] / sums[..., 1]


def test_the_interval_of_a_share_is_that_of_the_normal_approximation():
    counts = np.array([[1, 1]] * 700 + [[0, 1]] * 300)
    low, high = bootstrap_interval(counts, accuracy, samples=4000)
    width = 1.96 * math.sqrt(0.7 * 0.3 / 1000)
    assert low == pytest.approx(0.7 - width, abs=0.003) and high == pytest.approx(0.7 + width, abs=0.003)
    assert bootstrap_interval(counts, accuracy, seed=1) == bootstrap_interval(counts, accuracy, seed=1)


def test_the_paired_test_is_that_of_the_signs():
    # 30 examples only the first has right, 12 only the second: under swaps the difference is a sum of 42 signs.
    first = np.array([[1, 1]] * 30 + [[0, 1]] * 12 + [[1, 1]] * 58)
    second = np.array([[0, 1]] * 30 + [[1, 1]] * 12 + [[1, 1]] * 58)
    tail = sum(math.comb(42, n) for n in range(13)) / 2**42
    assert randomization_test(first, second, accuracy, samples=40_000) == pytest.approx(2 * tail, abs=0.002)
    low, high = paired_difference(first, second, accuracy)
    assert low < 0.18 < high and low > 0


def test_the_worst_examples_come_first_and_right_ones_not_at_all():
    class Task:
        def errors(self, examples, predictions):
            return [abs(gold - guess) for gold, guess in zip(examples, predictions, strict=True)]

        def show(self, example, prediction):
            return f"{example} {prediction}"

    assert _worst(Task(), [1, 2, 3, 4, 5], [1, 5, 3, 9, 2], 2) == ["4 9", "2 5"]
    assert _worst(Task(), [1, 2, 3, 4, 5], [1, 5, 3, 9, 2], 20) == ["4 9", "2 5", "5 2"]


def test_the_command_reports_labels_confusions_and_the_worst(tagger, base_model, data, command, tmp_path):
    folder, _ = tagger
    lines = (data / "test.conll").read_text().splitlines()
    # Two sentences get other labels than the tagger will find, and one a label that it does not have.
    changed = ["".join(("Rome\tB-PER", line)[line != "Rome\tB-LOC"]) for line in lines]
    changed[1] = changed[1].replace("\tO", "\tB-NEW")
    (tmp_path / "test.conll").write_text("\n".join(changed) + "\n")
    code, out, err = command("evaluate", folder, tmp_path / "test.conll", "--json", tmp_path / "result.json")
    assert code == 0, err
    found = json.loads((tmp_path / "result.json").read_text())
    score = found["scores"]["f1"]
    assert score["low"] <= score["value"] <= score["high"] and score["low"] < score["high"]
    assert "95% interval" in out and "B-NEW (1)" in out
    assert "PER -> LOC" in out and "Rome [B-LOC, not B-PER]" in out and "Worst sentences:" in out
    assert len(found["worst"]) <= 20
    labels = {row["label"]: row for row in found["labels"]}
    assert labels["LOC"]["predicted"] > labels["LOC"]["gold"]


def test_a_model_is_not_better_than_itself_and_better_than_a_worse_one(tagger, base_model, data, command, tmp_path):
    from elmo_hf.tasks import finetune

    folder, _ = tagger
    settings = {"train": data / "dev.conll", "dev": data / "dev.conll", "model": str(base_model), "epochs": 1}
    finetune("ner", output=tmp_path / "worse", lr=1e-9, say=lambda line: None, **settings)
    same = evaluate(folder, data / "test.conll", compare=folder).comparison
    assert same.difference == (0.0, 0.0, 0.0) and same.p_value == 1.0
    better = evaluate(folder, data / "test.conll", compare=tmp_path / "worse").comparison
    assert better.difference.low > 0 and better.p_value < 0.01
    code, out, _ = command("evaluate", folder, data / "test.conll", "--compare", tmp_path / "worse")
    assert code == 0 and "a significant difference at 0.05" in out


def test_the_columns_of_the_training_are_those_of_the_evaluation(base_model, tmp_path):
    from elmo_hf.tasks import finetune

    (tmp_path / "both.conll").write_text("Rome\tPROPN\tX\nburns\tVERB\tY\n\n" * 20)
    settings = {"train": tmp_path / "both.conll", "dev": tmp_path / "both.conll", "model": str(base_model)}
    finetune("tagging", output=tmp_path / "upos", column="1", epochs=1, say=lambda line: None, **settings)
    by_default = evaluate(tmp_path / "upos", tmp_path / "both.conll")
    assert {row.label for row in by_default.labels if row.gold} == {"PROPN", "VERB"}
    with pytest.raises(ValueError, match="both.conll has no label of the model: 'X', 'Y'. Expected"):
        evaluate(tmp_path / "upos", tmp_path / "both.conll", column="2")
    # A file of another format has no such column.
    rows = evaluate(tmp_path / "upos", [{"tokens": ["Rome", "burns"], "labels": ["PROPN", "VERB"]}])
    assert rows.examples == 1 and rows.unknown_labels == {}


def test_models_of_two_tasks_are_not_compared(tagger, base_model, data, tmp_path):
    from elmo_hf.tasks import finetune

    settings = {"train": data / "reviews.jsonl", "model": str(base_model), "epochs": 1}
    finetune("classification", output=tmp_path / "reviews", say=lambda line: None, **settings)
    with pytest.raises(ValueError, match="a model for ner and .*reviews one for classification"):
        evaluate(tagger[0], data / "test.conll", compare=tmp_path / "reviews")
