"""Export of a saved model to the files of other programs."""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import h5py
import torch

from elmo_hf.model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer

from .convert import load
from .formats import onnx
from .formats.bilm_hdf5 import softmax_map, weight_map
from .formats.entries import Entry
from .options import options_from_config
from .output import new_folder

logger = logging.getLogger(__name__)


EXPORT_FORMATS = ("bilm-hdf5", "onnx")


def export(
    model: str | os.PathLike,
    output_dir: str | os.PathLike,
    softmax: bool | None = None,
    format: str = "bilm-hdf5",
) -> list[Path]:
    """Writes a model as the files of other programs: of bilm-tf, AllenNLP and simple-elmo, or of onnxruntime.

    Args:
        model: a folder or a repository on the Hub.
        output_dir: a new or empty folder. It also gets vocab.txt if the model has a vocabulary.
        softmax: whether to write softmax.hdf5. Default: if the model has a softmax.
        format: `"bilm-hdf5"` for options.json and weights.hdf5, or `"onnx"` for model.onnx, whose inputs are
            `input_ids` and `attention_mask` and whose outputs are the mix and all layers.

    Returns:
        The files written.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoModel
    >>> from elmo_hf.conversion import export
    >>> model, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)).save_pretrained(model)
    >>> [path.name for path in export(model, folder)]
    ['options.json', 'weights.hdf5']

    ```
    """
    if format not in EXPORT_FORMATS:
        raise ValueError(f"Invalid `format`: {format!r}. Expected {' or '.join(EXPORT_FORMATS)}.")
    loaded = load(model)
    if loaded.config.int8_weights:
        raise ValueError(f"{model} has its weights in eight bits. Expected the float model from which it was made.")
    if softmax and (format == "onnx" or not isinstance(loaded, ElmoForPreTraining)):
        reason = "an ONNX file holds the vectors only" if format == "onnx" else f"{model} has none"
        raise ValueError(f"The softmax cannot be written: {reason}.")
    with new_folder(output_dir) as folder:
        if format == "onnx":
            onnx.write(cast(ElmoModel, loaded.base_model), folder / "model.onnx")
            _write_vocabulary(model, folder)
        else:
            _write_original(model, loaded, folder, softmax is not False)
        names = sorted(path.name for path in folder.iterdir())
    return [Path(output_dir) / name for name in names]


def _write_original(model: str | os.PathLike, loaded: ElmoPreTrainedModel, folder: Path, softmax: bool):
    config, has_softmax = loaded.config, isinstance(loaded, ElmoForPreTraining)
    if config.dictionary is not None:
        raise ValueError(
            f"{model} reads characters and words from dictionaries, like ELMoForManyLangs, which bilm-tf's files "
            "cannot hold; ONNX can (`--format onnx`)."
        )
    if any(mix.ne(mix[0]).any() for mix in loaded.layer_weights().values()):
        logger.warning("%s has a learned mix of layers, which the original files cannot hold.", model)
    (folder / "options.json").write_text(json.dumps(options_from_config(config), indent=1), encoding="utf-8")
    parameters = loaded.state_dict()
    _write(folder / "weights.hdf5", weight_map(config), parameters, "elmo." if has_softmax else "")
    if has_softmax and softmax:
        if config.share_embedding_softmax:
            parameters["softmax.weight"] = cast(ElmoForPreTraining, loaded).softmax.weight.detach()
        _write(folder / "softmax.hdf5", softmax_map(config), parameters)
    _write_vocabulary(model, folder)


def _write(path: Path, entries: Sequence[Entry], parameters: dict[str, torch.Tensor], prefix: str = ""):
    with h5py.File(path, "w") as file:
        for entry in entries:
            values = [parameters[prefix + name].numpy() for name in entry.parameters]
            file.create_dataset(entry.dataset, data=entry.form.to_dataset(*values), dtype="float32")


def _write_vocabulary(model: str | os.PathLike, folder: Path):
    words = ElmoTokenizer.from_pretrained(model, splitting="whitespace").word_vocabulary  # splits nothing here
    if words is not None:
        text = "".join(f"{word}\n" for word in words)
        (folder / "vocab.txt").write_text(text, encoding="utf-8", newline="\n")
