"""Names of models: bundled ones, folders, repositories; a name that cannot be resolved is an error at once."""

import huggingface_hub.constants
import pytest
import torch
from small_models import small

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoForPreTraining, ElmoModel, ElmoScorer, ElmoTokenizer, bundled_model
from elmo_hf.analysis import LayerReader, mix_weights
from elmo_hf.hub import model_names
from elmo_hf.hub.model_names import bundled_names, resolve_model

LOADERS = [
    ElmoConfig.from_pretrained,
    ElmoModel.from_pretrained,
    ElmoForPreTraining.from_pretrained,
    ElmoTokenizer.from_pretrained,
    ElmoEmbedder.from_pretrained,
    ElmoScorer.from_pretrained,
    LayerReader.from_pretrained,
    lambda name: mix_weights([name]),
]


@pytest.fixture
def unreachable(monkeypatch, tmp_path):
    """The Hub at a port where nobody listens, and an empty cache."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    model_names._is_reachable.cache_clear()
    yield tmp_path / "cache"
    model_names._is_reachable.cache_clear()


@pytest.mark.parametrize("load", LOADERS)
def test_bundled_models_have_their_name_everywhere(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load("english")


def test_every_folder_with_a_model_is_a_bundled_model(tmp_path, monkeypatch):
    monkeypatch.setattr(model_names, "BUNDLED", tmp_path)
    ElmoConfig().save_pretrained(tmp_path / "english-pos")
    (tmp_path / "measured").mkdir()
    assert bundled_names() == ["english-pos"]
    assert resolve_model("english-pos") == bundled_model("english-pos") == str(tmp_path / "english-pos")


@pytest.mark.parametrize("load", LOADERS)
def test_a_mistyped_name_is_an_error_at_once(load, tmp_path, monkeypatch):
    (tmp_path / "my-elmo").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        OSError, match=r"^my-elno does not exist. Expected a folder, .* Did you mean the folder my-elmo\?$"
    ):
        load("my-elno")
    with pytest.raises(OSError, match=r"^engish does not exist. .* Did you mean english\?$"):
        load("engish")
    with pytest.raises(OSError, match=r"my-elno does not exist. .* Did you mean the folder .*my-elmo\?$"):
        load(tmp_path / "my-elno")


@pytest.mark.parametrize("load", LOADERS)
def test_a_repository_without_a_connection(load, unreachable):
    requests = []
    session = huggingface_hub.get_session()
    session.event_hooks["request"].append(lambda request: requests.append(request.method))
    try:
        with pytest.raises(OSError, match=r"^me/my-elmo is not a folder, .* the Hub \(http://127.0.0.1:9\) cannot be"):
            load("me/my-elmo")
    finally:
        session.event_hooks["request"].pop()
    assert requests == ["HEAD"]  # nothing was retried


def test_a_repository_in_the_cache_needs_no_connection(unreachable):
    snapshot = unreachable / "models--me--my-elmo" / "snapshots" / ("0" * 40)
    (unreachable / "models--me--my-elmo" / "refs").mkdir(parents=True)
    (unreachable / "models--me--my-elmo" / "refs" / "main").write_text("0" * 40)
    model = small(ElmoModel)
    model.save_pretrained(snapshot)
    loaded = ElmoModel.from_pretrained("me/my-elmo")
    assert torch.equal(loaded.bilm.forward_layers[0].bias, model.bilm.forward_layers[0].bias)


def test_offline_mode_is_named():
    with pytest.raises(OSError, match=r"me/my-elno is not a folder, is not in the cache, .*\(offline mode\)"):
        ElmoModel.from_pretrained("me/my-elno")
