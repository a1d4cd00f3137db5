"""A saved model -> the files of the original programs."""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import h5py
import torch

from elmo_hf.model.language_modeling_elmo import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer

from .convert import load
from .formats.bilm_hdf5 import softmax_map, weight_map
from .formats.entries import Entry
from .options import options_from_config
from .output import new_folder

logger = logging.getLogger(__name__)


def export(model: str | os.PathLike, output_dir: str | os.PathLike) -> list[Path]:
    """Writes a model back as options.json and weights.hdf5, for the original programs.

    Args:
        model: a folder or a repository of the Hub.
        output_dir: a new or empty folder. It also gets vocab.txt if the model has a vocabulary, and softmax.hdf5
            if it has a softmax.

    Returns:
        The files written.
    """
    loaded = load(model)
    config, with_softmax = loaded.config, isinstance(loaded, ElmoForPreTraining)
    if any(mix.ne(mix[0]).any() for mix in loaded.layer_weights().values()):
        logger.warning("%s has learned how to mix its layers, which the original files cannot hold.", model)
    with new_folder(output_dir) as folder:
        (folder / "options.json").write_text(json.dumps(options_from_config(config), indent=1), encoding="utf-8")
        parameters = loaded.state_dict()
        _write(folder / "weights.hdf5", weight_map(config), parameters, "elmo." if with_softmax else "")
        if with_softmax:
            _write(folder / "softmax.hdf5", softmax_map(config), parameters)
        _write_vocabulary(model, folder)
        names = sorted(path.name for path in folder.iterdir())
    return [Path(output_dir) / name for name in names]


def _write(path: Path, entries: Sequence[Entry], parameters: dict[str, torch.Tensor], prefix: str = ""):
    with h5py.File(path, "w") as file:
        for entry in entries:
            values = [parameters[prefix + name].numpy() for name in entry.parameters]
            file.create_dataset(entry.dataset, data=entry.form.to_dataset(*values), dtype="float32")


def _write_vocabulary(model: str | os.PathLike, folder: Path):
    words = ElmoTokenizer.from_pretrained(model).word_vocabulary
    if words is not None:
        text = "".join(f"{word}\n" for word in words)
        (folder / "vocab.txt").write_text(text, encoding="utf-8", newline="\n")
