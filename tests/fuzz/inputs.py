"""Inputs of models with wrong types, shapes, ids and labels: errors come from the package, never from torch."""

import random
import traceback
from functools import cache
from pathlib import Path

import torch
from small_models import small

from elmo_hf import ElmoForPreTraining, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel

ACCEPTED = (ValueError, TypeError)
KINDS = [ElmoModel, ElmoForPreTraining, ElmoForTokenClassification, ElmoForSequenceClassification]
TYPES = [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32, torch.float16, torch.complex64]


@cache
def _model(kind: type) -> torch.nn.Module:
    return small(kind, vocab_size=9, num_labels=3)


def trial(rng: random.Random, folder: Path) -> str:
    """Calls a model with damaged inputs."""
    model = _model(rng.choice(KINDS))
    rows, tokens = rng.choice([1, 2, 3]), rng.choice([1, 3, 6])
    ids = torch.tensor([[[259, *(rng.randrange(1, 257) for _ in range(5)), 260] for _ in range(tokens)]] * rows)
    inputs = {"input_ids": ids, "attention_mask": torch.ones(rows, tokens, dtype=torch.int64)}
    labels = {ElmoForSequenceClassification: (rows,)}.get(type(model), (rows, tokens))
    if type(model) is not ElmoModel:
        inputs["labels"] = torch.randint(0, 3, labels, generator=torch.Generator().manual_seed(rng.randrange(2**31)))
    if rng.random() < 0.3 and type(model) in (ElmoModel, ElmoForPreTraining):
        with torch.no_grad():
            inputs["past_states"] = model(ids, use_cache=True).past_states
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        name = rng.choice(sorted(inputs))
        inputs[name] = _broken_states(rng, inputs[name]) if name == "past_states" else _broken(rng, inputs[name])
    model.config.problem_type = None
    try:
        with torch.no_grad():
            output = model(**inputs)
    except ACCEPTED as error:
        frames = traceback.extract_tb(error.__traceback__)
        if "elmo_hf" not in Path(frames[-1].filename).parts:
            raise AssertionError(f"not an error of the package: {type(error).__name__}: {error}") from error
        return str(error)
    loss = getattr(output, "loss", None)
    assert loss is None or loss.dim() == 0
    return "accepted"


def _broken(rng: random.Random, value: object) -> object:
    if not isinstance(value, torch.Tensor):
        return value
    way = rng.randrange(9)
    if way == 0:
        return value.to(rng.choice(TYPES))
    if way == 1:
        return value.tolist()
    if way == 2:
        return rng.choice([None, "text", 3, {}, value.numpy(), [value]])
    if way == 3:
        return value[..., : rng.randrange(value.shape[-1] + 1)]
    if way == 4:
        return value[: rng.randrange(len(value) + 1)]
    if way == 5:
        return value.flatten() if rng.random() < 0.5 else value[None]
    if way == 6:
        return value[..., None]
    changed = value.clone() if value.dtype == torch.bool else value.to(torch.promote_types(value.dtype, torch.int64))
    changed = changed.contiguous()
    if changed.numel():
        changed.view(-1)[rng.randrange(changed.numel())] = rng.choice([-1, -100, -101, 0, 9, 261, 262, 2**40])
    return changed


def _broken_states(rng: random.Random, states: tuple) -> object:
    is_whole = isinstance(states, tuple) and all(
        isinstance(pair, tuple) and all(isinstance(part, torch.Tensor) for part in pair) for pair in states
    )
    if not is_whole:  # broken before
        return states
    way = rng.randrange(6)
    if way == 0:
        return states[:1]
    if way == 1:
        return [list(pair) for pair in states]
    if way == 2:
        return tuple((h.double(), c) for h, c in states)
    if way == 3:
        return tuple((h[:, :1], c) for h, c in states)
    if way == 4:
        return rng.choice([states[0], "states", 3, torch.zeros(2, 2), ((None, None), (None, None))])
    return tuple((h.tolist(), c) for h, c in states)
