"""CONTRIBUTING's recipe for a head, followed word for word."""

import re
import shutil

from remote import run_python

TRY = """
import sys
sys.path.insert(0, package)
import torch
from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer
import elmo_hf
assert elmo_hf.__file__.startswith(package), elmo_hf.__file__
sizes = dict(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
torch.manual_seed(0)
model = ElmoForTokenClassification(ElmoConfig(**sizes, num_labels=3, head="window")).eval()
print(model.config.head["dropout"], tuple(model.classifier.linear.weight.shape))
batch = ElmoTokenizer()(["a b c"], return_tensors="pt")
x = model.elmo(**batch).last_hidden_state[0]
expected = model.classifier.linear(torch.cat([x[2], x[1]]))
torch.testing.assert_close(model(**batch).logits[0, 2], expected)
model.save_pretrained(folder)
ElmoTokenizer().save_pretrained(folder)
torch.save(model(**batch).logits, folder + "/logits.pt")
try:
    ElmoForTokenClassification(ElmoConfig(**sizes, head={"type": "window", "dropout": 2.0}))
except ValueError as error:
    print(error)
"""
LOAD = """
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer
model = AutoModelForTokenClassification.from_pretrained(folder, trust_remote_code=True)
batch = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)(["a b c"], return_tensors="pt")
torch.testing.assert_close(model(**batch).logits, torch.load(folder + "/logits.pt"))
print(type(model).__module__.split(".")[0], model.config.head["type"])
"""


def test_a_head_is_one_file_one_row_and_one_line(root, tmp_path):
    recipe = (root / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Adding a head")[1]
    blocks = re.findall(r"^ +```(?:python|text)\n(.*?)^ +```$", recipe, re.S | re.M)
    file, row, line = ("".join(text[3:] for text in block.splitlines(keepends=True)) for block in blocks)
    shutil.copytree(root / "elmo_hf", tmp_path / "elmo_hf", ignore=shutil.ignore_patterns("__pycache__"))
    model = tmp_path / "elmo_hf" / "model"
    (model / "head_window_elmo.py").write_text(file.replace("\n\n\n\n", "\n\n\n"), encoding="utf-8")
    table = (model / "hub_elmo.py").read_text(encoding="utf-8")
    assert row.strip().endswith(","), row
    # Behind the first one, which is what a class has if nothing is said.
    table = re.sub(r"(HEADS = \(\n.*\n)", lambda found: found[1] + row, table, count=1)
    table = table.replace("if TYPE_CHECKING:\n", "if TYPE_CHECKING:\n" + line, 1)
    (model / "hub_elmo.py").write_text(table, encoding="utf-8")

    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    folder = str(tmp_path / "saved")
    code = f"package = {str(tmp_path)!r}\nfolder = {folder!r}\n" + TRY
    printed = _run_alone(code, env, tmp_path)
    assert printed[0] == "0.1 (3, 32)"
    assert "`dropout` is 2.0; accepted is a number from 0 to below 1" in printed[1]
    assert run_python(LOAD, env, folder=folder).split() == ["transformers_modules", "window"]


def _run_alone(code, env, folder):
    """As run_python, but with the package that stands in `folder`, before the one that is installed."""
    import os
    import subprocess
    import sys

    path = {"PYTHONPATH": str(folder), "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env, **path}, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
