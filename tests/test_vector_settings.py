"""Every setting of the configuration is listed as changing vectors or not, and the lists are right."""

import pytest
import torch
from small_models import small

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer
from elmo_hf.embedding.shard_writer import fingerprint
from elmo_hf.vector_settings import LAYER_SETTINGS, MIX_SETTINGS, vector_settings

# Of the language model's softmax, of training, of heads, and of what marks a position as a boundary.
WITHOUT_EFFECT = {
    "boundary_ids",
    "card_data",
    "dropout",
    "freeze_bilm",
    "head",
    "keys_to_ignore_at_inference",
    "mix_dropout",
    "mix_l2",
    "num_sampled",
    "share_embedding_softmax",
    "vocabulary_sha256",
}


def test_every_setting_is_classified():
    """Each setting of ElmoConfig is in exactly one list."""
    with_effect = {*LAYER_SETTINGS, *MIX_SETTINGS}
    assert with_effect.isdisjoint(WITHOUT_EFFECT)
    assert with_effect | WITHOUT_EFFECT == set(ElmoConfig.__annotations__)


@pytest.mark.parametrize("name", ["dropout", "mix_l2", "mix_dropout"])
def test_settings_without_effect(name):
    vectors = []
    for value in (0.0, 0.5):
        model, tokenizer = small(ElmoModel, **{name: value}), ElmoTokenizer("whitespace")
        vectors.append(torch.from_numpy(ElmoEmbedder(model, tokenizer).encode("a b")))
    assert torch.equal(*vectors)


def test_stores_keep_their_fingerprint():
    """A store that was begun by an earlier version is resumed only if its fingerprint stays the same."""
    expected = "4836827f569671ce22bff83afbc4e810"
    config = ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8, num_labels=5)
    model = ElmoModel(config)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    assert fingerprint(model, ElmoTokenizer("whitespace")) == expected
    config.mix = "average"
    assert fingerprint(model, ElmoTokenizer("whitespace")) != expected
    assert vector_settings(config, mix=False) == vector_settings(ElmoModel(config).config, mix=False)
