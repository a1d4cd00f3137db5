"""Fine-tuning with transformers' own Trainer and collators."""

import os
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from fork_server import run_forked
from huggingface_hub import ModelCard
from local_hub import LocalHub
from small_models import ENTITIES, small
from transformers import (
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from elmo_hf import (
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
    ElmoTrainer,
    encode_words,
    entity_metrics,
    label_names,
    read_conll,
)

WNUT = Path(__file__).resolve().parents[3] / "shared" / "data" / "ner" / "wnut17train.conll"
SENTENCES = {
    "tokens": [["Ann", "saw", "Rome", "."], ["Rome"], [], ["New", "York", "saw", "Ann", "Lee", "again"], ["No", "!"]]
    * 4,
    "labels": [
        ["B-PER", "O", "B-LOC", "O"],
        ["B-LOC"],
        [],
        ["B-LOC", "I-LOC", "O", "B-PER", "I-PER", "O"],
        ["O", "O"],
    ]
    * 4,
}


def encoded(model, sentences=None):
    sentences = Dataset.from_dict(SENTENCES) if sentences is None else sentences
    settings = {"tokenizer": ElmoTokenizer(), "label2id": model.config.label2id}
    return sentences.map(encode_words, batched=True, fn_kwargs=settings, remove_columns=sentences.column_names)


def trainer(model, folder, data=None, lr=0.02, bilm_lr=None, callbacks=(), trainer_class=Trainer, **options):
    data = encoded(model) if data is None else data
    defaults = {
        "per_device_train_batch_size": 4,
        "num_train_epochs": 2,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
    }
    tokenizer = ElmoTokenizer()
    return trainer_class(
        model,
        TrainingArguments(str(folder), **{**defaults, **options}),
        train_dataset=data,
        eval_dataset=data,
        processing_class=tokenizer,
        data_collator=DataCollatorForTokenClassification(tokenizer),
        compute_metrics=entity_metrics(model.config.id2label),
        optimizers=(torch.optim.AdamW(model.parameter_groups(lr, bilm_lr)), None),
        callbacks=list(callbacks),
    )


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def differing(one, other):
    assert one.keys() == other.keys()
    return {name for name in one if not torch.equal(one[name], other[name])}


class StopAfter(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step


# -- what trains


@pytest.mark.slow
def test_unfrozen_a_tagger_learns_its_training_data_by_heart(tmp_path):
    if not WNUT.exists():
        pytest.skip(f"{WNUT} is not here")
    sentences = read_conll(WNUT).select(range(200))
    sizes = {"projection_size": 64, "cell_size": 64, "num_hidden_layers": 1, "num_highway_layers": 0}
    sizes["character_cnn_filters"] = [[1, 16], [2, 16], [3, 32]]
    model = small(
        ElmoForTokenClassification, labels=label_names(sentences), freeze_bilm=False, mix_dropout=0.0, **sizes
    )
    options = {"num_train_epochs": 45, "per_device_train_batch_size": 8, "lr_scheduler_type": "linear", "seed": 1}
    run = trainer(
        model, tmp_path, encoded(model, sentences), lr=0.01, train_sampling_strategy="group_by_length", **options
    )
    run.train()
    assert run.evaluate()["eval_f1"] >= 0.95


def test_frozen_training_changes_mix_and_head_and_no_bit_of_the_bilm(tmp_path):
    model = small(ElmoForTokenClassification, labels=ENTITIES)
    before = weights(model)
    trainer(model, tmp_path).train()
    changed = differing(before, weights(model))
    assert changed == {"elmo.scalar_mix.weight", "elmo.scalar_mix.gamma", "classifier.weight", "classifier.bias"}


def test_the_bilm_trains_with_its_own_learning_rate(tmp_path):
    model = small(ElmoForTokenClassification, labels=ENTITIES, freeze_bilm=["token_encoder"])
    before = weights(model)
    run = trainer(model, tmp_path, lr=0.01, bilm_lr=1e-5, max_steps=1, lr_scheduler_type="constant")
    run.train()
    steps = {name: (tensor - before[name]).abs().max().item() for name, tensor in weights(model).items()}
    # Adam's first step is the learning rate.
    assert all(steps[name] == 0 for name in steps if "token_encoder" in name)
    assert all(0 < steps[name] < 2e-5 for name in steps if ".bilm." in name)
    assert 0.005 < steps["classifier.weight"] < 0.02


def test_accumulated_gradients_make_the_step_of_one_large_batch(tmp_path):
    after = []
    for size, accumulation in ((20, 1), (4, 5)):
        model = small(ElmoForTokenClassification, labels=ENTITIES, mix_dropout=0.0, mix_l2=0.3, freeze_bilm=False)
        run = trainer(
            model,
            tmp_path,
            max_steps=2,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulation,
            train_sampling_strategy="sequential",
        )
        run.train()
        after.append(weights(model))
    for name, tensor in after[0].items():
        torch.testing.assert_close(tensor, after[1][name], atol=1e-4, rtol=0, msg=name)


# -- runs


def test_a_resumed_run_ends_as_the_uninterrupted_one(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 3, "seed": 7}

    def fresh():
        return small(ElmoForTokenClassification, labels=ENTITIES, freeze_bilm=False)

    whole = fresh()
    trainer(whole, tmp_path / "whole", **options).train()
    stopped = fresh()
    trainer(stopped, tmp_path / "stopped", callbacks=[StopAfter(4)], **options).train()
    assert differing(weights(whole), weights(stopped))

    set_seed(99)
    resumed = fresh()
    run = trainer(resumed, tmp_path / "stopped", **options)
    run.train(resume_from_checkpoint=str(tmp_path / "stopped" / "checkpoint-3"))
    assert run.state.global_step == 10
    assert differing(weights(whole), weights(resumed)) == set()


def test_evaluation_early_stopping_and_the_best_checkpoint(tmp_path):
    model = small(ElmoForTokenClassification, labels=ENTITIES)
    run = trainer(
        model,
        tmp_path,
        lr=1e-9,  # nothing improves
        num_train_epochs=10,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )
    run.train()
    assert run.state.epoch == 3
    assert run.state.best_model_checkpoint.endswith("checkpoint-5")
    again = ElmoForTokenClassification.from_pretrained(run.state.best_model_checkpoint)
    assert differing(weights(again), weights(model)) == set()
    predictions = run.predict(encoded(model))
    assert predictions.predictions.shape == (20, 8, 5)
    assert {"test_f1", "test_precision", "test_recall", "test_accuracy"} <= predictions.metrics.keys()


def test_sentences_are_classified_too(tmp_path):
    texts = ["a fine film", "", "dull", "a very fine film indeed"] * 4
    tokenizer = ElmoTokenizer()
    data = Dataset.from_dict({**tokenizer(texts), "labels": [1, 0, 0, 1] * 4})
    model = small(ElmoForSequenceClassification, labels=["bad", "good"], freeze_bilm=False, mix_dropout=0.0)
    run = Trainer(
        model,
        TrainingArguments(str(tmp_path), num_train_epochs=15, report_to="none", use_cpu=True, disable_tqdm=True),
        train_dataset=data,
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
        optimizers=(torch.optim.AdamW(model.parameter_groups(0.02)), None),
    )
    run.train()
    assert (run.predict(data).predictions.argmax(-1) == data["labels"]).all()


# -- collators


@pytest.mark.parametrize("side", ["right", "left"])
def test_collators_pad_rows_and_labels_on_the_same_side(side):
    tokenizer = ElmoTokenizer(padding_side=side)
    model = small(ElmoForTokenClassification, labels=ENTITIES)
    rows = encoded(model).select(range(4))
    batch = DataCollatorForTokenClassification(tokenizer)([rows[number] for number in range(4)])
    assert batch["input_ids"].shape == (4, 8, 50)
    real = batch["attention_mask"].bool()
    assert real.sum(1).tolist() == [6, 3, 2, 8]
    assert real[:, 0 if side == "right" else -1].all()
    for number, row in enumerate(rows):
        here = real[number]
        assert batch["input_ids"][number, here].tolist() == row["input_ids"]
        assert batch["labels"][number, here].tolist() == row["labels"]
    assert not batch["input_ids"][~real].any() and (batch["labels"][~real] == -100).all()

    loss = model(**batch).loss
    assert torch.isfinite(loss)
    plain = DataCollatorWithPadding(tokenizer)([{"input_ids": row["input_ids"], "label": 1} for row in rows])
    assert torch.equal(plain["attention_mask"], batch["attention_mask"]) and plain["labels"].tolist() == [1] * 4
    scores = small(ElmoForSequenceClassification)(**plain)
    assert torch.isfinite(scores.logits).all() and torch.isfinite(scores.loss)


# -- the Hub

PUSH = """
import sys
from datasets import Dataset
from huggingface_hub import ModelCard
from transformers import DataCollatorForTokenClassification, TrainingArguments, pipeline
from elmo_hf import ElmoForTokenClassification, ElmoTokenizer, ElmoTrainer, encode_words

model, tokenizer = ElmoForTokenClassification.from_pretrained(sys.argv[1]), ElmoTokenizer()
data = Dataset.from_dict({"tokens": [["Rome", "!"]], "labels": [["B-LOC", "O"]]})
data = data.map(encode_words, batched=True, fn_kwargs={"tokenizer": tokenizer, "label2id": model.config.label2id})
arguments = TrainingArguments("trained", max_steps=1, report_to="none", use_cpu=True, push_to_hub=True,
                              hub_model_id="tester/trained")
trainer = ElmoTrainer(model, arguments, train_dataset=data, eval_dataset=data, processing_class=tokenizer,
                      data_collator=DataCollatorForTokenClassification(tokenizer))
trainer.train()
trainer.evaluate()
trainer.push_to_hub()
print(len(pipeline("ner", model="tester/trained")("Rome!", ignore_labels=[])))
"""


def test_the_trainer_pushes_a_model_that_loads(tmp_path):
    small(ElmoForTokenClassification, labels=ENTITIES).save_pretrained(tmp_path / "start")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    with LocalHub() as hub:
        environment = {**inherited, "NO_PROXY": "127.0.0.1", **hub.env}
        run = run_forked(["-c", PUSH, tmp_path / "start"], environment, tmp_path)
        assert run.returncode == 0, run.stderr
        assert run.stdout.split()[-1] == "2"
        files = hub.files("tester/trained")
    assert {"config.json", "model.safetensors", "tokenizer.json", "modeling_elmo_heads.py"} <= files.keys()
    assert b"custom_pipelines" in files["config.json"]
    card = ModelCard(files["README.md"].decode())
    assert card.data.tags == ["elmo", "generated_from_trainer"] and card.data.pipeline_tag == "token-classification"
    assert 'model="tester/trained"' in card.text and "N18-1202" in card.text
    assert "## Training\n" in card.text and "- learning_rate: 5e-05" in card.text and "- Loss: " in card.text
    assert "More information needed" not in card.text


def test_the_card_of_an_elmo_trainer_adds_to_that_of_the_model(tmp_path):
    model = small(ElmoForTokenClassification, labels=ENTITIES)
    run = trainer(model, tmp_path / "mine", trainer_class=ElmoTrainer, max_steps=1)
    run.train()
    run.create_model_card(license="mit", tags="ner")
    card = ModelCard.load(tmp_path / "mine" / "README.md")
    assert card.data.license == "mit" and card.data.tags == ["elmo", "ner", "generated_from_trainer"]
    assert "An ELMo: a deep bidirectional" in card.text and "- training_steps: 1" in card.text
    run.create_model_card()
    assert ModelCard.load(tmp_path / "mine" / "README.md").text.count("## Training\n") == 1


def test_a_plain_trainer_writes_its_own_card(tmp_path):
    assert "create_model_card" in vars(Trainer) and Trainer.create_model_card.__module__ == "transformers.trainer"
    trainer(small(ElmoForTokenClassification, labels=ENTITIES), tmp_path).create_model_card(model_name="plain")
    assert "# plain" in (tmp_path / "README.md").read_text()
