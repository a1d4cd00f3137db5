"""The model against the plain NumPy statement of the same formulas, on configurations that nobody chose by hand."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_bilm import ReferenceBilm, scalar_mix
from torch_bilm import TorchBilm

from elmo_hf import ElmoConfig, ElmoModel, ElmoScalarMix
from elmo_hf.conversion import options_from_config, weight_map

PROPERTY = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True)

clips = st.sampled_from([None, 0.05, 0.5, 3.0])


@st.composite
def configs(draw):
    """Any configuration of small sizes: F below, at and above P, H at and above P, odd and even widths."""
    projection = draw(st.integers(1, 6))
    fields = {
        "projection_size": projection,
        "cell_size": projection + draw(st.integers(0, 5)),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "cell_clip": draw(clips),
        "projection_clip": draw(clips),
        "use_skip_connections": draw(st.booleans()),
        "bidirectional": draw(st.booleans()),
    }
    if draw(st.integers(0, 5)) == 0:
        return ElmoConfig(word_input=True, vocab_size=draw(st.integers(1, 9)), **fields)
    pairs = st.tuples(st.integers(1, 7), st.integers(1, 4))
    return ElmoConfig(
        character_embedding_dim=draw(st.integers(1, 5)),
        character_cnn_filters=draw(st.lists(pairs, min_size=1, max_size=4)),
        character_cnn_activation=draw(st.sampled_from(["relu", "tanh"])),
        num_highway_layers=draw(st.integers(0, 2)),
        max_characters_per_token=draw(st.integers(7, 20)),
        **fields,
    )


def random_model(config, seed):
    """Weights so large that gates saturate and clips bind."""
    generator = torch.Generator().manual_seed(seed)
    model = ElmoModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embedding" in name:
                parameter[1:].uniform_(-1, 1, generator=generator)
            elif "scalar_mix" not in name:
                parameter.uniform_(-1, 1, generator=generator)
    return model


def original_arrays(model):
    parameters = {name: value.double().numpy() for name, value in model.state_dict().items()}
    return {
        entry.dataset: entry.form.to_dataset(*(parameters[name] for name in entry.parameters))
        for entry in weight_map(model.config)
    }


def random_rows(config, random, tokens):
    if config.word_input:
        return list(random.integers(0, config.vocab_size + 1, tokens))
    return list(random.integers(0, 262, (tokens, config.max_characters_per_token)))


@pytest.mark.parametrize("dtype, bound", [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@PROPERTY
@given(config=configs(), seed=st.integers(0, 2**31), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_layers_and_states(dtype, bound, config, seed, lengths):
    model, random = random_model(config, seed), np.random.default_rng(seed)
    sentences = [random_rows(config, random, tokens) for tokens in lengths]
    # Position 0 of a row decides whether a token is there.
    for rows in sentences:
        for k, row in enumerate(rows):
            rows[k] = max(row, 1) if config.word_input else np.concatenate([[259], row[1:]])
    reference = ReferenceBilm(options_from_config(config), original_arrays(model))
    ours = TorchBilm(model.to(dtype))
    starts = None
    for _ in range(2):  # from zeros, then from the states that this came to
        layers, states = ours(sentences, starts)
        expected, expected_states = reference(sentences, starts)
        for first, other in zip(layers, expected, strict=True):
            assert np.abs(first - other).max() <= bound * max(1, np.abs(other).max())
        for first, other in zip(_leaves(states), _leaves(expected_states), strict=True):
            assert np.abs(first - other).max() <= bound * max(1, np.abs(other).max())
        starts = expected_states


@PROPERTY
@given(
    seed=st.integers(0, 2**31),
    lengths=st.lists(st.integers(3, 7), min_size=1, max_size=4),
    layer_norm=st.sampled_from([None, "sentence", "batch"]),
)
def test_mixes(seed, lengths, layer_norm):
    random, longest = np.random.default_rng(seed), max(lengths)
    weights, gamma = random.normal(size=3), random.normal()
    layers = [random.normal(size=(3, length, 4)) for length in lengths]
    words = [np.array([False] + [True] * (length - 2) + [False]) for length in lengths]
    expected = scalar_mix(layers, weights, gamma, layer_norm, words)

    mix = ElmoScalarMix(3, layer_norm=layer_norm).double()
    with torch.no_grad():
        mix.weight.copy_(torch.tensor(weights))
        mix.gamma.fill_(gamma)
    padded = torch.stack([torch.tensor(np.pad(x, ((0, 0), (0, longest - x.shape[1]), (0, 0)))) for x in layers], 1)
    mask = torch.tensor([[position < length for position in range(longest)] for length in lengths])
    word_mask = torch.tensor([[0 < position < length - 1 for position in range(longest)] for length in lengths])
    mixed = mix(list(padded), mask, word_mask).detach().numpy()
    for row, other in enumerate(expected):
        assert np.abs(mixed[row, : len(other)] - other).max() <= 1e-10 * max(1, np.abs(other).max())
        assert not mixed[row, len(other) :].any()


def _leaves(states):
    return [part for state in states for direction in state for layer in direction for part in layer]
