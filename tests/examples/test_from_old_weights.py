"""The whole way of old weights, as the example shows it."""

import os
import re
from pathlib import Path

from fork_server import run_forked

FILE = Path(__file__).resolve().parents[2] / "examples" / "from_old_weights.py"


def test_old_weights_are_converted_verified_pushed_and_loaded_back():
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    run = run_forked([FILE], environment)
    assert run.returncode == 0, run.stderr
    assert "ElmoModel of 4,342 parameters" in run.stdout
    (difference,) = re.findall(r"difference from the model before it was pushed: (\S+)\n", run.stdout)
    assert float(difference) < 1e-6
