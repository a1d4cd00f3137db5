"""ElmoForPreTraining: losses and gradients against the plain statement, windows, states, tying, saving."""

import contextlib

import plain_training
import pytest
import torch
import transformers
from remote import run_python
from transformers import AutoModelForPreTraining

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.kernels import KERNELS, kernels_disabled
from elmo_hf.kernels import softmax as softmax_kernel
from elmo_hf.kernels.mixed_precision import has_bfloat16_units
from elmo_hf.model import modeling_elmo_lm as module
from elmo_hf.pretraining import sampled_softmax
from elmo_hf.pretraining.optimization import use_sparse_gradients
from elmo_hf.pretraining.sampled_softmax import draw_words

WORDS, ROWS, LENGTH = 11, 3, 5
SMALL = {
    "character_cnn_filters": [[1, 3], [2, 4]],
    "character_embedding_dim": 5,
    "max_characters_per_token": 6,
    "num_highway_layers": 1,
    "projection_size": 6,
    "cell_size": 8,
    "vocab_size": WORDS,
    "dropout": 0.0,
    "cell_clip": 0.3,
    "projection_clip": 0.2,
}
VARIANTS = {
    "characters": {},
    "no skip": {"use_skip_connections": False, "num_hidden_layers": 3},
    "words": {"word_input": True},
    "tied": {"word_input": True, "share_embedding_softmax": True},
    "one direction": {"bidirectional": False},
}


def small(**changes):
    transformers.set_seed(3)
    model = ElmoForPreTraining(ElmoConfig(**{**SMALL, **changes})).double()
    for parameter in model.parameters():  # clips that bind, and a bias that matters
        parameter.data.normal_(0, 0.5)
    return model.train()


def window(config, seed):
    generator = torch.Generator().manual_seed(seed)

    def ids():
        if config.word_input:
            return torch.randint(1, WORDS + 1, (ROWS, LENGTH), generator=generator)
        return torch.randint(1, 262, (ROWS, LENGTH, 6), generator=generator)

    def labels():
        return torch.randint(0, WORDS, (ROWS, LENGTH), generator=generator)

    first = {"input_ids": ids(), "labels": labels()}
    if config.bidirectional:
        return first | {"backward_input_ids": ids(), "backward_labels": labels()}
    return first | {"labels_are_targets": True}


def plain_states(config):
    h, c = torch.zeros(config.projection_size).double(), torch.zeros(config.cell_size).double()
    return [[[(h, c)] * config.num_hidden_layers] * config.num_directions for _ in range(ROWS)]


def gradients(model):
    actual = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return {name: grad.to_dense() if grad.is_sparse else grad for name, grad in actual.items()}


@pytest.fixture(params=["kernels", "plain functions"])
def kernels(request):
    with contextlib.nullcontext() if request.param == "kernels" else kernels_disabled():
        yield request.param == "kernels"


@pytest.mark.parametrize("sampled", [None, 4])
@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_gradients_and_carried_state_equal_the_plain_statement(variant, sampled, kernels, monkeypatch):
    model = small(**VARIANTS[variant], num_sampled=sampled)
    config = model.config
    parameters = dict(model.named_parameters())
    states, carried = plain_states(config), None
    for step in range(2):
        batch = window(config, step)
        drawn = [draw_words(4, WORDS) for _ in range(config.num_directions)]
        turn = iter(drawn)
        monkeypatch.setattr(sampled_softmax, "draw_words", lambda *_, turn=turn: next(turn))
        output = model(**batch, past_states=carried, use_cache=True)
        output.loss.backward()
        fast = gradients(model)

        plain_drawn = None if sampled is None else [(words.tolist(), tries) for words, tries in drawn]
        loss, means, states = plain_training.loss(parameters, config, batch, states, plain_drawn)
        loss.backward()
        plain = gradients(model)
        torch.testing.assert_close(output.loss.double(), loss, atol=1e-5, rtol=0)
        torch.testing.assert_close(output.forward_loss.double(), means[0], atol=1e-5, rtol=0)
        if config.bidirectional:
            torch.testing.assert_close(output.backward_loss.double(), means[1], atol=1e-5, rtol=0)
        assert fast.keys() == plain.keys()
        for name in plain:
            torch.testing.assert_close(fast[name], plain[name], atol=1e-5, rtol=0, msg=lambda m, name=name: name + m)

        carried = tuple(tuple(part.detach() for part in layer) for layer in output.past_states)
        states = [[[(h.detach(), c.detach()) for h, c in d] for d in row] for row in states]
        for row in range(ROWS):
            for direction in range(config.num_directions):
                for layer, (h, c) in enumerate(states[row][direction]):
                    torch.testing.assert_close(carried[layer][0][row, direction], h, atol=1e-6, rtol=0)
                    torch.testing.assert_close(carried[layer][1][row, direction], c, atol=1e-6, rtol=0)


def test_the_softmax_in_parts_is_the_softmax(kernels, monkeypatch):
    model = small()
    batch = window(model.config, 1)
    whole = model(**batch).loss
    whole.backward()
    expected = gradients(model)
    for owner in (softmax_kernel, module):
        monkeypatch.setattr(owner, "LOGITS_AT_ONCE", 2 * WORDS)
    parts = model(**batch).loss
    parts.backward()
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(gradients(model), expected)


def test_a_sentence_as_a_window_is_the_sentence():
    """Both ways to say the same: each position's own word, or what each direction reads and predicts."""
    model = small().eval()
    words = ["<S>", "</S>", "<UNK>", *"abcdefgh"]
    tokenizer = ElmoTokenizer("whitespace", word_vocabulary=words, max_characters_per_token=6)
    batch = tokenizer("a b c d", return_tensors="pt", return_lm_labels=True)
    plain = model(**batch)
    ids, lines = batch["input_ids"], batch["labels"]
    windows = model(
        input_ids=ids[:, :-1],
        labels=lines[:, 1:],
        backward_input_ids=ids.flip(1)[:, :-1],
        backward_labels=lines.flip(1)[:, 1:],
    )
    for name in ("loss", "forward_loss", "backward_loss"):
        torch.testing.assert_close(plain[name], windows[name])


def test_sampling_is_for_training_only():
    model = small(num_sampled=3)
    batch = window(model.config, 1)
    assert model(**batch).loss != model(**batch).loss
    model.eval()
    assert model(**batch).loss == model(**batch).loss == small().eval()(**batch).loss


def test_sparse_gradients_name_only_the_rows_that_were_touched():
    model = small(num_sampled=2)
    batch = window(model.config, 1)
    transformers.set_seed(1)
    model(**batch).loss.backward()
    dense = gradients(model)
    assert use_sparse_gradients(model) == ["softmax.weight"]
    transformers.set_seed(1)
    model(**batch).loss.backward()
    sparse = model.softmax.weight.grad.coalesce()
    targets = set(batch["labels"].flatten().tolist()) | set(batch["backward_labels"].flatten().tolist())
    assert len(sparse.indices()[0]) <= len(targets) + 4
    torch.testing.assert_close(gradients(model), dense)


def test_num_items_in_batch_divides_the_sums():
    model = small()
    batches = [window(model.config, seed) for seed in (1, 2)]
    total = sum(model(**batch, num_items_in_batch=2 * ROWS * LENGTH).loss for batch in batches)
    torch.testing.assert_close(total, sum(model(**batch).loss for batch in batches) / 2)


def test_the_mix_does_not_train_also_after_loading(tmp_path):
    model = small().float()
    model.save_pretrained(tmp_path)
    for first in (model, ElmoForPreTraining.from_pretrained(tmp_path)):
        assert not any(p.requires_grad for p in first.elmo.scalar_mix.parameters())
        assert all(p.requires_grad for name, p in first.named_parameters() if "scalar_mix" not in name)
    body = ElmoModel.from_pretrained(tmp_path)
    assert all(p.requires_grad for p in body.parameters())
    torch.testing.assert_close(body.state_dict(), model.elmo.state_dict())


@pytest.mark.parametrize("variant", ["characters", "tied"])
def test_saved_and_loaded_it_is_the_same(variant, tmp_path):
    model = small(**VARIANTS[variant], num_sampled=4).float().eval()
    model.save_pretrained(tmp_path)
    loaded, report = AutoModelForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert ("softmax.weight" in loaded.state_dict()) == (variant == "characters")
    batch = window(model.config, 1)
    assert loaded.config.num_sampled == 4 and loaded.eval()(**batch).loss == model(**batch).loss


def test_what_is_wrong_is_said():
    model = small()
    batch = window(model.config, 1)
    with pytest.raises(ValueError, match="expected backward_input_ids and backward_labels, both or neither"):
        model(**{**batch, "backward_labels": None})
    with pytest.raises(ValueError, match="Expected backward_input_ids and backward_labels too"):
        model(input_ids=batch["input_ids"], labels=batch["labels"], labels_are_targets=True)
    with pytest.raises(ValueError, match=r"Invalid shape of `backward_input_ids`: \(3, 4, 6\)"):
        model(**{**batch, "backward_input_ids": batch["input_ids"][:, 1:]})
    with pytest.raises(ValueError, match="no backward direction"):
        small(bidirectional=False)(**batch)
    with pytest.raises(ValueError, match=r"Invalid `past_states` of layer 1: \(2, 2, 6\) .* Expected \(3, 2, 6\)"):
        two = window(model.config, 1)
        states = model(**{key: value[:2] for key, value in two.items()}, use_cache=True).past_states
        model(**batch, past_states=states)
    with pytest.raises(Exception, match=r"Invalid `num_sampled`: 11. Expected None, or .* below `vocab_size` \(11\)"):
        ElmoConfig(**SMALL, num_sampled=11)
    with pytest.raises(Exception, match="Invalid `share_embedding_softmax`: True"):
        ElmoConfig(**SMALL, share_embedding_softmax=True)


REMOTE = """
import torch
from transformers import AutoModel, AutoModelForPreTraining
model = AutoModelForPreTraining.from_pretrained(folder, trust_remote_code=True).train()
torch.manual_seed(0)
batch = torch.load(folder + "/batch.pt")
loss = model(**batch).loss
loss.backward()
model.save_pretrained(again)
body = AutoModel.from_pretrained(again, trust_remote_code=True)
print(type(model).__module__.split(".")[0], type(body).__name__, float(loss.detach()))
"""


@pytest.mark.parametrize("sampled", [None, 4])
@pytest.mark.parametrize("wrong", [-1, -99, -101, WORDS])
def test_labels_are_words_or_none(wrong, sampled):
    model = small(num_sampled=sampled)
    batch = window(model.config, 1)
    batch["backward_labels"][1, 2] = wrong
    with pytest.raises(ValueError, match=f"Invalid label in `labels`: {wrong}. Expected 0 to 10"):
        model(**batch)
    batch["backward_labels"][1, 2] = -100
    assert model(**batch).loss > 0
    mask = torch.ones_like(batch["labels"])
    mask[1, 2], batch["backward_labels"][1, 2] = 0, wrong  # what stands in padding does not matter
    assert model(**batch, attention_mask=mask).loss > 0
    with pytest.raises(ValueError, match="Invalid shape of `labels`: .* Expected one word per token"):
        model(**{**batch, "labels": batch["labels"][:, :2]})
    with pytest.raises(TypeError, match="Invalid type of `labels`: torch.float32"):
        model(**{**batch, "labels": batch["labels"].float()})


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
@pytest.mark.parametrize("sampled", [None, 4])
def test_labels_of_narrow_types_are_the_same_words(dtype, sampled):
    model = small(num_sampled=sampled, vocab_size=200)  # line 156 is what -100 is in eight bits without a sign
    batch = window(model.config, 1)
    arguments = {"input_ids": batch["input_ids"], "attention_mask": torch.ones_like(batch["labels"])}
    arguments["attention_mask"][1, 2:] = 0
    torch.manual_seed(0)
    expected = model(**arguments, labels=batch["labels"]).loss
    torch.manual_seed(0)
    assert torch.equal(model(**arguments, labels=batch["labels"].to(dtype)).loss, expected)


@pytest.mark.parametrize("num_sampled", [None, 4])
def test_it_trains_under_autocast(kernels, num_sampled):
    """Plain functions then compute in fewer bits, and kernels do on processors with units for bfloat16."""
    model = small(num_sampled=num_sampled).float()
    batch, losses, gradients = window(model.config, 1), [], []
    for enabled in (False, True):
        model.zero_grad()
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = model(**batch).loss
        loss.backward()
        losses.append(loss.item())
        gradients.append(model.softmax.bias.grad)
    assert losses[1] == pytest.approx(losses[0], rel=0.0 if kernels and KERNELS and not has_bfloat16_units() else 0.02)
    assert torch.allclose(*gradients, atol=0.02)


def test_remote_code_trains_and_saves_again(tmp_path):
    """Without the package no negative samples are drawn: the loss is that of the whole vocabulary."""
    model = small(num_sampled=4).float()
    model.save_pretrained(tmp_path / "model")
    batch = window(model.config, 1)
    torch.save(batch, tmp_path / "model" / "batch.pt")
    model.config.num_sampled = None
    expected = float(model(**batch).loss.detach())
    places = {"folder": str(tmp_path / "model"), "again": str(tmp_path / "again")}
    module, name, loss = run_python(REMOTE, {"HF_HOME": str(tmp_path / "home")}, **places).split()
    assert (module, name) == ("transformers_modules", "ElmoModel")
    assert float(loss) == pytest.approx(expected, rel=1e-6)
    assert ElmoForPreTraining.from_pretrained(tmp_path / "again").config.num_sampled == 4


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_is_never_a_place_to_predict_from(side):
    torch.manual_seed(0)
    config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=6, cell_size=8, vocab_size=9)
    model = ElmoForPreTraining(config).eval()
    words = ["<S>", "</S>", "<UNK>", "a", "b", "c"]
    tokenizer = ElmoTokenizer("whitespace", word_vocabulary=words, padding_side=side)
    texts = ["a b c a", "b", ""]
    alone = [model(**tokenizer(text, return_tensors="pt", return_lm_labels=True)) for text in texts]
    pairs = torch.tensor([5.0, 2.0, 1.0])  # predictions of each direction
    together = model(**tokenizer(texts, padding=True, return_tensors="pt", return_lm_labels=True))
    for name in ("forward_loss", "backward_loss"):
        expected = (torch.stack([getattr(first, name) for first in alone]) * pairs).sum() / pairs.sum()
        torch.testing.assert_close(getattr(together, name), expected)
