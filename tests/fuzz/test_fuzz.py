"""A few seeded trials of every kind; `make fuzz` runs for minutes."""

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
def test_seeded_trials(kind):
    results = [run_trial(kind, seed) for seed in range(TRIALS[kind])]
    refused = [message for message in results if message != "accepted"]
    assert all(message.strip() and "Traceback" not in message for message in refused)
    # Inputs are neither all harmless nor all hopeless.
    assert "accepted" in results and (refused or kind == "tokenizer")
