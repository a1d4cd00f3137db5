"""Low-rank adapters of PEFT, as the README sets them up, on a biLM."""

import pytest
import torch

from elmo_hf import ElmoForTokenClassification, ElmoTokenizer

peft = pytest.importorskip("peft", reason="peft is not installed: pip install peft")

MATRICES = ["carry", "transform", "projection"]
LSTM_WEIGHTS = ["weight_input", "weight_recurrent", "weight_projection"]


@pytest.fixture
def batch():
    return ElmoTokenizer("whitespace")(["Ann lives in Rome", "Yes"], padding=True, return_tensors="pt")


@pytest.fixture
def adapted(small_config):
    torch.manual_seed(0)
    small_config.num_labels = 3
    settings = peft.LoraConfig(
        task_type="TOKEN_CLS",
        r=2,
        target_modules=MATRICES,
        target_parameters=LSTM_WEIGHTS,
        modules_to_save=["scalar_mix", "classifier"],
    )
    return peft.get_peft_model(ElmoForTokenClassification(small_config), settings)


# PEFT asks transformers by a name that transformers is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")


def test_the_guide_shows_these_settings(root):
    guide = (root / "docs/guides/fine-tune.md").read_text(encoding="utf-8")
    for name, value in (("target_modules", MATRICES), ("target_parameters", LSTM_WEIGHTS)):
        assert f"{name}={value}".replace("'", '"') in guide


def test_adapters_are_put_on_every_matrix_of_the_bilm_and_learn(adapted, batch):
    trained = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    # One adapter of two factors for each highway gate, projection and matrix of an LSTM; mix and head whole.
    matrices = sum(
        name.rsplit(".", 2)[-2] in MATRICES if name.endswith(".weight") else name.split(".")[-1] in LSTM_WEIGHTS
        for name, _ in ElmoForTokenClassification(adapted.base_model.model.config).named_parameters()
    )
    assert sum("lora_A" in name for name in trained) == sum("lora_B" in name for name in trained) == matrices > 0
    assert any("scalar_mix.modules_to_save" in name for name in trained)

    labels = torch.zeros(batch["input_ids"].shape[:2], dtype=torch.long)
    before = adapted(**batch, labels=labels).loss
    optimizer = torch.optim.SGD((p for p in adapted.parameters() if p.requires_grad), lr=0.05)
    for _ in range(5):
        loss = adapted(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < before
    still = [name for name, p in adapted.named_parameters() if "lora_B" in name and not p.detach().any()]
    assert still == []


def test_adapted_and_merged_models_say_the_same(adapted, batch):
    """In use the engine has ways of its own; none may go past the adapters."""
    with torch.no_grad():
        plain = adapted.eval()(**batch).logits
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, 0.3)
        changed = adapted(**batch).logits
        merged = adapted.merge_and_unload().eval()(**batch).logits
    assert (changed - plain).abs().max() > 1e-3
    torch.testing.assert_close(changed, merged, atol=1e-5, rtol=1e-4)
