"""ElmoPreTrainedModel: what every ELMo class shares. Initial weights, freezing, engines, saving."""

import math
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import CONFIG_NAME, logging

from .checks_elmo import check_tensors
from .configuration_elmo import ElmoConfig, foreign_pipelines
from .fast_engine_elmo import check_engine, describe
from .fast_products_elmo import forget
from .fast_word_cache_elmo import bytes_of_word
from .loading_elmo import check_loaded, check_place, reading_weights
from .lstm_elmo import ElmoLstmLayer
from .scalar_mix_elmo import ElmoScalarMix
from .sentence_cache_elmo import SentenceCache

logger = logging.get_logger(__name__)

# Keywords that generic code hands to any model. An ELMo reads the segments of a pair one after the other.
WITHOUT_ATTENTION = ("output_attentions", "position_ids", "head_mask")
USUAL_KEYWORDS = (*WITHOUT_ATTENTION, "token_type_ids", "use_cache", "num_items_in_batch")


class ElmoPreTrainedModel(PreTrainedModel):
    """What every ELMo class shares: initial weights, freezing, saving with a model card.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoPreTrainedModel
    >>> config = ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)
    >>> model = ElmoForTokenClassification(config)
    >>> isinstance(model, ElmoPreTrainedModel), model.base_model is model.elmo
    (True, True)

    ```
    """

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoLstmLayer"]
    # A mix that does not learn has no parameters: a checkpoint of a learned one still loads.
    # Nor is a language model's softmax missed by a model without one.
    _keys_to_ignore_on_load_unexpected = [r"scalar_mix\.(weight|gamma)$", r"^softmax\."]
    # What `config.freeze_bilm=None` means for this class.
    freezes_by_default = False
    # `custom_pipelines` of a saved config.
    saved_pipelines: ClassVar[dict[str, dict[str, Any]]] = {}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        # The distributions that the original draws from.
        if hasattr(module, "initial_weights"):
            module.initial_weights()
        elif isinstance(module, nn.Embedding):
            # Characters; a table of words begins as TensorFlow begins a variable of which nothing is said.
            words = module.num_embeddings - 1 + module.embedding_dim
            bound = math.sqrt(6 / words) if self.config.word_input else 1.0
            init.uniform_(module.weight, -bound, bound)
            if not getattr(module.weight, "_is_hf_initialized", False):
                module.weight[0].zero_()
        elif isinstance(module, nn.Conv1d):
            if self.config.character_cnn_activation == "relu":
                init.uniform_(module.weight, -0.05, 0.05)
            else:
                init.normal_(module.weight, 0.0, 1 / math.sqrt(module.kernel_size[0] * module.in_channels))
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, 0.0, 1 / math.sqrt(module.in_features))
            if module.bias is not None:
                init.constant_(module.bias, getattr(module, "initial_bias", 0.0))
        elif isinstance(module, ElmoLstmLayer) and not module.quantized:
            bound = math.sqrt(6 / (2 * self.config.projection_size + 4 * self.config.cell_size))
            init.uniform_(module.weight_input, -bound, bound)
            init.uniform_(module.weight_recurrent, -bound, bound)
            init.zeros_(module.bias)
            if module.weight_projection is not None:
                bound = math.sqrt(6 / (self.config.projection_size + self.config.cell_size))
                init.uniform_(module.weight_projection, -bound, bound)
        elif isinstance(module, ElmoScalarMix) and module.weight is not None:
            init.zeros_(module.weight)
            init.ones_(module.gamma)

    # -- freezing

    def post_init(self):
        super().post_init()
        self._apply_freezing()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Self:
        """As in transformers; `freeze_bilm=True`, `False` or a list of parts sets what trains.

        A biLM whose weights are missing, damaged or of other shapes than config.json says is an error.
        """
        name = args[0] if args else kwargs.get("pretrained_model_name_or_path")
        if name is not None:
            check_place(name)
        with reading_weights(name):
            loaded = super().from_pretrained(*args, **kwargs)
        # Loading makes every parameter trainable again.
        (loaded[0] if isinstance(loaded, tuple) else loaded)._apply_freezing()
        return loaded

    @staticmethod
    def _finalize_model_loading(model: PreTrainedModel, load_config: Any, loading_info: Any) -> Any:
        # Before transformers' own look, whose error names no file and no weight.
        if not load_config.ignore_mismatched_sizes:
            name = load_config.pretrained_model_name_or_path
            check_loaded(model, name, loading_info.missing_keys, loading_info.mismatched_keys)
        return PreTrainedModel._finalize_model_loading(model, load_config, loading_info)

    def freeze(self, parts: bool | Sequence[str] = True):
        """Freezes the whole biLM (True), nothing (False), or the named parts only; saved with the model.

        A frozen part gets no gradient and stays in evaluation mode after `.train()`. The mix and everything above
        the biLM keep training.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoModel
        >>> config = ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)
        >>> model = ElmoModel(config)
        >>> model.freeze(["token_encoder", "layer_1"])
        >>> sorted({name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad})
        ['bilm', 'scalar_mix']

        ```
        """
        self.config.freeze_bilm = parts if isinstance(parts, bool) else list(parts)
        self.config.validate_architecture()
        self._apply_freezing()

    def _frozen_parts(self) -> list[str]:
        chosen = self.freezes_by_default if self.config.freeze_bilm is None else self.config.freeze_bilm
        return (self.config.bilm_parts if chosen else []) if isinstance(chosen, bool) else chosen

    def _apply_freezing(self):
        frozen = self._frozen_parts()
        for part, modules in self.base_model.bilm_parts().items():
            for module in modules:
                module.requires_grad_(part not in frozen)
        self.train(self.training)

    def train(self, mode: bool = True):
        goes_on = mode and self.training  # as Trainer says at every step
        super().train(mode)
        if not goes_on:
            for module in self.modules():
                forget(module)  # single numbers that were set through `weight.data` show at the latest now
        parts = self.base_model.bilm_parts()
        for part in self._frozen_parts():
            for module in parts[part]:
                module.eval()
        return self

    def parameter_groups(self, lr: float, bilm_lr: float | None = None) -> list[dict[str, Any]]:
        """What an optimizer takes: the biLM with a learning rate of its own, the mix and all above it with `lr`.

        Frozen parameters are left out; biases and mixes are kept from weight decay. Without `bilm_lr` all have `lr`.

        Example:

        ```python
        >>> import torch
        >>> from elmo_hf import ElmoConfig, ElmoForTokenClassification
        >>> config = ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8, freeze_bilm=False)
        >>> model = ElmoForTokenClassification(config)
        >>> optimizer = torch.optim.AdamW(model.parameter_groups(lr=1e-2, bilm_lr=1e-4), weight_decay=0.01)
        >>> for group in optimizer.param_groups:
        ...     print(group["name"], group["lr"], group["weight_decay"])
        biLM 0.0001 0.01
        biLM, undecayed 0.0001 0.0
        head 0.01 0.01
        head, undecayed 0.01 0.0

        ```
        """
        modules = [module for part in self.base_model.bilm_parts().values() for module in part]
        bilm = {id(parameter) for module in modules for parameter in module.parameters()}
        rates = {"biLM": lr if bilm_lr is None else bilm_lr, "head": lr}
        groups = {}
        for parameter in self.parameters():
            if parameter.requires_grad:
                name = "biLM" if id(parameter) in bilm else "head"
                group = {"name": name, "params": [], "lr": rates[name]}
                if parameter.dim() < 2:
                    group |= {"name": f"{name}, undecayed", "weight_decay": 0.0}
                groups.setdefault(group["name"], group)["params"].append(parameter)
        return [groups[name] for name in sorted(groups)]

    # -- how it is computed

    def set_engine(self, name: str):
        """Chooses how this model computes: `"packed"`, `"reference"`, or `"auto"` for what ELMO_HF_ENGINE says.

        All give the same vectors and gradients. A choice of this process: it is not saved. A changed weight is
        noticed; only single numbers set through `weight.data` may not be, unless `model.eval()` follows.
        Gradients of gradients need the reference. Autocast, and `bf16=True` of a Trainer, changes nothing inside of
        the packed engine, but heads and the reference obey it; weights of another type (`dtype=torch.bfloat16`) and
        `quantize` change it.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoModel
        >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8))
        >>> model.set_engine("reference")
        >>> model.engine
        'reference: the plain loop over time, every token encoded.'

        ```
        """
        check_engine(name)
        for module in self.modules():
            if hasattr(module, "may_be_fused"):
                module.engine = name

    @property
    def engine(self) -> str:
        """One sentence on how this model computes at this moment."""
        base = self.base_model
        return describe(base.bilm.engine, base.bilm, getattr(base.token_encoder, "bytes_of_words", 0))

    def cache_words(self, number: int | None = None, megabytes: float | None = None):
        """How many word vectors are remembered from batch to batch: up to a number of words, or of megabytes.

        Not called, a model remembers up to 64 MB of them (87,000 words of the small size, 29,000 of the original);
        `cache_words(0)` remembers none. A changed weight drops them, and they are used only where no gradient flows
        into the token encoder. Vectors stay the same but for their last bits, which depend on the words that are
        computed together. A choice of this process: it is not saved.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoModel
        >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)).eval()
        >>> model.cache_words(200_000)
        >>> model.cache_words(megabytes=512)

        ```
        """
        if (number is None) == (megabytes is None):
            raise ValueError("cache_words takes a number of words, or `megabytes=`: one of the two.")
        encoder = self.base_model.token_encoder
        if number is None:
            asked, bytes_ = megabytes, int(megabytes * 2**20)
        else:
            asked, bytes_ = number, number * bytes_of_word(self.config.projection_size, self.dtype)
        if asked < 0:
            raise ValueError(f"cache_words was asked for {asked}; accepted is a number from 0.")
        encoder.bytes_of_words = bytes_
        forget(encoder)

    def cache_sentences(self, cache: SentenceCache | None):
        """Remembers what the frozen biLM makes of each sentence: the second epoch costs what comes after it, no more.

        Exact: weights that change are noticed, and where they train, where states are handed on, or where an adapter
        or a hook has to see the biLM at work, nothing is remembered. A choice of this process: it is not saved. Three
        layers of 1,024 take 1.2 GB for 100,000 tokens.

        Args:
            cache: its own, or one that it shares with other models; None remembers nothing, as in the beginning.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoForTokenClassification, SentenceCache
        >>> config = ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)
        >>> model = ElmoForTokenClassification(config)
        >>> model.cache_sentences(SentenceCache(megabytes=2000))

        ```
        """
        frozen = self._frozen_parts()
        trained = [part for part in self.config.bilm_parts if part not in frozen]
        if cache is not None and trained:
            raise ValueError(
                f"Sentences are remembered of a frozen biLM, but of this one {', '.join(trained)} may train; "
                "accepted is a model after model.freeze()."
            )
        self.base_model.sentence_cache = cache

    def quantize(self):
        """Puts the large weights into eight bits, for good, and freezes the biLM; for inference on a CPU.

        Of a language model the softmax too, and nothing of it trains any more; a head still does. The config
        remembers it, so that `save_pretrained` writes and `from_pretrained` reads the small weights.

        Example:

        ```python
        >>> from elmo_hf import ElmoConfig, ElmoModel
        >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)).eval()
        >>> model.quantize()
        >>> model.bilm.forward_layers[0].weight_input_int8.dtype
        torch.int8

        ```
        """
        if self.config.int8_weights:
            return
        self.quantize_modules()
        self.config.int8_weights = True
        self.freeze()

    def quantize_modules(self):
        """Changes the weights to eight bits, but not the config."""
        self.base_model.quantize_modules()

    # -- what a user asks of any ELMo

    def layer_weights(self) -> dict[str, torch.Tensor]:
        """The weights of every mix in the model by its name, token vectors first."""
        return {name: mix.layer_weights() for name, mix in self.named_modules() if isinstance(mix, ElmoScalarMix)}

    def resize_token_embeddings(self, *args: Any, **kwargs: Any):
        raise ValueError(
            "An ELMo has no table of tokens to resize: it builds vectors from the characters of any word "
            "(or, with word_input, from the fixed vocabulary that it was trained with)."
        )

    # -- keywords

    def check_keywords(self, keywords: dict[str, Any], **inputs: Any):
        """Raises for keywords that no `forward` knows, and for inputs that are no tensors of the right kind.

        Keywords of every other model may be there, and mean nothing. Shapes that depend on the model are looked at
        by the model.
        """
        check_tensors(inputs, self.config.word_input)
        for name, value in keywords.items():
            if name not in USUAL_KEYWORDS:
                raise TypeError(f"{type(self).__name__}.forward() got an unexpected keyword argument {name!r}.")
            if value is not None and value is not False and name in WITHOUT_ATTENTION:
                logger.warning_once(f"`{name}` was given, but an ELMo has no attention and no positions: ignored.")

    # -- saving

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any):
        """As in transformers, and writes a model card (README.md) unless the folder has one."""
        if kwargs.get("push_to_hub"):
            repo_id = kwargs.get("repo_id") or os.path.basename(os.path.normpath(save_directory))
            _create_repo_with_card(self, repo_id, kwargs)
        others = foreign_pipelines(getattr(self.config, "custom_pipelines", None))
        self.config.custom_pipelines = {**others, **self.saved_pipelines}
        try:
            super().save_pretrained(save_directory, *args, **kwargs)
        finally:
            self.config.custom_pipelines = others
        if kwargs.get("is_main_process", True):
            _readable_by_all(save_directory)
            try:
                from elmo_hf.hub.model_card import write_model_card
            except ImportError:
                return  # remote code without the package
            write_model_card(self, save_directory)

    def push_to_hub(self, repo_id: str, **kwargs: Any) -> Any:
        """As in transformers; a repository without a model card gets one."""
        _create_repo_with_card(self, repo_id, kwargs)
        return super().push_to_hub(repo_id, **kwargs)


def _create_repo_with_card(model: Any, repo_id: str, kwargs: dict[str, Any]):
    try:
        from elmo_hf.hub.model_card import create_repo_with_card
    except ImportError:
        return  # remote code without the package
    create_repo_with_card(model, repo_id, token=kwargs.get("token"), private=kwargs.get("private"))


def _readable_by_all(folder: str | os.PathLike):
    """Gives the weights the permissions of the config, which a umask has ruled; safetensors lets only the owner in."""
    config = os.path.join(folder, CONFIG_NAME)
    if os.path.exists(config):
        permissions = stat.S_IMODE(os.stat(config).st_mode)
        for path in Path(folder).glob("*.safetensors"):
            if stat.S_IMODE(path.stat().st_mode) != permissions:
                path.chmod(permissions)


__all__ = ["ElmoPreTrainedModel"]
