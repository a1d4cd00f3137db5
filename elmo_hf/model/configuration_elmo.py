"""ElmoConfig: the sizes and choices of one ELMo."""

import json
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig
from transformers.utils import logging

from .loading_elmo import check_place

if TYPE_CHECKING:
    # A save copies the files that relative imports reach: these make every save carry every file, so that a base
    # model can later be loaded as any other class.
    from .language_modeling_elmo import ElmoForPreTraining  # noqa: F401
    from .modeling_elmo_heads import ElmoForTokenClassification  # noqa: F401
    from .tokenization_elmo import ElmoTokenizer  # noqa: F401

logger = logging.get_logger(__name__)

ORIGINAL_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))

BEGIN_OF_SENTENCE_BYTE, END_OF_SENTENCE_BYTE = 256, 257
MOST_LAYERS = 1000
FLOATING = ("float32", "float16", "bfloat16", "float64")
MIX_NAMES = ("learned", "average", "top")
# What `trust_remote_code=True` loads for each Auto class. A save by itself would name only the class that was saved.
AUTO_MAP = {
    "AutoConfig": "configuration_elmo.ElmoConfig",
    "AutoTokenizer": ["tokenization_elmo.ElmoTokenizer", None],
    "AutoModel": "modeling_elmo.ElmoModel",
    "AutoModelForPreTraining": "language_modeling_elmo.ElmoForPreTraining",
    "AutoModelForTokenClassification": "modeling_elmo_heads.ElmoForTokenClassification",
    "AutoModelForSequenceClassification": "modeling_elmo_heads.ElmoForSequenceClassification",
    "AutoModelForQuestionAnswering": "modeling_elmo_heads.ElmoForQuestionAnswering",
}
# Files whose pipelines are ours: today's, and that of models that were saved by version 0.1.
PIPELINE_FILES = ("modeling_elmo_heads.", "pipeline_elmo.")
PIPELINE_ALIASES = {"ner": "token-classification", "sentiment-analysis": "text-classification"}
# Whether this file came along with a model, in place of the installed package.
IS_REMOTE_COPY = __name__.startswith("transformers_modules.")


@strict
class ElmoConfig(PreTrainedConfig):
    """The configuration of an ELMo. The defaults are the original model of 93.6M parameters.

    Args:
        character_vocab_size: rows of the character embedding, the zero row of "no token" included.
        character_embedding_dim: size of a character vector.
        character_cnn_filters: pairs `[width, number]` of the convolutions over characters.
        character_cnn_activation: `"relu"` or `"tanh"`, applied after the maximum over positions.
        num_highway_layers: highway layers after the convolutions.
        max_characters_per_token: character positions of a token, its begin and end marks included.
        projection_size: size P of a token vector in one direction; twice this is `hidden_size`.
        cell_size: size H of the LSTM cells; equal to P means no projection.
        num_hidden_layers: LSTM layers of each direction.
        cell_clip, projection_clip: bounds inside the recurrence; None for no bound.
        use_skip_connections: add each layer's input to its output from the second layer on.
        bidirectional: a backward stack beside the forward one.
        word_input: an embedding over `vocab_size` words replaces the character encoder.
        dictionary: characters and words are those of lists, as in ELMoForManyLangs:
            `{"characters": number, "words": number, "word_dim": size}`, 0 for what is absent.
        vocab_size: words of the language model's vocabulary.
        share_embedding_softmax: when `word_input`, the language model's softmax has the embedding as its weight.
        num_sampled: words that ElmoForPreTraining draws for each direction while training, in place of a softmax over
            the whole vocabulary, which must then be sorted by frequency. None for the whole vocabulary.
        boundary_ids: input ids of `<S>` and `</S>` when `word_input`; characters mark boundaries by themselves.
        dropout: dropout inside the biLM; acts only in ElmoForPreTraining.
        mix: how layers become one vector: `"learned"`, `"average"`, `"top"`, a layer's number, or fixed weights.
        mix_layer_norm: normalise layers before mixing over the `"sentence"` or, as the original, over the `"batch"`.
        mix_l2: factor of the penalty on the mix's weights.
        mix_dropout: dropout after the mix, inside the task heads.
        head: the network of a task class and its settings: `"linear"`, or `{"type": "linear", "pooling": "max"}`.
            What is given later for the same type updates what is there; another type takes its place. The task
            class checks and completes it.
        freeze_bilm: True, False, or a list of parts (`"token_encoder"`, `"layer_1"`, ...) that do not train.
            None leaves it to the class: heads freeze, ElmoModel and ElmoForPreTraining do not.
        int8_weights: the large weights are stored in eight bits, see [`~ElmoModel.quantize`].
        card_data: what the model card says of `license`, `language` and `origin`; and the tokenizer's `splitting`,
            after which it chooses its example.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig
    >>> config = ElmoConfig(projection_size=128, cell_size=1024, num_highway_layers=1)
    >>> config.hidden_size, config.token_filters
    (256, 2048)

    ```
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
            setattr(self, name, _as_list(getattr(self, name)))
        if self.boundary_ids is None:
            # A vocabulary starts with <S> and </S>, and ids count from 1.
            self.boundary_ids = [1, 2] if self.word_input else [BEGIN_OF_SENTENCE_BYTE + 1, END_OF_SENTENCE_BYTE + 1]
        _require_json(self.head)
        for name, dtype in (("dtype", self.dtype), ("torch_dtype", kwargs.get("torch_dtype"))):
            known = dtype is None or str(dtype).removeprefix("torch.") in FLOATING
            _require(known, name, dtype, ", ".join(FLOATING))
        # Classes that somebody else added to a model stay; ours are always complete.
        self.auto_map = {**(kwargs.pop("auto_map", None) or {}), **AUTO_MAP}
        named = kwargs.get("custom_pipelines")
        # `pipeline` wants trust_remote_code for a config that names pipelines; the package brings its own.
        kwargs["custom_pipelines"] = Pipelines(named or {}) if IS_REMOTE_COPY else foreign_pipelines(named)
        super().__post_init__(**kwargs)

    def __setattr__(self, name: str, value: Any):
        # from_pretrained(head=...) first reads what is saved, and then sets this.
        if name == "head" and value is not None:
            value = _updated_head(self.__dict__.get("head"), value)
        super().__setattr__(name, value)

    @property
    def num_directions(self) -> int:
        """2 with a backward stack, else 1."""
        return 2 if self.bidirectional else 1

    @property
    def hidden_size(self) -> int:
        """Size of the vectors that come out: the projections of all directions side by side."""
        return self.num_directions * self.projection_size

    @property
    def token_filters(self) -> int:
        """Number F of all convolution filters together."""
        return sum(number for _, number in self.character_cnn_filters)

    @property
    def row_width(self) -> int:
        """How many ids the row of a token has: its characters, and with a dictionary of words the word before them."""
        if self.dictionary is None:
            return self.max_characters_per_token
        characters = self.max_characters_per_token if self.dictionary["characters"] else 0
        return characters + (1 if self.dictionary["words"] else 0)

    @property
    def row_ids(self) -> int:
        """How many ids may stand in a row, 0 for no token included."""
        if self.dictionary is None:
            return self.character_vocab_size
        return max(self.dictionary["characters"], self.dictionary["words"]) + 1

    @property
    def mark_position(self) -> int:
        """Where in a row `boundary_ids` are looked for."""
        if self.dictionary is None:
            return 1
        return (1 if self.dictionary["words"] else 0) + 1 if self.dictionary["characters"] else 0

    @property
    def bilm_parts(self) -> list[str]:
        """Names of the parts that can be frozen one by one."""
        return ["token_encoder"] + [f"layer_{number}" for number in range(1, self.num_hidden_layers + 1)]

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Self:
        """As in transformers; errors name the model."""
        kwargs["_read_from"] = pretrained_model_name_or_path
        return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any):
        """As in transformers; what is no configuration of an ELMo is said in a sentence."""
        name = kwargs.pop("_read_from", None) or kwargs.get("name_or_path")
        whose = f"The configuration of {name}" if name else "This configuration"
        classes = config_dict.get("architectures") or []
        if not isinstance(classes, list) or not all(isinstance(one, str) for one in classes):
            raise ValueError(f"{whose} has `architectures` {classes!r}; accepted is a list of names of classes.")
        try:
            return super().from_dict(config_dict, **kwargs)
        except (StrictDataclassError, ValueError) as error:
            raise ValueError(f"{whose} cannot be used: {error.__cause__ or error}") from error
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{whose} is none of an ELMo: {error}.") from error

    @classmethod
    def get_config_dict(cls, pretrained_model_name_or_path: Any, **kwargs: Any) -> tuple[dict[str, Any], dict]:
        check_place(pretrained_model_name_or_path)
        try:
            found, rest = super().get_config_dict(pretrained_model_name_or_path, **kwargs)
        except TypeError:  # it looks into what is no object
            found, rest = {}, {}
        kind = found.get("model_type") if isinstance(found, dict) else None
        if kind != cls.model_type:
            holds = f"a model of the type {kind!r}" if kind else "no model: no config.json in it says what it is"
            raise ValueError(
                f"{pretrained_model_name_or_path} holds {holds}; accepted is an ELMo, as `elmo-hf convert` and "
                "`elmo-hf pretrain` make them."
            )
        return found, rest

    def validate_token_ids(self):
        """Nothing: special tokens are rows of characters, or stand in `boundary_ids`; `vocab_size` counts words."""

    def validate_architecture(self):
        """Checks fields against each other; each message names the field, what was found and what is accepted."""
        for name in ("character_embedding_dim", "projection_size", "cell_size", "num_hidden_layers"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "a whole number of at least 1")
        for name in ("num_highway_layers", "vocab_size"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "a whole number of at least 0")
        for name in ("num_hidden_layers", "num_highway_layers"):
            # A damaged file must not build modules until the memory is full.
            _require(getattr(self, name) <= MOST_LAYERS, name, getattr(self, name), f"at most {MOST_LAYERS:,}")
        for name in ("cell_clip", "projection_clip"):
            clip = getattr(self, name)
            _require(clip is None or clip > 0, name, clip, "a number above 0, or None for no clipping")
        for name in ("dropout", "mix_dropout"):
            _require(0 <= getattr(self, name) < 1, name, getattr(self, name), "a number from 0 to below 1")
        _require(self.mix_l2 >= 0, "mix_l2", self.mix_l2, "a number of at least 0")
        _require(
            self.cell_size >= self.projection_size,
            "cell_size",
            self.cell_size,
            f"at least projection_size ({self.projection_size}): a projection only makes cells smaller",
        )
        if self.word_input:
            _require(self.vocab_size >= 1, "vocab_size", self.vocab_size, "at least 1 when word_input is True")
        else:
            self._validate_characters()
        check_mix(self.mix, self.num_hidden_layers + 1)
        self._validate_freezing()
        self._validate_softmax()

    def _validate_dictionary(self):
        sizes = self.dictionary
        whole = {name: size for name, size in sizes.items() if isinstance(size, int) and size >= 0}
        _require(
            whole == sizes
            and set(sizes) == {"characters", "words", "word_dim"}
            and (sizes["characters"] or sizes["words"])
            and bool(sizes["words"]) == bool(sizes["word_dim"])
            and not self.word_input,
            "dictionary",
            sizes,
            "the numbers `characters`, `words` and `word_dim`, not all 0, when word_input is False",
        )

    def _validate_characters(self):
        if self.dictionary is not None:
            self._validate_dictionary()
            if not self.dictionary["characters"]:
                return
        bytes_or_list = 262 if self.dictionary is None else self.dictionary["characters"] + 1
        _require(
            self.character_vocab_size == bytes_or_list,
            "character_vocab_size",
            self.character_vocab_size,
            f"{bytes_or_list}",
        )
        filters = self.character_cnn_filters
        pairs = [pair for pair in filters if isinstance(pair, list) and len(pair) == 2]
        whole = all(isinstance(n, int) and n >= 1 for pair in pairs for n in pair)
        _require(
            filters and len(pairs) == len(filters) and whole,
            "character_cnn_filters",
            filters,
            "a list of pairs [width, number] of whole numbers of at least 1",
        )
        widest = max(width for width, _ in filters)
        _require(
            self.max_characters_per_token >= max(3, widest),
            "max_characters_per_token",
            self.max_characters_per_token,
            f"at least 3 (begin mark, one byte, end mark) and the widest filter ({widest})",
        )

    def _validate_softmax(self):
        shared = self.share_embedding_softmax
        _require(not shared or self.word_input, "share_embedding_softmax", shared, "False when word_input is False")
        sampled, most = self.num_sampled, self.vocab_size
        # A model without a softmax says nothing about how one is trained.
        _require(
            sampled is None or 1 <= sampled and (not most or sampled < most),
            "num_sampled",
            sampled,
            f"None, or a whole number from 1 to below vocab_size ({most})",
        )

    def _validate_freezing(self):
        if isinstance(self.freeze_bilm, list):
            unknown = [part for part in self.freeze_bilm if part not in self.bilm_parts]
            accepted = f"True, False, None, or a list out of {', '.join(self.bilm_parts)}"
            _require(not unknown, "freeze_bilm", self.freeze_bilm, accepted)


def check_mix(mix: Any, layers: int):
    """Raises unless `mix` says how `layers` layers become one."""
    accepted = (
        f"'learned', 'average', 'top', a layer's number from 0 to {layers - 1}, or {layers} fixed weights, not all 0"
    )
    if isinstance(mix, str):
        _require(mix in MIX_NAMES, "mix", mix, accepted)
    elif isinstance(mix, (list, tuple)):
        numbers = all(isinstance(weight, (int, float)) and not isinstance(weight, bool) for weight in mix)
        _require(numbers and len(mix) == layers and any(mix), "mix", mix, accepted)
    else:
        _require(isinstance(mix, int) and not isinstance(mix, bool) and 0 <= mix < layers, "mix", mix, accepted)


def foreign_pipelines(custom_pipelines: dict | None) -> dict:
    """The custom pipelines of a config without those of this package."""
    named = (custom_pipelines or {}).items()
    return {task: info for task, info in named if not str(info.get("impl")).startswith(PIPELINE_FILES)}


class Pipelines(dict):
    """Custom pipelines by task, also found by an alias of the task, such as `"ner"`."""

    def __contains__(self, name: Any) -> bool:
        return super().__contains__(name) or super().__contains__(PIPELINE_ALIASES.get(name))

    def __getitem__(self, name: Any) -> Any:
        return super().__getitem__(name if super().__contains__(name) else PIPELINE_ALIASES.get(name, name))


def _as_list(value: Any) -> Any:
    """Tuples become lists, also inside: JSON knows only lists, and a saved config must equal the one in memory."""
    return [_as_list(item) for item in value] if isinstance(value, (list, tuple)) else value


def _updated_head(saved: str | dict | None, given: str | dict) -> str | dict:
    """The head as given, on top of what is saved if it is of the same type."""
    if saved is None or not isinstance(given, (str, dict)):
        return given
    saved, given = ({"type": head} if isinstance(head, str) else head for head in (saved, given))
    if "type" not in saved or given.get("type", saved["type"]) == saved["type"]:
        return {**saved, **given}
    logger.warning_once(
        f"`head` was {saved['type']!r} and is now {given['type']!r}: weights of the former are not used."
    )
    return given


def _require_json(head: Any):
    try:
        same = json.loads(json.dumps(head)) == head
    except (TypeError, ValueError):
        same = False
    _require(same, "head", head, "the name of a head, or a dictionary of its type and settings as JSON can hold them")


def _require(condition: Any, name: str, found: Any, accepted: str):
    if not condition:
        raise ValueError(f"`{name}` is {found!r}; accepted is {accepted}.")


ElmoConfig.register_for_auto_class()

__all__ = ["ElmoConfig"]
