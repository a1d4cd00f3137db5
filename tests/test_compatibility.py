"""Compatibility with version 1: its repositories, stores of vectors and run folders are read, or refused clearly.

tests/tools/make_pushed_by_v1.py wrote the files and describes them.
"""

import json
import shutil

import pytest
import torch
from fork_server import run_forked
from golden_files import TESTS
from remote import run_python
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForPreTraining, AutoModelForTokenClassification, AutoTokenizer

import elmo_hf
from elmo_hf import ElmoTokenizer, open_store

SAVED = TESTS / "fixtures" / "pushed_by_v1"
TEXTS = (SAVED / "stores/text.txt").read_text(encoding="utf-8").splitlines()
CLASSES = {
    "base": "ElmoModel",
    "language_model": "ElmoForPreTraining",
    "tagger": "ElmoForTokenClassification",
    "classifier": "ElmoForSequenceClassification",
    "crf_tagger": "ElmoForTokenClassification",
    "int8": "ElmoModel",
}
every_repository = pytest.mark.parametrize("name", CLASSES)
# In a process without the package, through the code of version 1 that stands in each repository.
LOAD = """
import torch, transformers
from safetensors.torch import save_file
for folder, auto_class, result in repositories:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    model = getattr(transformers, auto_class).from_pretrained(folder, trust_remote_code=True)
    base = transformers.AutoModel.from_pretrained(folder, trust_remote_code=True)
    assert all(type(loaded).__module__.startswith("transformers_modules.") for loaded in (tokenizer, model, base))
    words = {"return_lm_labels": True} if auto_class == "AutoModelForPreTraining" else {}
    batch = tokenizer(texts, padding=True, return_tensors="pt", **words)
    with torch.no_grad():
        output = model(**batch, **({"return_logits": True} if words else {}))
        vectors = base(batch["input_ids"], batch["attention_mask"], output_hidden_states=True)
    actual = {f"base.hidden_states.{k}": layer for k, layer in enumerate(vectors.hidden_states)}
    actual["base.last_hidden_state"] = vectors.last_hidden_state
    actual |= {f"model.{key}": value for key, value in output.items() if torch.is_tensor(value)}
    save_file({key: value.contiguous().clone() for key, value in actual.items()}, result)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A function that gives a repository as it was pushed: weights, configuration, tokenizer and all code."""
    folders = tmp_path_factory.mktemp("pushed")

    def folder(name):
        whole = folders / f"v1_{name}"
        if whole.exists():
            return whole
        shutil.copytree(SAVED / "repositories" / name, whole)
        shutil.copytree(SAVED / "repositories" / "code", whole, dirs_exist_ok=True)
        return whole

    return folder


def expected(name):
    return load_file(SAVED / "repositories" / f"{name}.expected.safetensors")


@torch.no_grad()
def vectors(model, tokenizer):
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    output = model(**batch, output_hidden_states=True)
    actual = {f"base.hidden_states.{number}": layer for number, layer in enumerate(output.hidden_states)}
    return {**actual, "base.last_hidden_state": output.last_hidden_state}


@torch.no_grad()
def answers(model, tokenizer):
    """The tensors that a model with something above the biLM returns for TEXTS."""
    if hasattr(model, "softmax"):
        output = model(
            **tokenizer(TEXTS, padding=True, return_tensors="pt", return_lm_labels=True), return_logits=True
        )
    else:
        output = model(**tokenizer(TEXTS, padding=True, return_tensors="pt"))
    return {f"model.{name}": value for name, value in output.items() if torch.is_tensor(value)}


def assert_as_expected(actual, name):
    of_version_1 = expected(name)
    reference = {key: of_version_1[key] for key in of_version_1 if not key.startswith("dequantized.")}
    assert set(reference) <= set(actual)
    for key, values in reference.items():
        if name == "int8":
            assert_near_int8(actual[key], values, of_version_1[f"dequantized.{key}"])
        else:
            torch.testing.assert_close(actual[key], values, atol=1e-5, rtol=1e-5)


def assert_near_int8(actual, rounded_inputs, dequantized):
    """Version 1 had two ways to multiply by rounded weights; a machine may lack the instructions for one of them."""
    near = min((actual - rounded_inputs).abs().max(), (actual - dequantized).abs().max())
    assert near <= 0.02
    cosine = torch.nn.functional.cosine_similarity(actual.flatten(), dequantized.flatten(), dim=0)
    assert cosine > 0.999


@every_repository
def test_with_the_classes_of_the_package(name, repository):
    folder = repository(name)
    tokenizer = ElmoTokenizer.from_pretrained(folder)
    model = getattr(elmo_hf, CLASSES[name]).from_pretrained(folder)
    actual = vectors(model.base_model, tokenizer)
    if CLASSES[name] != "ElmoModel":
        actual |= answers(model, tokenizer)
    assert_as_expected(actual, name)


@every_repository
def test_with_auto_classes(name, repository):
    """AutoModel gives the biLM of any repository; nobody is asked to trust its code."""
    folder = repository(name)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    assert type(model) is elmo_hf.ElmoModel and type(tokenizer) is ElmoTokenizer
    of_version_1 = expected(name)
    for key, values in vectors(model, tokenizer).items():
        if name == "int8":
            assert_near_int8(values, of_version_1[key], of_version_1[f"dequantized.{key}"])
        else:
            torch.testing.assert_close(values, of_version_1[key], atol=1e-5, rtol=1e-5)


def test_int8_without_kernels_multiplies_by_the_rounded_weights(repository, tmp_path):
    code = """
import torch
from safetensors.torch import save_file
from elmo_hf import ElmoModel, ElmoTokenizer
batch = ElmoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
with torch.no_grad():
    save_file({"actual": ElmoModel.from_pretrained(folder)(**batch).last_hidden_state}, result)
"""
    result = tmp_path / "result.safetensors"
    # The second is how version 1 names the same.
    env = {"ELMO_HF_KERNELS": "0", "ELMO_HF_ENGINE": "reference"}
    run_python(code, env, with_package=True, folder=str(repository("int8")), texts=TEXTS, result=str(result))
    reference = expected("int8")["dequantized.base.last_hidden_state"]
    torch.testing.assert_close(load_file(result)["actual"], reference, atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def without_package(repository, tmp_path_factory):
    """The outputs of a process without the package for each repository, by name; one process reads all of them."""
    results = tmp_path_factory.mktemp("results")
    repositories = [
        (
            str(repository(name)),
            f"AutoModel{kind.removeprefix('Elmo').removeprefix('Model')}",
            str(results / f"{name}.safetensors"),
        )
        for name, kind in CLASSES.items()
    ]
    env = {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(results / "modules")}
    run_python(LOAD, env, repositories=repositories, texts=TEXTS)
    return {name: load_file(results / f"{name}.safetensors") for name in CLASSES}


@every_repository
def test_through_its_own_files_without_the_package(name, without_package):
    assert_as_expected(without_package[name], name)


@pytest.mark.parametrize("name", ["language_model", "tagger", "crf_tagger"])
def test_saved_again_it_is_the_same(name, repository, tmp_path):
    """A model of version 1 that is saved today loads as any other model."""
    folder, again = repository(name), tmp_path / "again"
    auto_class = AutoModelForPreTraining if name == "language_model" else AutoModelForTokenClassification
    auto_class.from_pretrained(folder).save_pretrained(again)
    AutoTokenizer.from_pretrained(folder).save_pretrained(again)
    model, tokenizer = auto_class.from_pretrained(again), AutoTokenizer.from_pretrained(again)
    assert_as_expected(vectors(model.base_model, tokenizer) | answers(model, tokenizer), name)


# Stores of vectors


@pytest.mark.parametrize("format", ["safetensors", "parquet"])
def test_a_store_is_read(format):
    store = open_store(SAVED / "stores" / format)
    assert len(store) == len(TEXTS) and store.words(1) == ["Yes"] and store.text(2) == TEXTS[2]
    layers = torch.stack([expected("base")[f"base.hidden_states.{number}"] for number in range(3)])
    for number, actual in enumerate(store):
        words = store.words(number)
        actual = torch.tensor(actual)
        assert actual.shape == (3, len(words), 8)
        # Position 0 is <S>.
        torch.testing.assert_close(actual, layers[:, number, 1 : 1 + len(words)], atol=1e-5, rtol=1e-5)


# Runs


def one_sentence(text):
    """Whether a command refused with a message rather than a traceback."""
    return "Traceback" not in text and text.strip().endswith(".")


def test_a_killed_run_is_resumed_or_refused(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(SAVED / "run", folder)
    (checkpoint,) = folder.glob("model.run/checkpoint-*")
    shutil.copytree(SAVED / "repositories" / "code", checkpoint, dirs_exist_ok=True)
    command = json.loads((folder / "command.json").read_text())
    done = run_forked(["-m", "elmo_hf.cli", *command, "--resume"], cwd=folder)
    if done.returncode:
        assert one_sentence(done.stderr) and "model" in done.stderr, done.stderr
        assert not (folder / "model").exists() and checkpoint.exists()
        return
    whole, resumed = load_file(folder / "whole_run.safetensors"), load_file(folder / "model/model.safetensors")
    assert set(whole) == set(resumed)
    for key, values in whole.items():
        # Dropout draws its masks for packed tokens now: the weights are near those of the older program, not equal.
        torch.testing.assert_close(resumed[key], values, atol=3e-2, rtol=0)
