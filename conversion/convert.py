"""Conversion of the files of other programs into a folder of transformers. Each format is a file in formats/."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from huggingface_hub.utils import validate_repo_id

from elmo_hf.hub.consistency import vocabulary_hash
from elmo_hf.hub.model_card import escaped, model_card
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer

from .downloads import shown
from .formats import Extras, Source, check, choose
from .formats.source import MAX_LISTED, Part
from .known_files import check_not_pointer
from .output import new_folder
from .sources import fetch, open_bundles

logger = logging.getLogger(__name__)

DEFAULT_SPLITTING = "moses-en"
VALUES_PER_BLOCK = 1 << 22


def convert(
    *sources: str | os.PathLike,
    output_dir: str | os.PathLike,
    format: str | None = None,
    vocabulary: str | os.PathLike | None = None,
    softmax: str | os.PathLike | None = None,
    mix: int = 0,
    splitting: str | None = None,
    language: str | None = None,
    license: str | None = None,
    push_to: str | None = None,
    allow_non_finite: bool = False,
    say: Callable[[str], object] = logger.info,
) -> ElmoPreTrainedModel:
    """Converts original ELMo weights into a folder that `AutoModel.from_pretrained` loads.

    Args:
        sources: options.json and weights.hdf5, or one folder, zip, tar or repository on the Hub with the files of any
            format in FORMATS. Files are paths or http(s) addresses.
        output_dir: a new or empty folder.
        format: the name of the format. Default: recognised by the names of the files.
        vocabulary: the words of the softmax, a file with one on each line. Default: that beside the weights, if any.
        softmax: an HDF5 file with `softmax/W` and `softmax/b`, if the weights do not hold them. With a softmax the
            folder also loads as ElmoForPreTraining.
        mix: which mix of layers becomes the model's own, if a file has several.
        splitting: how the tokenizer will split raw text, as in ElmoTokenizer. Default: that of the format, or
            moses-en.
        language: for the model card, e.g., `"en"`.
        license: for the model card, e.g., `"apache-2.0"`.
        push_to: a repository on the Hub to push the result to.
        allow_non_finite: convert weights that are NaN or infinite too, as they are.
        say: is called with sentences about the files: what was used, and what was ignored.

    Returns:
        The model, as it was saved.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoModel
    >>> from elmo_hf.conversion import convert, export
    >>> model, original, converted = (tempfile.mkdtemp() for _ in range(3))
    >>> ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16)).save_pretrained(model)
    >>> options, weights = export(model, original)
    >>> convert(options, weights, output_dir=converted, splitting="whitespace").config.hidden_size
    16

    ```
    """
    facts = {"language": _one_line("language", language), "license": _one_line("license", license)}
    if push_to is not None:
        validate_repo_id(push_to)
    extras = Extras(_fetch(vocabulary), _fetch(softmax), mix)
    with open_bundles(*sources) as (bundles, where):
        chosen, bundle = choose(bundles, format, where)
        with chosen.open(bundle, extras) as source, new_folder(output_dir) as folder:
            say(f"found {chosen.title}: {source.description}")
            for note in source.notes:
                logger.warning("%s", note)
            source.config.card_data = _card_data(sources, source, splitting, facts)
            model = build_and_save(source, folder, push_to or os.fspath(output_dir), allow_non_finite, say)
    if push_to is not None:
        push(output_dir, push_to)
    return model


def build_and_save(
    source: Source, folder: Path, name: str, allow_non_finite: bool, say: Callable[[str], object]
) -> ElmoPreTrainedModel:
    """Builds the model and saves it with its tokenizer and its card, which calls it `name`."""
    tokenizer = _tokenizer(source, (source.config.card_data or {})["splitting"])
    if tokenizer.word_vocabulary is not None:
        source.config.vocabulary_sha256 = vocabulary_hash(tokenizer.word_vocabulary)
    model = build(source, allow_non_finite, say)
    # The card names the place where the model will be, not the temporary folder.
    (folder / "README.md").write_text(model_card(model, name), encoding="utf-8")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    say(f"raw text will be split by: {tokenizer.splitting} (words that are already split stay as they are)")
    return model


def push(folder: str | os.PathLike, repo_id: str):
    """Pushes a converted folder, model and tokenizer, to a repository on the Hub.

    Example:

    ```python
    >>> from elmo_hf.conversion import push
    >>> push("my-elmo", "me/my-elmo")  # doctest: +SKIP

    ```
    """
    load(folder).push_to_hub(repo_id)
    ElmoTokenizer.from_pretrained(folder).push_to_hub(repo_id)


def load(model: str | os.PathLike) -> ElmoPreTrainedModel:
    """Loads a saved model with its softmax, if it has one."""
    architectures = ElmoConfig.from_pretrained(model).architectures or []
    loader: Any = ElmoForPreTraining if "ElmoForPreTraining" in architectures else ElmoModel
    # Converted as they are asked for, weights may be NaN: a report does not refuse them.
    return loader.from_pretrained(model, dtype=torch.float32, output_loading_info=True)[0]


def build(source: Source, allow_non_finite: bool, say: Callable[[str], object]) -> ElmoPreTrainedModel:
    """Builds the model. Arrays are read one at a time, so that little more memory than that of the model is needed."""
    for part in source.parts:
        check(part.weights, part.entries, part.ignored)
    ignored = source.ignored()
    if ignored:
        more = f" and {len(ignored) - MAX_LISTED} more" if len(ignored) > MAX_LISTED else ""
        say(f"left out, not part of the model: {', '.join(ignored[:MAX_LISTED])}{more}")
    model_class = ElmoForPreTraining if source.has_softmax else ElmoModel
    with torch.device("meta"):  # parameters get their memory from the arrays
        model = model_class(source.config)
    prefix = "elmo." if source.has_softmax else ""
    parameters: dict[str, torch.Tensor] = {}
    non_finite: list[str] = []
    for part in source.parts:
        for name, value in _parameters(part, non_finite):
            parameters[name if name.startswith("softmax.") else prefix + name] = value
    for name, array in source.values.items():
        parameters[prefix + name] = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
    for name, parameter in cast(ElmoModel, model.base_model).scalar_mix.named_parameters():
        parameters.setdefault(f"{prefix}scalar_mix.{name}", torch.full(parameter.shape, float(name == "gamma")))
    if non_finite and not allow_non_finite:
        raise ValueError(
            f"{source.parts[0].weights.where} holds values that are NaN or infinite: "
            f"{'; '.join(non_finite[:MAX_LISTED])}. The vectors of such a model are NaN; `--allow-non-finite` "
            "(`allow_non_finite=True`) converts it all the same."
        )
    for problem in non_finite:
        logger.warning("converted as they are: %s.", problem)
    model.load_state_dict(parameters, strict=True, assign=True)
    return model.eval()


def _parameters(part: Part, non_finite: list[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters of a part by name. Names of arrays with values that are not finite are added to a list."""
    for entry in part.entries:
        array = part.weights.read(entry.dataset)
        if array.dtype.itemsize > 4:
            logger.warning(
                "%s: %s has the type %s and is stored as float32.", part.weights.where, entry.dataset, array.dtype
            )
        with np.errstate(over="ignore"):  # counted below
            array = array.astype(np.float32, copy=False)
        number = count_non_finite(array)
        if number:
            non_finite.append(f"{entry.dataset} holds {number:,} values that are NaN or infinite")
        for name, value in zip(entry.parameters, entry.form.to_parameters(array), strict=True):
            yield name, torch.from_numpy(np.ascontiguousarray(value))


def count_non_finite(array: np.ndarray) -> int:
    """How many values are NaN or infinite, counted in blocks: a large array needs no second one beside it."""
    flat = array.reshape(-1)
    blocks = (flat[start : start + VALUES_PER_BLOCK] for start in range(0, flat.size, VALUES_PER_BLOCK))
    return sum(block.size - int(np.isfinite(block).sum()) for block in blocks)


def _card_data(
    sources: tuple[str | os.PathLike, ...], source: Source, splitting: str | None, facts: dict[str, str | None]
) -> dict[str, Any]:
    names = " and ".join(f"`{escaped(_short_name(path))}`" for path in sources)
    release = f" These are the released weights {source.release} of Peters et al. (2018)." if source.release else ""
    data = {
        "origin": f"Converted with elmo_hf from the original files {names}.{release}",
        "splitting": splitting or source.splitting or DEFAULT_SPLITTING,
    }
    return data | {key: value for key, value in facts.items() if value is not None}


def _short_name(source: str | os.PathLike) -> str:
    """The name of a file without its folder; a repository keeps its owner."""
    name = shown(source)
    return name if not os.path.exists(name) and name.count("/") == 1 else Path(name).name


def _tokenizer(source: Source, splitting: str) -> ElmoTokenizer:
    return ElmoTokenizer(
        splitting=splitting,
        word_truncation="bytes",
        word_vocabulary=source.vocabulary,
        max_characters_per_token=source.config.max_characters_per_token,
        word_input=source.config.word_input,
        **source.tokenizer,
    )


def _fetch(source: str | os.PathLike | None) -> Path | None:
    if source is None:
        return None
    path = fetch(source)
    check_not_pointer(path, shown(source))
    return path


def _one_line(name: str, value: str | None) -> str | None:
    if value is not None and (not value.strip() or not value.isprintable() or len(value) > 200):
        raise ValueError(f"Invalid `{name}`: {value[:60]!r}. Expected one line of text, e.g., en or apache-2.0.")
    return value
