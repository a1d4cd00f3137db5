"""Push, load, save again: through a real Hub client on loopback, with the package and without it."""

import json

import pytest
import torch
from golden_files import GOLDEN
from local_hub import LocalHub
from remote import run_python

from elmo_hf import ElmoModel, ElmoTokenizer

REPO = "tester/small-elmo"
PUSH = """
from elmo_hf import ElmoModel, ElmoTokenizer
ElmoModel.from_pretrained(folder).push_to_hub(repo)
ElmoTokenizer.from_pretrained(folder).push_to_hub(repo)
"""
LOAD = """
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer
config = AutoConfig.from_pretrained(repo, trust_remote_code=trust)
tokenizer = AutoTokenizer.from_pretrained(repo, trust_remote_code=trust)
model = AutoModel.from_pretrained(repo, trust_remote_code=trust)
batch = tokenizer(sentences, padding=True, return_tensors="pt", is_split_into_words=True)
with torch.no_grad():
    output = model(**batch, output_hidden_states=True)
torch.save([output.last_hidden_state, *output.hidden_states], result)
print(type(config).__module__, type(tokenizer).__module__, type(model).__module__, tokenizer.splitting)
"""
SAVE_AGAIN = """
tokenizer.save_pretrained(folder)
model.save_pretrained(folder)
model.push_to_hub(second)
tokenizer.push_to_hub(second)
"""
SENTENCES = GOLDEN["plain"].sentences[:5]


@pytest.fixture(scope="module")
def hub():
    with LocalHub() as hub:
        yield hub


@pytest.fixture(scope="module")
def pushed(hub, converted):
    run_python(PUSH, hub.env, with_package=True, folder=str(converted(GOLDEN["plain"])), repo=REPO)
    return REPO


@pytest.fixture(scope="module")
def expected(converted):
    folder = converted(GOLDEN["plain"])
    model, tokenizer = ElmoModel.from_pretrained(folder), ElmoTokenizer.from_pretrained(folder)
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt", is_split_into_words=True)
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
    return [output.last_hidden_state, *output.hidden_states]


def load(hub, tmp_path, expected, code=LOAD, env=(), with_package=False, repo=REPO, **values):
    result = tmp_path / "result.pt"
    values = {"repo": repo, "sentences": SENTENCES, "result": str(result), "trust": not with_package, **values}
    printed = run_python(code, {**hub.env, **dict(env)}, with_package, **values)
    torch.testing.assert_close(torch.load(result), expected, atol=1e-6, rtol=0)
    return printed.split()


def test_with_the_package(hub, pushed, expected, tmp_path):
    modules = load(hub, tmp_path, expected, with_package=True)
    assert all(module.startswith("elmo_hf.") for module in modules[:3])


@pytest.mark.slow
def test_without_the_package_and_a_second_generation(hub, pushed, expected, tmp_path):
    second, folder = "tester/second", tmp_path / "saved"
    modules = load(hub, tmp_path, expected, LOAD + SAVE_AGAIN, second=second, folder=str(folder))
    assert all(module.startswith("transformers_modules.") for module in modules[:3])
    # What was saved from the remote-loaded model is as complete as the original, also for who has the package.
    for with_package in (False, True):
        load(hub, tmp_path, expected, repo=second, with_package=with_package)
        load(hub, tmp_path, expected, repo=str(folder), with_package=with_package)
    names = {name for name in hub.files(REPO) if name.endswith(".py")}
    assert names == {name for name in hub.files(second) if name.endswith(".py")}


def test_offline_from_the_cache(hub, pushed, expected, tmp_path):
    load(hub, tmp_path, expected)
    before = len(hub.log)
    load(hub, tmp_path, expected, env={"HF_HUB_OFFLINE": "1"})
    assert len(hub.log) == before


def test_what_the_repository_holds(hub, pushed, root):
    files = hub.files(REPO)
    assert not [name for name in files if name.endswith((".bin", ".pt", ".pth", ".pkl", ".pickle", ".h5", ".npz"))]
    assert {path.name for path in (root / "elmo_hf/model").glob("*_elmo*.py")} == {
        name for name in files if ".py" in name
    }
    assert (
        json.loads(files["tokenizer_config.json"])["auto_map"]["AutoTokenizer"][0] == "tokenization_elmo.ElmoTokenizer"
    )
    card = files["README.md"].decode()
    assert f'name = "{REPO}"' in card and "library_name: transformers" in card and "N18-1202" in card


def test_the_usage_on_the_card_runs(hub, pushed):
    card = hub.files(REPO)["README.md"].decode()
    code = card.split("```python\n")[1].split("```")[0]
    assert run_python(code, hub.env) == "torch.Size([2, 6, 12])\n"


def test_a_card_on_the_hub_is_kept(hub, converted):
    """Push, let a person write a card, push again; and a repository that the tokenizer's push opened."""
    code = """
from elmo_hf import ElmoModel, ElmoTokenizer
from huggingface_hub import HfApi
model, tokenizer = ElmoModel.from_pretrained(folder), ElmoTokenizer.from_pretrained(folder)
model.push_to_hub("tester/written")
card = b"---\\ntags: [mine]\\n---\\nMy own words."
HfApi().upload_file(path_or_fileobj=card, path_in_repo="README.md", repo_id="tester/written")
model.push_to_hub("tester/written")
tokenizer.push_to_hub("tester/tokenizer-first")
model.save_pretrained(saved, push_to_hub=True, repo_id="tester/tokenizer-first")
"""
    folder = converted(GOLDEN["plain"])
    run_python(code, hub.env, with_package=True, folder=str(folder), saved=str(folder.parent / "saved"))
    assert "My own words." in hub.files("tester/written")["README.md"].decode()
    assert "An ELMo: a deep bidirectional" in hub.files("tester/tokenizer-first")["README.md"].decode()
