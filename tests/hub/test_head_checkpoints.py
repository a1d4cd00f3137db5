"""Checkpoints of a head alone: what they hold, how the biLM is found, checked and shared."""

import copy
import gc
import json
import pickle
import shutil

import pytest
import torch
from local_hub import LocalHub
from remote import run_python
from safetensors.torch import load_file
from small_models import ENTITIES, SIZES, small
from transformers import AutoModelForTokenClassification, pipeline

from elmo_hf import (
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
    bundled_model,
)
from elmo_hf.hub import head_checkpoints
from elmo_hf.hub.head_checkpoints import bilm_fingerprint

HEAD = {"type": "bilstm-crf", "size": 4, "layers": 1}


@pytest.fixture
def folders(tmp_path):
    """A base, and a tagger on it, saved without the biLM, both in one folder."""
    small(ElmoForPreTraining, vocab_size=11).save_pretrained(tmp_path / "base")
    ElmoTokenizer().save_pretrained(tmp_path / "base")
    labels = {"id2label": dict(enumerate(ENTITIES)), "label2id": {name: n for n, name in enumerate(ENTITIES)}}
    torch.manual_seed(1)
    model = ElmoForTokenClassification.from_pretrained(tmp_path / "base", head=HEAD, **labels)
    model.elmo.scalar_mix.weight.data.uniform_()
    model.save_pretrained(tmp_path / "tagger", head_only=True)
    ElmoTokenizer().save_pretrained(tmp_path / "tagger")
    return tmp_path, model.eval()


def logits(model):
    batch = ElmoTokenizer()(["Ann left New York .", "Yes"], padding=True, return_tensors="pt")
    with torch.no_grad():
        return model(**batch).logits


def weight(model):
    return model.elmo.bilm.forward_layers[0].weight_input


def test_it_holds_the_head_and_computes_the_same(folders, capfd):
    folder, model = folders
    tensors = load_file(folder / "tagger" / "model.safetensors")
    assert set(tensors) == {
        name for name in model.state_dict() if not name.startswith(("elmo.bilm", "elmo.token_encoder"))
    }
    base = json.loads((folder / "tagger" / "config.json").read_text())["base_model"]
    assert base == {"name": "../base", "fingerprint": bilm_fingerprint(model)}
    capfd.readouterr()
    for model_class in (ElmoForTokenClassification, AutoModelForTokenClassification):
        loaded = model_class.from_pretrained(folder / "tagger")
        torch.testing.assert_close(logits(loaded), logits(model), rtol=0, atol=0)
    assert "MISSING" not in "".join(capfd.readouterr())
    tag = pipeline("token-classification", model=str(folder / "tagger"))
    assert tag("Ann left New York.") is not None
    # A base model takes the biLM and the mix of the tagger.
    torch.testing.assert_close(
        ElmoModel.from_pretrained(folder / "tagger").bilm.forward_layers[0].bias,
        model.elmo.bilm.forward_layers[0].bias,
    )


def test_both_folders_may_move_together(folders, tmp_path_factory):
    folder, model = folders
    elsewhere = tmp_path_factory.mktemp("moved") / "models"
    shutil.move(folder, elsewhere)
    torch.testing.assert_close(logits(ElmoForTokenClassification.from_pretrained(elsewhere / "tagger")), logits(model))


def test_models_share_the_weights_of_their_bilm(folders):
    folder, model = folders
    first, second = (ElmoForTokenClassification.from_pretrained(folder / "tagger") for _ in range(2))
    assert weight(first).data_ptr() == weight(second).data_ptr() != weight(model).data_ptr()
    assert first.classifier.linear.weight.data_ptr() != second.classifier.linear.weight.data_ptr()
    # Other heads on the same base share it too, and other types do not.
    other = small(ElmoForSequenceClassification, num_labels=2)
    other.base_model.load_state_dict(model.elmo.state_dict())
    other.save_pretrained(folder / "classifier", head_only=True, base=folder / "base")
    third = ElmoForSequenceClassification.from_pretrained(folder / "classifier")
    assert weight(third).data_ptr() == weight(first).data_ptr()
    half = ElmoForTokenClassification.from_pretrained(folder / "tagger", dtype=torch.bfloat16)
    assert weight(half).dtype == torch.bfloat16
    copied = copy.deepcopy(first)
    assert weight(copied).data_ptr() != weight(first).data_ptr()
    torch.testing.assert_close(logits(pickle.loads(pickle.dumps(first))), logits(model))
    # A model that trains its biLM gets weights of its own.
    second.freeze(False)
    assert weight(second).requires_grad and weight(second).data_ptr() != weight(first).data_ptr()
    fourth = ElmoForTokenClassification.from_pretrained(folder / "tagger", freeze_bilm=False)
    with torch.no_grad():
        weight(fourth).add_(1)
        weight(second).add_(1)
    torch.testing.assert_close(logits(first), logits(model), rtol=0, atol=0)


def test_changed_weights_are_not_shared_and_unused_weights_are_freed(folders):
    folder, model = folders
    first = ElmoForTokenClassification.from_pretrained(folder / "tagger")
    weight(first).data.add_(1)
    torch.testing.assert_close(logits(ElmoForTokenClassification.from_pretrained(folder / "tagger")), logits(model))
    fingerprint = bilm_fingerprint(model)
    del first
    gc.collect()
    assert (fingerprint, torch.float32) not in head_checkpoints._shared


def test_another_base_is_refused_in_a_sentence(folders):
    folder, _ = folders
    torch.manual_seed(5)
    changed = small(ElmoModel)
    changed.bilm.forward_layers[0].bias.data.add_(0.5)
    changed.save_pretrained(folder / "base")
    with pytest.raises(ValueError, match=r"tagger holds a head alone, trained on another biLM than that of ../base: "):
        ElmoForTokenClassification.from_pretrained(folder / "tagger")
    small(ElmoModel, cell_clip=1.0).save_pretrained(folder / "base")
    with pytest.raises(ValueError, match="the fingerprints sha256:"):
        ElmoForTokenClassification.from_pretrained(folder / "tagger")
    shutil.rmtree(folder / "base")
    with pytest.raises(
        OSError, match=r"tagger holds a head alone. Its biLM is that of ../base, and there is no folder"
    ):
        ElmoForTokenClassification.from_pretrained(folder / "tagger")


@pytest.mark.parametrize("value", ["english", {"name": "english"}, {"name": 1, "fingerprint": "x"}])
def test_a_damaged_base_is_an_error(folders, value):
    folder, _ = folders
    config = json.loads((folder / "tagger" / "config.json").read_text())
    (folder / "tagger" / "config.json").write_text(json.dumps(config | {"base_model": value}))
    with pytest.raises(ValueError, match="Invalid `base_model` in the config.json of .*tagger: .* Expected a name"):
        ElmoForTokenClassification.from_pretrained(folder / "tagger")


def test_a_model_that_does_not_fit_its_base_is_not_saved_without_its_bilm(folders, tmp_path):
    folder, model = folders
    with pytest.raises(ValueError, match="Missing `base`: this model was not loaded from a checkpoint"):
        small(ElmoForTokenClassification, num_labels=2).save_pretrained(tmp_path / "new", head_only=True)
    model.freeze(False)
    weight(model).data.add_(0.5)
    with pytest.raises(ValueError, match="biLM of this model is not that of its base, ../base: it was trained"):
        model.save_pretrained(folder / "tuned", head_only=True)
    with pytest.raises(ValueError, match="Invalid `push_to_hub` with `head_only`"):
        model.save_pretrained(folder / "tuned", head_only=True, push_to_hub=True)
    assert not (folder / "tuned" / "model.safetensors").exists()


def test_it_is_saved_again_whole_or_without_its_bilm(folders, tmp_path_factory):
    folder, model = folders
    loaded = ElmoForTokenClassification.from_pretrained(folder / "tagger")
    loaded.save_pretrained(folder / "again", head_only=True)
    assert json.loads((folder / "again" / "config.json").read_text())["base_model"]["name"] == "../base"
    loaded.save_pretrained(folder / "whole")
    assert "base_model" not in json.loads((folder / "whole" / "config.json").read_text())
    shutil.rmtree(folder / "base")
    torch.testing.assert_close(logits(ElmoForTokenClassification.from_pretrained(folder / "whole")), logits(model))


def test_a_bundled_base_is_saved_by_its_name(tmp_path):
    model = ElmoForTokenClassification.from_pretrained("english", num_labels=2)
    model.save_pretrained(tmp_path / "head", head_only=True)
    assert json.loads((tmp_path / "head" / "config.json").read_text())["base_model"]["name"] == "english"
    assert (tmp_path / "head" / "model.safetensors").stat().st_size < 10_000
    loaded = ElmoForTokenClassification.from_pretrained(tmp_path / "head")
    torch.testing.assert_close(logits(loaded), logits(model.eval()), rtol=0, atol=0)
    assert bilm_fingerprint(loaded) == bilm_fingerprint(ElmoModel.from_pretrained(bundled_model()))


def test_the_fingerprint_is_of_weights_and_settings():
    reference = bilm_fingerprint(small(ElmoModel))
    assert bilm_fingerprint(small(ElmoModel, mix="top", num_labels=7, vocab_size=5)) == reference
    assert bilm_fingerprint(small(ElmoModel, use_skip_connections=False)) != reference
    model = small(ElmoModel)
    model.token_encoder.convolutions[0].bias.data[0] += 1e-3
    assert bilm_fingerprint(model) != reference
    assert SIZES["cell_size"] == 16


PUSH = """
from huggingface_hub import HfApi
from elmo_hf import ElmoForTokenClassification, ElmoModel
ElmoModel.from_pretrained(folder + "/base").push_to_hub(base)
model = ElmoForTokenClassification.from_pretrained(base, num_labels=2)
model.save_pretrained(folder + "/on-the-hub", head_only=True)
HfApi().create_repo(repo, exist_ok=True)
HfApi().upload_folder(folder_path=folder + "/on-the-hub", repo_id=repo)
loaded = ElmoForTokenClassification.from_pretrained(repo)
import torch
for name, value in model.state_dict().items():
    torch.testing.assert_close(loaded.state_dict()[name], value, rtol=0, atol=0)
print(model.config.num_labels, "same")
"""


@pytest.mark.slow
def test_base_and_head_may_be_repositories(folders):
    folder, _ = folders
    with LocalHub() as hub:
        run_python(PUSH, hub.env, with_package=True, folder=str(folder), base="tester/base", repo="tester/head")
    config = json.loads((folder / "on-the-hub" / "config.json").read_text())
    assert config["base_model"]["name"] == "tester/base"
