"""The recipes of CONTRIBUTING, followed word for word."""

import os
import re
import shutil

import pytest
from fork_server import run_forked
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
import sys
sys.path.insert(0, package)
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer
model = AutoModelForTokenClassification.from_pretrained(folder, trust_remote_code=True)
batch = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)(["a b c"], return_tensors="pt")
torch.testing.assert_close(model(**batch).logits, torch.load(folder + "/logits.pt"))
print(type(model).__module__.split(".")[0], type(model.classifier).__module__, model.config.head["type"])
"""


KERNEL = """
import sys
sys.path.insert(0, package)
import torch
import elmo_hf
from elmo_hf import kernels
from elmo_hf.kernels import single_row
from elmo_hf.model.modeling_elmo import ElmoLinear
assert elmo_hf.__file__.startswith(package), elmo_hf.__file__
products = []
real = torch.mv
torch.mv = lambda *arguments: products.append(1) or real(*arguments)
torch.manual_seed(0)
layer, x = ElmoLinear(4, 3), torch.randn(5, 4)
with torch.no_grad():
    found = [layer(x[:1]), layer(x)]
    called = len(products)
    with kernels.kernels_disabled():
        plain = [layer(x[:1]), layer(x)]
torch.testing.assert_close(found, plain)
layer(x[:1]).sum().backward()
print(called, len(products), layer.weight.grad is not None)
"""


def blocks_of(root, title):
    """The code of a recipe, without its indentation."""
    recipe = (root / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^ +```(?:python|text)\n(.*?)^ +```$", recipe, re.S | re.M)
    return ["".join(text[3:] or "\n" for text in block.splitlines(keepends=True)) for block in blocks]


def copy_package(root, folder):
    shutil.copytree(root / "elmo_hf", folder / "elmo_hf", ignore=shutil.ignore_patterns("__pycache__"))
    return {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}


def test_a_kernel_is_one_file_and_one_line(root, tmp_path):
    file, line, imported = blocks_of(root, "A new kernel")
    env = copy_package(root, tmp_path)
    folder = tmp_path / "elmo_hf" / "kernels"
    (folder / "single_row.py").write_text(file, encoding="utf-8")
    table = (folder / "__init__.py").read_text(encoding="utf-8")
    before, after = '    "linear": linear,\n', "from .softmax import"
    assert table.count(before) == table.count(after) == 1
    table = table.replace(before, line).replace(after, imported + after)
    (folder / "__init__.py").write_text(table, encoding="utf-8")
    # One call of the kernel's own case; none with the kernels disabled, none where gradients are needed.
    assert _run_alone(f"package = {str(tmp_path)!r}\n" + KERNEL, env, tmp_path) == ["1 1 True"]


def test_a_task_is_one_folder_and_one_row(root, tmp_path):
    file, row = blocks_of(root, "A new task")
    env = copy_package(root, tmp_path)
    tasks = tmp_path / "elmo_hf" / "tasks"
    (tasks / "window").mkdir()
    (tasks / "window" / "__init__.py").write_text("")
    (tasks / "window" / "head.py").write_text(file, encoding="utf-8")
    table = (tasks / "heads.py").read_text(encoding="utf-8")
    assert row.strip().endswith(","), row
    (tasks / "heads.py").write_text(table.replace("HEADS = (\n", "HEADS = (\n" + row, 1), encoding="utf-8")

    folder = str(tmp_path / "saved")
    values = f"package = {str(tmp_path)!r}\nfolder = {folder!r}\n"
    printed = _run_alone(values + TRY, env, tmp_path)
    assert printed[0] == "0.1 (3, 32)"
    assert "Invalid `dropout`: 2.0. Expected a probability from 0 to below 1" in printed[1]
    # By remote code, with the package installed; and without it.
    assert _run_alone(values + LOAD, env, tmp_path) == ["transformers_modules elmo_hf.tasks.window.head window"]
    with pytest.raises(AssertionError, match="The head 'window' needs the package: pip install elmo-hf"):
        run_python(LOAD, env, folder=folder, package=str(tmp_path))


def _run_alone(code, env, folder):
    """As run_python, but with the package that stands in `folder`, before the one that is installed."""
    path = {"PYTHONPATH": str(folder), "TRANSFORMERS_VERBOSITY": "error"}
    done = run_forked(["-c", code], {**os.environ, **env, **path}, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
