"""Checks that the files of a saved model belong together: its configuration, its weights and its tokenizer.

A model and a tokenizer that contradict each other compute, and every vector is wrong. So each loads only beside the
other's files if these agree, and whatever receives a loaded pair checks it again. Converted and pretrained models
record a hash of their vocabulary in the configuration.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig
from transformers.utils import cached_file

TOKENIZER_CONFIG, WEIGHTS, WEIGHTS_INDEX = "tokenizer_config.json", "model.safetensors", "model.safetensors.index.json"
# Arguments of from_pretrained that say where the files are.
LOCATION = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")


def vocabulary_hash(words: Iterable[str]) -> str:
    """The SHA-256 of a vocabulary, as `config.vocabulary_sha256` records it.

    Example:

    ```python
    >>> from elmo_hf.hub.consistency import vocabulary_hash
    >>> vocabulary_hash(["<S>", "</S>", "<UNK>"])[:8]
    'e3d2b96c'

    ```
    """
    return hashlib.sha256("\n".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def check_agreement(config: Any, tokenizer: Any, source: Any = None, needs_words: bool = False):
    """Raises unless the inputs that a tokenizer returns are those that a model of this configuration reads.

    Args:
        config: an ElmoConfig.
        tokenizer: an ElmoTokenizer; a tokenizer of another kind is not checked.
        source: the folder or repository of both, for the message.
        needs_words: the vocabulary must be that of the softmax, too.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoTokenizer
    >>> from elmo_hf.hub.consistency import check_agreement
    >>> check_agreement(ElmoConfig(), ElmoTokenizer())
    >>> try:
    ...     check_agreement(ElmoConfig(), ElmoTokenizer(max_characters_per_token=5))
    ... except ValueError as error:
    ...     print(str(error)[:90])
    The tokenizer does not fit the model: `max_characters_per_token` is 5 in the tokenizer, bu

    ```
    """
    if not hasattr(tokenizer, "word_truncation"):
        return
    for problem in _disagreements(config, tokenizer, needs_words):
        place = "" if source is None else f" in {source}"
        expected = "Expected the files of both as they were saved together"
        raise ValueError(f"The tokenizer does not fit the model{place}: {problem}. {expected}.")


def _disagreements(config: Any, tokenizer: Any, needs_words: bool) -> Iterator[str]:
    message = "`{}` is {!r} in the tokenizer, but {!r} in config.json".format
    if tokenizer.word_input != config.word_input:
        yield message("word_input", tokenizer.word_input, config.word_input)
    sizes = tokenizer.dictionary and {
        "characters": tokenizer.dictionary.characters,
        "words": tokenizer.dictionary.words,
    }
    sizes_of_file = sizes and {name: len(ids) for name, ids in sizes.items()}
    expected = config.dictionary and {name: config.dictionary[name] for name in ("characters", "words")}
    if sizes_of_file != expected:
        yield message("dictionary", sizes_of_file, expected)
    width = tokenizer.max_characters_per_token if tokenizer.dictionary is None else tokenizer.dictionary.width
    has_characters = tokenizer.dictionary is None or tokenizer.dictionary.characters
    if not config.word_input and has_characters and width != config.max_characters_per_token:
        yield message("max_characters_per_token", width, config.max_characters_per_token)
    if config.word_input or needs_words:
        yield from _other_words(config, tokenizer.word_vocabulary)


def _other_words(config: Any, words: Sequence[str]) -> Iterator[str]:
    if len(words) != config.vocab_size:
        yield f"its vocabulary has {len(words):,} words, but `vocab_size` in config.json is {config.vocab_size:,}"
    recorded = getattr(config, "vocabulary_sha256", None)
    if recorded is not None and vocabulary_hash(words) != recorded:
        yield "its vocabulary holds other words, or in another order, than `vocabulary_sha256` in config.json records"


def check_loaded_tokenizer(tokenizer: Any, name: Any, arguments: dict[str, Any]):
    """Checks a tokenizer with the files beside it: tokenizer_config.json, and config.json if there is one.

    Args:
        tokenizer: the loaded tokenizer.
        name: the folder or repository.
        arguments: those of `from_pretrained`. What they set is not compared.
    """
    from elmo_hf.model.configuration_elmo import ElmoConfig

    location = {key: value for key, value in arguments.items() if key in LOCATION}
    try:
        values, _ = PreTrainedConfig.get_config_dict(name, **location)
    except (OSError, ValueError):
        values = {}  # a tokenizer by itself
    if values.get("model_type", "elmo") != "elmo":
        ElmoConfig.get_config_dict(name, **location)  # raises the error for a model of another type
    if "splitting" not in arguments and _find_file(name, TOKENIZER_CONFIG, location) is None:
        raise ValueError(
            f"{name} has no {TOKENIZER_CONFIG}, which says how text is split into words. Expected the files of the "
            "tokenizer as they were saved, or the argument `splitting`."
        )
    if values.get("model_type") != "elmo" or {"word_vocabulary", "dictionary"} & arguments.keys():
        return
    check_agreement(ElmoConfig.from_dict(values, name_or_path=str(name)), tokenizer, name)


def check_weight_types(name: Any, arguments: dict[str, Any]):
    """Raises if a file stores weights of the biLM or the softmax as integers, which loading would cast to floats."""
    location = {key: value for key, value in arguments.items() if key in LOCATION}
    for path in _weight_files(name, location):
        for key, entry in _header(path).items():
            is_bilm = key.removeprefix("elmo.").startswith(("token_encoder.", "bilm.", "softmax."))
            if not is_bilm or key.endswith("_int8") or "F" in entry["dtype"]:
                continue
            raise ValueError(
                f"Invalid type of {key} in {path}: {entry['dtype']}. Expected floating-point numbers; integers are "
                "not the weights of a trained model."
            )


def _weight_files(name: Any, location: dict[str, Any]) -> list[Path]:
    path = _find_file(name, WEIGHTS, location)
    if path is not None:
        return [Path(path)]
    index = _find_file(name, WEIGHTS_INDEX, location)
    if index is None:
        return []
    files = sorted(set(json.loads(Path(index).read_text(encoding="utf-8"))["weight_map"].values()))
    paths = [_find_file(name, file, location) for file in files]
    return [Path(path) for path in paths if path is not None]


def _find_file(name: Any, file: str, location: dict[str, Any]) -> str | None:
    """A file of a folder or repository; None where there is none."""
    if not isinstance(name, (str, os.PathLike)):
        return None
    try:
        return cached_file(name, file, _raise_exceptions_for_missing_entries=False, **location)
    except OSError:
        return None


def _header(path: Path) -> dict[str, dict]:
    """The header of a safetensors file: type, shape and place of each tensor by its name."""
    with path.open("rb") as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))


__all__ = ["check_agreement", "check_loaded_tokenizer", "check_weight_types", "vocabulary_hash"]
