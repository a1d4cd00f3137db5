"""The trainer: the original's update, state carried along, sparse and dense the same, freezing, what it reports."""

import copy
import json

import pytest
import torch
from small_texts import SIZES, lines
from transformers import TrainerCallback, TrainingArguments, set_seed

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.kernels.mixed_precision import has_bfloat16_units
from elmo_hf.pretraining import Corpus, ElmoPretrainer, TrainingWindows, batch_shards, build_vocabulary
from elmo_hf.pretraining import trainer as trainer_module
from elmo_hf.pretraining.callbacks import (
    STEPS_MEASURED,
    FreezeWarmup,
    PeriodicEvaluationAndSaving,
    ProgressReport,
    TimeLimit,
)
from elmo_hf.pretraining.intervals import Interval
from elmo_hf.pretraining.precision import PRECISIONS
from elmo_hf.pretraining.schedule import Clock, LearningRateSchedule

STREAMS, STEPS = 4, 5


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus.write(lines(60), tmp_path_factory.mktemp("text") / "corpus", ElmoTokenizer("whitespace"))


@pytest.fixture
def make(corpus, tmp_path):
    """A trainer of a small model; keywords are those of the configuration and of TrainingArguments."""

    def trainer(callbacks=(), held_out=(), schedule=None, clock=None, precision="float32", **settings):
        set_seed(0)
        words = build_vocabulary(corpus.words, corpus.counts.tolist())
        names = set(ElmoConfig.__dataclass_fields__)
        changes = {key: value for key, value in settings.items() if key in names}
        config = ElmoConfig(**SIZES, vocab_size=len(words), **{"dropout": 0.0, **changes})
        arguments = {
            "optim": "adagrad",
            "learning_rate": 0.2,
            "lr_scheduler_type": "constant",
            "max_grad_norm": 10.0,
            "max_steps": 6,
            "save_strategy": "no",
            "report_to": "none",
            "logging_steps": 2,
            "use_cpu": True,
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
            **{key: value for key, value in settings.items() if key not in names},
        }
        tokenizer = ElmoTokenizer(
            "whitespace", word_vocabulary=words, max_characters_per_token=12, word_input=config.word_input
        )
        windows = TrainingWindows(corpus, tokenizer, config, STREAMS, STEPS)
        arguments = TrainingArguments(str(tmp_path / "run"), **arguments)
        model = ElmoForPreTraining(config)
        rest = None, list(callbacks), schedule, clock, False, precision
        return ElmoPretrainer(model, arguments, windows, tokenizer, held_out, *rest)

    return trainer


def original_training(model, windows, steps, clip=10.0, lr=0.2):
    """The original's loop, restated: gradients of unroll_steps * loss, global norm, accumulators from 1."""
    parameters = {name: p for name, p in model.named_parameters() if "scalar_mix" not in name}
    sums, states, norms = {name: torch.ones_like(p) for name, p in parameters.items()}, None, []
    model.train()
    for step in range(steps):
        windows.set_epoch(step // windows.windows_per_epoch)
        first = step % windows.windows_per_epoch * STREAMS
        output = model(**windows.__getitems__(list(range(first, first + STREAMS))), past_states=states, use_cache=True)
        states = tuple(tuple(part.detach() for part in layer) for layer in output.past_states)
        gradients = dict(
            zip(parameters, torch.autograd.grad(STEPS * output.loss, list(parameters.values())), strict=True)
        )
        norm = torch.sqrt(sum((g**2).sum() for g in gradients.values()))
        norms.append(float(norm))
        with torch.no_grad():
            for name, p in parameters.items():
                g = gradients[name] * min(1.0, clip / float(norm))
                sums[name] += g**2
                p -= lr * g / torch.sqrt(sums[name])
    return norms


@pytest.mark.parametrize("clip", [10.0, 0.7])
def test_updates_are_the_originals(make, clip):
    trainer = make(max_grad_norm=clip, logging_steps=1, max_steps=30)
    plain = copy.deepcopy(trainer.model)
    norms = original_training(plain, copy.copy(trainer.train_dataset), 30, clip)
    trainer.train()
    assert max(norms) > clip or clip == 10.0
    reported = [log["grad_norm"] for log in trainer.state.log_history if "grad_norm" in log]
    torch.testing.assert_close(reported, norms, rtol=1e-3, atol=1e-4)
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(
            parameter, plain.get_parameter(name), rtol=0, atol=1e-5, msg=lambda m, n=name: n + m
        )


@pytest.mark.parametrize("settings", [{}, {"word_input": True}, {"word_input": True, "share_embedding_softmax": True}])
def test_sparse_gradients_train_the_same(make, settings):
    sparse = make(num_sampled=4, max_grad_norm=0.5, **settings)
    dense = make(num_sampled=4, max_grad_norm=0.5, **settings)
    assert sparse.sparse_names
    dense.model.sparse_gradients = False
    if settings:
        dense.model.elmo.token_encoder.embedding.sparse = False
    set_seed(1)
    sparse.train()
    set_seed(1)
    dense.train()
    assert sparse.model.get_parameter(sparse.sparse_names[0]).grad is None  # taken away after the step
    for name, parameter in sparse.model.named_parameters():
        torch.testing.assert_close(parameter, dense.model.get_parameter(name), rtol=0, atol=1e-6)


def test_accumulated_windows_follow_each_other(make):
    """Two windows for an update: the state goes through both, and the loss is the mean of both."""
    trainer = make(gradient_accumulation_steps=2, max_steps=2, max_grad_norm=0.0)
    plain = copy.deepcopy(trainer.model).train()
    windows, states, total = copy.copy(trainer.train_dataset), None, 0.0
    for window in range(2):
        batch = windows.__getitems__(list(range(window * STREAMS, (window + 1) * STREAMS)))
        output = plain(**batch, past_states=states, use_cache=True)
        states = tuple(tuple(part.detach() for part in layer) for layer in output.past_states)
        total = total + output.loss / 2
    total.backward()

    class First(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
            if state.global_step == 0:
                for name, parameter in model.named_parameters():
                    if parameter.grad is not None:
                        torch.testing.assert_close(parameter.grad, plain.get_parameter(name).grad, rtol=0, atol=1e-6)

    trainer.add_callback(First())
    trainer.train()


@pytest.mark.parametrize("optim, precision", [("adagrad", "float32"), ("adamw_torch_fused", "bf16")])
def test_shards_resume_bit_for_bit(make, optim, precision, tmp_path, monkeypatch):
    """With dropout and negative samples, which draw random numbers in each thread; in both precisions."""
    monkeypatch.setattr(batch_shards, "ROWS_PER_SHARD", 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    calls, real = [], trainer_module.run_shards
    monkeypatch.setattr(trainer_module, "run_shards", lambda *rest: calls.append(1) or real(*rest))
    settings = {"optim": optim, "precision": precision, "dropout": 0.3, "num_sampled": 4, "learning_rate": 0.01}
    whole = make(**settings, callbacks=[PeriodicEvaluationAndSaving(None, Interval(steps=2))])
    whole.train()
    assert len(calls) == 6
    resumed = make(**settings)
    checkpoint = tmp_path / "run" / "checkpoint-2"
    resumed.load_weights(checkpoint)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert len(calls) == 10
    for name, parameter in resumed.model.named_parameters():
        assert torch.equal(parameter, whole.model.get_parameter(name)), name


@pytest.mark.skipif(not has_bfloat16_units(), reason="the processor has no units for bfloat16")
def test_mixed_precision_trains_alike(make):
    """The losses are near those of float32, the weights stay float32, and evaluation computes in float32."""
    exact, mixed = (
        make(max_steps=10, logging_steps=1, precision=name, held_out=["the cat"]) for name in PRECISIONS[1:]
    )
    before = [trainer.evaluate()["eval_loss"] for trainer in (exact, mixed)]
    assert before[0] == before[1]
    exact.train()
    mixed.train()
    losses = [[log["loss"] for log in t.state.log_history if "loss" in log] for t in (exact, mixed)]
    assert losses[0] != losses[1]
    torch.testing.assert_close(losses[1], losses[0], rtol=3e-3, atol=0)
    assert all(p.dtype == torch.float32 for p in mixed.model.parameters())


def test_shards_train_like_the_whole_batch(make, monkeypatch):
    whole = make(max_steps=10, logging_steps=1)
    whole.train()
    monkeypatch.setattr(batch_shards, "ROWS_PER_SHARD", 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    divided = make(max_steps=10, logging_steps=1)
    divided.train()
    for name in ("loss", "forward_perplexity", "backward_perplexity", "grad_norm"):
        expected, actual = ([log[name] for log in t.state.log_history if name in log] for t in (whole, divided))
        assert len(actual) == 10
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


def test_adamw_with_a_schedule(make):
    trainer = make(
        optim="adamw_torch", lr_scheduler_type="linear", learning_rate=0.01, num_sampled=4, max_grad_norm=1.0
    )
    trainer.train()
    logs = [log for log in trainer.state.log_history if "learning_rate" in log]
    assert logs[0]["learning_rate"] > logs[-1]["learning_rate"] and not trainer.sparse_names


def test_epochs_are_passes(make, corpus):
    trainer = make(max_steps=-1, num_train_epochs=2)
    trainer.train()
    assert trainer.state.global_step == 2 * (corpus.num_pairs // (STREAMS * STEPS))


def test_what_is_reported(make):
    lines, held_out = [], ["the cat sat", "a dog"]
    trainer = make(
        callbacks=[ProgressReport(lines.append), PeriodicEvaluationAndSaving(Interval(steps=4), None)],
        held_out=held_out,
        max_steps=8,
    )
    before = trainer.evaluate()["eval_perplexity"]
    trainer.train()
    log = next(log for log in trainer.state.log_history if "loss" in log)
    assert {"forward_perplexity", "backward_perplexity", "tokens_per_second", "seconds_left", "epoch"} <= log.keys()
    assert any("held-out perplexity" in line and line.startswith("step 8/8") for line in lines)
    assert any("tokens/s" in line and "left" in line for line in lines)
    json.dumps(trainer.state.log_history)
    assert trainer.evaluate()["eval_perplexity"] < before


def test_frozen_at_first(make):
    seen = []

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            seen.append((model.elmo.bilm.forward_layers[0].bias.clone(), model.softmax.bias.clone()))

    trainer = make(callbacks=[FreezeWarmup(3), Watch()])
    start = trainer.model.elmo.bilm.forward_layers[0].bias.clone(), trainer.model.softmax.bias.clone()
    trainer.train()
    for body, softmax in seen[:3]:
        assert torch.equal(body, start[0]) and not torch.equal(softmax, start[1])
    assert not torch.equal(seen[3][0], start[0])
    assert not trainer.model.config.freeze_bilm


def test_a_constant_rate_goes_on_until_the_clock_says_so(make):
    clock, schedule = Clock(limit=10.0, before=11.0), LearningRateSchedule("constant")
    trainer = make(callbacks=[TimeLimit(clock, schedule, pytest.fail)], schedule=schedule, clock=clock)
    trainer.train()
    assert trainer.state.global_step == 1
    assert [group["lr"] for group in trainer.optimizer.param_groups] == [0.2]


def test_a_falling_rate_learns_once_how_many_steps_a_time_is(make):
    clock, schedule, fixed = Clock(limit=3600.0), LearningRateSchedule("cosine", warmup=4), []
    limit = TimeLimit(clock, schedule, lambda schedule: fixed.append((schedule.steps, schedule.known_from)))
    trainer = make(callbacks=[limit], schedule=schedule, clock=clock, max_steps=STEPS_MEASURED + 40, logging_steps=1)
    trainer.train()
    known = STEPS_MEASURED + 10
    assert fixed == [(STEPS_MEASURED + 40, known)]  # an hour is more steps than there are
    found = [log["learning_rate"] for log in trainer.state.log_history if "learning_rate" in log]
    assert found[:5] == pytest.approx([0.04, 0.08, 0.12, 0.16, 0.2]) and set(found[5:known]) == {0.2}
    assert all(one > other for one, other in zip(found[known:], found[known + 1 :], strict=False))
    # The same schedule in a run that went on later, from nothing but what was fixed.
    again = LearningRateSchedule("cosine", 4, *fixed[0])
    assert found == pytest.approx([0.2 * again(step) for step in range(len(found))])


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_rates_fall_to_zero(name):
    schedule = LearningRateSchedule(name, warmup=2, steps=12)
    assert [schedule(0), schedule(1)] == pytest.approx([1 / 3, 2 / 3]) and schedule(2) == 1.0
    assert schedule(7) == pytest.approx(0.5) and schedule(12) == pytest.approx(0.0)


def test_a_run_that_proves_to_be_short_rises_shortly():
    schedule = LearningRateSchedule("linear", warmup=100)
    assert schedule(99) == pytest.approx(100 / 101)
    schedule.fix(60, known_from=20)
    assert schedule(19) == pytest.approx(20 / 101) and schedule(20) == 1.0 and schedule(40) == pytest.approx(0.5)


def test_a_loss_that_is_no_number_ends_the_run(make):
    trainer = make(learning_rate=1e30, logging_steps=1)
    with pytest.raises(ValueError, match=r"The loss is (nan|inf) after step \d+: .* there is no checkpoint before it"):
        trainer.train()


def test_weights_that_are_no_numbers_are_not_saved(make, tmp_path):
    class Spoil(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            if state.global_step == 4:
                model.softmax.bias.data[2] = float("nan")

    trainer = make(callbacks=[Spoil(), PeriodicEvaluationAndSaving(None, Interval(steps=2))])
    with pytest.raises(ValueError, match="softmax.bias contains NaN .*checkpoint-2 is the last good checkpoint"):
        trainer.train()
    assert [path.name for path in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-2"]


def test_intervals():
    assert Interval.parse("90s") == Interval(seconds=90) and Interval.parse("1.5h") == Interval(seconds=5400)
    for text in ("", "0", "1.5", "ten", "3 days"):
        with pytest.raises(ValueError, match="Expected steps"):
            Interval.parse(text)


@pytest.mark.parametrize("word_input", [False, True])
def test_a_row_that_begins_with_a_sentence_begins_from_zeros(make, word_input):
    seen = []

    def watched(trainer):
        forward = trainer.model.forward

        def noting(**inputs):
            seen.append(inputs)
            return forward(**inputs)

        trainer.model.forward = noting
        return trainer

    trainer = watched(make(word_input=word_input, max_steps=12))
    trainer.fresh_starts = True
    trainer.train()
    fresh = carried = 0
    for number, inputs in enumerate(seen):
        if inputs["past_states"] is None:
            continue
        rows = trainer.train_dataset.window(number)
        for row, segments in enumerate(rows):
            zeros = all(not part[row].any() for layer in inputs["past_states"] for part in layer)
            assert zeros == (segments[0].start == 0)
            fresh, carried = fresh + zeros, carried + (not zeros)
    assert fresh and carried
