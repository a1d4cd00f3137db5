"""bilm-tf's options.json and weights.hdf5 -> a Hugging Face folder, and back."""

import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import h5py
import numpy as np
import torch

from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.language_modeling_elmo import ElmoForPreTraining
from elmo_hf.model.model_card_elmo import model_card
from elmo_hf.model.modeling_elmo import ElmoModel
from elmo_hf.model.pretrained_elmo import ElmoPreTrainedModel
from elmo_hf.model.tokenization_elmo import ElmoTokenizer
from elmo_hf.model.word_rows_elmo import BOS, EOS, read_word_vocabulary

from .hdf5 import Hdf5Weights, open_weights
from .options import config_from_options, options_from_config, read_options
from .output import new_folder
from .sources import fetch, open_sources
from .weight_map import Entry, lstm_stacks, softmax_map, weight_map

logger = logging.getLogger(__name__)

# What a file of weights may hold beside the biLM itself: the softmax, and a cache of token vectors.
BESIDE = ("softmax/", "embedding")


def convert(
    *sources: str | os.PathLike,
    output_dir: str | os.PathLike,
    vocabulary: str | os.PathLike | None = None,
    softmax: str | os.PathLike | None = None,
    splitting: str = "moses-en",
    language: str | None = None,
    license: str | None = None,
    push_to: str | None = None,
) -> ElmoPreTrainedModel:
    """Turns original ELMo weights into a folder that `AutoModel.from_pretrained` loads.

    Args:
        sources: options.json and weights.hdf5, or one folder or zip that holds both; paths or http(s) addresses.
        output_dir: a new or empty folder.
        vocabulary: the words of the softmax, a file with one a line; from the folder or zip if it is there.
        softmax: an HDF5 file with `softmax/W` and `softmax/b`, if the weights do not hold them. With a softmax the
            folder also loads as ElmoForPreTraining.
        splitting: how the tokenizer will split raw text, `"moses-en"` or `"whitespace"`.
        language, license: what the model card says, as `"en"` and `"apache-2.0"`.
        push_to: a repository of the Hub to push the result to.

    Returns:
        The model, as it was saved.
    """
    with open_sources(*sources) as files, open_weights(files.weights) as weights, new_folder(output_dir) as folder:
        vocabulary = files.vocabulary if vocabulary is None else fetch(vocabulary)
        words = None if vocabulary is None else _read_vocabulary(vocabulary)
        origin = "Converted with elmo_hf from the original files " + " and ".join(
            f"`{Path(os.fspath(source)).name}`" for source in sources
        )
        card = {"origin": f"{origin}.", "language": language, "license": license}
        config = _config(read_options(files.options), weights, os.fspath(files.options), words)
        config.card_data = {key: value for key, value in card.items() if value is not None}
        model = _model(config, weights, None if softmax is None else fetch(softmax), words)
        tokenizer = ElmoTokenizer(
            splitting=splitting,
            word_truncation="bytes",
            word_vocabulary=vocabulary,
            max_characters_per_token=config.max_characters_per_token,
            word_input=config.word_input,
        )
        # The card names the place where the model will be, not the one where it is being made.
        (folder / "README.md").write_text(model_card(model, push_to or os.fspath(output_dir)), encoding="utf-8")
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    if push_to is not None:
        push(output_dir, push_to)
    return model


def push(folder: str | os.PathLike, repo_id: str):
    """Pushes a converted folder, model and tokenizer, to a repository of the Hub."""
    _load(folder).push_to_hub(repo_id)
    ElmoTokenizer.from_pretrained(folder).push_to_hub(repo_id)


def export(model: str | os.PathLike, output_dir: str | os.PathLike) -> list[Path]:
    """Writes a model back as options.json and weights.hdf5, for the original programs.

    Args:
        model: a folder or a repository of the Hub.
        output_dir: a new or empty folder. It also gets vocab.txt if the model has a vocabulary, and softmax.hdf5
            if it has a softmax.

    Returns:
        The files written.
    """
    loaded = _load(model)
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


def _load(model: str | os.PathLike) -> ElmoPreTrainedModel:
    """A saved model with its softmax, if it has one."""
    architectures = ElmoConfig.from_pretrained(model).architectures or []
    loader = ElmoForPreTraining if "ElmoForPreTraining" in architectures else ElmoModel
    return loader.from_pretrained(model, dtype=torch.float32)


def _config(options: dict, weights: Hdf5Weights, where: str, words: list[str] | None) -> ElmoConfig:
    bidirectional = any(name.startswith("RNN_1/") for name in weights.datasets)
    config = config_from_options(options, bidirectional, where)
    if config.word_input:
        if words is None:
            raise ValueError(
                f"{where} describes a model whose input are the words of a vocabulary; its file is needed too "
                "(`--vocabulary FILE`)."
            )
        if len(words) != config.vocab_size:
            raise ValueError(
                f"The vocabulary has {len(words):,} words, but `n_tokens_vocab` is {config.vocab_size:,}."
            )
        config.boundary_ids = [words.index(BOS) + 1, words.index(EOS) + 1]
    else:
        config.vocab_size = 0 if words is None else len(words)
    return config


def _model(
    config: ElmoConfig, weights: Hdf5Weights, softmax: Path | None, words: list[str] | None
) -> ElmoPreTrainedModel:
    """Reads one dataset at a time into a model that had no memory before, so that little more than it is needed."""
    entries = weight_map(config, _stacks(config, weights))
    weights.check(entries, BESIDE)
    parameters = dict(_parameters(weights, entries))
    with torch.device("meta"):
        model = ElmoModel(config)
    mix = {f"scalar_mix.{name}": torch.full(p.shape, float(name == "gamma")) for name, p in _mix(model)}
    parameters.update(mix)
    if softmax is None and "softmax/W" not in weights.datasets:
        model.load_state_dict(parameters, strict=True, assign=True)
        return model.eval()

    if softmax is None:
        last = dict(_softmax(config, weights, words))
    else:
        with open_weights(softmax) as separate:
            last = dict(_softmax(config, separate, words))
    with torch.device("meta"):
        model = ElmoForPreTraining(config)
    model.load_state_dict({f"elmo.{name}": p for name, p in parameters.items()} | last, strict=True, assign=True)
    return model.eval()


def _mix(model: ElmoModel) -> Iterable[tuple[str, torch.Tensor]]:
    return model.scalar_mix.named_parameters()


def _stacks(config: ElmoConfig, weights: Hdf5Weights) -> list[str]:
    """The one of the known names for the LSTM layers that this file uses."""
    known = lstm_stacks(config.bidirectional, config.num_hidden_layers)
    for stacks in known:
        begin = stacks[0].format(layer=0) + "/"
        if any(name.startswith(begin) for name in weights.datasets):
            return stacks
    return known[0]


def _softmax(config: ElmoConfig, weights: Hdf5Weights, words: list[str] | None) -> Iterable[tuple[str, torch.Tensor]]:
    if "softmax/W" not in weights.datasets:
        raise ValueError(
            f"{weights.path} has no dataset softmax/W; found are {', '.join(weights.datasets) or 'none'}."
        )
    rows = weights.datasets["softmax/W"].shape[0]
    if words is not None and rows != len(words):
        raise ValueError(f"{weights.path}: softmax/W has {rows:,} rows, but the vocabulary has {len(words):,} words.")
    config.vocab_size = rows
    entries = softmax_map(config)
    weights.check(entries, [name for name in weights.datasets if not name.startswith("softmax/")])
    return _parameters(weights, entries)


def _parameters(weights: Hdf5Weights, entries: Sequence[Entry]) -> Iterable[tuple[str, torch.Tensor]]:
    for entry in entries:
        values = entry.form.to_parameters(weights.read(entry.dataset))
        for name, value in zip(entry.parameters, values, strict=True):
            yield name, torch.from_numpy(np.ascontiguousarray(value))


def _read_vocabulary(path: str | os.PathLike) -> list[str]:
    words = read_word_vocabulary(path)
    missing = [token for token in (BOS, EOS) if token not in words]
    if missing:
        # The original then takes the last word for a boundary, and says nothing.
        raise ValueError(
            f"{path} has {len(words):,} words, but not {' and not '.join(missing)}; a vocabulary needs both as lines."
        )
    return words


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
