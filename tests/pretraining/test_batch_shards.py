"""A batch that is divided among the threads of one process."""

import pytest
import torch
from small_texts import SIZES

from elmo_hf import ElmoConfig, ElmoForPreTraining
from elmo_hf.kernels import kernels_disabled
from elmo_hf.pretraining.batch_shards import add_gradients, join_states, number_of_shards, run_shards, split_rows

ROWS, STEPS, WORDS = 7, 5, 40


def new_model(**changes):
    torch.manual_seed(3)
    return ElmoForPreTraining(ElmoConfig(**SIZES, vocab_size=WORDS, **{"dropout": 0.0, **changes})).train()


def window(config):
    generator = torch.Generator().manual_seed(4)
    width, high = ((), WORDS) if config.word_input else ((config.max_characters_per_token,), 120)
    sizes = {"input_ids": (width, high), "labels": ((), WORDS)}
    return {
        prefix + name: torch.randint(1, largest, (ROWS, STEPS, *more), generator=generator)
        for prefix in ("", "backward_")
        for name, (more, largest) in sizes.items()
    }


def step(model, states, shards):
    """Loss, mean losses of both directions, states and gradients of one step."""
    torch.manual_seed(5)
    model.zero_grad()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def compute(inputs, states):
        output = model(**inputs, past_states=states, use_cache=True, num_items_in_batch=ROWS * STEPS)
        return output.loss, output

    results = run_shards(compute, parameters, split_rows(window(model.config), states, shards))
    add_gradients(parameters, results)
    losses = sum(result.losses for result in results) / ROWS
    states = [part for layer in join_states([result.states for result in results]) for part in layer]
    gradients = [p.grad.to_dense() if p.grad.is_sparse else p.grad for p in parameters]
    return [sum(result.loss for result in results), losses, *states, *gradients]


def random_states(model):
    states = model.elmo.bilm.initial_states(ROWS, torch.zeros(1))
    return tuple(tuple(torch.randn_like(part) for part in layer) for layer in states)


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_sampled": 6}, {"num_sampled": 6, "sparse": True}, {"num_sampled": 6, "word_input": True}],
    ids=str,
)
def test_shards_add_up_to_the_batch(two_threads, changes):
    """Also where negative samples are drawn: all shards have those of the batch."""
    sparse = changes.pop("sparse", False)
    model = new_model(**changes)
    model.softmax.sparse_gradients = sparse
    states = random_states(model)
    whole = step(model, states, 1)
    for shards in (2, 3):
        for actual, expected in zip(step(model, states, shards), whole, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def test_one_shard_is_the_plain_step(two_threads):
    model = new_model()
    states = random_states(model)
    output = model(**window(model.config), past_states=states)
    output.loss.backward()
    expected = [p.grad.clone() for p in model.parameters() if p.requires_grad]
    for actual, gradient in zip(step(model, states, 1)[-len(expected) :], expected, strict=True):
        torch.testing.assert_close(actual, gradient, rtol=1e-5, atol=1e-7)


def test_random_numbers_do_not_depend_on_which_thread_is_first(two_threads):
    model = new_model(dropout=0.5, num_sampled=6)
    first, *others = [step(model, None, 3) for _ in range(8)]
    assert all(torch.equal(*pair) for other in others for pair in zip(other, first, strict=True))


def test_each_shard_drops_units_of_its_own(two_threads):
    model = new_model(dropout=0.5)
    row = {name: value[:1].repeat(2, *[1] * (value.dim() - 1)) for name, value in window(model.config).items()}
    results = run_shards(lambda x, _: _loss(model, x), [model.softmax.bias], split_rows(row, None, 2))
    assert not torch.equal(results[0].loss, results[1].loss)


def _loss(model, inputs):
    output = model(**inputs, use_cache=True)
    return output.loss, output


def test_gradients_accumulate(two_threads):
    model = new_model()
    once = [gradient.clone() for gradient in step(model, None, 2)[-3:]]
    model.zero_grad = lambda: None  # the second step adds to the first
    for twice, gradient in zip(step(model, None, 2)[-3:], once, strict=True):
        torch.testing.assert_close(twice, 2 * gradient)


def test_an_error_in_a_shard_reaches_the_caller(two_threads):
    def compute(inputs, states):
        raise ValueError("no loss")

    model = new_model()
    with pytest.raises(ValueError, match="no loss"):
        run_shards(compute, list(model.parameters()), split_rows(window(model.config), None, 2))
    assert torch.get_num_threads() == 2


def test_small_batches_and_plain_functions_have_one_shard(two_threads):
    assert [number_of_shards(rows) for rows in (4, 31, 32, 1024)] == [1, 1, 2, 2]
    with kernels_disabled():
        assert number_of_shards(1024) == 1
