"""options.json of bilm-tf <-> ElmoConfig: one table of options, which is read in both directions."""

import json
import logging
import os
from dataclasses import dataclass
from typing import Any

from huggingface_hub.errors import StrictDataclassError

from elmo_hf.model.configuration_elmo import ElmoConfig

from .archives import MAX_DESCRIPTION

logger = logging.getLogger(__name__)

REQUIRED = object()
# Without limits a typing error could ask for billions of layers.
MAX_SIZE, MAX_COUNT = 10_000_000, 1_000
MIN_CLIP, MAX_CLIP = 1e-6, 1e6  # float32 holds these, with room for sums
MAX_DEPTH = 100
MAX_LISTED = 12


@dataclass(frozen=True)
class Option:
    """One option of options.json.

    Args:
        path: its keys, joined by dots.
        field: the field of ElmoConfig.
        kind: which values are valid, a key of KINDS.
        default: the value if the option is missing.
    """

    path: str
    field: str
    kind: str
    default: Any = REQUIRED


LSTM_OPTIONS = (
    Option("lstm.dim", "cell_size", "size"),
    Option("lstm.projection_dim", "projection_size", "size"),
    Option("lstm.n_layers", "num_hidden_layers", "count"),
    Option("lstm.cell_clip", "cell_clip", "clip", default=None),
    Option("lstm.proj_clip", "projection_clip", "clip", default=None),
    Option("lstm.use_skip_connections", "use_skip_connections", "switch", default=False),
    Option("dropout", "dropout", "number", default=0.1),
)
CHARACTER_OPTIONS = (
    Option("char_cnn.embedding.dim", "character_embedding_dim", "size"),
    Option("char_cnn.filters", "character_cnn_filters", "filters"),
    Option("char_cnn.activation", "character_cnn_activation", "name"),
    Option("char_cnn.n_highway", "num_highway_layers", "number of layers", default=0),
    Option("char_cnn.max_characters_per_token", "max_characters_per_token", "size", default=50),
)
WORD_OPTIONS = (Option("n_tokens_vocab", "vocab_size", "size"),)
# Options of training, which do not change vectors. The number of characters is 261 or 262 for the same weights.
IGNORED = {
    "all_clip_norm_val",
    "batch_size",
    "bidirectional",
    "char_cnn.n_characters",
    "milestone",
    "n_batches_per_epoch",
    "n_epochs",
    "n_negative_samples_batch",
    "n_tokens_vocab",
    "n_train_tokens",
    "sample_softmax",
    "share_embedding_softmax",
    "unroll_steps",
}
KINDS = {
    "size": (f"a whole number from 1 to {MAX_SIZE:,}", lambda x: _is_whole(x) and 1 <= x <= MAX_SIZE),
    "count": (f"a whole number from 1 to {MAX_COUNT:,}", lambda x: _is_whole(x) and 1 <= x <= MAX_COUNT),
    "number of layers": (
        f"a whole number from 0 to {MAX_COUNT:,}, or null",
        lambda x: x is None or (_is_whole(x) and 0 <= x <= MAX_COUNT),
    ),
    "clip": (
        f"a number from {MIN_CLIP:g} to {MAX_CLIP:g}, or null",
        lambda x: x is None or (_is_number(x) and MIN_CLIP <= x <= MAX_CLIP),
    ),
    "number": ("a number from 0 to below 1", lambda x: _is_number(x) and 0 <= x < 1),
    "switch": ("true or false", lambda x: isinstance(x, bool)),
    "name": ('"relu" or "tanh"', lambda x: x in ("relu", "tanh")),
    "filters": (
        f"a list of 1 to {MAX_COUNT:,} pairs [width, number] of whole numbers from 1 to {MAX_SIZE:,}",
        lambda x: isinstance(x, list) and 1 <= len(x) <= MAX_COUNT and all(map(_is_filter, x)),
    ),
}


def read_options(path: str | os.PathLike) -> dict:
    """The content of an options.json."""
    options = read_json(path, "the options.json of the weights")
    if not isinstance(options, dict):
        raise ValueError(f"{path} holds a {type(options).__name__}. Expected an object with the key `lstm`.")
    return options


def read_json(path: str | os.PathLike, expected: str) -> Any:
    """The content of a JSON file that describes a model.

    Args:
        path: the file.
        expected: what the file should be, for messages.
    """
    try:
        size = os.path.getsize(path)
        if size > MAX_DESCRIPTION:
            raise ValueError(f"{path} has {size:,} bytes. Expected {expected}, of at most {MAX_DESCRIPTION:,}.")
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist. Expected {expected}.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error}). Expected {expected}.") from None
    return parse_json(text, os.fspath(path), expected)


def parse_json(text: str, where: str, expected: str) -> Any:
    """Parses JSON whose brackets are at most MAX_DEPTH deep; an error names the file."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also for numbers of more than 4,300 digits
        raise ValueError(f"{where} is not JSON ({str(error)[:200]}). Expected {expected}.") from None
    level, depth = [content], 0
    while level:
        if depth > MAX_DEPTH:
            raise ValueError(f"{where} is nested more than {MAX_DEPTH} deep. Expected {expected}.")
        level = [
            item
            for value in level
            if isinstance(value, (dict, list))
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        depth += 1
    return content


def config_from_options(options: dict, bidirectional: bool, where: str = "options.json", **fields: Any) -> ElmoConfig:
    """ElmoConfig of an options.json.

    Args:
        options: the content of the file.
        bidirectional: whether the weights have a backward stack: not every options.json says.
        where: the file's name, for messages.
        fields: further fields of the config.

    Example:

    ```python
    >>> from elmo_hf.conversion import config_from_options
    >>> options = {"lstm": {"dim": 12, "projection_dim": 6, "n_layers": 2}, "n_tokens_vocab": 65}
    >>> config = config_from_options(options, bidirectional=True)
    >>> config.cell_size, config.word_input, config.cell_clip
    (12, True, None)

    ```
    """
    stated = options.get("bidirectional")
    if stated is not None and stated is not bidirectional:
        raise ValueError(
            f"{where}: `bidirectional` is {json.dumps(stated)}, but the weights have "
            f"{'both directions' if bidirectional else 'one direction'}."
        )
    word_input = "char_cnn" not in options
    table = LSTM_OPTIONS + (WORD_OPTIONS if word_input else CHARACTER_OPTIONS)
    if word_input and "n_tokens_vocab" not in options:
        raise ValueError(
            f"{where} has neither `char_cnn` nor `n_tokens_vocab`. Expected one of the two: a model reads characters "
            "or the words of a vocabulary."
        )
    values = {option.field: _value(options, option, where) for option in table}
    values["num_highway_layers"] = values.get("num_highway_layers") or 0
    known = {option.path for option in table} | IGNORED
    unknown = [path for path in _paths(options) if not any(path == k or path.startswith(f"{k}.") for k in known)]
    if unknown:
        more = f" and {len(unknown) - MAX_LISTED:,} more" if len(unknown) > MAX_LISTED else ""
        listed = ", ".join(f"`{path[:80]}`" for path in unknown[:MAX_LISTED])
        logger.warning("%s: unknown options, which are not used: %s%s.", where, listed, more)
    try:
        return ElmoConfig(bidirectional=bidirectional, word_input=word_input, **values, **fields)
    except StrictDataclassError as error:
        raise ValueError(f"{where}: {error.__cause__ or error}") from None


def options_from_config(config: ElmoConfig) -> dict:
    """The options.json of a config, as bilm-tf and AllenNLP read it.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig
    >>> from elmo_hf.conversion import options_from_config
    >>> options_from_config(ElmoConfig(cell_clip=None))["lstm"]
    {'dim': 4096, 'projection_dim': 512, 'n_layers': 2, 'proj_clip': 3.0, 'use_skip_connections': True}

    ```
    """
    options: dict = {"bidirectional": config.bidirectional}
    for option in LSTM_OPTIONS + (WORD_OPTIONS if config.word_input else CHARACTER_OPTIONS):
        value = getattr(config, option.field)
        # bilm-tf does not know null: such options are left out.
        if value is None or (option.path == "char_cnn.n_highway" and value == 0):
            continue
        *groups, name = option.path.split(".")
        section = options
        for group in groups:
            section = section.setdefault(group, {})
        section[name] = value
    if not config.word_input:
        options["char_cnn"]["n_characters"] = config.character_vocab_size
        if config.vocab_size:
            options["n_tokens_vocab"] = config.vocab_size
    return options


def _value(options: dict, option: Option, where: str) -> Any:
    value: Any = options
    expected, is_valid = KINDS[option.kind]
    for name in option.path.split("."):
        if not isinstance(value, dict) or name not in value:
            if option.default is REQUIRED:
                raise ValueError(f"{where}: `{option.path}` is missing. Expected {expected}.")
            return option.default
        value = value[name]
    if not is_valid(value):
        shown = json.dumps(value[:16] if isinstance(value, list) else value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise ValueError(f"{where}: Invalid `{option.path}`: {shown}. Expected {expected}.")
    return value


def _paths(options: dict, prefix: str = "") -> list[str]:
    """The keys of all values, joined by dots."""
    paths: list[str] = []
    for name, value in options.items():
        paths += _paths(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]
    return paths


def _is_whole(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _is_filter(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 2 and all(_is_whole(n) and 1 <= n <= MAX_SIZE for n in x)
