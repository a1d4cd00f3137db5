"""Entity scores against counts by hand."""

import sys

import numpy as np
import pytest

from elmo_hf import entity_metrics


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
