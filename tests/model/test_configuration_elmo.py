"""ElmoConfig: what it refuses, what it saves."""

import json

import pytest
from huggingface_hub.errors import StrictDataclassError

from elmo_hf import ElmoConfig
from elmo_hf.model.configuration_elmo import AUTO_MAP


@pytest.mark.parametrize(
    "fields, sentence",
    [
        ({"cell_size": 100}, r"Invalid `cell_size`: 100. Expected at least `projection_size` \(512\)"),
        ({"cell_size": 0}, "Invalid `cell_size`: 0. Expected an integer of at least 1"),
        ({"num_hidden_layers": 0}, "Invalid `num_hidden_layers`: 0"),
        ({"num_highway_layers": -1}, "Invalid `num_highway_layers`: -1. Expected an integer of at least 0"),
        ({"cell_clip": 0.0}, "Invalid `cell_clip`: 0.0. Expected a number above 0, or None"),
        ({"projection_clip": -1}, "Invalid `projection_clip`: -1. Expected a number above 0"),
        ({"dropout": 1}, "Invalid `dropout`: 1. Expected a probability from 0 to below 1"),
        ({"mix_l2": -0.1}, "Invalid `mix_l2`: -0.1. Expected a number of at least 0"),
        ({"mix": "best"}, "Invalid `mix`: 'best'. Expected 'learned', 'average', 'top', a layer's number from 0 to 2"),
        ({"mix": 3}, "Invalid `mix`: 3. Expected"),
        ({"mix": [1, 2]}, r"Invalid `mix`: \[1, 2\]. Expected .* or 3 fixed weights"),
        ({"mix": [0, 0, 0]}, "not all 0"),
        ({"mix": True}, "mix"),
        ({"mix_layer_norm": "layer"}, "mix_layer_norm"),
        ({"character_cnn_filters": []}, r"Invalid `character_cnn_filters`: \[\]. Expected a list of pairs"),
        ({"character_cnn_filters": [[1, 2], [3]]}, "Invalid `character_cnn_filters`: "),
        ({"character_cnn_filters": [[0, 2]]}, "Invalid `character_cnn_filters`: "),
        ({"character_cnn_activation": "gelu"}, "character_cnn_activation"),
        (
            {"max_characters_per_token": 6},
            r"Invalid `max_characters_per_token`: 6. Expected .* the widest filter \(7\)",
        ),
        ({"character_vocab_size": 261}, "Invalid `character_vocab_size`: 261. Expected 262"),
        ({"word_input": True}, "Invalid `vocab_size`: 0. Expected at least 1 with `word_input=True`"),
        (
            {"freeze_bilm": ["layer_3"]},
            "Expected True, False, None, or a list of parts out of token_encoder, layer_1, layer_2",
        ),
        ({"projection_size": "512"}, "projection_size"),
    ],
)
def test_what_is_refused(fields, sentence):
    with pytest.raises(StrictDataclassError, match=sentence):
        ElmoConfig(**fields)


def test_a_saved_config_equals_the_one_in_memory(tmp_path):
    config = ElmoConfig(character_cnn_filters=((1, 4), (3, 5)), mix=(0.5, 0.25, 0.25), freeze_bilm=("layer_1",))
    config.save_pretrained(tmp_path)
    loaded = ElmoConfig.from_pretrained(tmp_path)
    assert loaded.to_dict() == {**config.to_dict(), "transformers_version": loaded.transformers_version}
    assert loaded.character_cnn_filters == [[1, 4], [3, 5]] and loaded.hidden_size == 1024


def test_the_auto_map_is_always_complete(tmp_path):
    config = ElmoConfig(auto_map={"AutoModel": "elsewhere.Other", "AutoModelForSpeech": "mine.Speech"})
    assert config.auto_map == {**AUTO_MAP, "AutoModelForSpeech": "mine.Speech"}
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["auto_map"] == config.auto_map


def test_sizes_of_one_direction():
    config = ElmoConfig(bidirectional=False)
    assert (config.num_directions, config.hidden_size) == (1, 512)
    assert ElmoConfig(word_input=True, vocab_size=10).boundary_ids == [1, 2]


SIZES = ["character_embedding_dim", "projection_size", "cell_size", "vocab_size", "max_characters_per_token"]


@pytest.mark.parametrize("name", SIZES)
def test_sizes_beyond_64_bits_do_not_reach_torch(name):
    with pytest.raises(StrictDataclassError, match=f"Invalid `{name}`: {2**63}. Expected at most 10,000,000"):
        ElmoConfig(**{name: 2**63})
    with pytest.raises(StrictDataclassError, match="Invalid `character_cnn_filters`: .* from 1 to 10,000,000"):
        ElmoConfig(character_cnn_filters=[[1, 2**63]])


@pytest.mark.parametrize("name", ["num_hidden_layers", "num_highway_layers"])
def test_a_damaged_number_of_layers_builds_nothing(name):
    with pytest.raises(Exception, match=f"Invalid `{name}`: 2147483648. Expected at most 1,000"):
        ElmoConfig(**{name: 2**31})
