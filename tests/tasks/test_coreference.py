"""Coreference: what is pruned, what is lost, what becomes a cluster; and the same of it as of every head."""

import itertools

import pytest
import torch
from remote import run_python
from small_models import small
from transformers import Trainer, TrainingArguments

from elmo_hf import ElmoForCoreference, ElmoModel, ElmoTokenizer
from elmo_hf.tasks.coreference.head import Ranked, keep_best, spans_of
from elmo_hf.tasks.coreference.model import antecedent_losses, resolve

HEAD = {
    "size": 8,
    "hidden_size": 8,
    "longest": 4,
    "max_antecedents": 8,
    "spans_per_word": 2.0,
    "elmo_at": ["input", "output"],
}
DOCUMENT = [
    ["Ann", "came", "home", "."],
    ["She", "slept", "."],
    ["Bob", "saw", "her", "and", "his", "dog", ",", "Rex", "."],
]
MENTIONS = torch.tensor([[0, 0, 0, 1], [1, 0, 0, 1], [2, 2, 2, 1], [2, 0, 0, 2], [2, 4, 4, 2]])
CLUSTERS = [[(0, 0, 0), (1, 0, 0), (2, 2, 2)], [(2, 0, 0), (2, 4, 4)]]


def encode(side="right", more=0):
    tokenizer = ElmoTokenizer(padding_side=side)
    batch = tokenizer(DOCUMENT, is_split_into_words=True, padding=True, return_tensors="pt")
    if more:
        shape = batch["attention_mask"].shape
        wider = tokenizer.pad(
            {name: list(values) for name, values in batch.items()},
            padding="max_length",
            max_length=shape[1] + more,
            return_tensors="pt",
        )
        return wider
    return batch


def crosses(one, other):
    return one[0] < other[0] <= one[1] < other[1] or other[0] < one[0] <= other[1] < one[1]


def test_the_best_spans_are_kept_one_after_the_other_none_crossing():
    generator = torch.Generator().manual_seed(0)
    spans = spans_of([9], longest=5)[:, 1:].tolist()
    first, last = torch.tensor(spans).T
    for most in (3, 8, 30):
        scores = torch.randn(len(spans), generator=generator)
        kept = []
        for number in sorted(range(len(spans)), key=lambda number: -scores[number].item()):
            if len(kept) < most and not any(crosses(spans[number], spans[other]) for other in kept):
                kept.append(number)
        assert keep_best(scores, first, last, most).tolist() == sorted(kept, key=lambda number: spans[number])


def test_the_loss_is_over_all_right_antecedents():
    torch.manual_seed(0)
    spans = torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 0], [2, 2, 2]])
    numbers = torch.arange(4)[:, None] - torch.arange(1, 4)
    scores = torch.randn(4, 4)
    scores[:, 0] = 0
    scores[:, 1:][numbers < 0] = -1e4
    losses = antecedent_losses(Ranked(spans, numbers.clamp(min=0), scores), MENTIONS)
    shares = scores.softmax(1)
    right = [[0], [0], [2], [1, 3]]  # none for the first two, then the spans that are two, and one and three, before
    for row, places in enumerate(right):
        torch.testing.assert_close(losses[row], -shares[row, places].sum().log())


def test_it_learns_a_document_by_heart_whatever_the_padding():
    model = small(ElmoForCoreference, head=HEAD, freeze_bilm=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        loss = model(**encode(), labels=MENTIONS).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.clusters(ElmoTokenizer(), DOCUMENT) == CLUSTERS
    assert model.clusters(ElmoTokenizer(padding_side="left"), DOCUMENT) == CLUSTERS
    expected = model(**encode())
    for batch in (encode("left"), encode("right", more=3)):
        found = model(**batch)
        assert torch.equal(found.spans, expected.spans)
        torch.testing.assert_close(found.scores, expected.scores, atol=1e-5, rtol=0)
    # How many pairs are compared at once changes memory alone.
    import elmo_hf.tasks.coreference.head as head

    before, head.PAIRS = head.PAIRS, 7
    torch.testing.assert_close(model(**encode()).scores, expected.scores, atol=1e-6, rtol=0)
    head.PAIRS = before
    assert model.bfloat16().clusters(ElmoTokenizer(), DOCUMENT) == CLUSTERS


def test_what_is_new_beside_a_base_checkpoint_is_filled(tmp_path):
    small(ElmoModel).save_pretrained(tmp_path)
    torch.use_deterministic_algorithms(True)  # memory that nobody filled is then NaN
    try:
        model = ElmoForCoreference.from_pretrained(tmp_path, head=HEAD)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def test_nothing_to_find():
    model = small(ElmoForCoreference, head=HEAD)
    assert model.clusters(ElmoTokenizer(), []) == []
    assert model.clusters(ElmoTokenizer(), [[]]) == []
    assert model.clusters(ElmoTokenizer(), [["Ann"]]) == []
    empty = ElmoTokenizer()([[]], is_split_into_words=True, return_tensors="pt")
    assert torch.isfinite(model(**empty, labels=torch.zeros(0, 4, dtype=torch.long)).loss)


def test_clusters_are_chains_of_antecedents():
    torch.manual_seed(0)
    for _ in range(50):
        count = 6
        scores = torch.randn(count, count)
        numbers = (torch.arange(count)[:, None] - torch.arange(1, count)).clamp(min=0)
        for row in range(count):
            scores[row, row + 1 :] = -1e4
        scores[:, 0] = 0
        spans = torch.stack([torch.zeros(count), torch.arange(count), torch.arange(count)], 1).long()
        found = resolve(Ranked(spans, numbers, scores))
        links = [(row, row - choice) for row, choice in enumerate(scores.argmax(1).tolist()) if choice]
        groups = [{number} for number in range(count)]
        for one, other in links:
            merged = groups[one] | groups[other]
            for number in merged:
                groups[number] = merged
        expected = {tuple(sorted(group)) for group in groups if len(group) > 1}
        assert {tuple(sorted(span[1] for span in cluster)) for cluster in found} == expected


@pytest.mark.parametrize(
    "mention, sentence",
    [
        ([3, 0, 0, 1], "sentence 3, words 0 to 0. is not in the document"),
        ([0, 2, 4, 1], "sentence 0, words 2 to 4. is not in the document"),
        ([0, 2, 1, 1], "sentence 0, words 2 to 1. is not in the document"),
        ([0, 0, 0, 2], "is in the clusters 1 and 2. Expected a single cluster for a mention"),
    ],
)
def test_mentions_that_cannot_be_are_refused(mention, sentence):
    model = small(ElmoForCoreference, head=HEAD)
    with pytest.raises(ValueError, match=sentence):
        model(**encode(), labels=torch.cat([MENTIONS, torch.tensor([mention])]))


@pytest.mark.parametrize("labels", [MENTIONS[:, :3], MENTIONS[0], MENTIONS[None], MENTIONS.float()])
def test_labels_that_are_no_mentions_are_refused(labels):
    model = small(ElmoForCoreference, head=HEAD)
    with pytest.raises(ValueError, match=r"labels has the shape .* Expected whole numbers, \(mentions, 4\)"):
        model(**encode(), labels=labels)


def first(documents):
    return documents[0]


def test_a_resumed_run_ends_as_the_uninterrupted_one(tmp_path):
    data = [{**encode(), "labels": MENTIONS[:number]} for number in (2, 3, 5, 1)]

    def run(folder, steps, resume=False):
        model = small(ElmoForCoreference, head=HEAD)
        options = TrainingArguments(
            str(folder),
            num_train_epochs=1,
            per_device_train_batch_size=1,
            save_steps=2,
            report_to="none",
            use_cpu=True,
            remove_unused_columns=False,
            disable_tqdm=True,
            learning_rate=0.01,
            lr_scheduler_type="constant",
        )
        trainer = Trainer(model, options, train_dataset=data[:steps], data_collator=first)
        trainer.train(resume_from_checkpoint=resume)
        return model.state_dict()

    whole = run(tmp_path / "whole", 4)
    import shutil

    shutil.rmtree(tmp_path / "whole" / "checkpoint-4")
    again = run(tmp_path / "whole", 4, resume=True)
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())


def test_the_example_on_the_card_runs(tmp_path):
    model = small(ElmoForCoreference, head={**HEAD, "spans_per_word": 1.0})
    model.save_pretrained(tmp_path)
    ElmoTokenizer().save_pretrained(tmp_path)
    card = (tmp_path / "README.md").read_text()
    code = card.split("```python\n")[1].split("```")[0]
    printed = run_python(code, {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}, None)
    expected = model.clusters(ElmoTokenizer(), [["Ann", "came", "home", "."], ["She", "slept", "."]])
    assert printed.splitlines()[-1] == str(expected)


def test_spans_are_all_that_fit_into_a_sentence():
    expected = [
        (sentence, i, j)
        for sentence, length in enumerate([4, 0, 2])
        for i, j in itertools.product(range(length), repeat=2)
        if i <= j < i + 3
    ]
    assert [tuple(span) for span in spans_of([4, 0, 2], 3).tolist()] == expected
