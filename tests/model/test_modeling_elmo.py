"""The promises of ElmoModel: masks, states, mixes, freezing, inputs, names."""

import copy
import pickle

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoScalarMix,
    resize_states,
    strip_boundaries,
)
from elmo_hf.kernels import KERNELS

PROPERTY = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), derandomize=True)
# These weights make differences of rounding grow from token to token; the plain functions round in another order.
CLOSE = {"atol": 1e-5 if KERNELS else 5e-5, "rtol": 0}


def config_of(**fields):
    sizes = {"character_cnn_filters": [[1, 4], [2, 6]], "projection_size": 8, "cell_size": 12}
    return ElmoConfig(**{**sizes, "num_highway_layers": 1, **fields})


def model_of(**fields):
    torch.manual_seed(1)
    model = ElmoModel(config_of(**fields)).eval()
    with torch.no_grad():  # the initial distribution is so narrow that little happens
        for layer in [*model.bilm.forward_layers, *(model.bilm.backward_layers or [])]:
            for parameter in layer.parameters():
                parameter.mul_(3)
    return model


MODELS = [
    model_of(),
    model_of(num_hidden_layers=3, use_skip_connections=False, cell_clip=None, projection_clip=0.05),
    model_of(cell_size=8, bidirectional=False, mix_layer_norm="sentence"),
    model_of(mix=[0.5, 0, 2], character_cnn_activation="tanh", cell_clip=0.1),
]


def random_ids(generator, tokens, width=9):
    ids = torch.randint(1, 262, (tokens, width), generator=generator)
    ids[:, 0] = 259
    return ids


def run(model, rows, **kwargs):
    with torch.no_grad():
        return model(
            torch.stack(rows) if isinstance(rows, list) else rows, output_hidden_states=True, use_cache=True, **kwargs
        )


def spread(rows, places, length):
    """Rows (tokens, C) at the given places of a padded row of `length` positions, and the mask."""
    ids = torch.zeros(length, rows.shape[1], dtype=torch.long)
    ids[places] = rows
    mask = torch.zeros(length, dtype=torch.long)
    mask[places] = 1
    return ids, mask


# Same input, same output


@PROPERTY
@given(
    number=st.integers(0, len(MODELS) - 1),
    seed=st.integers(0, 2**31),
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    data=st.data(),
)
def test_batch_mates_and_padding_change_nothing(number, seed, lengths, data):
    """Each sentence alone equals itself in a batch, with padding left, right and in the middle."""
    model, generator = MODELS[number], torch.Generator().manual_seed(seed)
    longest = max(lengths) + data.draw(st.integers(0, 4))
    sentences = [random_ids(generator, length) for length in lengths]
    placed = []
    for sentence in sentences:
        positions = st.sets(st.integers(0, max(longest - 1, 0)), min_size=len(sentence), max_size=len(sentence))
        placed.append(spread(sentence, sorted(data.draw(positions)), longest))
    ids, mask = (torch.stack(part) for part in zip(*placed, strict=True))
    # What a masked position holds must not matter.
    ids = torch.where(mask[..., None].bool(), ids, torch.randint(1, 262, ids.shape, generator=generator))
    batch = run(model, ids, attention_mask=mask)
    for row, sentence in enumerate(sentences):
        local = mask[row].bool()
        for first in (batch.last_hidden_state, *batch.hidden_states):
            assert not first[row, ~local].any()
        if len(sentence):
            alone = run(model, [sentence])
            torch.testing.assert_close(batch.last_hidden_state[row, local], alone.last_hidden_state[0], **CLOSE)
            for first, other in zip(batch.hidden_states, alone.hidden_states, strict=True):
                torch.testing.assert_close(first[row, local], other[0], **CLOSE)
            for first, other in zip(batch.past_states, alone.past_states, strict=True):
                torch.testing.assert_close([part[row] for part in first], [part[0] for part in other], **CLOSE)


def test_the_mask_is_read_from_the_ids_when_not_given():
    rows = random_ids(torch.Generator().manual_seed(0), 4)
    ids, mask = spread(rows, [0, 1, 3, 5], 7)
    torch.testing.assert_close(run(MODELS[0], [ids]), run(MODELS[0], [ids], attention_mask=mask[None]), rtol=0, atol=0)


def test_narrow_rows_mean_that_the_rest_is_padding(small_model):
    ids = random_ids(torch.Generator().manual_seed(1), 3, width=6)
    full = torch.full((3, 50), 261)
    full[:, :6] = ids
    torch.testing.assert_close(run(small_model, [ids]), run(small_model, [full]), rtol=0, atol=0)


def test_layer_norm_over_the_batch_is_the_only_exception():
    model, generator = model_of(mix_layer_norm="batch"), torch.Generator().manual_seed(0)
    first, other = random_ids(generator, 5), random_ids(generator, 5)
    alone, together = run(model, [first]), run(model, [first, other])
    assert not torch.allclose(alone.last_hidden_state[0], together.last_hidden_state[0], atol=1e-3)
    torch.testing.assert_close(alone.hidden_states[1][0], together.hidden_states[1][0], **CLOSE)


def test_layer_norm_leaves_boundaries_out_of_its_statistics(tokenizer):
    model = model_of(mix_layer_norm="sentence")
    batch = tokenizer(["a bc def"], return_tensors="pt")
    output = run(model, batch["input_ids"])
    for layer in output.hidden_states:
        words = layer[0, 1:-1]
        assert words.numel() == 3 * 16
    expected = sum((x - x[:, 1:-1].mean()) / x[:, 1:-1].var(unbiased=False).sqrt() for x in output.hidden_states) / 3
    torch.testing.assert_close(output.last_hidden_state, expected, atol=1e-4, rtol=0)


# States


@PROPERTY
@given(number=st.integers(0, len(MODELS) - 1), seed=st.integers(0, 2**31), tokens=st.integers(1, 12), data=st.data())
def test_a_text_in_two_parts_has_the_forward_layers_of_the_whole(number, seed, tokens, data):
    model = MODELS[number]
    rows = random_ids(torch.Generator().manual_seed(seed), tokens)
    cut = data.draw(st.integers(0, tokens))
    whole = run(model, [rows])
    first = run(model, rows[None, :cut])
    second = run(model, rows[None, cut:], past_states=first.past_states)
    size = model.config.projection_size
    for left, other, expected in zip(first.hidden_states, second.hidden_states, whole.hidden_states, strict=True):
        torch.testing.assert_close(torch.cat([left, other], 1)[..., :size], expected[..., :size], **CLOSE)
    for (h, c), (expected_h, expected_c) in zip(second.past_states, whole.past_states, strict=True):
        torch.testing.assert_close((h[:, 0], c[:, 0]), (expected_h[:, 0], expected_c[:, 0]), **CLOSE)


@pytest.mark.parametrize("model", MODELS)
def test_a_row_of_padding_hands_its_state_on(model):
    rows = random_ids(torch.Generator().manual_seed(0), 4)
    before = run(model, [rows, rows.flip(0)]).past_states
    ids, mask = torch.stack([rows, torch.zeros_like(rows)]), torch.tensor([[1] * 4, [0] * 4])
    after = run(model, ids, attention_mask=mask, past_states=before).past_states
    for first, other in zip(after, before, strict=True):
        assert all(torch.equal(part[1], same[1]) for part, same in zip(first, other, strict=True))
        # Where all of h is clipped, only c changes.
        assert not all(torch.equal(part[0], same[0]) for part, same in zip(first, other, strict=True))


def test_zeros_are_the_state_of_no_text(small_model):
    rows = [random_ids(torch.Generator().manual_seed(0), 3)]
    zeros = small_model.bilm.initial_states(1, torch.zeros(1))
    torch.testing.assert_close(run(small_model, rows), run(small_model, rows, past_states=zeros), rtol=0, atol=0)


def test_states_of_another_batch_size_are_refused_with_a_sentence(small_model):
    rows = random_ids(torch.Generator().manual_seed(0), 3)
    states = run(small_model, [rows, rows]).past_states
    with pytest.raises(
        ValueError, match=r"Invalid `past_states` of layer 1: \(2, 2, 8\) .* Expected \(3, 2, 8\) .* resize_states"
    ):
        run(small_model, [rows] * 3, past_states=states)
    with pytest.raises(ValueError, match="Invalid `past_states`: 1 layers. Expected 2"):
        run(small_model, [rows] * 2, past_states=states[:1])
    wrong = tuple((h, c[..., :-1]) for h, c in states)
    with pytest.raises(ValueError, match=r"Invalid `past_states` of layer 1: \(2, 2, 11\) .* Expected \(2, 2, 12\)"):
        run(small_model, [rows] * 2, past_states=wrong)


def test_resize_states_keeps_first_rows_and_adds_zeros(small_model):
    rows = random_ids(torch.Generator().manual_seed(0), 3)
    states = run(small_model, [rows, rows]).past_states
    (h, c), *_ = resize_states(states, 3)
    assert torch.equal(h[:2], states[0][0]) and not h[2].any() and not c[2].any()
    assert torch.equal(resize_states(states, 1)[1][1], states[1][1][:1])


def test_states_are_not_detached(small_model):
    rows = random_ids(torch.Generator().manual_seed(0), 3)[None]
    states = small_model(rows, use_cache=True).past_states
    small_model(rows, past_states=states).last_hidden_state.sum().backward()
    assert states[0][0].requires_grad and small_model.bilm.forward_layers[0].bias.grad.abs().sum() > 0


def test_states_come_back_when_asked_for_or_handed_in(small_model):
    rows = random_ids(torch.Generator().manual_seed(0), 3)[None]
    assert small_model(rows).past_states is None
    states = small_model(rows, use_cache=True).past_states
    assert small_model(rows, past_states=states).past_states is not None
    assert small_model(rows, past_states=states, use_cache=False).past_states is None


# Outputs


def test_layer_0_is_the_token_vector_twice_and_the_mix_is_no_layer(small_model):
    rows = [random_ids(torch.Generator().manual_seed(0), 3)]
    output = run(small_model, rows)
    tokens = small_model.token_encoder(rows[0])[None].detach()
    torch.testing.assert_close(output.hidden_states[0], torch.cat([tokens, tokens], -1))
    assert not torch.equal(output.hidden_states[-1], output.last_hidden_state)
    torch.testing.assert_close(output.last_hidden_state, sum(output.hidden_states) / 3)


def test_return_dict_and_hidden_states_by_config(small_model):
    rows = random_ids(torch.Generator().manual_seed(0), 3)[None]
    (mixed,) = small_model(rows, return_dict=False)
    assert torch.equal(mixed, small_model(rows).last_hidden_state)
    assert small_model(rows).hidden_states is None
    small_model.config.output_hidden_states = True
    assert len(small_model(rows).hidden_states) == 3


def test_token_vectors_as_input(small_model):
    rows = random_ids(torch.Generator().manual_seed(0), 3)[None]
    vectors = small_model.token_encoder(rows[0])[None].detach().requires_grad_()
    output = small_model(inputs_embeds=vectors)
    torch.testing.assert_close(output.last_hidden_state, small_model(rows).last_hidden_state)
    output.last_hidden_state.sum().backward()
    assert vectors.grad.abs().sum() > 0


@pytest.mark.parametrize("batch, tokens", [(0, 3), (2, 0)])
def test_nothing_in_nothing_out(small_model, batch, tokens):
    output = run(small_model, torch.zeros(batch, tokens, 50, dtype=torch.long))
    assert output.last_hidden_state.shape == (batch, tokens, 16) and output.past_states[0][0].shape == (batch, 2, 8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types(small_model, dtype, tmp_path):
    rows = [random_ids(torch.Generator().manual_seed(0), 5)]
    expected = run(small_model, rows).last_hidden_state
    small_model.save_pretrained(tmp_path)
    output = run(ElmoModel.from_pretrained(tmp_path, dtype=dtype), rows)
    assert output.last_hidden_state.dtype == dtype
    torch.testing.assert_close(output.last_hidden_state.float(), expected, atol=2e-2, rtol=0)


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_gives_the_same_gradients(reentrant, small_model):
    rows = random_ids(torch.Generator().manual_seed(0), 5)[None]
    gradients = []
    for checkpointing in (False, True):
        if checkpointing:
            small_model.activation_checkpointing_enable({"use_reentrant": reentrant})
        small_model.train().zero_grad()
        small_model(rows).last_hidden_state.square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in small_model.parameters()])
    assert all(layer.gradient_checkpointing for layer in small_model.bilm.layers)
    torch.testing.assert_close(*gradients)


def test_copy_and_pickle(small_model):
    rows = [random_ids(torch.Generator().manual_seed(0), 4)]
    for twin in (copy.deepcopy(small_model), pickle.loads(pickle.dumps(small_model))):
        assert torch.equal(run(twin, rows).last_hidden_state, run(small_model, rows).last_hidden_state)


# Inputs that are refused


@pytest.mark.parametrize(
    "inputs, error, sentence",
    [
        ({}, ValueError, "Invalid inputs: expected either input_ids or inputs_embeds, exactly one"),
        (
            {"input_ids": torch.ones(2, 3, dtype=torch.long)},
            ValueError,
            r"Invalid shape of `input_ids`: \(2, 3\). Expected \(batch, tokens, characters\)",
        ),
        ({"input_ids": torch.ones(2, 3, 51, dtype=torch.long)}, ValueError, "up to 50 characters a token"),
        (
            {"input_ids": torch.ones(2, 3, 50)},
            TypeError,
            "Invalid type of `input_ids`: torch.float32. Expected integers",
        ),
        ({"input_ids": torch.ones(2, 3, 50).bool()}, TypeError, "Invalid type of `input_ids`: torch.bool"),
        (
            {"input_ids": torch.full((2, 3, 50), -1)},
            ValueError,
            "Invalid id in `input_ids`: -1. Expected ids from 0 to 261",
        ),
        (
            {"input_ids": torch.full((2, 3, 50), 262)},
            ValueError,
            "Invalid id in `input_ids`: 262. Expected ids from 0 to 261",
        ),
        (
            {"inputs_embeds": torch.ones(2, 3, 7)},
            ValueError,
            r"Invalid shape of `inputs_embeds`: \(2, 3, 7\). Expected token vectors",
        ),
        (
            {"input_ids": torch.ones(2, 3, 50, dtype=torch.long), "attention_mask": torch.ones(2, 4)},
            ValueError,
            r"Invalid shape of `attention_mask`: \(2, 4\). Expected a value per token, \(2, 3\)",
        ),
    ],
)
def test_wrong_inputs_are_refused_with_a_sentence(small_model, inputs, error, sentence):
    with pytest.raises(error, match=sentence):
        small_model(**inputs)


def test_word_input_refuses_characters_and_unknown_ids():
    model = ElmoModel(ElmoConfig(word_input=True, vocab_size=5, projection_size=4, cell_size=6))
    with pytest.raises(ValueError, match=r"Invalid shape of `input_ids`: \(2, 3, 50\). Expected word ids"):
        model(torch.ones(2, 3, 50, dtype=torch.long))
    with pytest.raises(ValueError, match="Invalid id in `input_ids`: 6. Expected ids from 0 to 5"):
        model(torch.tensor([[6]]))
    assert not model(torch.tensor([[1, 0]])).last_hidden_state[0, 1].any()


def test_resizing_is_refused(small_model):
    assert small_model.get_input_embeddings() is small_model.token_encoder
    with pytest.raises(ValueError, match="no token embeddings to resize"):
        small_model.resize_token_embeddings(10)


# Mixes


def test_untrained_mix_is_the_average_and_others_choose(small_model):
    layers = [torch.randn(2, 3, 4) for _ in range(3)]
    torch.testing.assert_close(ElmoScalarMix(3)(layers), sum(layers) / 3)
    torch.testing.assert_close(ElmoScalarMix(3, "average")(layers), sum(layers) / 3)
    assert torch.equal(ElmoScalarMix(3, "top")(layers), layers[2])
    assert torch.equal(ElmoScalarMix(3, 1)(layers), layers[1])
    torch.testing.assert_close(ElmoScalarMix(3, [0, 2, -1])(layers), 2 * layers[1] - layers[2])
    assert not list(ElmoScalarMix(3, "top").parameters())
    assert small_model.layer_weights()["scalar_mix"].tolist() == pytest.approx([1 / 3] * 3)
    assert ElmoScalarMix(3, "top").layer_weights().tolist() == [0, 0, 1]


def test_penalty():
    mix = ElmoScalarMix(2, l2=0.5)
    with torch.no_grad():
        mix.weight.copy_(torch.tensor([1.0, -2.0]))
    assert mix.penalty().item() == 2.5 and ElmoScalarMix(2).penalty() == 0


def test_mix_refuses_another_number_of_layers():
    with pytest.raises(ValueError, match="Invalid number of layers: 2. Expected 3"):
        ElmoScalarMix(3)([torch.ones(1, 1, 1)] * 2)


def test_a_learned_checkpoint_loads_with_a_fixed_mix(small_model, tmp_path):
    small_model.save_pretrained(tmp_path)
    model, info = ElmoModel.from_pretrained(tmp_path, mix="top", output_loading_info=True)
    assert model.scalar_mix.weight is None and not info["missing_keys"]
    rows = [random_ids(torch.Generator().manual_seed(0), 4)]
    output = run(model, rows)
    assert torch.equal(output.last_hidden_state, output.hidden_states[-1])


# Freezing


def trainable(model):
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def test_freezing_survives_save_load_and_train(small_model, tmp_path):
    assert trainable(small_model) == {name for name, _ in small_model.named_parameters()}
    small_model.freeze()
    assert trainable(small_model) == {"scalar_mix.weight", "scalar_mix.gamma"}
    small_model.train()
    assert not small_model.bilm.forward_layers[0].training and small_model.scalar_mix.training
    small_model.save_pretrained(tmp_path)
    loaded = ElmoModel.from_pretrained(tmp_path)
    assert trainable(loaded) == {"scalar_mix.weight", "scalar_mix.gamma"}
    loaded.train()
    assert not loaded.token_encoder.training
    freed = ElmoModel.from_pretrained(tmp_path, freeze_bilm=False)
    assert trainable(freed) == {name for name, _ in freed.named_parameters()}


def test_freezing_by_part(small_model):
    small_model.freeze(["token_encoder", "layer_1"])
    names = trainable(small_model)
    assert names and all(
        name.startswith(("bilm.forward_layers.1", "bilm.backward_layers.1", "scalar")) for name in names
    )
    small_model.train()
    assert small_model.bilm.backward_layers[1].training and not small_model.bilm.backward_layers[0].training
    with pytest.raises(
        ValueError, match="Invalid `freeze_bilm`: .*layer_9.*. Expected True, False, None, or a list of parts out of"
    ):
        small_model.freeze(["layer_9"])


# Names


def test_names_and_shapes_of_parameters_are_public():
    config = config_of(character_embedding_dim=3, num_hidden_layers=1)
    shapes = {name: tuple(parameter.shape) for name, parameter in ElmoModel(config).named_parameters()}
    assert shapes == {
        "token_encoder.embedding.weight": (262, 3),
        "token_encoder.convolutions.0.weight": (4, 3, 1),
        "token_encoder.convolutions.0.bias": (4,),
        "token_encoder.convolutions.1.weight": (6, 3, 2),
        "token_encoder.convolutions.1.bias": (6,),
        "token_encoder.highways.0.carry.weight": (10, 10),
        "token_encoder.highways.0.carry.bias": (10,),
        "token_encoder.highways.0.transform.weight": (10, 10),
        "token_encoder.highways.0.transform.bias": (10,),
        "token_encoder.projection.weight": (8, 10),
        "token_encoder.projection.bias": (8,),
        "bilm.forward_layers.0.weight_input": (48, 8),
        "bilm.forward_layers.0.weight_recurrent": (48, 8),
        "bilm.forward_layers.0.bias": (48,),
        "bilm.forward_layers.0.weight_projection": (8, 12),
        "bilm.backward_layers.0.weight_input": (48, 8),
        "bilm.backward_layers.0.weight_recurrent": (48, 8),
        "bilm.backward_layers.0.bias": (48,),
        "bilm.backward_layers.0.weight_projection": (8, 12),
        "scalar_mix.weight": (2,),
        "scalar_mix.gamma": (1,),
    }


@pytest.mark.parametrize(
    "sizes, parameters",
    [
        ({"cell_size": 1024, "projection_size": 128, "num_highway_layers": 1}, 13_593_296),
        ({"cell_size": 2048, "projection_size": 256, "num_highway_layers": 1}, 28_027_728),
        ({}, 93_600_848),
    ],
)
def test_parameter_counts_of_the_released_models(sizes, parameters):
    with torch.device("meta"):
        model = ElmoModel(ElmoConfig(**sizes))
    counted = sum(p.numel() for name, p in model.named_parameters() if "scalar_mix" not in name)
    assert counted - model.config.character_embedding_dim == parameters  # the zero row is ours


def test_initial_weights_are_those_of_the_original():
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(projection_size=128, cell_size=1024, num_highway_layers=1))
    encoder = model.token_encoder
    assert not encoder.embedding.weight[0].any() and encoder.embedding.weight[1:].abs().max() <= 1
    assert encoder.convolutions[6].weight.abs().max() <= 0.05
    assert (encoder.highways[0].carry.bias == -2).all() and not encoder.highways[0].transform.bias.any()
    bound = (6 / (256 + 4096)) ** 0.5
    assert 0.99 * bound < model.bilm.forward_layers[0].weight_input.abs().max() <= bound
    words = ElmoModel(ElmoConfig(projection_size=128, cell_size=128, word_input=True, vocab_size=20_000))
    table, bound = words.token_encoder.embedding.weight, (6 / (20_000 + 128)) ** 0.5
    assert not table[0].any() and 0.99 * bound < table.abs().max() <= bound


# Strip boundaries


@PROPERTY
@given(mask=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_strip_boundaries(mask):
    mask = torch.tensor(mask)
    x = torch.arange(1, mask.numel() + 1).view(mask.shape)[..., None].expand(-1, -1, 2).float()
    stripped, saved = strip_boundaries(x, mask)
    assert stripped.shape == (len(mask), 4, 2)
    for row in range(len(mask)):
        inner = x[row][mask[row]][1:-1]
        assert torch.equal(stripped[row, : len(inner)], inner) and not stripped[row, len(inner) :].any()
        assert saved[row].tolist() == [True] * len(inner) + [False] * (4 - len(inner))


# Keywords


@pytest.mark.parametrize(
    "model_class", [ElmoModel, ElmoForPreTraining, ElmoForTokenClassification, ElmoForSequenceClassification]
)
def test_keywords_that_every_model_is_called_with(model_class, small_config, tokenizer):
    small_config.vocab_size = 7
    model = model_class(small_config).eval()
    batch = tokenizer(["a text"], return_tensors="pt")
    usual = dict.fromkeys(["output_attentions", "position_ids", "head_mask", "use_cache", "output_hidden_states"])
    usual = {
        name: value for name, value in usual.items() if model_class is not ElmoForPreTraining or "hid" not in name
    }
    expected, actual = model(**batch), model(**batch, **usual, return_dict=True)
    torch.testing.assert_close(dict(actual), dict(expected), rtol=0, atol=0)
    model(**batch, output_attentions=True)  # there are none, which is no reason to fail
    with pytest.raises(TypeError, match=r"forward\(\) got an unexpected keyword argument 'attention_maks'"):
        model(**batch, attention_maks=batch["attention_mask"])
