"""How many functions a reader has to follow from texts to vectors, and through a step of training."""

import importlib.util

import pytest
from golden_files import TESTS


@pytest.fixture(scope="module")
def counted():
    if not (TESTS.parent / "elmo_hf/kernels").is_dir():
        pytest.skip("elmo_hf/kernels does not exist")
    spec = importlib.util.spec_from_file_location("count_functions", TESTS / "tools" / "count_functions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.count_apart(kernels=False)


def test_vectors_on_the_plain_path(counted):
    functions = counted["embed"]
    assert "model/modeling_elmo.py:ElmoModel.forward" in functions
    assert len(functions) <= 40, "\n".join(functions)
    assert len({name.partition(":")[0] for name in functions}) <= 10


@pytest.mark.parametrize("step", ["train a tagger", "pretrain"])
def test_a_training_step_on_the_plain_path(counted, step):
    assert len(counted[step]) <= 45, "\n".join(counted[step])
