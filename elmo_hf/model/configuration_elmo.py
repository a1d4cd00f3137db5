"""ElmoConfig: the sizes and options of an ELMo model."""

import difflib
import importlib
import json
from collections.abc import Callable
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig
from transformers.utils import logging

if TYPE_CHECKING:
    # A save copies the files that relative imports reach: these make every save carry every file, so that a base
    # model can later be loaded as any other class.
    from .modeling_elmo_heads import ElmoForTokenClassification  # noqa: F401
    from .modeling_elmo_lm import ElmoForPreTraining  # noqa: F401
    from .tokenization_elmo import ElmoTokenizer  # noqa: F401

logger = logging.get_logger(__name__)

# The bytes of a token are 0 to 255; these stand for boundaries and padding. An id in `input_ids` is the byte + 1,
# because 0 means "no token".
BEGIN_OF_SENTENCE_BYTE, END_OF_SENTENCE_BYTE, BEGIN_OF_WORD_BYTE, END_OF_WORD_BYTE, PADDING_BYTE = range(256, 261)
PADDING_CHARACTER = PADDING_BYTE + 1  # the id that fills a row after the end of its word

ORIGINAL_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
MAX_LAYERS, MAX_SIZE = 1000, 10_000_000
FLOAT_DTYPES = ("float32", "float16", "bfloat16", "float64")
MIX_NAMES = ("learned", "average", "top")
# Fields with one number, what they may be, and how messages say it.
FIELD_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("character_embedding_dim projection_size cell_size", lambda size: size >= 1, "an integer of at least 1"),
    ("num_hidden_layers", lambda layers: layers >= 1, "an integer of at least 1"),
    ("num_highway_layers vocab_size", lambda number: number >= 0, "an integer of at least 0"),
    # A damaged file must not build modules until the memory is full, or reach torch with sizes beyond 64 bits.
    (
        "character_embedding_dim projection_size cell_size vocab_size max_characters_per_token",
        lambda size: size <= MAX_SIZE,
        f"at most {MAX_SIZE:,}",
    ),
    ("num_hidden_layers num_highway_layers", lambda layers: layers <= MAX_LAYERS, f"at most {MAX_LAYERS:,}"),
    ("cell_clip projection_clip", lambda clip: clip is None or clip > 0, "a number above 0, or None for no clipping"),
    ("dropout mix_dropout", lambda rate: 0 <= rate < 1, "a probability from 0 to below 1"),
    ("mix_l2", lambda factor: factor >= 0, "a number of at least 0"),
)
# What `trust_remote_code=True` loads for each Auto class. A save by itself would name only the class that was saved.
AUTO_MAP = {
    "AutoConfig": "configuration_elmo.ElmoConfig",
    "AutoTokenizer": ["tokenization_elmo.ElmoTokenizer", None],
    "AutoModel": "modeling_elmo.ElmoModel",
    "AutoModelForPreTraining": "modeling_elmo_lm.ElmoForPreTraining",
    "AutoModelForTokenClassification": "modeling_elmo_heads.ElmoForTokenClassification",
    "AutoModelForSequenceClassification": "modeling_elmo_heads.ElmoForSequenceClassification",
    "AutoModelForQuestionAnswering": "modeling_elmo_heads.ElmoForQuestionAnswering",
}
# Files whose pipelines are ours: today's, and that of models saved before.
PIPELINE_FILES = ("modeling_elmo_heads.", "pipeline_elmo.")
PIPELINE_ALIASES = {"ner": "token-classification", "sentiment-analysis": "text-classification"}
# True if this file was loaded from a model repository rather than from the installed package.
IS_REMOTE_COPY = __name__.startswith("transformers_modules.")


@strict
class ElmoConfig(PreTrainedConfig):
    """The configuration of an ELMo model. The defaults are those of the original model of 93.6M parameters.

    Args:
        character_vocab_size: rows of the character embedding, including the zero row of "no token".
        character_embedding_dim: size of a character embedding.
        character_cnn_filters: pairs `[width, number]` of the convolutions over characters.
        character_cnn_activation: `"relu"` or `"tanh"`, applied after the maximum over positions.
        num_highway_layers: highway layers after the convolutions.
        max_characters_per_token: character positions of a token, including its begin and end marks.
        projection_size: size P of a token vector in one direction; twice this is `hidden_size`.
        cell_size: size H of the LSTM cells; equal to P means no projection.
        num_hidden_layers: LSTM layers of each direction.
        cell_clip, projection_clip: bounds inside the recurrence; None for no bound.
        use_skip_connections: add each layer's input to its output from the second layer on.
        bidirectional: a backward stack beside the forward one.
        word_input: an embedding of `vocab_size` words replaces the character encoder.
        dictionary: ids of characters and words from dictionaries replace bytes, as in ELMoForManyLangs:
            `{"characters": number, "words": number, "word_dim": size}`, 0 for what is absent.
        vocab_size: words of the language model's vocabulary.
        vocabulary_sha256: a hash of these words, so that another vocabulary is noticed; None if it is not recorded.
        share_embedding_softmax: with `word_input`, the language model's softmax has the embedding as its weight.
        num_sampled: negative samples of each direction while ElmoForPreTraining trains with a sampled softmax; the
            vocabulary must then be sorted by frequency. None, or without the package elmo_hf: the full softmax.
        boundary_ids: input ids of `<S>` and `</S>`, of their first character unless `word_input`.
        dropout: dropout probability inside the biLM; acts only in ElmoForPreTraining.
        mix: how layers become one vector: `"learned"`, `"average"`, `"top"`, a layer's number, or fixed weights.
        mix_layer_norm: normalise layers before mixing over the `"sentence"` or, as the original, over the `"batch"`.
        mix_l2: factor of the L2 penalty on the mix's weights.
        mix_dropout: dropout probability after the mix, inside the task heads.
        head: the head of a task class and its settings: `"linear"`, or `{"type": "linear", "pooling": "max"}`.
            A later value of the same type updates the former; another type replaces it. The task class validates
            and completes it.
        freeze_bilm: True, False, or a list of parts (`"token_encoder"`, `"layer_1"`, ...) that do not train.
            None for the default of the class: heads freeze, ElmoModel and ElmoForPreTraining do not.
        int8_weights: the large weights are stored in eight bits, see [`~ElmoModel.quantize`].
        card_data: the `license`, `language` and `origin` of the model card, and the tokenizer's `splitting`, which
            selects the example of the card.
    """

    model_type = "elmo"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_states"]

    character_vocab_size: int = 262
    character_embedding_dim: int = 16
    character_cnn_filters: list | tuple = field(default_factory=lambda: [list(pair) for pair in ORIGINAL_FILTERS])
    character_cnn_activation: Literal["relu", "tanh"] = "relu"
    num_highway_layers: int = 2
    max_characters_per_token: int = 50
    projection_size: int = 512
    cell_size: int = 4096
    num_hidden_layers: int = 2
    cell_clip: float | int | None = 3.0
    projection_clip: float | int | None = 3.0
    use_skip_connections: bool = True
    bidirectional: bool = True
    word_input: bool = False
    dictionary: dict | None = None
    vocab_size: int = 0
    vocabulary_sha256: str | None = None
    share_embedding_softmax: bool = False
    num_sampled: int | None = None
    boundary_ids: list | tuple | None = None
    dropout: float | int = 0.1
    mix: str | int | list | tuple = "learned"
    mix_layer_norm: Literal["sentence", "batch"] | None = None
    mix_l2: float | int = 0.0
    mix_dropout: float | int = 0.5
    head: str | dict | None = None
    freeze_bilm: bool | list | tuple | None = None
    int8_weights: bool = False
    card_data: dict | None = None

    def __post_init__(self, **kwargs: Any):
        for name in ("character_cnn_filters", "boundary_ids", "mix", "freeze_bilm"):
            setattr(self, name, _tuples_as_lists(getattr(self, name)))
        if self.boundary_ids is None:
            # A vocabulary starts with <S> and </S>, and ids count from 1.
            self.boundary_ids = [1, 2] if self.word_input else [BEGIN_OF_SENTENCE_BYTE + 1, END_OF_SENTENCE_BYTE + 1]
        _check_json(self.head)
        for name, dtype in (("dtype", self.dtype), ("torch_dtype", kwargs.get("torch_dtype"))):
            is_float = dtype is None or str(dtype).removeprefix("torch.") in FLOAT_DTYPES
            check(is_float, name, dtype, ", ".join(FLOAT_DTYPES))
        # Other entries of the auto_map stay; those of this package are always complete.
        self.auto_map = {**(kwargs.pop("auto_map", None) or {}), **AUTO_MAP}
        saved = kwargs.get("custom_pipelines")
        # `pipeline` asks for trust_remote_code if a config names pipelines; the installed package registers its own.
        kwargs["custom_pipelines"] = Pipelines(saved or {}) if IS_REMOTE_COPY else foreign_pipelines(saved)
        super().__post_init__(**kwargs)

    def __setattr__(self, name: str, value: Any):
        # from_pretrained(head=...) first reads the saved head, and then sets this one.
        if name == "head" and value is not None:
            value = _updated_head(self.__dict__.get("head"), value)
        super().__setattr__(name, value)

    @property
    def num_directions(self) -> int:
        """2 if bidirectional, else 1."""
        return 2 if self.bidirectional else 1

    @property
    def hidden_size(self) -> int:
        """Size of the output vectors: the concatenated projections of all directions."""
        return self.num_directions * self.projection_size

    @property
    def token_filters(self) -> int:
        """Number F of all convolution filters."""
        return sum(number for _, number in self.character_cnn_filters)

    @property
    def row_width(self) -> int:
        """Number of ids in a token's row: its characters; with a dictionary of words, the word id before them."""
        if self.dictionary is None:
            return self.max_characters_per_token
        characters = self.max_characters_per_token if self.dictionary["characters"] else 0
        return characters + (1 if self.dictionary["words"] else 0)

    @property
    def row_ids(self) -> int:
        """Number of different ids in a row, including 0 for no token."""
        if self.dictionary is None:
            return self.character_vocab_size
        return max(self.dictionary["characters"], self.dictionary["words"]) + 1

    @property
    def mark_position(self) -> int:
        """Column of a row that is compared with `boundary_ids`."""
        if self.dictionary is None:
            return 1
        return (1 if self.dictionary["words"] else 0) + 1 if self.dictionary["characters"] else 0

    @property
    def bilm_parts(self) -> list[str]:
        """Names of the parts that can be frozen separately."""
        return ["token_encoder"] + [f"layer_{number}" for number in range(1, self.num_hidden_layers + 1)]

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any):
        """Makes a configuration from a dictionary as in transformers; errors name the model and the field."""
        name = kwargs.pop("_source", None) or kwargs.get("name_or_path")
        prefix = f"Invalid configuration of {name}:" if name else "Invalid configuration:"
        architectures = config_dict.get("architectures") or []
        if not isinstance(architectures, list) or not all(isinstance(item, str) for item in architectures):
            raise ValueError(f"{prefix} `architectures` is {architectures!r}. Expected a list of class names.")
        try:
            return super().from_dict(config_dict, **kwargs)
        except (StrictDataclassError, ValueError) as error:
            raise ValueError(f"{prefix} {error.__cause__ or error}") from error
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{prefix} {error}. Expected the configuration of an ELMo.") from error

    @classmethod
    def get_config_dict(cls, pretrained_model_name_or_path: Any, **kwargs: Any) -> tuple[dict[str, Any], dict]:
        """Reads config.json as in transformers; a model of another type is an error."""
        pretrained_model_name_or_path = resolve_name(pretrained_model_name_or_path, kwargs)
        try:
            config_dict, unused_kwargs = super().get_config_dict(pretrained_model_name_or_path, **kwargs)
        except TypeError:  # transformers expects a JSON object
            config_dict, unused_kwargs = {}, {}
        model_type = config_dict.get("model_type") if isinstance(config_dict, dict) else None
        if model_type != cls.model_type:
            content = f"a model of type {model_type!r}" if model_type else "no config.json with a `model_type`"
            expected = "an ELMo, as `elmo-hf convert` and `elmo-hf pretrain` write it"
            raise ValueError(f"{pretrained_model_name_or_path} holds {content}. Expected {expected}.")
        return config_dict, {**unused_kwargs, "_source": pretrained_model_name_or_path}

    def validate_token_ids(self):
        """Skips the check of transformers: special tokens are rows of characters, and `vocab_size` counts words."""

    def validate_architecture(self):
        """Checks the fields, also against each other; each message names a field, its value and what is expected."""
        for names, rule, expected in FIELD_RULES:
            for name in names.split():
                check(rule(getattr(self, name)), name, getattr(self, name), expected)
        expected = f"at least `projection_size` ({self.projection_size}), because a projection only reduces the size"
        check(self.cell_size >= self.projection_size, "cell_size", self.cell_size, expected)
        if self.word_input:
            check(self.vocab_size >= 1, "vocab_size", self.vocab_size, "at least 1 with `word_input=True`")
        else:
            self._validate_characters()
        check_mix(self.mix, self.num_hidden_layers + 1)
        if isinstance(self.freeze_bilm, list):
            expected = f"True, False, None, or a list of parts out of {', '.join(self.bilm_parts)}"
            is_valid = all(part in self.bilm_parts for part in self.freeze_bilm)
            check(is_valid, "freeze_bilm", self.freeze_bilm, expected)
        shared, sampled = self.share_embedding_softmax, self.num_sampled
        check(not shared or self.word_input, "share_embedding_softmax", shared, "False with `word_input=False`")
        # A model without a vocabulary cannot say how many negative samples are too many.
        is_valid = sampled is None or (sampled >= 1 and (not self.vocab_size or sampled < self.vocab_size))
        expected = f"None, or an integer from 1 to below `vocab_size` ({self.vocab_size})"
        check(is_valid, "num_sampled", sampled, expected)

    def _validate_characters(self):
        character_ids = 262
        if self.dictionary is not None:
            sizes = self.dictionary
            is_valid = (
                set(sizes) == {"characters", "words", "word_dim"}
                and all(isinstance(size, int) and size >= 0 for size in sizes.values())
                and (sizes["characters"] or sizes["words"])
                and bool(sizes["words"]) == bool(sizes["word_dim"])
            )
            check(is_valid, "dictionary", sizes, "the numbers `characters`, `words` and `word_dim`, not all 0")
            if not sizes["characters"]:
                return
            character_ids = sizes["characters"] + 1
        size = self.character_vocab_size
        check(size == character_ids, "character_vocab_size", size, str(character_ids))
        filters = self.character_cnn_filters
        pairs = [pair for pair in filters if isinstance(pair, list) and len(pair) == 2]
        are_integers = all(isinstance(size, int) and 1 <= size <= MAX_SIZE for pair in pairs for size in pair)
        is_valid = filters and len(pairs) == len(filters) and are_integers
        expected = f"a list of pairs [width, number] of integers from 1 to {MAX_SIZE:,}"
        check(is_valid, "character_cnn_filters", filters, expected)
        widest = max(width for width, _ in filters)
        expected = f"at least 3 (begin mark, one byte, end mark) and the width of the widest filter ({widest})"
        length = self.max_characters_per_token
        check(length >= max(3, widest), "max_characters_per_token", length, expected)


def package_attribute(module: str, name: str, purpose: str = "") -> Any:
    """A function or table of the package elmo_hf; without it None, or an error if there is a purpose."""
    try:
        return getattr(importlib.import_module(f"elmo_hf.{module}"), name)
    except ImportError as error:
        if purpose:
            raise ImportError(f"{purpose} the package: pip install elmo-hf.") from error
        return None


def call_package(module: str, name: str, *arguments: Any, **keywords: Any) -> Any:
    """Calls a function of the package elmo_hf, where it is installed."""
    function = package_attribute(module, name)
    return None if function is None else function(*arguments, **keywords)


def check(is_valid: Any, name: str, value: Any, expected: str):
    """Raises unless a field or argument is valid."""
    if not is_valid:
        raise ValueError(f"Invalid `{name}`: {value!r}. Expected {expected}.")


def choices(name: Any, names: list[str]) -> str:
    """The accepted names, and the most similar one."""
    close = difflib.get_close_matches(str(name), names, 1)
    return f"one of {', '.join(map(repr, names))}" + (f" (did you mean {close[0]!r}?)" if close else "")


@cache
def kernel_table() -> dict[str, Callable]:
    """Faster functions by the name of the function they replace; empty where the package is not installed."""
    table = package_attribute("kernels", "KERNELS")
    return {} if table is None else table


def resolve_name(name: Any, options: dict[str, Any]) -> Any:
    """The folder or repository that a model's name stands for; with the package, a missing one is an error at once."""
    used = ("revision", "cache_dir", "local_files_only")
    arguments = {key: value for key, value in options.items() if key in used and value is not None}
    return call_package("hub.model_names", "resolve_model", name, **arguments) or name


def check_mix(mix: Any, num_layers: int):
    """Raises unless `mix` is valid for `num_layers` layers."""
    last = num_layers - 1
    if isinstance(mix, str):
        is_valid = mix in MIX_NAMES
    elif isinstance(mix, (list, tuple)):
        are_numbers = all(isinstance(weight, (int, float)) and not isinstance(weight, bool) for weight in mix)
        is_valid = are_numbers and len(mix) == num_layers and any(mix)
    else:
        is_valid = isinstance(mix, int) and not isinstance(mix, bool) and 0 <= mix <= last
    names = ", ".join(map(repr, MIX_NAMES))
    expected = f"{names}, a layer's number from 0 to {last}, or {num_layers} fixed weights, not all 0"
    check(is_valid, "mix", mix, expected)


def foreign_pipelines(custom_pipelines: dict | None) -> dict:
    """The custom pipelines of a config without those of this package."""
    items = (custom_pipelines or {}).items()
    return {task: info for task, info in items if not str(info.get("impl")).startswith(PIPELINE_FILES)}


class Pipelines(dict):
    """Custom pipelines by task, also found by an alias of the task, such as `"ner"`."""

    def __contains__(self, name: Any) -> bool:
        return super().__contains__(name) or super().__contains__(PIPELINE_ALIASES.get(name))

    def __getitem__(self, name: Any) -> Any:
        return super().__getitem__(name if super().__contains__(name) else PIPELINE_ALIASES.get(name, name))


def _tuples_as_lists(value: Any) -> Any:
    """Converts tuples to lists at every level: JSON has no tuples, and a saved config must equal the one in memory."""
    return [_tuples_as_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def _updated_head(old: str | dict | None, new: str | dict) -> str | dict:
    """Merges a new head into the old one if both have the same type."""
    if old is None or not isinstance(new, (str, dict)):
        return new
    old, new = ({"type": head} if isinstance(head, str) else head for head in (old, new))
    if "type" not in old or new.get("type", old["type"]) == old["type"]:
        return {**old, **new}
    logger.warning_once(f"`head` changes from {old['type']!r} to {new['type']!r}: the old weights are not used.")
    return new


def _check_json(head: Any):
    try:
        is_json = json.loads(json.dumps(head)) == head
    except (TypeError, ValueError):
        is_json = False
    check(is_json, "head", head, "the name of a head, or a dictionary of its type and settings that JSON can hold")


ElmoConfig.register_for_auto_class()

__all__ = ["ElmoConfig"]
