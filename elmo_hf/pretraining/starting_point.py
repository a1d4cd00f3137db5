"""The tokenizer and the model of a run before its first step."""

import os
from collections.abc import Callable
from typing import Any

from transformers import set_seed
from transformers.integrations import get_available_reporting_integrations

from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer, read_word_vocabulary
from elmo_hf.pretraining.corpus import Corpus
from elmo_hf.pretraining.corpus_preparation import check_files
from elmo_hf.pretraining.model_initialization import (
    check_trainable,
    config_of_size,
    new_model,
    trained_model,
    with_new_vocabulary,
    with_words,
)
from elmo_hf.pretraining.settings import Settings
from elmo_hf.pretraining.vocabulary import build_vocabulary, check_order, coverage, extend_vocabulary, line_counts


def check_inputs(settings: Settings):
    """Raises for everything that can be known to be wrong before the text is read."""
    check_files(settings)
    if settings.start is not None:
        base_tokenizer(settings)
        check_trainable(settings.start)
    elif settings.size is not None:
        config_of_size(settings.size)
    if settings.vocabulary is not None:
        _ = ElmoTokenizer(word_vocabulary=read_word_vocabulary(settings.vocabulary)).word_lines
    installed = get_available_reporting_integrations()
    for name in settings.report_to:
        if name not in (*installed, "all", "none"):
            expected = ", ".join(installed) or "none"
            raise ValueError(f"Invalid --report-to: {name!r}. Expected an installed integration: {expected}.")


def check_repository(repository: str):
    """Creates the repository of --push-to if it does not exist; raises before training if it cannot be written."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    try:
        HfApi().create_repo(repository, exist_ok=True)
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"Invalid --push-to: {repository!r} ({reason}). Expected a repository of the Hub that you may write to, "
            "e.g. name/my-elmo, after `hf auth login`."
        ) from None


def base_tokenizer(settings: Settings) -> ElmoTokenizer:
    """Returns a tokenizer that splits raw text as the one of the run will."""
    if settings.start is None:
        return ElmoTokenizer(settings.splitting or "whitespace")
    changes = {} if settings.splitting is None else {"splitting": settings.splitting}
    return ElmoTokenizer.from_pretrained(settings.start, **changes)


def starting_model(
    settings: Settings, corpus: Corpus, say: Callable[[str], Any]
) -> tuple[ElmoTokenizer, ElmoForPreTraining]:
    """Returns the tokenizer with its vocabulary, and the model before its first step."""
    set_seed(settings.seed)
    base = base_tokenizer(settings)
    vocabulary, model = _vocabulary_and_model(settings, corpus, base, say)
    tokenizer = ElmoTokenizer(
        splitting=base.splitting,
        word_truncation=base.word_truncation,
        word_vocabulary=vocabulary,
        max_characters_per_token=model.config.max_characters_per_token,
        word_input=model.config.word_input,
    )
    _ = tokenizer.word_lines  # raises for missing special words
    say(f"vocabulary: {coverage(vocabulary, corpus)}")
    _configure(model.config, settings, tokenizer)
    if model.config.num_sampled is not None:
        check_order(vocabulary, corpus)
    return tokenizer, model


def _vocabulary_and_model(
    settings: Settings, corpus: Corpus, base: ElmoTokenizer, say: Callable[[str], Any]
) -> tuple[list[str], ElmoForPreTraining]:
    if settings.start is None:
        vocabulary = _vocabulary(settings, corpus)
        return vocabulary, new_model(config_of_size(settings.size), vocabulary)
    if settings.new_vocab:
        vocabulary = _vocabulary(settings, corpus)
        counts = line_counts(vocabulary, corpus)
        return vocabulary, with_new_vocabulary(settings.start, base.word_vocabulary, vocabulary, counts)
    model = trained_model(settings.start, base)
    vocabulary = base.word_vocabulary
    if settings.extend_vocab:
        vocabulary = extend_vocabulary(vocabulary, corpus, settings.min_count, settings.max_size)
        say(f"new words: {len(vocabulary) - model.config.vocab_size:,}")
        model = with_words(model, base.word_vocabulary, vocabulary, line_counts(vocabulary, corpus))
    return vocabulary, model


def _configure(config: ElmoConfig, settings: Settings, tokenizer: ElmoTokenizer):
    config.num_sampled = settings.negative_samples(len(tokenizer.word_vocabulary))
    if settings.dropout is not None:
        config.dropout = settings.dropout
    # Trainer would set these when it trains, but a run that only has its model to save does not train.
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(config, name, getattr(tokenizer, name))
    config.validate_architecture()


def _vocabulary(settings: Settings, corpus: Corpus) -> list[str]:
    if settings.vocabulary is None:
        return build_vocabulary(corpus.words, corpus.counts.tolist(), settings.min_count, settings.max_size)
    return read_word_vocabulary(settings.vocabulary)


def publish_to_hub(folder: str | os.PathLike, repository: str):
    """Uploads a saved model to a repository of the Hub."""
    from huggingface_hub import HfApi

    HfApi().upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload the pretrained ELMo")
