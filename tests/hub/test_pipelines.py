import json
import os
import pickle
import re

import numpy as np
import pytest
import torch
from fork_server import run_forked
from local_hub import LocalHub
from remote import WITHOUT_PACKAGE
from small_models import ENTITIES, small
from transformers import (
    BertConfig,
    BertForTokenClassification,
    Pipeline,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    TokenClassificationPipeline,
    Trainer,
    pipeline,
)
from transformers.pipelines import PIPELINE_REGISTRY

from elmo_hf import (
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoPreTrainedModel,
    ElmoTextClassificationPipeline,
    ElmoTokenClassificationPipeline,
    ElmoTokenizer,
    ElmoTrainer,
)
from elmo_hf.hub.pipelines import register_pipelines
from elmo_hf.model.modeling_elmo_heads import ElmoPipeline

STRATEGIES = ["none", "simple", "first", "average", "max"]
# What each of these words is; every other word is no entity.
LABELS = {"Ann-Marie": "B-PER", "O": "I-PER", "'Neil": "I-PER", "New": "B-LOC", "York": "I-LOC", "U.S.": "B-LOC"}
TEXT = (
    "Hello!  Ann-Marie O'Neil (52) left New York,\nNew York, for the U.S. won't she?\t\u00dcber  \U0001f600 Ann-Marie."
)
ENTITIES_OF_TEXT = [
    ("PER", "Ann-Marie O'Neil"),
    ("LOC", "New York"),
    ("LOC", "New York"),
    ("LOC", "U.S."),
    ("PER", "Ann-Marie"),
]
SPLIT = ["in", "New", "York", "don't", "Ann-Marie", "O'Neil", "", "U.S."]


class Oracle(ElmoForTokenClassification):
    """A tagger that knows LABELS by heart, for pipelines whose every answer is known."""

    def forward(self, input_ids, attention_mask):
        tokens = ElmoTokenizer().convert_ids_to_tokens
        logits = torch.zeros(*input_ids.shape[:2], len(ENTITIES))
        for row, rows in enumerate(input_ids):
            for place, word in enumerate(tokens(rows)):
                logits[row, place, ENTITIES.index(LABELS.get(word, "O"))] = 5.0
        return {"logits": logits}


def tagger(longest=None, **options):
    tokenizer = ElmoTokenizer()
    if longest is not None:
        tokenizer.model_max_length = longest
    return pipeline("ner", model=small(Oracle, labels=ENTITIES), tokenizer=tokenizer, **options)


def spans(entities):
    return [(entity["start"], entity["end"]) for entity in entities]


# -- token classification


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_offsets_slice_the_text_to_the_words_of_each_entity(strategy, batch_size):
    tag = tagger(aggregation_strategy=strategy)
    texts = [TEXT, "", "Nothing here.", TEXT[8:], "New"]
    for text, entities in zip(texts, tag(texts, batch_size=batch_size), strict=True):
        slices = [text[start:end] for start, end in spans(entities)]
        if strategy == "none":
            assert slices == [entity["word"] for entity in entities]
            assert [entity["entity"] for entity in entities] == [LABELS[word] for word in slices]
        else:
            found = [(entity["entity_group"], part) for entity, part in zip(entities, slices, strict=True)]
            assert found == ([("LOC", "New")] if text == "New" else ENTITIES_OF_TEXT if "Ann" in text else [])
        assert all(0.9 < entity["score"] < 1 for entity in entities)


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
@pytest.mark.parametrize("longest, stride", [(5, 0), (5, 2), (9, 1), (100, 3)])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_long_text_in_overlapping_pieces_has_the_entities_of_the_whole(strategy, longest, stride, batch_size):
    tag = tagger(longest, aggregation_strategy=strategy, stride=stride)
    whole = tagger(aggregation_strategy=strategy)
    texts = [TEXT, "", TEXT * 2]
    assert [spans(found) for found in tag(texts, batch_size=batch_size)] == [spans(found) for found in whole(texts)]


@pytest.mark.parametrize("strategy, stride", [*((name, None) for name in STRATEGIES), ("simple", 1), ("max", 1)])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_words_that_are_split_already(strategy, stride, batch_size):
    options = {} if stride is None else {"stride": stride, "longest": 5}
    tag = tagger(aggregation_strategy=strategy, **options)
    text = " ".join(SPLIT)
    found = tag([SPLIT, SPLIT[:1]], is_split_into_words=True, batch_size=batch_size)
    assert found[1] == []
    slices = [text[start:end] for start, end in spans(found[0])]
    expected = ["New York", "Ann-Marie", "U.S."] if strategy != "none" else ["New", "York", "Ann-Marie", "U.S."]
    assert slices == expected
    # And raw text after that is raw text again.
    assert [TEXT[start:end] for start, end in spans(tag(TEXT))][-1] == "Ann-Marie"
    joined = tag(SPLIT, is_split_into_words=True, delimiter="--")
    assert [("--".join(SPLIT))[start:end] for start, end in spans(joined[0])][-1] == "U.S."


def test_of_an_overlap_the_piece_that_shows_more_decides():
    model = small(ElmoForTokenClassification, labels=ENTITIES)
    tokenizer = ElmoTokenizer()
    tokenizer.model_max_length = 8  # six words and the boundaries
    words = [f"word{number}" for number in range(10)]
    tag = pipeline("ner", model=model, tokenizer=tokenizer, aggregation_strategy="simple", stride=2, ignore_labels=[])
    scores = []
    tag.aggregate = lambda found, strategy: scores.extend(word["scores"] for word in found) or []
    tag(" ".join(words))
    pieces = [words[:6], words[4:]]
    batch = tokenizer(pieces, is_split_into_words=True, return_tensors="pt")
    first, second = model(**batch).logits.softmax(-1)[:, 1:-1].detach().numpy()
    # Words 4 and 5 are in both: 4 is one word from the end of the first piece, and 5 one from the second's begin.
    np.testing.assert_allclose(scores, [*first[:5], *second[1:]], atol=1e-6)


def test_labels_to_ignore():
    tag = tagger(aggregation_strategy="simple")
    found = tag(TEXT, ignore_labels=["O", "PER"])
    assert [entity["entity_group"] for entity in found] == ["LOC"] * 3
    everything = tag(TEXT, ignore_labels=[])
    assert {entity["entity_group"] for entity in everything} == {"O", "PER", "LOC"}


def test_a_word_input_model_is_tagged_too():
    words = ["<S>", "</S>", "<UNK>", "Rome", "burns", "."]
    model = small(ElmoForTokenClassification, labels=ENTITIES, word_input=True, vocab_size=len(words))
    tag = pipeline("ner", model=model, tokenizer=ElmoTokenizer(word_input=True, word_vocabulary=words))
    found = tag("Rome burns, Ann.", ignore_labels=[])
    assert [entity["word"] for entity in found] == ["Rome", "burns", ",", "Ann", "."]
    assert tag(["Rome.", "Rome burns."], ignore_labels=[], batch_size=2)[1][2]["start"] == 10


# -- the other tasks


def test_text_classification_of_sentences_and_pairs():
    model = small(ElmoForSequenceClassification, labels=["bad", "good"])
    classify = pipeline("sentiment-analysis", model=model, tokenizer=ElmoTokenizer())
    texts = ["A fine film .", "", "Dull ."]
    batched = classify(texts, top_k=None, batch_size=3)
    for text, found in zip(texts, batched, strict=True):
        expected = model(**ElmoTokenizer()([text], return_tensors="pt")).logits[0].softmax(-1)
        scores = {one["label"]: one["score"] for one in found}
        np.testing.assert_allclose([scores["bad"], scores["good"]], expected.detach(), atol=1e-6)

    pairs = small(ElmoForSequenceClassification, labels=["entailment", "other"], head={"sentence_pairs": True})
    classify = pipeline("text-classification", model=pairs, tokenizer=ElmoTokenizer())
    found = classify([{"text": "It rains .", "text_pair": "Water falls ."}] * 2, batch_size=2)
    expected = pairs(**ElmoTokenizer()(["It rains ."], ["Water falls ."], return_tensors="pt")).logits.softmax(-1)
    assert [one["score"] for one in found] == pytest.approx([expected.max().item()] * 2, abs=1e-6)


def test_zero_shot_classification_with_a_model_of_pairs():
    labels = ["contradiction", "neutral", "entailment"]
    model = small(ElmoForSequenceClassification, labels=labels, head={"sentence_pairs": True})
    classify = pipeline("zero-shot-classification", model=model, tokenizer=ElmoTokenizer())
    found = classify("The match ended in a draw .", candidate_labels=["sports", "cooking"])
    logits = [
        model(**ElmoTokenizer()([found["sequence"]], [f"This example is {label}."], return_tensors="pt")).logits[0, 2]
        for label in found["labels"]
    ]
    np.testing.assert_allclose(found["scores"], torch.stack(logits).softmax(-1).detach(), atol=1e-6)
    assert classify(["a", "b"], candidate_labels="x, y", multi_label=True, batch_size=2)[1]["sequence"] == "b"


def test_feature_extraction_gives_the_mix():
    model = small(ElmoModel)
    extract = pipeline("feature-extraction", model=model, tokenizer=ElmoTokenizer())
    found = extract(["A fine day", "Yes"], return_tensors=True, batch_size=2)
    expected = model(**ElmoTokenizer()(["A fine day"], return_tensors="pt")).last_hidden_state
    torch.testing.assert_close(found[0], expected)


# -- which pipeline is built


def bert():
    config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    return BertForTokenClassification(config)


def bert_tokenizer():
    return PreTrainedTokenizerFast(tokenizer_object=ElmoTokenizer()._tokenizer, pad_token="<PAD>")


def test_other_models_keep_their_own_pipeline():
    tag = pipeline("ner", model=bert(), tokenizer=bert_tokenizer())
    assert type(tag) is TokenClassificationPipeline
    tag = pipeline("ner", model=small(ElmoForTokenClassification), tokenizer=ElmoTokenizer())
    assert type(tag) is ElmoTokenClassificationPipeline
    assert type(pickle.loads(pickle.dumps(tag))) is ElmoTokenClassificationPipeline


def test_what_others_registered_is_built_for_other_models(monkeypatch):
    """Importing the package, before or after, changes nothing for a model that is not an ELMo."""

    class Theirs(TokenClassificationPipeline):
        pass

    task = PIPELINE_REGISTRY.supported_tasks["token-classification"]
    monkeypatch.setitem(task, "impl", Theirs)
    register_pipelines()
    register_pipelines()
    assert type(pipeline("ner", model=bert(), tokenizer=bert_tokenizer())) is Theirs
    assert type(tagger()) is ElmoTokenClassificationPipeline
    assert task["impl"].other is Theirs


PRETRAINED = "_init_weights from_pretrained post_init train resize_token_embeddings save_pretrained push_to_hub"


@pytest.mark.parametrize(
    "model_class, base, names",
    [
        (ElmoPipeline, Pipeline, "check_model_type"),
        (ElmoTokenClassificationPipeline, TokenClassificationPipeline, "preprocess postprocess"),
        (ElmoPreTrainedModel, PreTrainedModel, PRETRAINED),
        (ElmoTrainer, Trainer, "create_model_card"),
    ],
)
def test_methods_that_are_overridden_exist_in_transformers(model_class, base, names):
    """An override of a method that transformers no longer has would never be called."""
    for name in names.split():
        assert name in vars(model_class) and hasattr(base, name), name


def test_a_saved_pipeline_is_loaded_by_task(tmp_path):
    model = small(ElmoForSequenceClassification, labels=["bad", "good"])
    pipeline("text-classification", model=model, tokenizer=ElmoTokenizer()).save_pretrained(tmp_path)
    named = json.loads((tmp_path / "config.json").read_text())["custom_pipelines"]
    assert set(named) == {"text-classification"}
    assert (tmp_path / "modeling_elmo_heads.py").exists()
    for _ in range(2):
        again = pipeline("text-classification", model=str(tmp_path))
        assert type(again) is ElmoTextClassificationPipeline
        json.loads(again.model.config.to_json_string())
        again.save_pretrained(tmp_path)


def test_a_config_with_the_names_of_older_files_loads(tmp_path):
    small(ElmoForTokenClassification, labels=ENTITIES).save_pretrained(tmp_path)
    ElmoTokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    new = {name: config[name] for name in ("auto_map", "custom_pipelines")}
    old_pipeline = {"impl": "pipeline_elmo.ElmoTokenClassificationPipeline", "type": "text"}
    config["custom_pipelines"] = {"token-classification": {**old_pipeline, "pt": ["AutoModelForTokenClassification"]}}
    config["auto_map"] = {
        name: re.sub("modeling_elmo_heads|language_modeling_elmo", "heads_elmo", place)
        if isinstance(place, str)
        else place
        for name, place in config["auto_map"].items()
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    tag = pipeline("ner", model=str(tmp_path))
    assert type(tag) is ElmoTokenClassificationPipeline and type(tag.model) is ElmoForTokenClassification
    tag.model.save_pretrained(tmp_path / "again")
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert {name: config[name] for name in new} == new


# -- over the Hub

ANSWERS = """
import json, sys
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification
from transformers import AutoTokenizer, pipeline

trust = json.loads(sys.argv[1])
def loaded(auto, name):
    return auto.from_pretrained(name, **trust)
def rounded(entities):
    return [{**one, "score": round(float(one["score"]), 5)} for one in entities]

tagger, classifier = "tester/tagger", "tester/classifier"
batch = loaded(AutoTokenizer, tagger)(["New York !"], return_tensors="pt")
answers = {
    "logits": loaded(AutoModelForTokenClassification, tagger)(**batch).logits.flatten().tolist(),
    "body": loaded(AutoModel, tagger)(**batch).last_hidden_state.sum().item(),
    "fresh": loaded(AutoModelForSequenceClassification, "tester/base").classifier.weight.shape,
}
entities = {}
for task, strategy in (("ner", "simple"), ("token-classification", "none"), ("token-classification", "max")):
    tag = pipeline(task, model=tagger, aggregation_strategy=strategy, **trust)
    entities[f"{task} {strategy}"] = rounded(tag("Hello, New York! It's me.", ignore_labels=[]))
json.loads(tag.model.config.to_json_string())
tag.save_pretrained("again")
# Each checkpoint has one head, so the task need not be named.
entities["no task"] = rounded(pipeline(model=tagger, **trust)("Hello, New York!"))
entities["no task, pair"] = rounded([pipeline(model=classifier, **trust)({"text": "It rains .", "text_pair": "Yes"})])
entities["other name"] = rounded([pipeline("sentiment-analysis", model=classifier, **trust)(
    {"text": "It rains .", "text_pair": "Yes"})])
entities["saved again"] = rounded(pipeline("ner", model="again", **trust)("Hello, New York!"))
in_memory = loaded(AutoModelForTokenClassification, tagger), loaded(AutoTokenizer, tagger)
# Remote code registers nothing: a model in memory needs the class of its pipeline.
own = {"pipeline_class": sys.modules[type(in_memory[0]).__module__].ElmoTokenClassificationPipeline} if trust else {}
in_memory = pipeline("ner", model=in_memory[0], tokenizer=in_memory[1], aggregation_strategy="simple", **own)
entities["in memory"] = rounded(in_memory("Hello, New York!"))
pair = {"text": "It rains .", "text_pair": "Water falls ."}
entities["pair"] = rounded([pipeline("text-classification", model=classifier, **trust)(pair)])
zero = pipeline("zero-shot-classification", model=classifier, **trust)
answers["zero shot"] = zero("It rains .", candidate_labels=["weather", "law"])["scores"]
features = pipeline("feature-extraction", model="tester/base", **trust)("It rains .", return_tensors=True)
answers["features"] = features.sum().item()
print(json.dumps({"answers": answers, "entities": entities, "here": "elmo_hf" in sys.modules}))
"""


def run(hub, folder, script, *arguments):
    """What a fresh process prints; `-I` keeps the checkout and PYTHON* variables out of it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    process = run_forked(["-I", "-c", script, *arguments], {**inherited, "NO_PROXY": "127.0.0.1", **hub.env}, folder)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip().splitlines()[-1], process.stderr


@pytest.fixture(scope="module")
def hub():
    with LocalHub() as hub:
        yield hub


@pytest.fixture(scope="module")
def pushed(hub, tmp_path_factory):
    """Two heads and a base model on the Hub."""
    folder = tmp_path_factory.mktemp("push")
    tokenizer = ElmoTokenizer()
    for name, model in {
        "tagger": small(ElmoForTokenClassification, labels=ENTITIES),
        "classifier": small(
            ElmoForSequenceClassification,
            labels=["contradiction", "neutral", "entailment"],
            head={"sentence_pairs": True},
        ),
        "base": small(ElmoModel),
    }.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    push = """
import sys
from pathlib import Path
import elmo_hf
from transformers import AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer
for name, auto in (("tagger", AutoModelForTokenClassification), ("base", AutoModel),
                   ("classifier", AutoModelForSequenceClassification)):
    auto.from_pretrained(Path(sys.argv[1], name)).push_to_hub(f"tester/{name}")
    AutoTokenizer.from_pretrained(Path(sys.argv[1], name)).push_to_hub(f"tester/{name}")
print("pushed")
"""
    assert run(hub, folder, push, str(folder))[0] == "pushed"
    return folder


@pytest.fixture(scope="module")
def answers_with_package(hub, pushed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("with")
    return run(hub, folder, "import elmo_hf\n" + ANSWERS, "{}")


def test_heads_and_pipelines_come_back_from_the_hub(hub, pushed, answers_with_package):
    printed, log = answers_with_package
    found = json.loads(printed)
    assert found["here"]
    assert "is not supported for" not in log
    model = ElmoForTokenClassification.from_pretrained(pushed / "tagger")
    batch = ElmoTokenizer()(["New York !"], return_tensors="pt")
    np.testing.assert_allclose(found["answers"]["logits"], model(**batch).logits.flatten().tolist(), atol=1e-6)
    words = [entity["word"] for entity in found["entities"]["token-classification none"]]
    assert words == ["Hello", ",", "New", "York", "!", "It", "'s", "me", "."]
    assert "modeling_elmo_heads.py" in hub.files("tester/base")
    assert found["entities"]["other name"] == found["entities"]["no task, pair"]


def test_they_come_back_without_the_package_too(hub, answers_with_package, tmp_path):
    trusting = json.dumps({"trust_remote_code": True})
    printed, log = run(hub, tmp_path, WITHOUT_PACKAGE + ANSWERS, trusting)
    found, expected = json.loads(printed), json.loads(answers_with_package[0])
    assert not found["here"]
    assert "is not supported for" not in log
    assert found["entities"] == expected["entities"]
    for name, value in expected["answers"].items():
        np.testing.assert_allclose(found["answers"][name], value, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4])
def test_the_stock_feature_extraction_gives_every_text_its_own_vectors(batch_size):
    model, tokenizer = small(ElmoModel), ElmoTokenizer()
    texts = ["One text .", "And another that is longer .", "Two words", "Last ."]
    extract = pipeline("feature-extraction", model=model, tokenizer=tokenizer)
    with torch.no_grad():
        for text, found in zip(texts, extract(texts, batch_size=batch_size), strict=True):
            alone = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
            found = torch.tensor(found)[0]
            torch.testing.assert_close(found[: len(alone)], alone, atol=1e-6, rtol=0)
            assert not found[len(alone) :].any()  # padding
