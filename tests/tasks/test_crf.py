"""The CRF against all sequences written out, and the rules of its decoding."""

import itertools

import pytest
import torch

from elmo_hf import LinearChainCrf
from elmo_hf.tasks.tagging.crf import label_rules

BIO = ["O", "B-A", "I-A", "B-B", "I-B"]
BIOES = ["O", "B-A", "I-A", "E-A", "S-A"]


def may_follow(before, after, bioes):
    """The schemes' rules said once more, by what a reader of the labels would say; None is the sentence's edge."""
    inside = {"I": "BI", "E": "BI"}
    if after is not None and after[0] in inside:
        return before is not None and before[0] in "BI" and before[2:] == after[2:]
    return not (bioes and before is not None and before[0] in "BI")


@torch.no_grad()
def score(crf, emissions, labels):
    if not labels:
        return 0.0
    total = crf.start[labels[0]] + crf.end[labels[-1]]
    total = total + sum(row[label] for row, label in zip(emissions, labels, strict=True))
    return float(total + sum(crf.transitions[pair] for pair in itertools.pairwise(labels)))


@pytest.mark.parametrize("side", ["left", "right", "holes"])
def test_partition_and_best_sequence_equal_brute_force(side):
    generator = torch.Generator().manual_seed(0)
    for case in range(170):
        size, length = 2 + case % 3, 1 + case % 5
        crf = LinearChainCrf(size)
        for parameter in crf.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
        emissions = 2 * torch.randn(3, length, size, generator=generator)
        mask = torch.rand(3, length, generator=generator) < 0.7
        if side != "holes":
            mask = mask.sort(1, descending=side == "right").values
        labels = torch.randint(size, (3, length), generator=generator)
        found, best = crf.log_likelihood(emissions, labels, mask), crf.decode(emissions, mask)
        through = crf.best_scores(emissions, mask)
        for row in range(3):
            here = emissions[row, mask[row]]
            scores = {labels: score(crf, here, labels) for labels in itertools.product(range(size), repeat=len(here))}
            gold = tuple(labels[row, mask[row]].tolist())
            expected = scores[gold] - torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
            assert found[row].item() == pytest.approx(expected.item() if gold else 0.0, abs=1e-4)
            path = tuple(best[row, mask[row]].tolist())
            assert scores[path] == pytest.approx(max(scores.values()), abs=1e-4)
            for place, label in itertools.product(range(len(here)), range(size)):
                if path[place] != label:
                    most = max(value for one, value in scores.items() if one[place] == label)
                    worse = through[row, mask[row]][place, label].item()
                    assert worse == pytest.approx(most - max(scores.values()), abs=1e-4)


@pytest.mark.parametrize("names", [BIO, BIOES])
def test_no_impossible_sequence_is_decoded(names):
    generator = torch.Generator().manual_seed(1)
    crf = LinearChainCrf(5, names)
    # Values that repeat make ties, and large ones would pay for breaking a rule.
    emissions = 1e5 * torch.randint(0, 2, (400, 6, 5), generator=generator).float()
    mask = torch.rand(400, 6, generator=generator) < 0.8
    for row, here in zip(crf.decode(emissions, mask), mask, strict=True):
        chosen = [None, *(names[label] for label in row[here].tolist()), None]
        if len(chosen) > 2:
            assert all(may_follow(*pair, bioes=names is BIOES) for pair in itertools.pairwise(chosen)), chosen


@pytest.mark.parametrize("names", [BIO, BIOES])
def test_what_is_decoded_is_the_best_of_all_that_the_rules_allow(names):
    generator = torch.Generator().manual_seed(2)
    for case in range(60):
        crf = LinearChainCrf(5, names)
        for parameter in crf.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
        emissions = 3 * torch.randn(1, 1 + case % 4, 5, generator=generator)
        mask = torch.rand(emissions.shape[:2], generator=generator) < 0.8
        here = emissions[mask]
        allowed = [
            labels
            for labels in itertools.product(range(5), repeat=len(here))
            if len(labels) == 0
            or all(
                may_follow(*pair, bioes=names is BIOES)
                for pair in itertools.pairwise([None, *(names[label] for label in labels), None])
            )
        ]
        best = tuple(crf.decode(emissions, mask)[mask].tolist())
        assert best in allowed
        assert score(crf, here, best) == pytest.approx(max(score(crf, here, one) for one in allowed), abs=1e-4)


def test_schemes_are_told_by_the_names():
    assert label_rules(["NOUN", "VERB"]) is None and label_rules(["O", "I-A"]) is None
    follows, begins, ends = label_rules(BIOES)
    assert ends.tolist() == [True, False, False, True, True] and begins.tolist() == [True, True, False, False, True]
    for i, j in itertools.product(range(5), repeat=2):
        assert follows[i, j] == may_follow(BIOES[i], BIOES[j], bioes=True)


def test_its_gradient_is_the_difference_of_counts():
    """d log p / d e = 1 at the label - p(label), which sums to nothing over the labels of a position."""
    crf = LinearChainCrf(3)
    emissions = torch.randn(2, 4, 3, requires_grad=True)
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0]]).bool()
    crf.log_likelihood(emissions, torch.ones(2, 4, dtype=torch.long), mask).sum().backward()
    torch.testing.assert_close(emissions.grad.sum(2), torch.zeros(2, 4), atol=1e-5, rtol=0)
    assert not emissions.grad[~mask].any() and emissions.grad[mask].abs().min() > 0
