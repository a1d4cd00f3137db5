"""The code that travels to the Hub with a saved model: little of it, public APIs only, no effect on its process."""

import re

import pytest
import torch
from remote import run_python
from small_models import ENTITIES, small

from elmo_hf import (
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)

FILES = {
    "configuration_elmo.py",
    "modeling_elmo.py",
    "modeling_elmo_heads.py",
    "modeling_elmo_lm.py",
    "splitting_elmo.py",
    "tokenization_elmo.py",
}
MOST_LINES = 3200
NOT_PUBLIC = re.compile(r"torch\._|torch\.ops|weakref|_thread|register_(at_fork|optimizer)|sys\.argv")
SAVED = {
    "base": ("AutoModel", lambda: small(ElmoModel)),
    "language model": ("AutoModelForPreTraining", lambda: small(ElmoForPreTraining, vocab_size=12)),
    "tagger": ("AutoModelForTokenClassification", lambda: small(ElmoForTokenClassification, labels=ENTITIES)),
}
every_model = pytest.mark.parametrize("name", SAVED)
# What a model does in the process that loads it: nothing outside of its own modules.
LOAD_AND_LOOK = """
import os, sys
registered, register_at_fork = [], os.register_at_fork
def recording(**functions):
    registered.append(sys._getframe(1).f_globals.get("__name__", ""))
    register_at_fork(**functions)
os.register_at_fork = recording

import torch, transformers
from torch.optim import optimizer
from transformers.pipelines import PIPELINE_REGISTRY

def look():
    return {
        "Trainer": dict(vars(transformers.Trainer)),
        "pipelines": {task: dict(parts) for task, parts in PIPELINE_REGISTRY.supported_tasks.items()},
        "optimizer hooks": [
            dict(hooks) for name, hooks in vars(optimizer).items() if name.startswith("_global_optimizer")
        ],
        "hooks of optimizers": dict(vars(torch.optim.Optimizer)),
        "threads": torch.get_num_threads(),
        "threads between operators": torch.get_num_interop_threads(),
        "arguments": list(sys.argv),
    }

before = look()
assert before["pipelines"] and len(before["optimizer hooks"]) == 2
model = getattr(transformers, auto_class).from_pretrained(folder, trust_remote_code=True).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
assert type(model).__module__.startswith("transformers_modules.")
batch = tokenizer(["It rains .", "Yes"], padding=True, return_tensors="pt")
with torch.no_grad():
    model.base_model(**batch)
model.train().base_model(**batch).last_hidden_state.sum().backward()
torch.optim.SGD(model.parameters(), lr=0.1).step()
after = look()
changed = [name for name in before if before[name] != after[name]]
assert not changed, changed
ours = [name for name in registered if "transformers_modules" in name]
assert not ours, ours
print(sorted({name.rpartition(".")[2] for name in sys.modules if "_elmo" in name and "transformers_modules" in name}))
"""


@pytest.fixture(autouse=True)
def six_files(root):
    if not all((root / "elmo_hf/model" / name).exists() for name in FILES):
        pytest.skip("elmo_hf/model has not been merged into six files")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A function that gives the folder of a saved model with its tokenizer."""
    done = {}

    def folder(name):
        if name not in done:
            done[name] = tmp_path_factory.mktemp("saved") / name.replace(" ", "_")
            SAVED[name][1]().save_pretrained(done[name])
            ElmoTokenizer().save_pretrained(done[name])
        return done[name]

    return folder


@every_model
def test_six_files_at_most(name, saved):
    files = list(saved(name).glob("**/*.py"))
    assert {path.name for path in files} <= FILES
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    assert 0 < lines <= MOST_LINES


@every_model
def test_what_is_saved_is_what_is_here(name, saved, root):
    for path in saved(name).glob("*.py"):
        assert path.read_bytes() == (root / "elmo_hf/model" / path.name).read_bytes()


def test_public_interfaces_only(root):
    actual = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted((root / "elmo_hf/model").glob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NOT_PUBLIC.search(line)
    ]
    assert actual == []


# Three linear heads by remote code, and what they compute for the inputs that are saved beside them.
RUN_HEADS = """
import torch
from transformers.dynamic_module_utils import get_class_from_dynamic_module
for name in names.split():
    model_class = get_class_from_dynamic_module(f"modeling_elmo_heads.{name}", f"{folder}/{name}")
    output = model_class.from_pretrained(f"{folder}/{name}").eval()(**torch.load(f"{folder}/{name}/batch.pt"))
    torch.save(list(output.to_tuple()), f"{folder}/{name}/outputs.pt")
print("done")
"""


def test_linear_heads_without_the_package(tmp_path):
    pairs = ElmoTokenizer()(["Who ?", "Where ?"], ["Ann lives here", "In Rome ."], padding=True, return_tensors="pt")
    single = ElmoTokenizer()(["It rains .", "Yes"], padding=True, return_tensors="pt")
    heads = {
        ElmoForTokenClassification: ({"labels": ENTITIES}, single),
        ElmoForSequenceClassification: ({"num_labels": 3}, single),
        ElmoForQuestionAnswering: ({}, pairs),
    }
    expected = {}
    for model_class, (settings, batch) in heads.items():
        model = small(model_class, **settings).eval()
        name = model_class.__name__
        model.save_pretrained(tmp_path / name)
        torch.save(dict(batch), tmp_path / name / "batch.pt")
        with torch.no_grad():
            expected[name] = list(model(**batch).to_tuple())
    env = {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules")}
    run_python(RUN_HEADS, env, folder=str(tmp_path), names=" ".join(expected))
    for name, outputs in expected.items():
        actual = torch.load(tmp_path / name / "outputs.pt")
        torch.testing.assert_close([x.detach() for x in actual], outputs, atol=1e-5, rtol=1e-5)


@every_model
def test_nothing_outside_of_its_modules_changes(name, saved, tmp_path):
    env = {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules")}
    printed = run_python(LOAD_AND_LOOK, env, folder=str(saved(name)), auto_class=SAVED[name][0])
    assert "modeling_elmo" in printed
