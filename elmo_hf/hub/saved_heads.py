"""The head of a saved model, where it is loaded with another type of head."""

from typing import Any

from transformers import PreTrainedConfig

# Parts of a task model that do not belong to its biLM.
HEAD_PARTS = ("classifier", "output_mix", "word_vectors")


def replace_other_head(model: Any, name: Any, report: dict[str, Any], options: dict[str, Any]):
    """Initializes the head of a loaded task model anew if its checkpoint has a head of another type.

    Weights of two heads may share a name and a shape, so that those of the other head would be loaded.

    Args:
        model: the loaded model.
        name: what it was loaded from.
        report: the report of transformers on the loaded weights; it is updated.
        options: the arguments of `from_pretrained`.
    """
    if not hasattr(model, "head_settings"):
        return
    if saved_head_type(model, name, options) in (
        None,
        model.config.head["type"],
    ):
        return
    weights = {key: weight for key, weight in model.named_parameters() if key.split(".")[0] in HEAD_PARTS}
    for weight in weights.values():
        weight._is_hf_initialized = False
    for part in {key.split(".")[0] for key in weights}:
        model.get_submodule(part).apply(model._init_weights)
    report["missing_keys"] |= weights.keys()
    report["mismatched_keys"] = {key for key in report["mismatched_keys"] if key[0] not in weights}


def saved_head_type(model: Any, name: Any, options: dict[str, Any]) -> str | None:
    """The type of `head` in the config.json beside the weights."""
    options = {key: value for key, value in options.items() if key not in ("config", "state_dict")}
    options["_commit_hash"] = getattr(model.config, "_commit_hash", None)
    try:
        head = None if name is None else PreTrainedConfig.get_config_dict(name, **options)[0].get("head")
    except (OSError, ValueError):
        return None  # weights without a config
    return head.get("type") if isinstance(head, dict) else head


__all__ = ["replace_other_head"]
