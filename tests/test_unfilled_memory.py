"""In tests, uninitialised memory holds values that no result has."""

import pytest
import torch


@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: torch.empty(3, 2, dtype=dtype),
        lambda dtype: torch.empty_like(torch.zeros(3, 2, dtype=dtype)),
        lambda dtype: torch.zeros(1, dtype=dtype).new_empty(3, 2),
    ],
    ids=["empty", "empty_like", "new_empty"],
)
def test_unfilled_memory_shows(make):
    assert make(torch.float32).isnan().all() and make(torch.float16).isnan().all()
    assert (make(torch.int64) == torch.iinfo(torch.int64).max).all() and make(torch.bool).all()


def test_devices_chosen_by_a_context_are_obeyed():
    with torch.device("meta"):
        assert torch.empty(2).is_meta and torch.nn.Linear(2, 3).weight.is_meta


def test_parameters_made_empty_can_be_trained():
    parameter = torch.nn.Parameter(torch.empty(2))
    assert parameter.requires_grad and parameter.isnan().all() and parameter.is_leaf
    assert torch.empty(2, requires_grad=True).is_leaf
