import os
import sys

# Tests never reach the Hub; those that need one start their own on loopback, in processes of their own.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
# Small tensors gain nothing from more threads, and tests run side by side lose much by them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
import transformers
from golden_files import GOLDEN, SHARED_FIXTURES, TESTS
from golden_language_model import GoldenLanguageModel
from unfilled_memory import poison_uninitialized_memory

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer, cli, conversion

# The markers of transformers' own suites, see transformers_suites/. Theirs named `slow` is the same as ours.
MARKS_OF_TRANSFORMERS = (
    "accelerate_tests",
    "flash_attn_test",
    "flash_attn_3_test",
    "flash_attn_4_test",
    "is_pipeline_test",
    "is_staging_test",
    "is_training_test",
    "order",
    "torch_compile_test",
)

transformers.utils.logging.disable_progress_bar()
poison_uninitialized_memory(torch)


def pytest_configure(config):
    for name in MARKS_OF_TRANSFORMERS:
        config.addinivalue_line("markers", f"{name}: of transformers' own suites")


@pytest.fixture(params=GOLDEN)
def golden(request):
    """Each golden checkpoint in turn."""
    checkpoint = GOLDEN[request.param]
    if not checkpoint.available:
        pytest.skip(f"the files of {checkpoint.name} are not in {SHARED_FIXTURES}")
    return checkpoint


@pytest.fixture(scope="session")
def converted(tmp_path_factory):
    """A function that converts a golden checkpoint, once per session, and returns the folder."""
    done = {}

    def folder(checkpoint):
        if checkpoint.name not in done:
            done[checkpoint.name] = tmp_path_factory.mktemp("converted") / checkpoint.name
            conversion.convert(
                checkpoint.options,
                checkpoint.weights,
                output_dir=done[checkpoint.name],
                vocabulary=checkpoint.vocabulary if checkpoint.word_input else None,
                splitting="whitespace",
            )
        return done[checkpoint.name]

    return folder


@pytest.fixture(scope="session")
def lm_folder(tmp_path_factory):
    """The folder of a converted golden checkpoint with a softmax over its vocabulary."""
    return GoldenLanguageModel(GOLDEN["plain"], tmp_path_factory.mktemp("language_model")).folder


@pytest.fixture
def small_config():
    return ElmoConfig(character_cnn_filters=[[1, 4], [2, 6]], projection_size=8, cell_size=12, num_highway_layers=1)


@pytest.fixture
def small_model(small_config):
    transformers.set_seed(0)
    return ElmoModel(small_config).eval()


@pytest.fixture
def tokenizer():
    return ElmoTokenizer(splitting="whitespace")


@pytest.fixture(scope="session")
def root():
    return TESTS.parent


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs `elmo-hf` with arguments in this process; returns the exit code, stdout and stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["elmo-hf", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return run


@pytest.fixture
def two_threads():
    """Lets torch use two threads, where tests have one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
