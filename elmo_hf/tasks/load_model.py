"""Loads a fine-tuned model of any task, and says in a sentence what is not one."""

import json
import logging
import os
from typing import Any

from elmo_hf.device import choose_device
from elmo_hf.tasks.finetuning.task import ColumnChoice

# The file of a fine-tuned model that holds its settings and scores.
RESULT = "finetune.json"


def load_task_model(name: str | os.PathLike, device: str | None = None, **arguments: Any) -> tuple[Any, Any]:
    """A fine-tuned model in evaluation mode, and its tokenizer.

    Args:
        name: a folder, a repository of the Hub, or a bundled tagger.
        device: as `"cuda"`. Default: a GPU if there is one.
        arguments: as any `from_pretrained` takes them, for example `revision`.

    Raises:
        ValueError: if the model has no head.
    """
    import elmo_hf
    from elmo_hf.hub.model_names import find_model
    from elmo_hf.model.configuration_elmo import ElmoConfig
    from elmo_hf.model.tokenization_elmo import ElmoTokenizer

    quiet()
    place = choose_device(device)
    folder = find_model(os.fspath(name))[0]
    config = ElmoConfig.from_pretrained(folder, **arguments)
    architecture = (config.architectures or ["ElmoModel"])[0]
    model_class: Any = getattr(elmo_hf, architecture, None)
    if not hasattr(model_class, "task_class"):
        raise ValueError(
            f"{name} has no head for a task: it is an {architecture}. Expected a fine-tuned model, as "
            "`elmo-hf finetune` makes it."
        )
    model = model_class.from_pretrained(folder, **arguments).to(place).eval()
    return model, ElmoTokenizer.from_pretrained(folder, **arguments)


def training_columns(name: str | os.PathLike) -> ColumnChoice:
    """The columns of labels and texts that a model was trained on, as far as its user named them.

    Args:
        name: a folder, a repository of the Hub, or a bundled tagger.
    """
    from transformers.utils import cached_file

    from elmo_hf.hub.model_names import find_model

    folder = find_model(os.fspath(name))[0]
    path = cached_file(folder, RESULT, _raise_exceptions_for_missing_entries=False)
    if path is None:
        return ColumnChoice()
    with open(path, encoding="utf-8") as file:
        return ColumnChoice(**json.load(file).get("columns", {}))


def quiet():
    """Keeps transformers and datasets from printing progress bars and notes of their own."""
    import datasets
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    logging.getLogger("datasets").setLevel(logging.ERROR)


__all__ = ["RESULT", "load_task_model", "quiet", "training_columns"]
