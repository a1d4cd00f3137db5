"""Which settings of a configuration change vectors: for stores of vectors that resume, and for caches."""

from typing import Any

# Settings that change the layers of the biLM, if the weights and the input ids are the same.
LAYER_SETTINGS = (
    "character_vocab_size",
    "character_embedding_dim",
    "character_cnn_filters",
    "character_cnn_activation",
    "num_highway_layers",
    "max_characters_per_token",
    "projection_size",
    "cell_size",
    "num_hidden_layers",
    "cell_clip",
    "projection_clip",
    "use_skip_connections",
    "bidirectional",
    "word_input",
    "dictionary",
    "vocab_size",
    "int8_weights",
)
# Settings that change how the layers are mixed in evaluation mode.
MIX_SETTINGS = ("mix", "mix_layer_norm")


def vector_settings(config: Any, mix: bool = True) -> dict[str, Any]:
    """The settings of an ElmoConfig that change vectors. All others (heads, labels, dropout ...) do not.

    Args:
        config: the configuration.
        mix: include the settings of the mix. Without them, the result is what the layers depend on.

    Returns:
        Values by name.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig
    >>> from elmo_hf.vector_settings import vector_settings
    >>> vector_settings(ElmoConfig())["mix"], "mix" in vector_settings(ElmoConfig(), mix=False)
    ('learned', False)
    >>> vector_settings(ElmoConfig()) == vector_settings(ElmoConfig(num_labels=7, dropout=0.5))
    True

    ```
    """
    return {name: getattr(config, name, None) for name in LAYER_SETTINGS + (MIX_SETTINGS if mix else ())}
