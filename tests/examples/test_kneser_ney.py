"""The Kneser-Ney model beside one of dictionaries that follows the formulas word for word."""

import collections
import importlib.util
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "kneser_ney.py"
WORDS, BEGIN, END = 7, 0, 1


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("kneser_ney", FILE)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def text(number, seed):
    """Sentences over words 2 to 6, the early ones frequent."""
    draw = np.random.default_rng(seed)
    return [[BEGIN, *(2 + draw.geometric(0.45, draw.integers(1, 8)).clip(1, 5) - 1), END] for _ in range(number)]


class Plain:
    """The same formulas over dictionaries, with discounts as they are given."""

    def __init__(self, sentences, order, discounts):
        self.discounts = discounts
        grams = [collections.Counter() for _ in range(order + 1)]
        for one in sentences:
            for size in range(1, order + 1):
                grams[size].update(tuple(one[i : i + size]) for i in range(len(one) - size + 1))
        self.counts = [None]
        for size in range(1, order + 1):
            followed = collections.Counter(longer[1:] for longer in grams[size + 1]) if size < order else grams[size]
            kept = {gram: count for gram, count in grams[size].items() if gram[0] == BEGIN} if size < order else {}
            self.counts.append({**followed, **kept})
        self.counts[1].pop((BEGIN,), None)

    def probability(self, context, word):
        size = len(context) + 1
        rest = 1 / (WORDS - 1) if size == 1 else self.probability(context[1:], word)
        found = {gram[-1]: count for gram, count in self.counts[size].items() if gram[:-1] == tuple(context)}
        if not found:
            return rest
        taken = {one: (0, *self.discounts[size - 1])[min(count, 3)] for one, count in found.items()}
        own = found.get(word, 0) - taken.get(word, 0)
        return (own + sum(taken.values()) * rest) / sum(found.values())


@pytest.mark.parametrize("order", [2, 3, 5])
def test_it_follows_the_formulas(module, order, monkeypatch):
    seen = []
    estimate = module._discounts
    monkeypatch.setattr(module, "_discounts", lambda counts: seen.append(estimate(counts)) or seen[-1])
    sentences = text(300, seed=0)
    model = module.KneserNey(np.concatenate(sentences), WORDS, BEGIN, order)
    assert len(seen) == order and (seen[-1] != module.PLAIN_DISCOUNTS) == (order > 2)  # long ones are rare enough
    plain = Plain(sentences, order, seen)
    tests = text(40, seed=1)
    found = model.log_probabilities(np.concatenate(tests))
    expected = [
        plain.probability(one[max(0, place - order + 1) : place], one[place])
        for one in tests
        for place in range(1, len(one))
    ]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-5)


def test_probabilities_add_up_to_one(module):
    model = module.KneserNey(np.concatenate(text(200, seed=2)), WORDS, BEGIN, order=4)
    for context in ([], [2], [3, 2, 6], [6, 6, 6, 6], [2, 3, 2, 2, 2]):
        every = [np.exp(model.log_probabilities(np.array([BEGIN, *context, word])))[-1] for word in range(1, WORDS)]
        assert sum(every) == pytest.approx(1, abs=1e-5)


def test_discounts_are_those_of_chen_and_goodman(module):
    counts = np.repeat([1, 2, 3, 4, 9], [40, 12, 6, 3, 1])
    share = 40 / (40 + 2 * 12)
    expected = (1 - 2 * share * 12 / 40, 2 - 3 * share * 6 / 12, 3 - 4 * share * 3 / 6)
    assert module._discounts(counts) == pytest.approx(expected)
    assert module._discounts(np.array([5, 6, 7])) == module.PLAIN_DISCOUNTS
