"""Switching the caches of a model on and off: of the vectors of words, and of the layers of sentences."""

from typing import Any

from .sentence_cache import SentenceCache
from .word_cache import WordCache


def cache_words(model: Any, number: int | None = None, megabytes: float | None = None):
    """Caches the context-free vectors of words from batch to batch; 0 switches the cache off, as by default.

    Vectors change in their last bits only, which depend on the words that are computed together. A changed weight
    empties the cache; it is not used where gradients flow into the token encoder or hooks observe it. Not saved with
    the model.

    Args:
        model: an ElmoModel, or a model with one.
        number: of words, or
        megabytes: of memory.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)).eval()
    >>> model.cache_words(200_000)
    >>> model.cache_words(megabytes=512)

    ```
    """
    if (number is None) == (megabytes is None):
        raise ValueError(
            "Invalid arguments of cache_words. Expected a number of words or `megabytes=`, one of the two."
        )
    amount = next(value for value in (number, megabytes) if value is not None)
    if amount < 0:
        raise ValueError(f"Invalid size of the cache: {amount}. Expected a number of at least 0.")
    if not model.config.word_input:
        encoder = model.base_model.token_encoder
        encoder.word_cache = WordCache(words=number, megabytes=megabytes) if amount else None


def cache_sentences(model: Any, cache: SentenceCache | None):
    """Caches the layers of a frozen biLM for each sentence: a second epoch costs only what comes after them.

    Changed weights are noticed. Nothing is cached where states are passed or hooks observe the biLM. Not saved with
    the model. Three layers of 1,024 take 1.2 GB for 100,000 tokens.

    Args:
        model: an ElmoModel, or a model with one.
        cache: its own, or one that models share; None switches it off, as by default.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoForTokenClassification, SentenceCache
    >>> config = ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8)
    >>> model = ElmoForTokenClassification(config)
    >>> model.cache_sentences(SentenceCache(megabytes=2000))

    ```
    """
    parts = model.base_model.bilm_parts().items()
    trained = [name for name, modules in parts if any(p.requires_grad for m in modules for p in m.parameters())]
    if cache is not None and trained:
        raise ValueError(
            f"Invalid use of cache_sentences: {', '.join(trained)} of the biLM may train. Expected a frozen biLM; "
            "model.freeze() freezes it."
        )
    model.base_model.sentence_cache = cache


__all__ = ["cache_sentences", "cache_words"]
