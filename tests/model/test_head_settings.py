"""`config.head`: what is accepted, what it becomes, and what a saved one is updated by."""

import os
import stat

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from small_models import SIZES, small
from transformers import AutoConfig, AutoModelForSequenceClassification

import elmo_hf
from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel
from elmo_hf.model.modeling_elmo_heads import LinearSentences, LinearSpans, LinearTokens
from elmo_hf.tasks import HEADS, head_class

FULL = {"type": "linear", "pooling": "mean", "sentence_pairs": False}


@pytest.mark.parametrize("head", [None, "linear", {}, {"type": "linear"}, {"pooling": "mean"}, FULL])
def test_what_a_head_says_is_completed(head):
    model = small(ElmoForSequenceClassification, head=head)
    assert FULL.items() <= model.config.head.items()


def test_the_same_type_is_updated_and_the_config_in_memory_is_what_is_saved(tmp_path):
    small(ElmoForSequenceClassification, head={"pooling": "max"}).save_pretrained(tmp_path)
    saved = AutoConfig.from_pretrained(tmp_path).head
    assert saved["pooling"] == "max" and saved["type"] == "linear"
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path, head={"type": "linear"})
    assert model.config.head == saved
    with torch.device("meta"):
        config = AutoConfig.from_pretrained(tmp_path, head={"sentence_pairs": True})
        pairs = ElmoForSequenceClassification(config)
    assert pairs.config.head == {**saved, "sentence_pairs": True} and pairs.reads_pairs
    assert AutoConfig.from_pretrained(tmp_path, head="linear").head == saved
    # A model without a head says nothing of it, and loses nothing.
    assert ElmoModel.from_pretrained(tmp_path).config.head == saved


def test_another_type_takes_the_place_of_the_saved_one():
    config = ElmoConfig(**SIZES, head={"type": "mine", "size": 3})
    config.head = {"size": 4}
    assert config.head == {"type": "mine", "size": 4}
    config.head = {"type": "linear"}
    assert config.head == {"type": "linear"}


@pytest.mark.parametrize(
    "head, sentence",
    [
        ("liner", "Invalid `head`: 'liner'. Expected one of .* \\(did you mean 'linear'\\?\\) for ElmoForSeq"),
        ({"type": "svm"}, "Invalid `head`: 'svm'. Expected one of 'linear', 'bcn', 'esim' for ElmoForSeq"),
        ({"poling": "max"}, "Invalid `head of type 'linear'`: 'poling'. Expected .* \\(did you mean 'pooling'\\?\\)"),
        (
            {"pooling": "sum"},
            "The head 'linear': .*'pooling' expected one of .*'mean', 'max', 'first_last'.*sum",
        ),
        ({"sentence_pairs": "yes"}, "The head 'linear': .*'sentence_pairs' expected bool, got str"),
        ("srl", "Expected one of .* for ElmoForSequenceClassification; 'srl' is a head of ElmoForTokenClassification"),
        ({"preset": "huge"}, "Invalid `head of type 'linear'`: 'preset'. Expected one of 'elmo_at', "),
        ({"type": "bcn", "preset": "huge"}, r"Invalid `head\['preset'\] of 'bcn'`: 'huge'. Expected 'small'"),
    ],
)
def test_what_is_refused(head, sentence):
    with pytest.raises(ValueError, match=sentence):
        small(ElmoForSequenceClassification, head=head)


@pytest.mark.parametrize("head", [{"type": object}, {"type": "linear", "sizes": (1, 2)}, {1: "linear"}])
def test_the_config_takes_only_what_json_can_hold(head):
    with pytest.raises((StrictDataclassError, ValueError), match="head"):
        ElmoConfig(head=head)


def test_every_row_of_the_table_is_there():
    for head in HEADS:
        assert head_class(head.owner, head.name).__name__ == head.class_name
        assert getattr(elmo_hf, head.owner).task_class == head.owner
    for actual in (LinearTokens, LinearSentences, LinearSpans, *(head_class(head.owner, head.name) for head in HEADS)):
        assert actual.__doc__ and actual.Settings.__doc__, actual


def test_weights_are_readable_by_whoever_may_read_the_config(tmp_path):
    for mask, mode in ((0o022, 0o644), (0o027, 0o640)):
        before = os.umask(mask)
        try:
            small(ElmoForTokenClassification).save_pretrained(tmp_path / oct(mask))
        finally:
            os.umask(before)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / oct(mask)).iterdir()}
        assert set(modes.values()) == {mode}, modes
