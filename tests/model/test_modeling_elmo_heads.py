import json
import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import ENTITIES, small
from transformers import AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification, pipeline
from transformers import logging as transformers_logging

from elmo_hf import (
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
    pool_words,
)

SENTENCES = [["Obama", "visits", "New", "York", "."], ["Ah"], ["It", "'s", "fine"]]
PARTNERS = [["He", "travels"], ["Oh", "no", ",", "not", "again", "!"], ["Bad"]]


def encode(*sentences, side="right", **options):
    tokenizer = ElmoTokenizer(padding_side=side)
    return tokenizer(*sentences, is_split_into_words=True, padding=True, return_tensors="pt", **options)


@pytest.fixture
def classifier_inputs():
    """What the classifier of a model reads, call by call."""
    seen = []

    def watch(model):
        model.classifier.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
        return seen

    return watch


# -- token classification


def test_every_position_is_classified_from_the_mix():
    model, batch = small(ElmoForTokenClassification, labels=ENTITIES), encode(SENTENCES)
    output = model(**batch, output_hidden_states=True)
    body = model.elmo(**batch, output_hidden_states=True)
    expected = body.last_hidden_state @ model.classifier.weight.T + model.classifier.bias
    torch.testing.assert_close(output.logits, expected)
    assert len(output.hidden_states) == 3
    torch.testing.assert_close(output.hidden_states, body.hidden_states)
    assert output.loss is None and model(**batch).hidden_states is None
    assert model(**batch, return_dict=False)[0].shape == (3, 7, 5)


def test_a_tokens_loss_is_the_mean_over_labels_other_than_minus_100():
    model, batch = small(ElmoForTokenClassification, labels=ENTITIES), encode(SENTENCES)
    labels = torch.full((3, 7), -100)
    labels[0, 1], labels[0, 2], labels[2, 3] = 1, 0, 4
    output = model(**batch, labels=labels)
    likelihoods = output.logits.log_softmax(-1)
    expected = -(likelihoods[0, 1, 1] + likelihoods[0, 2, 0] + likelihoods[2, 3, 4]) / 3
    torch.testing.assert_close(output.loss, expected)

    nothing = model(**batch, labels=torch.full((3, 7), -100)).loss
    assert nothing == 0
    nothing.backward()
    with pytest.raises(ValueError, match=r"Invalid `labels.shape`: \(3, 5\). Expected \(3, 7\)"):
        model(**batch, labels=labels[:, 1:-1])


def test_shares_of_an_accumulated_step_add_up_to_the_loss_of_one_large_batch():
    model = small(ElmoForTokenClassification, labels=ENTITIES, mix_l2=0.5)
    model.elmo.scalar_mix.weight.data = torch.tensor([0.3, -1.0, 2.0])
    batch, labels = encode(SENTENCES), torch.randint(0, 5, (3, 7))
    labels[0, :4] = -100
    whole = model(**batch, labels=labels).loss
    free = small(ElmoForTokenClassification, labels=ENTITIES)
    free.load_state_dict(model.state_dict())
    torch.testing.assert_close(whole, free(**batch, labels=labels).loss + 0.5 * (0.09 + 1 + 4))
    for items in (17, torch.tensor(17)):
        parts = [
            model(**{name: x[rows] for name, x in batch.items()}, labels=labels[rows], num_items_in_batch=items).loss
            for rows in ([0], [1, 2])
        ]
        torch.testing.assert_close(sum(parts), whole)


# -- freezing


@pytest.mark.parametrize("head", [ElmoForTokenClassification, ElmoForSequenceClassification])
def test_heads_freeze_the_bilm_unless_told_otherwise(head, tmp_path):
    model = small(head)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == {"elmo.scalar_mix.weight", "elmo.scalar_mix.gamma", "classifier.weight", "classifier.bias"}
    model.train()
    assert model.dropout.training and not model.elmo.bilm.forward_layers[0].training

    model.save_pretrained(tmp_path)
    again = head.from_pretrained(tmp_path)
    assert {name for name, parameter in again.named_parameters() if parameter.requires_grad} == trained
    free = head.from_pretrained(tmp_path, freeze_bilm=False)
    assert all(parameter.requires_grad for parameter in free.parameters())
    free.save_pretrained(tmp_path)
    assert all(parameter.requires_grad for parameter in head.from_pretrained(tmp_path).parameters())


def test_dropout_acts_on_the_mix_in_training_only():
    model, batch = small(ElmoForTokenClassification, mix_dropout=0.5), encode(SENTENCES)
    assert torch.equal(model(**batch).logits, model(**batch).logits)
    model.train()
    assert not torch.equal(model(**batch).logits, model(**batch).logits)
    model.dropout.p = 0.0
    assert torch.equal(model(**batch).logits, model(**batch).logits)


def test_parameter_groups_hold_every_trained_parameter_once():
    model = small(ElmoForTokenClassification, freeze_bilm=["token_encoder"])
    groups = model.parameter_groups(lr=1e-2, bilm_lr=1e-4)
    grouped = [parameter for group in groups for parameter in group["params"]]
    assert len(grouped) == len({id(parameter) for parameter in grouped})
    assert {id(p) for p in grouped} == {id(p) for p in model.parameters() if p.requires_grad}
    bilm = {id(parameter) for parameter in model.elmo.bilm.parameters()}
    for group in groups:
        assert {id(p) in bilm for p in group["params"]} == {group["name"].startswith("biLM")}
        assert group["lr"] == (1e-4 if group["name"].startswith("biLM") else 1e-2)
        assert {p.dim() > 1 for p in group["params"]} == {"weight_decay" not in group}
    assert {group["lr"] for group in model.parameter_groups(lr=3.0)} == {3.0}
    assert [group["name"] for group in small(ElmoForTokenClassification).parameter_groups(1.0)] == [
        "head",
        "head, undecayed",
    ]


# -- pooling


def pooled_by_hand(x, words, pooling, directions):
    """The definition, sentence by sentence."""
    size = x.shape[-1] // directions
    rows = []
    for vectors, local in zip(x, words, strict=True):
        chosen = vectors[local]
        if not len(chosen):
            rows.append(np.zeros(x.shape[-1]))
        elif pooling == "mean":
            rows.append(chosen.mean(0))
        elif pooling == "max":
            rows.append(chosen.max(0))
        else:
            rows.append(np.concatenate([chosen[-1, :size], chosen[0, size:]]))
    return np.stack(rows)


@settings(deadline=None, max_examples=60)
@given(
    words=st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4),
    pooling=st.sampled_from(["mean", "max", "first_last"]),
    directions=st.sampled_from([1, 2]),
    length=st.integers(0, 5),
)
def test_pooling_is_its_definition_whatever_the_mask(words, pooling, directions, length):
    local = np.array(words)[:, :length]
    x = np.random.default_rng(0).normal(size=(len(local), length, 6))
    actual = pool_words(torch.tensor(x), torch.tensor(local), pooling, directions)
    np.testing.assert_allclose(actual, pooled_by_hand(x, local, pooling, directions), atol=1e-12)


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="Invalid `pooling`: 'sum'. Expected 'mean', 'max' or 'first_last'"):
        pool_words(torch.zeros(1, 2, 2), torch.ones(1, 2), "sum")
    with pytest.raises(Exception, match="pooling"):
        small(ElmoForSequenceClassification, head={"pooling": "sum"})


# -- sequence classification


@pytest.mark.parametrize("pooling", ["mean", "max", "first_last"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_sentence_is_pooled_over_its_words(pooling, bidirectional, classifier_inputs):
    model = small(ElmoForSequenceClassification, head={"pooling": pooling}, bidirectional=bidirectional)
    seen = classifier_inputs(model)
    sentences = [*SENTENCES, []]
    for side in ("right", "left"):
        model(**encode(sentences, side=side))
    torch.testing.assert_close(seen[0], seen[1])
    for row, words in enumerate(sentences):
        alone = encode([words])
        vectors = model.elmo(**alone).last_hidden_state.detach().numpy()
        inner = np.array([[False, *[True] * len(words), False]])
        expected = pooled_by_hand(vectors, inner, pooling, 2 if bidirectional else 1)
        np.testing.assert_allclose(seen[0][row], expected[0], atol=1e-6)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("mix_layer_norm", [None, "sentence"])
@pytest.mark.parametrize("with_types", [True, False])
def test_the_sentences_of_a_pair_are_read_apart(side, mix_layer_norm, with_types, classifier_inputs):
    settings = {"mix_layer_norm": mix_layer_norm}
    single = small(ElmoForSequenceClassification, head={"pooling": "first_last"}, **settings)
    vectors = classifier_inputs(single)
    for sentences in (SENTENCES, PARTNERS):
        single(**encode(sentences))
    u, v = vectors
    expected = torch.cat([u, v, (u - v).abs(), u * v], -1)

    pairs = small(ElmoForSequenceClassification, head={"pooling": "first_last", "sentence_pairs": True}, **settings)
    pairs.elmo.load_state_dict(single.elmo.state_dict())
    seen = classifier_inputs(pairs)
    del seen[:]
    batch = encode(SENTENCES, PARTNERS, side=side, return_token_type_ids=with_types)
    assert ("token_type_ids" in batch) == with_types
    output = pairs(**batch, output_hidden_states=True)
    torch.testing.assert_close(seen[0], expected)

    alone = pairs.elmo(**encode([PARTNERS[0]]), output_hidden_states=True).hidden_states
    places = slice(7, 11) if side == "right" else slice(-4, None)
    for layer, expected_layer in zip(output.hidden_states, alone, strict=True):
        assert layer.shape[:2] == batch["attention_mask"].shape
        torch.testing.assert_close(layer[0, places], expected_layer[0])


def test_a_pair_with_an_empty_side_has_a_vector():
    model = small(ElmoForSequenceClassification, head={"sentence_pairs": True})
    logits = model(**encode([[], ["a"], []], [["b"], [], []])).logits
    assert torch.isfinite(logits).all()


def test_pairs_and_single_sentences_are_not_confused():
    single = small(ElmoForSequenceClassification)
    pairs = small(ElmoForSequenceClassification, head={"sentence_pairs": True})
    with pytest.raises(ValueError, match="Row 0 holds one sentence, but this model's head reads two"):
        pairs(**encode(SENTENCES))
    with pytest.raises(ValueError, match="Row 0 holds a pair of sentences, but this model's head reads one"):
        single(**encode(SENTENCES, PARTNERS, return_token_type_ids=True))
    single(**encode(SENTENCES, return_token_type_ids=True))
    vectors = torch.zeros(1, 6, 8)
    with pytest.raises(ValueError, match="Missing `token_type_ids`"):
        pairs(inputs_embeds=vectors)
    types = torch.tensor([[0, 0, 0, 1, 1, 1]])
    assert pairs(inputs_embeds=vectors, token_type_ids=types).logits.shape == (1, 2)


def test_a_word_input_model_finds_the_second_sentence_too():
    model = small(ElmoForSequenceClassification, word_input=True, vocab_size=6, head={"sentence_pairs": True})
    ids = torch.tensor([[1, 4, 5, 2, 1, 6, 2]])
    types = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    assert torch.equal(model(ids).logits, model(ids, token_type_ids=types).logits)


@pytest.mark.parametrize(
    "problem, labels, reference",
    [
        ("single_label_classification", torch.tensor([2, 0, 1]), torch.nn.CrossEntropyLoss()),
        (
            "multi_label_classification",
            torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1]]),
            torch.nn.BCEWithLogitsLoss(),
        ),
        ("regression", torch.tensor([[1.5, 0, 1], [-3, 0, 0], [1, 1, 9]]), torch.nn.MSELoss()),
    ],
)
def test_each_problem_has_its_loss_and_accumulates_exactly(problem, labels, reference):
    model = small(ElmoForSequenceClassification, num_labels=3, problem_type=problem)
    batch = encode(SENTENCES)
    output = model(**batch, labels=labels)
    torch.testing.assert_close(output.loss, reference(output.logits, labels))
    parts = [
        model(
            **{name: x[rows] for name, x in batch.items()}, labels=labels[rows], num_items_in_batch=labels.numel()
        ).loss
        for rows in ([0], [1, 2])
    ]
    torch.testing.assert_close(sum(parts), output.loss)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
@pytest.mark.parametrize("type", ["linear", "bilstm-crf"])
def test_labels_of_narrow_types_are_the_same_classes(type, dtype):
    model = small(ElmoForTokenClassification, labels=ENTITIES, head={"type": type})
    batch, labels = encode(SENTENCES), torch.arange(21).view(3, 7).remainder(5)
    assert torch.equal(model(**batch, labels=labels.to(dtype)).loss, model(**batch, labels=labels).loss)


@pytest.mark.parametrize(
    "num_labels, labels, problem",
    [
        (1, torch.tensor([0.5, 1, 2]), "regression"),
        (3, torch.tensor([2, 0, 1]), "single_label_classification"),
        (3, torch.ones(3, 3), "multi_label_classification"),
    ],
)
def test_a_problem_that_is_not_named_is_found_as_transformers_does(num_labels, labels, problem):
    model = small(ElmoForSequenceClassification, num_labels=num_labels)
    loss = model(**encode(SENTENCES), labels=labels).loss
    assert model.config.problem_type == problem and torch.isfinite(loss)


def test_labels_of_another_shape_are_refused():
    model = small(ElmoForSequenceClassification, num_labels=3, problem_type="multi_label_classification")
    with pytest.raises(ValueError, match=r"Invalid `labels.shape`: \(3,\). Expected \(3, 3\)"):
        model(**encode(SENTENCES), labels=torch.ones(3))


# -- one checkpoint, several classes


@pytest.fixture
def transformers_log(caplog):
    """What transformers logs, which it does not hand to the root logger."""
    transformers_logging.enable_propagation()
    with caplog.at_level(logging.WARNING, logger="transformers"):
        yield caplog
    transformers_logging.disable_propagation()


@pytest.mark.parametrize("base", [ElmoModel, ElmoForPreTraining])
@pytest.mark.parametrize("auto", [AutoModelForTokenClassification, AutoModelForSequenceClassification])
def test_a_base_checkpoint_gets_a_fresh_head_and_says_so(base, auto, tmp_path, transformers_log):
    source = small(base, vocab_size=9)
    source.save_pretrained(tmp_path)
    model, info = auto.from_pretrained(tmp_path, num_labels=5, output_loading_info=True)
    assert info["missing_keys"] == {"classifier.weight", "classifier.bias"}
    assert "classifier.weight" in transformers_log.text and "MISSING" in transformers_log.text
    assert model.classifier.weight.shape == (5, 16) and torch.isfinite(model.classifier.weight).all()
    for name, parameter in source.base_model.state_dict().items():
        assert torch.equal(model.elmo.state_dict()[name], parameter), name


def test_the_body_of_a_heads_checkpoint_loads(tmp_path):
    model = small(ElmoForTokenClassification, labels=ENTITIES)
    model.elmo.scalar_mix.weight.data = torch.tensor([1.0, 2.0, 3.0])
    model.save_pretrained(tmp_path)
    body, info = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert type(body) is ElmoModel and not info["missing_keys"]
    batch = encode(SENTENCES)
    assert all(torch.equal(body.state_dict()[name], first) for name, first in model.elmo.state_dict().items())
    torch.testing.assert_close(body(**batch).last_hidden_state, model.elmo(**batch).last_hidden_state)
    # And it does not come out as a tagger again.
    body.save_pretrained(tmp_path / "body")
    assert json.loads((tmp_path / "body/config.json").read_text())["custom_pipelines"] == {}


def test_labels_are_saved(tmp_path):
    small(ElmoForTokenClassification, labels=ENTITIES).save_pretrained(tmp_path)
    model = AutoModelForTokenClassification.from_pretrained(tmp_path)
    assert list(model.config.id2label.values()) == ENTITIES and model.config.label2id["B-LOC"] == 3


@pytest.mark.parametrize(
    "settings, call",
    [
        ({"model": ElmoForTokenClassification}, 'classify("A first sentence.")'),
        ({"model": ElmoForSequenceClassification}, 'classify("A first sentence.")'),
        ({"model": ElmoForSequenceClassification, "head": {"sentence_pairs": True}}, '"text_pair": "Another one."'),
    ],
)
def test_the_card_of_a_head_shows_its_pipeline_and_runs(settings, call, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small(settings.pop("model"), **settings).save_pretrained("mine")
    ElmoTokenizer().save_pretrained("mine")
    card = (tmp_path / "mine/README.md").read_text()
    code = card.split("```python\n")[1].split("```")[0]
    assert call in code and "pipeline_tag: t" in card
    exec(code, {})
    assert "LABEL_" in capsys.readouterr().out


def test_a_pair_without_type_ids_is_refused_by_a_head_that_reads_one_sentence():
    model, tokenizer = small(ElmoForSequenceClassification, labels=["entailment", "other"]), ElmoTokenizer()
    pair = tokenizer(["One text ."], ["Its partner ."], return_tensors="pt")
    assert set(pair) == {"input_ids", "attention_mask"}
    with pytest.raises(ValueError, match="Row 0 holds a pair of sentences, but this model's head reads one"):
        model(**pair)
    classify = pipeline("zero-shot-classification", model=model, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="holds a pair of sentences, but this model's head reads one"):
        classify("A text about cats .", candidate_labels=["cats", "dogs"])
    model(**tokenizer([["The", "mark", "<S>", "as", "a", "word"]], is_split_into_words=True, return_tensors="pt"))
