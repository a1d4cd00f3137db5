"""Texts in many scripts: no character is lost or added, and all ways of calling the tokenizer agree."""

import pickle
import random
from functools import cache
from pathlib import Path

import numpy as np

from elmo_hf import ElmoTokenizer
from elmo_hf.model.splitting_elmo import SPLITTINGS

ALPHABETS = [
    "ab c.,'-$%0",
    " \t\n\r\x0b\x1c\x1d\x85\u00a0\u2028\u3000\u200b\ufeff",
    "aé\u0301\u0938\u094d\u0924\u093f\U0001f600\u200d\U0001f468\u00df\u0130\u4e2d\u0644",
    "<S>/ UNKPAD<>",
    "\ud800\udfff\udc80a \x00\x7f",
    "1,.'5`\"()[]…–—’“” No Dr U S v s",
]


@cache
def _tokenizer(splitting: str, truncation: str, side: str) -> ElmoTokenizer:
    words = ["<S>", "</S>", "<UNK>", "a", "b", "é"]
    return ElmoTokenizer(splitting, truncation, words, padding_side=side)


def text(rng: random.Random, longest: int = 60) -> str:
    """A random text."""
    alphabets = rng.sample(ALPHABETS, rng.choice([1, 1, 2, 6]))
    return "".join(rng.choice(rng.choice(alphabets)) for _ in range(rng.randrange(longest))) * rng.choice(
        [1, 1, 1, 30]
    )


def trial(rng: random.Random, folder: Path) -> str:
    """Compares batches, single texts and split words."""
    tokenizer = _tokenizer(
        rng.choice(list(SPLITTINGS)), rng.choice(["characters", "bytes"]), rng.choice(["left", "right"])
    )
    texts = [text(rng) for _ in range(rng.choice([1, 2, 5]))]
    batch = tokenizer(texts, padding=True, return_tensors="np", return_offsets_mapping=True, return_lm_labels=True)
    mask = batch["attention_mask"].astype(bool)
    assert batch["input_ids"].shape[:2] == mask.shape == batch["labels"].shape
    assert ((batch["input_ids"] > 0).any(-1) == mask).all() and (batch["labels"][~mask] == -100).all()
    assert batch["input_ids"].min() >= 0 and batch["input_ids"].max() <= 261
    for row, (sentence, words) in enumerate(zip(texts, tokenizer.split(texts), strict=True)):
        spans = batch["offset_mapping"][row][mask[row]][1:-1]
        spelled = sentence.translate(SPLITTINGS[tokenizer.splitting].letters or {})
        assert [spelled[begin:end] for begin, end in spans] == words  # every word stands where it is said to
        covered = np.zeros(len(sentence) + 1, bool)
        for begin, end in spans:
            assert begin < end and not covered[begin:end].any()
            covered[begin:end] = True
        left = "".join(character for character, is_covered in zip(sentence, covered, strict=False) if not is_covered)
        assert not left.strip() or tokenizer.splitting == "moses-en" and not left.strip(" \t\n\x00\u200b\ufeff"), left
        alone = tokenizer(sentence, return_tensors="np")
        assert (alone["input_ids"][0] == batch["input_ids"][row][mask[row]]).all()
        again = tokenizer([words], is_split_into_words=True, return_tensors="np")
        assert (again["input_ids"][0] == alone["input_ids"][0]).all()
    length = rng.randrange(3, 12)
    cut = tokenizer(texts, truncation=True, max_length=length, stride=rng.randrange(length - 2), padding=True)
    assert all(len(row) <= length for row in cut["input_ids"])
    tokenizer.batch_decode(batch["input_ids"])
    if rng.random() < 0.1:
        copy = pickle.loads(pickle.dumps(tokenizer))
        assert copy(texts)["input_ids"] == tokenizer(texts)["input_ids"]
    return "accepted"
