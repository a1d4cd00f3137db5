"""The sampler against its formula, and losses and gradients of the softmax, by the kernel and the plain function."""

import contextlib

import numpy as np
import pytest
import torch

from elmo_hf.kernels import kernels_disabled
from elmo_hf.kernels import softmax as softmax_kernel
from elmo_hf.model import modeling_elmo_lm
from elmo_hf.model.modeling_elmo import run_kernel
from elmo_hf.model.modeling_elmo_lm import softmax_nll
from elmo_hf.pretraining.sampled_softmax import draw_words, log_expected_counts


def formula(size):
    k = np.arange(size)
    return np.log((k + 2) / (k + 1)) / np.log(size + 1)


@pytest.fixture(params=["kernel", "plain function"], autouse=True)
def kernels(request):
    with contextlib.nullcontext() if request.param == "kernel" else kernels_disabled():
        yield request.param


def full_nll(rows, targets, weight, bias):
    return run_kernel(softmax_nll, rows, weight, bias, targets)


def sampled_nll(rows, targets, weight, bias, words, corrections):
    """The loss among each row's target and `words`, sorted and distinct; `corrections` are logs of expected counts."""
    own = (rows * weight[targets]).sum(-1) + bias[targets] - corrections[0]
    places = torch.searchsorted(words, targets).clamp_(max=len(words) - 1)
    hits = torch.where(words[places] == targets, places, -1)
    return run_kernel(softmax_nll, rows, weight[words], bias[words] - corrections[1], hits, own)


def test_the_formula_is_a_distribution():
    # With one draw the expected count of a line is its probability.
    actual = log_expected_counts(torch.arange(500), 500, 1).double().exp().numpy()
    np.testing.assert_allclose(actual, formula(500), rtol=1e-5)
    assert abs(formula(500).sum() - 1) < 1e-12


def test_single_draws_pass_a_chi_square_test():
    from scipy.stats import chisquare

    torch.manual_seed(0)
    size, number = 200, 40_000
    counts = np.zeros(size)
    for _ in range(number):
        words, tries = draw_words(1, size)
        assert tries == 1
        counts[words] += 1
    assert chisquare(counts, number * formula(size)).pvalue > 0.01


def test_draws_without_replacement_pass_a_chi_square_test():
    """Ordered draws of 2 out of 6: the pair {a, b} comes with p_a p_b / (1 - p_a) + p_b p_a / (1 - p_b)."""
    from scipy.stats import chisquare

    torch.manual_seed(1)
    size, number, p = 6, 20_000, formula(6)
    pairs = {}
    for _ in range(number):
        words, tries = draw_words(2, size)
        assert tries >= 2
        pairs[tuple(words.tolist())] = pairs.get(tuple(words.tolist()), 0) + 1
    expected = {
        (a, b): number * p[a] * p[b] * (1 / (1 - p[a]) + 1 / (1 - p[b])) for a in range(size) for b in range(a)
    }
    expected = {tuple(sorted(pair)): value for pair, value in expected.items()}
    assert chisquare([pairs[pair] for pair in expected], list(expected.values())).pvalue > 0.01


def test_tries_are_those_of_drawing_one_by_one():
    torch.manual_seed(2)
    mean = np.mean([draw_words(8, 30)[1] for _ in range(3000)])
    generator, one_by_one = np.random.default_rng(2), []
    for _ in range(3000):
        seen, tries = set(), 0
        while len(seen) < 8:
            seen.add(int(generator.choice(30, p=formula(30))))
            tries += 1
        one_by_one.append(tries)
    assert abs(mean - np.mean(one_by_one)) < 4 * np.std(one_by_one) * np.sqrt(2 / 3000)


def test_expected_counts():
    expected = np.log(1 - (1 - formula(50)) ** 70)
    torch.testing.assert_close(
        log_expected_counts(torch.arange(50), 50, 70).double().numpy(), expected, atol=1e-6, rtol=0
    )


def test_every_word_can_be_drawn_and_no_more():
    assert draw_words(5, 5)[0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="Invalid number of negative samples: 6. Expected 1 to 5"):
        draw_words(6, 5)


def test_the_mean_sampled_gradient_points_where_the_full_one_does():
    torch.manual_seed(3)
    size, width, count = 300, 12, 40
    weight, bias, rows = torch.randn(size, width) / 3, torch.randn(size) / 3, torch.randn(count, width)
    targets = torch.multinomial(torch.from_numpy(formula(size)).float(), count, replacement=True)
    leaves = [first.requires_grad_() for first in (rows, weight, bias)]
    full = torch.autograd.grad(full_nll(rows, targets, weight, bias), leaves)
    mean = [torch.zeros_like(first) for first in leaves]
    for _ in range(2000):
        words, tries = draw_words(60, size)
        corrections = [log_expected_counts(subset, size, tries) for subset in (targets, words)]
        loss = sampled_nll(rows, targets, weight, bias, words, corrections)
        for total, first in zip(mean, torch.autograd.grad(loss, leaves), strict=True):
            total += first / 2000
    for first, other in zip(full, mean, strict=True):
        assert torch.cosine_similarity(first.flatten(), other.flatten(), 0) >= 0.99


@pytest.mark.parametrize("sampled", [True, False])
def test_second_derivatives(sampled):
    """Against differences of first derivatives, for all of the leaves."""
    torch.manual_seed(4)
    targets, words = torch.tensor([0, 3, 3, 5]), torch.tensor([1, 3, 6])
    rows, weight, bias = torch.randn(4, 5).double(), torch.randn(7, 5).double(), torch.randn(7).double()

    def loss(rows, weight, bias):
        if not sampled:
            return full_nll(rows, targets, weight, bias).double()
        corrections = [log_expected_counts(subset, 7, 5).double() for subset in (targets, words)]
        return sampled_nll(rows, targets, weight, bias, words, corrections).double()

    leaves = [left.requires_grad_() for left in (rows, weight, bias)]
    along = [torch.randn_like(left) for left in leaves]
    first = torch.autograd.grad(loss(*leaves), leaves, create_graph=True)
    plain = torch.autograd.grad(loss(*leaves), leaves)
    for left, other in zip(first, plain, strict=True):
        assert torch.allclose(left, other, atol=1e-5)
    actual = torch.autograd.grad(first, leaves, along)

    def gradients(step):
        moved = [(left.detach() + step * way).requires_grad_() for left, way in zip(leaves, along, strict=True)]
        return torch.autograd.grad(loss(*moved), moved)

    # The loss works in float32: steps that are not lost in its rounding.
    for left, low, high in zip(actual, gradients(-5e-3), gradients(5e-3), strict=True):
        assert torch.allclose(left, (high - low) / 1e-2, atol=2e-3, rtol=2e-3)
    assert all(left.abs().max() > 0.01 for left in actual)


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("logits_at_once", [1, 15, 2**24])
def test_losses_and_gradients_in_parts(sampled, logits_at_once, monkeypatch):
    """Against the formula in float64, with all rows at once or a few; a target among the samples counts once."""
    torch.manual_seed(5)
    targets, words = torch.tensor([0, 3, 3, 5, 6, 1]), torch.tensor([1, 3, 6])
    rows, weight, bias = torch.randn(6, 5), torch.randn(7, 5), torch.randn(7)
    for owner, name in ((softmax_kernel, "LOGITS_IN_CACHE"), (softmax_kernel, "LOGITS_AT_ONCE")):
        monkeypatch.setattr(owner, name, logits_at_once)
    monkeypatch.setattr(modeling_elmo_lm, "LOGITS_AT_ONCE", logits_at_once)
    monkeypatch.setattr(softmax_kernel, "FEW_ROWS", 1)
    corrections = [torch.linspace(-1, 0, len(subset)) for subset in (targets, words)]

    def formula_in_float64(rows, weight, bias):
        total = 0.0
        for number, (row, target) in enumerate(zip(rows, targets.tolist(), strict=True)):
            logits, own = weight @ row + bias, target
            if sampled:
                others = [place for place, word in enumerate(words.tolist()) if word != target]
                of_words = logits[words][others] - corrections[1][others].double()
                logits, own = torch.cat([logits[target : target + 1] - corrections[0][number].double(), of_words]), 0
            total = total - logits.log_softmax(-1)[own]
        return total

    exact = [first.double().requires_grad_() for first in (rows, weight, bias)]
    expected = formula_in_float64(*exact)
    leaves = [first.requires_grad_() for first in (rows, weight, bias)]
    if sampled:
        actual = sampled_nll(rows, targets, weight, bias, words, corrections)
    else:
        actual = full_nll(rows, targets, weight, bias)
    torch.testing.assert_close(actual.double(), expected, atol=1e-5, rtol=1e-5)
    gradients = torch.autograd.grad(3 * actual, leaves)
    for first, other in zip(gradients, torch.autograd.grad(3 * expected, exact), strict=True):
        torch.testing.assert_close(first.double(), other, atol=1e-5, rtol=1e-4)
