"""A few seeded trials of every kind; `make fuzz` goes on for as long as one likes."""

import pytest

from fuzz.__main__ import KINDS, run_trial

TRIALS = {
    "sources": 24,
    "checkpoints": 40,
    "runs": 8,
    "corpora": 20,
    "tokenizer": 40,
    "text_files": 80,
    "inputs": 150,
    "commands": 40,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_trials(kind):
    found = [run_trial(kind, seed) for seed in range(TRIALS[kind])]
    refused = [message for message in found if message != "accepted"]
    assert all(message.strip() and "Traceback" not in message for message in refused)
    # What is made is neither all harmless nor all hopeless.
    assert "accepted" in found and (refused or kind == "tokenizer")
