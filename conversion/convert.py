"""Outside files -> a Hugging Face folder. Which files these are is the business of formats/."""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from huggingface_hub.utils import validate_repo_id

from elmo_hf.hub.model_card import escaped, model_card
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from elmo_hf.model.modeling_elmo_lm import ElmoForPreTraining
from elmo_hf.model.tokenization_elmo import ElmoTokenizer

from .downloads import shown
from .formats import Given, Source, check, choose
from .formats.source import LISTED, Part
from .output import new_folder
from .sources import fetch, open_bundles

logger = logging.getLogger(__name__)

VALUES_AT_ONCE = 1 << 22


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
    """Turns original ELMo weights into a folder that `AutoModel.from_pretrained` loads.

    Args:
        sources: options.json and weights.hdf5, or one folder, zip or tar with the files of any format in FORMATS;
            paths or http(s) addresses.
        output_dir: a new or empty folder.
        format: the format's name, if what the source looks like is wrong.
        vocabulary: the words of the softmax, a file with one a line; from the folder or zip if it is there.
        softmax: an HDF5 file with `softmax/W` and `softmax/b`, if the weights do not hold them. With a softmax the
            folder also loads as ElmoForPreTraining.
        mix: which mix of layers becomes the model's own, where a file has several.
        splitting: how the tokenizer will split raw text, as ElmoTokenizer's. Not given: as the format needs it, else
            moses-en.
        language, license: what the model card says, as `"en"` and `"apache-2.0"`.
        push_to: a repository of the Hub to push the result to.
        allow_non_finite: convert weights that are NaN or infinite too, as they are.
        say: is given sentences on what was found, used and left out.

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
    given_card = {"language": _one_line("language", language), "license": _one_line("license", license)}
    if push_to is not None:
        validate_repo_id(push_to)
    given = Given(_fetched(vocabulary), _fetched(softmax), mix)
    with open_bundles(*sources) as (bundles, where):
        chosen, bundle = choose(bundles, format, where)
        with chosen.open(bundle, given) as source, new_folder(output_dir) as folder:
            say(f"found {chosen.title}: {source.found}")
            for note in source.notes:
                logger.warning("%s", note)
            names = " and ".join(f"`{escaped(Path(shown(one)).name)}`" for one in sources)
            card = {"origin": f"Converted with elmo_hf from the original files {names}.", **source.card}
            card["splitting"] = splitting or source.splitting or "moses-en"
            card |= {key: value for key, value in given_card.items() if value is not None}
            source.config.card_data = card
            model = build(source, allow_non_finite, say)
            tokenizer = ElmoTokenizer(
                splitting=card["splitting"],
                word_truncation="bytes",
                word_vocabulary=source.vocabulary,
                max_characters_per_token=source.config.max_characters_per_token,
                word_input=source.config.word_input,
                **source.tokenizer,
            )
            # The card names the place where the model will be, not the one where it is being made.
            (folder / "README.md").write_text(model_card(model, push_to or os.fspath(output_dir)), encoding="utf-8")
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            say(f"raw text will be split by: {tokenizer.splitting} (words that are already split stay as they are)")
    if push_to is not None:
        push(output_dir, push_to)
    return model


def push(folder: str | os.PathLike, repo_id: str):
    """Pushes a converted folder, model and tokenizer, to a repository of the Hub.

    Example:

    ```python
    >>> from elmo_hf.conversion import push
    >>> push("my-elmo", "me/my-elmo")  # doctest: +SKIP

    ```
    """
    load(folder).push_to_hub(repo_id)
    ElmoTokenizer.from_pretrained(folder).push_to_hub(repo_id)


def load(model: str | os.PathLike) -> ElmoPreTrainedModel:
    """A saved model with its softmax, if it has one."""
    architectures = ElmoConfig.from_pretrained(model).architectures or []
    loader = ElmoForPreTraining if "ElmoForPreTraining" in architectures else ElmoModel
    return loader.from_pretrained(model, dtype=torch.float32)


def build(source: Source, allow_non_finite: bool, say: Callable[[str], object]) -> ElmoPreTrainedModel:
    """Reads one array at a time into a model that had no memory before, so that little more than it is needed."""
    for part in source.parts:
        check(part.weights, part.entries, part.beside)
    left_out = source.left_out()
    if left_out:
        more = f" and {len(left_out) - LISTED} more" if len(left_out) > LISTED else ""
        say(f"left out, not part of the model: {', '.join(left_out[:LISTED])}{more}")
    kind = ElmoForPreTraining if source.has_softmax else ElmoModel
    with torch.device("meta"):
        model = kind(source.config)
    prefix = "elmo." if source.has_softmax else ""
    parameters, broken = {}, []
    for part in source.parts:
        for name, value in _parameters(part, broken):
            parameters[name if name.startswith("softmax.") else prefix + name] = value
    for name, value in source.values.items():
        parameters[prefix + name] = torch.from_numpy(np.ascontiguousarray(value, dtype=np.float32))
    for name, parameter in model.base_model.scalar_mix.named_parameters():
        parameters.setdefault(f"{prefix}scalar_mix.{name}", torch.full(parameter.shape, float(name == "gamma")))
    if broken and not allow_non_finite:
        raise ValueError(
            f"{source.parts[0].weights.where} holds values that are NaN or infinite: {'; '.join(broken[:LISTED])}. "
            "A model of these gives vectors of NaN; to convert it all the same, allow it (`--allow-non-finite`)."
        )
    for name in broken:
        logger.warning("kept as asked: %s.", name)
    model.load_state_dict(parameters, strict=True, assign=True)
    return model.eval()


def _parameters(part: Part, broken: list[str]) -> Iterable[tuple[str, torch.Tensor]]:
    for entry in part.entries:
        array = part.weights.read(entry.dataset)
        if array.dtype.itemsize > 4:
            logger.warning(
                "%s: %s has the type %s and is stored as float32.", part.weights.where, entry.dataset, array.dtype
            )
        with np.errstate(over="ignore"):  # counted below
            array = array.astype(np.float32, copy=False)
        wrong = count_non_finite(array)
        if wrong:
            broken.append(f"{entry.dataset} holds {wrong:,} values that are NaN or infinite")
        for name, value in zip(entry.parameters, entry.form.to_parameters(array), strict=True):
            yield name, torch.from_numpy(np.ascontiguousarray(value))


def count_non_finite(array: np.ndarray) -> int:
    """How many values are NaN or infinite; a piece at a time, so that a large array needs no second one beside it."""
    flat = array.reshape(-1)
    pieces = (flat[start : start + VALUES_AT_ONCE] for start in range(0, flat.size, VALUES_AT_ONCE))
    return sum(piece.size - int(np.isfinite(piece).sum()) for piece in pieces)


def _fetched(source: str | os.PathLike | None) -> Path | None:
    return None if source is None else fetch(source)


def _one_line(name: str, value: str | None) -> str | None:
    if value is not None and (not value.strip() or not value.isprintable() or len(value) > 200):
        raise ValueError(f"`{name}` is {value[:60]!r}; accepted is one line of text, as en or apache-2.0.")
    return value
