"""What holds for every head, found by its row in the table: it learns, saves, travels, and reads its own row only."""

import json
import os

import numpy as np
import pytest
import torch
from datasets import Dataset
from remote import run_python
from small_models import ENTITIES, small
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from elmo_hf import (
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)
from elmo_hf.tasks import HEADS, Head, head_class

OWNERS = {
    owner.__name__: owner
    for owner in (ElmoForTokenClassification, ElmoForSequenceClassification, ElmoForQuestionAnswering)
}
# Networks in sizes for tests; what is not here has its preset or its defaults.
SIZES = {
    "bilstm-crf": {"size": 12, "layers": 2, "dropout": 0.1},
    "srl": {"size": 12, "layers": 3, "mark_size": 4},
    "bcn": {"size": 8, "maxout_size": 12, "dropout": 0.1},
    "esim": {"size": 8, "dropout": 0.1},
    "bidaf": {"size": 8, "dropout": 0.1, "no_answer": True},
}
VOCABULARY = [f"w{number}" for number in range(12)]
LINEAR = [Head(owner, "linear", "", "") for owner in OWNERS]
HEADS_OF_ROWS = [*LINEAR, *(head for head in HEADS if head.owner in OWNERS)]
ids = [f"{head.owner.removeprefix('ElmoFor')}-{head.name}" for head in HEADS_OF_ROWS]
every_head = pytest.mark.parametrize("row", HEADS_OF_ROWS, ids=ids)


def has_output(row):
    found = OWNERS[row.owner].linear_head if row in LINEAR else head_class(row.owner, row.name)
    return "output" in found.Settings.places


def model_of(row, at=("input", "output"), words=True, **settings):
    at = [place for place in at if place == "input" or has_output(row)]
    head = {"type": row.name, **SIZES.get(row.name, {}), "elmo_at": at, **settings.pop("head", {})}
    if words:
        head |= {"word_vectors": [len(VOCABULARY), 5]}
    model = small(OWNERS[row.owner], labels=ENTITIES, head=head, **settings)
    if words:
        model.set_word_vectors(np.random.default_rng(0).normal(size=(len(VOCABULARY), 5)))
    return model


def rows_of(model, count, seed=0):
    """Sentences and what a model should say of them, as its Trainer gets them, a row each."""
    random = np.random.default_rng(seed)
    tokenizer = ElmoTokenizer(vector_words=VOCABULARY)
    rows = []
    for number in range(count):
        sides = [list(random.choice(VOCABULARY, random.integers(2, 7))) for _ in range(2)]
        row = dict(tokenizer(*[[side] for side in sides[: 1 + model.reads_pairs]], is_split_into_words=True))
        row = {name: value[0] for name, value in row.items()}
        length = len(row["input_ids"])
        if "TokenClassification" in type(model).__name__:
            at = int(random.integers(len(sides[0])))
            row["token_type_ids"] = [int(place == at + 1) for place in range(length)]
            row["labels"] = [-100, *random.choice([0, 1, 3], length - 2).tolist(), -100]
        elif "SequenceClassification" in type(model).__name__:
            row["labels"] = number % 5
        else:
            first = len(sides[0]) + 3 + int(random.integers(len(sides[1])))
            answer = 0 if number % 4 == 0 and model.head_settings.no_answer else first
            row |= {"start_positions": answer, "end_positions": answer}
        rows.append(row)
    return rows


def collate(rows, side="right"):
    tokenizer = ElmoTokenizer(padding_side=side)
    return tokenizer.pad(rows, return_tensors="pt")


def outputs(model, batch):
    # Positions of answers are counted from the row's begin, wherever the padding is.
    batch = {name: values for name, values in batch.items() if not name.endswith("_positions")}
    with torch.no_grad():
        output = model(**batch)
    return [output[name] for name in ("logits", "start_logits", "end_logits") if name in output]


def trainer(model, folder, rows, **options):
    defaults = {"per_device_train_batch_size": 8, "save_strategy": "no", "report_to": "none", "use_cpu": True}
    return Trainer(
        model,
        TrainingArguments(str(folder), disable_tqdm=True, **{**defaults, **options}),
        train_dataset=Dataset.from_list(rows),
        data_collator=collate,
        optimizers=(torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02), None),
    )


class StopAfter(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step


@every_head
def test_it_learns_forty_examples_by_heart(row):
    torch.manual_seed(0)
    model = model_of(row, mix_dropout=0.0, freeze_bilm=False, head={"tune_word_vectors": True}).train()
    for module in model.modules():
        if hasattr(module, "dropout") and isinstance(module.dropout, float):
            module.dropout = 0.0
        if hasattr(module, "p"):
            module.p = 0.0
    batch = collate(rows_of(model, 40))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(500):
        loss = model(**batch).loss
        if loss < 0.02:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    found = outputs(model, batch)
    if "labels" in batch:
        wanted = batch["labels"]
        right = (found[0].argmax(-1) == wanted)[wanted != -100]
    else:
        right = (found[0].argmax(-1) == batch["start_positions"]) & (found[1].argmax(-1) == batch["end_positions"])
    assert right.float().mean() >= 0.95, right.float().mean()
    assert all(parameter.grad is not None for parameter in model.parameters())


@every_head
def test_padding_batch_mates_and_order_change_nothing(row):
    model = model_of(row)
    rows = rows_of(model, 6)
    whole = outputs(model, collate(rows))
    turned = outputs(model, collate(rows[::-1], side="left"))
    for number, one in enumerate(rows):
        alone = outputs(model, collate([one]))
        length = len(one["input_ids"])
        for single, batched, other in zip(alone, whole, turned, strict=True):
            batched, other = batched[number], other[len(rows) - 1 - number]
            if single.dim() > 1 and "Sequence" not in row.owner:
                batched, other = batched[:length], other[-length:]
            torch.testing.assert_close(batched, single[0], atol=1e-5, rtol=0)
            if row.owner != "ElmoForQuestionAnswering":  # its first position stands for no answer
                torch.testing.assert_close(other, single[0], atol=1e-5, rtol=0)
            else:
                torch.testing.assert_close(other[1:], single[0][1:], atol=1e-5, rtol=0)


@every_head
@pytest.mark.parametrize("at, words", [([], True), (["input"], False), (["output"], True)])
def test_elmo_at_the_input_the_output_or_nowhere(row, at, words):
    model = model_of(row, at=at, words=words)
    passes = []
    model.elmo.bilm.register_forward_hook(lambda *_: passes.append(1))
    batch = collate(rows_of(model, 4))
    if not words:
        with pytest.raises(ValueError, match="Unexpected `word_vector_ids`: this model's head has no `word_vectors`"):
            model(**batch)
        del batch["word_vector_ids"]
    assert torch.isfinite(model(**batch).loss)
    at = [place for place in at if place == "input" or has_output(row)]
    assert len(passes) == bool(at)
    assert ("output_mix" in model.layer_weights()) == ("output" in at)
    if words:
        with pytest.raises(ValueError, match="Missing `word_vector_ids`. A tokenizer with"):
            model(**{name: value for name, value in batch.items() if name != "word_vector_ids"})


@every_head
def test_what_is_new_beside_a_base_checkpoint_is_filled(row, tmp_path):
    small(ElmoModel).save_pretrained(tmp_path)
    head = model_of(row, words=False).config.head
    torch.use_deterministic_algorithms(True)  # memory that nobody filled is then NaN
    try:
        torch.manual_seed(0)
        model_class = OWNERS[row.owner]
        model = model_class.from_pretrained(tmp_path, head=head, num_labels=5)
    finally:
        torch.use_deterministic_algorithms(False)
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter).all() and parameter.abs().max() < 5, name
        if parameter.dim() > 1:
            assert parameter.std() > 0.01, name


@every_head
def test_a_head_of_another_type_begins_anew(row, tmp_path):
    """Also where the two have weights of one name, of the same shape or not."""
    saved = model_of(row, at=["input"])
    saved.save_pretrained(tmp_path)
    for other in HEADS_OF_ROWS:
        if other.owner != row.owner or other is row:
            continue
        head = {**model_of(other, at=["input"]).config.head}
        torch.use_deterministic_algorithms(True)  # memory that nobody filled is then NaN
        try:
            model = type(saved).from_pretrained(tmp_path, head=head)
        finally:
            torch.use_deterministic_algorithms(False)
        former = saved.state_dict()
        for name, tensor in model.state_dict().items():
            if name.startswith("elmo."):
                assert torch.equal(tensor, former[name]), name
            else:
                assert torch.isfinite(tensor).all(), name
                if tensor.dim() > 1 and name in former and tensor.shape == former[name].shape:
                    assert not torch.equal(tensor, former[name]), name
        assert not model.word_vectors.table.any()
        model.set_word_vectors(np.ones((len(VOCABULARY), 5)))
        assert torch.isfinite(model(**collate(rows_of(model, 3))).loss)


@every_head
def test_in_bfloat16(row):
    model = model_of(row)
    batch = collate(rows_of(model, 4))
    expected = outputs(model, batch)
    for found, wanted in zip(outputs(model.bfloat16(), batch), expected, strict=True):
        assert torch.isfinite(found).all()
        torch.testing.assert_close(found.float().clamp(min=-9), wanted.clamp(min=-9), atol=0.3, rtol=0.1)


@every_head
def test_a_resumed_run_ends_as_the_uninterrupted_one(row, tmp_path):
    options = {"save_strategy": "steps", "save_steps": 2, "max_steps": 4, "seed": 7}
    rows = rows_of(model_of(row), 24)
    whole = model_of(row)
    trainer(whole, tmp_path / "whole", rows, **{**options, "save_strategy": "no"}).train()
    stopped = trainer(model_of(row), tmp_path / "stopped", rows, **options)
    stopped.add_callback(StopAfter(3))
    stopped.train()
    set_seed(99)
    resumed = model_of(row)
    trainer(resumed, tmp_path / "stopped", rows, **options).train(resume_from_checkpoint=True)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


REMOTE = """
import json
import torch
from transformers import AutoTokenizer
from transformers.dynamic_module_utils import get_class_from_dynamic_module
answers = {}
for name, owner in json.loads(rows):
    model_class = get_class_from_dynamic_module(f"modeling_elmo_heads.{owner}", f"{folder}/{name}")
    try:
        model = model_class.from_pretrained(f"{folder}/{name}")
    except ImportError as error:
        answers[name] = str(error)
        continue
    batch = torch.load(f"{folder}/{name}/batch.pt")
    tokenizer = AutoTokenizer.from_pretrained(f"{folder}/{name}", trust_remote_code=True)
    assert tokenizer([["w3"]], is_split_into_words=True)["word_vector_ids"] == [[0, 5, 0]]
    output = model(**batch)
    torch.save([output[key] for key in ("logits", "start_logits", "end_logits") if key in output],
               f"{folder}/{name}/found.pt")
    model.save_pretrained(f"{folder}/{name}/again")
    answers[name] = [type(model).__module__, model.config.head["type"]]
print(json.dumps(answers))
"""


def test_all_come_back_saved_and_by_remote_code(tmp_path):
    """By the package, and by remote code that uses the package; without it in one sentence what is missing."""
    expected, rows = {}, []
    for name, row in zip(ids, HEADS_OF_ROWS, strict=True):
        model = model_of(row)
        batch = collate(rows_of(model, 3))
        model.save_pretrained(tmp_path / name)
        ElmoTokenizer(vector_words=VOCABULARY).save_pretrained(tmp_path / name)
        torch.save(dict(batch), tmp_path / name / "batch.pt")
        again = type(model).from_pretrained(tmp_path / name)
        assert again.config.head == model.config.head
        expected[name] = outputs(model, batch)
        torch.testing.assert_close(outputs(again, batch), expected[name], atol=1e-6, rtol=0)
        rows.append((name, row.owner))
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    values = {"rows": json.dumps(rows), "folder": str(tmp_path)}
    with_package = json.loads(run_python(REMOTE, env, None, **values).splitlines()[-1])
    for name, row in zip(ids, HEADS_OF_ROWS, strict=True):
        check_remote(with_package[name], row, tmp_path / name, expected[name])
    without = json.loads(run_python(REMOTE, env, **values).splitlines()[-1])
    for name, row in zip(ids, HEADS_OF_ROWS, strict=True):
        purpose = "Word vectors need" if row in LINEAR else f"The head {row.name!r} needs"
        assert without[name] == f"{purpose} the package: pip install elmo-hf."


def check_remote(answer, row, folder, expected):
    assert answer[0].startswith("transformers_modules.") and answer[1] == row.name
    torch.testing.assert_close(torch.load(folder / "found.pt"), expected, atol=1e-6, rtol=0)
    assert "word_vectors.table" in again_names(folder / "again")
    (folder / "found.pt").unlink()


def again_names(folder):
    from safetensors import safe_open

    with safe_open(os.fspath(folder / "model.safetensors"), "pt") as file:
        return set(file.keys())


@every_head
def test_labels_that_cannot_be_are_refused(row):
    model = model_of(row)
    batch = collate(rows_of(model, 3))
    if "labels" in batch:
        batch["labels"][..., -2:] = 9
        with pytest.raises(ValueError, match="Invalid label in `labels`: 9. Expected 0 to 4, and -100 for none"):
            model(**batch)
    else:
        batch["start_positions"][1] = 1
        with pytest.raises(ValueError, match="Invalid `answer of row 1`"):
            model(**batch)


@every_head
def test_inputs_that_cannot_be_are_refused(row):
    model = model_of(row)
    batch = collate(rows_of(model, 3))
    mask = batch["attention_mask"]
    wrong = {
        "exactly one of the two": {"input_ids": None},
        "Invalid shape of `word_vector_ids`: .* Expected a value per token": {"word_vector_ids": mask[:, 1:].long()},
        "Invalid type of `token_type_ids`: torch.float32. Expected integers": {"token_type_ids": mask.float()},
        "got an unexpected keyword argument 'past_states'": {"past_states": ()},
    }
    for message, given in wrong.items():
        with pytest.raises((ValueError, TypeError), match=message):
            model(**{**batch, **given})


@every_head
def test_word_vectors_that_cannot_be_are_refused(row):
    model = model_of(row)
    with pytest.raises(ValueError, match=r"Invalid `vectors`: \[3, 5\]. Expected .* \[12, 5\]"):
        model.set_word_vectors(torch.zeros(3, 5))
    batch = collate(rows_of(model, 3))
    batch["word_vector_ids"][0, 1] = 14
    with pytest.raises(ValueError, match="Invalid `word_vector_ids`: \\[14\\]. Expected ids from 0 to 13"):
        model(**batch)
    model.word_vectors.table.data.zero_()
    with pytest.raises(ValueError, match="table of word vectors is empty"):
        model(**collate(rows_of(model, 3)))
    with pytest.raises(ValueError, match="Invalid `elmo_at`: \\[\\]. Expected 'input' in the list, or word_vectors"):
        model_of(row, at=[], words=False)
