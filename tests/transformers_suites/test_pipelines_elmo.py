"""What transformers' own tests of pipelines ask of every model, for the tasks that ours are registered for.

Those tests stand in `tests/pipelines/`, which is not in the sdist; their common part is restated here: ten examples
from a generator in batches of four, so that the last one is not full, and weights of half precision.
"""

import pytest
import torch
from small_models import ENTITIES, small
from transformers import pipeline

from elmo_hf import ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel, ElmoTokenizer

PAIRS = {"head": {"type": "linear", "sentence_pairs": True}, "labels": ["contradiction", "neutral", "entailment"]}
TEXTS = ["Ann lives in Rome", "Yes", "A longer text , which says a little more than the others ."]
# Task -> the model, how its pipeline is called, and the keys of an answer.
TASKS = {
    "feature-extraction": (lambda: small(ElmoModel), {}, None),
    "text-classification": (lambda: small(ElmoForSequenceClassification, num_labels=3), {}, {"label", "score"}),
    "token-classification": (
        lambda: small(ElmoForTokenClassification, labels=ENTITIES),
        {"ignore_labels": []},
        {"word", "entity", "score", "start", "end", "index"},
    ),
    "zero-shot-classification": (
        lambda: small(ElmoForSequenceClassification, **PAIRS),
        {"candidate_labels": ["politics", "health"]},
        {"sequence", "labels", "scores"},
    ),
}
every_task = pytest.mark.parametrize("task", TASKS)


def made(task, **settings):
    return pipeline(task, model=TASKS[task][0](), tokenizer=ElmoTokenizer(), device="cpu", **settings)


def numbers(answer):
    """The numbers of an answer, in their order."""
    if isinstance(answer, dict):
        return [number for name in sorted(answer) for number in numbers(answer[name])]
    if isinstance(answer, (list, tuple)):
        return [number for part in answer for number in numbers(part)]
    return [] if isinstance(answer, str) or answer is None else [float(answer)]


def assert_near(actual, expected):
    """The same numbers; after those of a text, a batch may have the zeros of its padding."""
    actual, expected = torch.tensor(numbers(actual)), torch.tensor(numbers(expected))
    assert len(actual) >= len(expected) > 0 and not actual[len(expected) :].any()
    torch.testing.assert_close(actual[: len(expected)], expected, atol=1e-5, rtol=0)


@every_task
def test_one_text_a_list_and_a_generator_with_a_last_batch_that_is_not_full(task):
    run, named, keys = made(task), TASKS[task][1], TASKS[task][2]
    one_by_one = [run(text, **named) for text in TEXTS]
    if keys:
        first = one_by_one[0] if isinstance(one_by_one[0], dict) else one_by_one[0][0]
        assert set(first) == keys
    assert_near(run(TEXTS, **named), one_by_one)
    for batch_size in (1, 4):
        texts = (TEXTS[number % 3] for number in range(10))
        actual = list(run(texts, batch_size=batch_size, **named))
        assert len(actual) == 10
        for number, answer in enumerate(actual):
            assert_near(answer, one_by_one[number % 3])


@every_task
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(task, dtype):
    named = TASKS[task][1]
    run = pipeline(task, model=TASKS[task][0]().to(dtype), tokenizer=ElmoTokenizer(), device="cpu", dtype=dtype)
    assert run.model.dtype == dtype
    assert all(number == number for number in numbers(run(TEXTS, **named)))
