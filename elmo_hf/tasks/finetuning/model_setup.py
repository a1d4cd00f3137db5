"""The model of a run: an ELMo with a new head, word vectors, adapters and a cache of sentences."""

from collections.abc import Callable
from typing import Any

import torch
from tqdm import tqdm

from elmo_hf.device import choose_device
from elmo_hf.kernels.sentence_cache import SentenceCache

from .settings import PLACES, FinetuneSettings, has_preset
from .task import Task, TrainingDefaults

# Examples that are read together when sentences are cached.
CACHE_BATCH_SIZE = 32
LORA_MODULES = ["carry", "transform", "projection"]
LORA_PARAMETERS = ["weight_input", "weight_recurrent", "weight_projection"]


def load_model(
    task: Task,
    settings: FinetuneSettings,
    defaults: TrainingDefaults,
    labels: list[str] | None,
    say: Callable[[str], Any],
    vocabulary: Callable[[Any], set[str]],
    device: str | None = None,
) -> tuple[Any, Any]:
    """The model and its tokenizer.

    Args:
        task, settings, defaults: of the run.
        labels: names of the labels.
        say: called with sentences about the word vectors.
        vocabulary: tokenizer -> the words of the data, for which word vectors are looked up.
        device: where the model goes.
    """
    import elmo_hf
    from elmo_hf.hub.model_names import find_model
    from elmo_hf.model.configuration_elmo import ElmoConfig
    from elmo_hf.model.tokenization_elmo import ElmoTokenizer

    name = find_model(settings.model)[0]
    tokenizer = ElmoTokenizer.from_pretrained(name)
    head: dict[str, Any] = {"type": defaults.head, "elmo_at": PLACES[settings.elmo_at]}
    head |= task.head_settings(defaults.head)
    if defaults.preset is not None and has_preset(defaults.head, defaults.preset):
        head["preset"] = defaults.preset
    mix_dropout = settings.mix_dropout
    if mix_dropout is None:
        mix_dropout = default_mix_dropout(ElmoConfig.from_pretrained(name).hidden_size)
    vectors = None
    if settings.word_vectors is not None:
        from elmo_hf.text.word_vectors import read_word_vectors

        words = vocabulary(tokenizer)
        known, vectors = read_word_vectors(settings.word_vectors, words)
        head["word_vectors"] = list(vectors.shape)
        lower = {*known}
        count = sum(word in lower or word.lower() in lower for word in words)
        say(f"Word vectors of {vectors.shape[1]} numbers: {count:,} of {len(words):,} words are known.")
        tokenizer = ElmoTokenizer.from_pretrained(name, vector_words=known)
    model = getattr(elmo_hf, task.model_class).from_pretrained(
        name,
        head=head,
        dtype=torch.float32,
        freeze_bilm=not settings.tune_bilm,
        mix_dropout=mix_dropout,
        **task.config_settings(labels),
    )
    if vectors is not None:
        model.set_word_vectors(vectors)
    return model.to(choose_device(device)), tokenizer


def default_mix_dropout(hidden_size: int) -> float:
    """The dropout probability of ELMo's vectors: that of the paper for its model, less for smaller vectors.

    Example:

    ```python
    >>> from elmo_hf.tasks.finetuning.model_setup import default_mix_dropout
    >>> default_mix_dropout(1024), default_mix_dropout(256)
    (0.5, 0.2)

    ```
    """
    return 0.5 if hidden_size >= 1024 else 0.2


@torch.no_grad()
def cache_sentences(task: Task, model: Any, tokenizer: Any, data: Any, dev: Any, cache: SentenceCache):
    """Caches what a frozen biLM computes for the sentences of train and dev, once, for all epochs.

    They are read in batches of a fixed order, until the cache is full: the last bits of a vector depend on its batch,
    and a resumed run must find the same ones. A cache that is not empty is that of an earlier run on the same data.
    """
    if not model.head_settings.elmo_at:
        return
    model.cache_sentences(cache)
    if len(cache):
        return
    model.eval()
    task.predict(model, tokenizer, dev)  # dev is read more often than any sentence of train
    model.train()  # a head decodes in evaluation mode
    lengths = data["length"] if "length" in getattr(data, "column_names", ()) else [1] * len(data)
    order = sorted(range(len(data)), key=lambda number: -lengths[number])
    size = 1 if task.one_example_batches else CACHE_BATCH_SIZE
    # disable=None: no bar if the output is not a terminal
    for begin in tqdm(range(0, len(order), size), desc="sentences", disable=None, leave=False):
        if cache.is_full:
            break
        batch = task.collate([data[number] for number in order[begin : begin + size]], tokenizer, model)
        _run_bilm(model, {name: x.to(model.device) for name, x in batch.items()})
    if cache.is_full:
        cache.freeze()


def _run_bilm(model: Any, batch: dict[str, torch.Tensor]):
    """Runs a model on a batch, without its head where the model allows it."""
    if hasattr(model, "head_inputs"):
        names = ("input_ids", "attention_mask", "inputs_embeds", "token_type_ids", "word_vector_ids")
        model.head_inputs(*map(batch.get, names), output_hidden_states=False)
    else:
        model(**batch)


def add_adapters(model: Any):
    """Adds low-rank adapters to the matrices of the biLM, which are the only weights of it that are trained then."""
    try:
        import peft
    except ImportError:
        raise ImportError("LoRA needs peft, which is not installed: pip install peft.") from None
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    settings = peft.LoraConfig(r=8, lora_alpha=16, target_modules=LORA_MODULES, target_parameters=LORA_PARAMETERS)
    tuner = peft.LoraModel(model, settings, "default")
    for name, parameter in model.named_parameters():
        if name in trained:
            parameter.requires_grad_(True)
    return tuner


def optimizer_of(model: Any, lr: float, bilm_lr: float | None) -> torch.optim.Optimizer:
    """AdamW with the groups of parameters that the model names."""
    return torch.optim.AdamW(model.parameter_groups(lr, bilm_lr))


__all__ = ["add_adapters", "cache_sentences", "default_mix_dropout", "load_model", "optimizer_of"]
