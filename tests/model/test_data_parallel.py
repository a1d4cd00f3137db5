"""DataParallel: replicas of a model, as PyTorch makes them for several devices, compute and train as the model does.

`torch.nn.parallel.replicate` copies the parameters to each device, and gives every replica plain tensors in place of
parameters. Here the devices are the CPU, so that the copies are copies on the CPU; all else is PyTorch's own.
"""

import copy
import sys

import pytest
import torch
from small_models import ENTITIES, small
from torch.nn.parallel import replicate

from elmo_hf import (
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
    SentenceCache,
)

TEXTS = ["It rains in Rome", "Yes", "No", "A longer text , which says more ."]
WORDS = ["<S>", "</S>", "<UNK>", "It", "rains", "in", "Rome", "Yes", "No", "A", "text", "."]


def tagger(**settings):
    return small(ElmoForTokenClassification, labels=ENTITIES, mix_dropout=0.0, **settings)


MODELS = {
    "tagger": lambda: tagger(freeze_bilm=False),
    "frozen tagger": lambda: tagger(freeze_bilm=True),
    "classifier": lambda: small(ElmoForSequenceClassification, num_labels=3, mix_dropout=0.0, freeze_bilm=False),
    "questions": lambda: small(ElmoForQuestionAnswering, mix_dropout=0.0, freeze_bilm=False),
    "language model": lambda: small(ElmoForPreTraining, vocab_size=len(WORDS), dropout=0.0),
}


@pytest.fixture(autouse=True)
def copies_on_the_cpu(monkeypatch):
    def copies(tensors, devices, detach=False):
        return [[tensor.detach().clone() if detach else tensor.clone() for tensor in tensors] for _ in devices]

    monkeypatch.setattr(sys.modules["torch.nn.parallel.replicate"], "_broadcast_coalesced_reshape", copies)


def halves(name):
    """The inputs of each replica."""
    if name == "questions":
        batch = ElmoTokenizer()(TEXTS, ["Rome is wet"] * 4, padding=True, return_tensors="pt")
        rows = batch["attention_mask"].sum(1)
        batch |= {"start_positions": rows - 4, "end_positions": rows - 3}
    else:
        batch = ElmoTokenizer(word_vocabulary=WORDS)(TEXTS, padding=True, return_tensors="pt", return_lm_labels=True)
        if name == "classifier":
            batch["labels"] = torch.tensor([0, 1, 2, 0])
        elif "tagger" in name:
            batch["labels"] = batch["labels"].clamp(-100, len(ENTITIES) - 1)
    return [{key: value[part] for key, value in batch.items()} for part in (slice(0, 2), slice(2, 4))]


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_model(name):
    model = MODELS[name]().train()
    parts = halves(name)
    sum(model(**part).loss for part in parts).backward()
    expected = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    replicas = replicate(model, [0, 1])
    assert not list(replicas[0].parameters())
    sum(replica(**part).loss for replica, part in zip(replicas, parts, strict=True)).backward()
    actual = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
    assert actual.keys() == expected.keys() and len(actual) > 1
    for key, gradient in expected.items():
        torch.testing.assert_close(actual[key], gradient, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("cache", ["no cache", "words", "sentences"])
@torch.no_grad()
def test_caches_are_never_stale(cache):
    model = tagger(freeze_bilm=True).eval()
    if cache == "words":
        model.cache_words(100)
    elif cache == "sentences":
        model.cache_sentences(SentenceCache())
    (part, _), expected = halves("tagger"), []
    for _ in range(2):
        expected.append(copy.deepcopy(model)(**part).logits)
        replica = replicate(model, [0], detach=True)[0]
        torch.testing.assert_close(replica(**part).logits, expected[-1], atol=1e-6, rtol=1e-5)
        model.elmo.token_encoder.projection.weight.data.mul_(0.5)
    assert not torch.allclose(*expected, atol=1e-3)
