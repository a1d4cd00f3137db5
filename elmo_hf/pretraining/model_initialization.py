"""Model initialization: a new model of a size, or a trained one with the same, an extended or a new vocabulary."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_hf.hub.consistency import vocabulary_hash
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo import ElmoModel
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import UNK, ElmoTokenizer

# Sizes by name; the three published ones have the same convolutions.
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "character_cnn_filters": [[1, 16], [2, 32], [3, 48], [4, 32]],
        "num_highway_layers": 1,
        "projection_size": 64,
        "cell_size": 256,
    },
    "small": {"num_highway_layers": 1, "projection_size": 128, "cell_size": 1024},
    "medium": {"num_highway_layers": 1, "projection_size": 256, "cell_size": 2048},
    "original": {},
}


def config_of_size(size: str | os.PathLike) -> ElmoConfig:
    """Returns the configuration of a named size, or of a config.json.

    Example:

    ```python
    >>> from elmo_hf.pretraining import config_of_size
    >>> config_of_size("small").cell_size
    1024

    ```
    """
    if size in SIZES:
        return ElmoConfig(**SIZES[os.fspath(size)])
    if not Path(size).is_file():
        raise ValueError(f"Invalid size: {size}. Expected {', '.join(SIZES)} or the path of a config.json.")
    try:
        return ElmoConfig(**json.loads(Path(size).read_text(encoding="utf-8")))
    except (json.JSONDecodeError, TypeError) as error:
        raise ValueError(f"{size} is no configuration: {error}") from None


def new_model(config: ElmoConfig, vocabulary: Sequence[str]) -> ElmoForPreTraining:
    """Returns an untrained language model over a vocabulary."""
    return ElmoForPreTraining(_with_vocabulary(config, vocabulary))


def check_trainable(name: str | os.PathLike):
    """Raises ValueError for a model that can be used but not trained."""
    if ElmoConfig.from_pretrained(name).int8_weights:
        raise ValueError(
            f"{name} has int8 weights, which cannot be trained. Expected the model that they were made from."
        )


def trained_model(name: str | os.PathLike, tokenizer: ElmoTokenizer) -> ElmoForPreTraining:
    """Loads a language model with the vocabulary of its tokenizer."""
    config = ElmoConfig.from_pretrained(name)
    if tokenizer.word_vocabulary is None or not config.vocab_size:
        raise ValueError(
            f"{name} has no vocabulary to predict words of. Expected --new-vocab, which gives it the words of the "
            "corpus, or a model that was converted with --vocabulary and --softmax."
        )
    model, report = _load_with_report(name)
    if any(key.startswith("softmax.") for key in report["missing_keys"]):
        raise ValueError(f"{name} has no softmax over words. Expected --new-vocab, which gives it a new one.")
    rows, words = model.config.vocab_size, len(tokenizer.word_vocabulary)
    if rows != words:
        raise ValueError(f"{name} has {rows:,} rows in its softmax, but {words:,} words in its vocabulary.")
    return model


def with_new_vocabulary(
    name: str | os.PathLike, before: Sequence[str] | None, vocabulary: Sequence[str], counts: np.ndarray
) -> ElmoForPreTraining:
    """Loads the biLM of a saved model of any class and gives it a softmax over another vocabulary.

    If it was saved with a softmax over the words `before`, the rows of words in both vocabularies are copied.
    """
    config = ElmoConfig.from_pretrained(name)
    if config.word_input:
        raise ValueError(
            f"{name} reads words of its own vocabulary; a new one fits only models that read characters. Expected "
            "--extend-vocab."
        )
    if before is not None and config.vocab_size == len(before):
        model, report = _load_with_report(name)
        if not any(key.startswith("softmax.") for key in report["missing_keys"]):
            return with_words(model, before, vocabulary, counts)
    body = ElmoModel.from_pretrained(name)
    model = new_model(config, vocabulary)
    model.elmo.load_state_dict(body.state_dict())
    return model


@torch.no_grad()
def _load_with_report(name: str | os.PathLike) -> tuple[ElmoForPreTraining, dict[str, Any]]:
    """A model, and which of its weights the checkpoint does not hold."""
    loader: Any = ElmoForPreTraining.from_pretrained  # its type does not know of the report
    return loader(name, output_loading_info=True)


def with_words(
    model: ElmoForPreTraining, before: Sequence[str], vocabulary: Sequence[str], counts: np.ndarray
) -> ElmoForPreTraining:
    """Replaces the vocabulary `before` of a model by `vocabulary`.

    Rows of words in both vocabularies are copied bit for bit. Each new word gets a copy of the row of `<UNK>`, which
    stood for it before, and of the probability of `<UNK>` its share of the `counts` of all new words.
    """
    if list(before) == list(vocabulary):
        return model
    lines = {word: line for line, word in enumerate(before)}
    old_lines = np.array([lines.get(word, -1) for word in vocabulary])
    is_new = old_lines < 0
    new = torch.from_numpy(is_new)
    sources = torch.from_numpy(np.where(is_new, lines[UNK], old_lines))
    new_counts = counts[is_new]
    shares = torch.from_numpy(new_counts / max(new_counts.sum(), 1)).clamp_(min=1e-12)
    changed = new_model(model.config, vocabulary)
    old_state, state = model.state_dict(), changed.state_dict()
    for name, table in old_state.items():
        if name in ("softmax.weight", "softmax.bias"):
            table = table[sources]
        elif name == "elmo.token_encoder.embedding.weight" and model.config.word_input:
            table = torch.cat([table[:1], table[1:][sources]])  # row 0 is no word
        state[name].copy_(table)
    state["softmax.bias"][new] += shares.log().to(state["softmax.bias"])
    return changed


def _with_vocabulary(config: ElmoConfig, vocabulary: Sequence[str]) -> ElmoConfig:
    changed = ElmoConfig.from_dict(config.to_dict())
    changed.vocab_size, changed.vocabulary_sha256 = len(vocabulary), vocabulary_hash(vocabulary)
    changed.num_sampled = None  # that of another vocabulary may exceed this one; the run sets its own
    changed.validate_architecture()
    return changed
