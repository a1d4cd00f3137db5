"""Processes for tests of the Hub: with the package, and without any trace of it."""

import os

from fork_server import run_forked

# A process that cannot import elmo_hf, wherever it is installed: as on the machine of somebody who never heard of it.
WITHOUT_PACKAGE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "elmo_hf":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
"""
WITH_PACKAGE = "import elmo_hf\n"


def run_python(code, env, with_package=False, **values):
    """Runs code in a process of its own, with `values` as its variables; returns what it prints.

    The package is imported (True), cannot be imported (False), or is installed but not imported (None).
    """
    head = {True: WITH_PACKAGE, False: WITHOUT_PACKAGE, None: ""}[with_package]
    lines = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    environment = {**clean, "NO_PROXY": "*", "HF_HUB_DISABLE_PROGRESS_BARS": "1", **env}
    done = run_forked(["-c", head + lines + code], environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
