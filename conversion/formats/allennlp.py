"""AllenNLP's model.tar.gz: the biLM of the ELMo in a task's model, and a mix of its layers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

import numpy as np

from ..archives import MAX_DESCRIPTION
from ..options import config_from_options, parse_json, read_json, read_options
from ..sources import MAX_LISTED, Bundle, SourceError, find_options
from .entries import Entry
from .source import Extras, Format, Part, Source, megabytes
from .torch_state import HIGHWAY, ZERO_ROW_INCLUDED, TorchWeights, count, lstm_entries, lstm_sizes

CHARACTERS = "_elmo_lstm._token_embedder._char_embedding_weights"
WEIGHTS = ("weights.th", "best.th")
# AllenNLP has no other settings, and the released weights were trained with these.
OPTIONS_FILE = re.compile(r"(^|[./])options(_file)?(\.json)?$")
RELEASED = {"cell_clip": 3.0, "proj_clip": 3.0}


def recognises(bundle: Bundle) -> bool:
    """Whether a folder holds weights of AllenNLP."""
    return any(name in bundle.top for name in WEIGHTS)


@contextmanager
def open_source(bundle: Bundle, extras: Extras) -> Iterator[Source]:
    """Opens the weights, and the options if there are any."""
    names = [name for name in WEIGHTS if name in bundle.top]
    if not names:
        raise SourceError(f"{bundle.where} does not hold weights.th. Expected AllenNLP's model.tar.gz.")
    path = bundle.path(names[0])
    task = _description(bundle)
    weights = TorchWeights(path, bundle.show(path))
    prefix = _prefix(weights)
    options, notes = _options(bundle, weights, prefix)
    config = config_from_options(options, True, bundle.where)
    if _find_value(task, "do_layer_norm") is True:
        config.mix_layer_norm = "batch"
        notes.append("AllenNLP's layer norm before the mix includes <S> and </S>; here they are left out.")
    values, used, mixes = _mix(weights, prefix, config.num_hidden_layers + 1, extras.mix)
    description = (
        f"{path.name} ({len(weights.names())} weights, {megabytes(path.stat().st_size)}), ELMo at {prefix[:-1] or '.'}"
    )
    if mixes:
        description += f"; mix {extras.mix} of {len(mixes)}: " + "; ".join(mixes)
    body = f"{prefix}_elmo_lstm."
    cached_vectors = tuple(name for name in weights.names() if name.startswith(f"{body}_word_embedding."))
    other_weights = tuple(name for name in weights.names() if not name.startswith(body))
    yield Source(
        config,
        [Part(weights, _entries(config, body), other_weights + cached_vectors)],
        description,
        values=values,
        notes=notes,
        used=tuple(used),
    )


def _description(bundle: Bundle) -> object:
    """The content of config.json. AllenNLP allows commas before closing brackets."""
    if "config.json" not in bundle.top:
        return {}
    path = bundle.path("config.json")
    try:
        return read_json(path, "AllenNLP's config.json")
    except ValueError:
        if path.stat().st_size > MAX_DESCRIPTION:
            raise
    text = re.sub(r",(\s*[}\]])", r"\1", path.read_text(encoding="utf-8", errors="replace"))
    return parse_json(text, bundle.show(path), "AllenNLP's config.json")


def _prefix(weights: TorchWeights) -> str:
    """The prefix of the names of the ELMo."""
    prefixes = [name.removesuffix(CHARACTERS) for name in weights.names() if name.endswith(CHARACTERS)]
    if len(prefixes) == 1:
        return prefixes[0]
    if prefixes:
        raise SourceError(
            f"{weights.where} holds {len(prefixes)} ELMos: {', '.join(prefixes[:MAX_LISTED])}. Expected one."
        )
    if any("_contextualizer." in name for name in weights.names()):
        kind = "a transformer" if any("transformer" in name for name in weights.names()) else "an LSTM"
        raise SourceError(
            f"{weights.where} is a language model of AllenNLP's own, whose contextualizer is {kind}. "
            "Expected a biLM, whose directions are independent of each other through all layers."
        )
    shown = ", ".join(weights.names()[:MAX_LISTED])
    raise SourceError(f"{weights.where} holds no ELMo (no name ends with {CHARACTERS}), but {shown}.")


def _options(bundle: Bundle, weights: TorchWeights, prefix: str) -> tuple[dict, list[str]]:
    """The content of options.json; without one, options that follow from the shapes and the released models."""
    body = f"{prefix}_elmo_lstm."
    name = find_options(bundle)
    files = [file for file in bundle.names if OPTIONS_FILE.search(PurePosixPath(file).name)]
    path = bundle.options or (bundle.path(name or files[0]) if name or files else None)
    if path is not None:
        options = read_options(path)
        options.setdefault("lstm", {})
        if isinstance(options["lstm"], dict):
            options["lstm"].setdefault("use_skip_connections", True)
        return options, []
    encoder = f"{body}_token_embedder."
    filters = []
    for number in range(count(weights, lambda n: f"{encoder}char_conv_{n}.weight")):
        out, _, width = weights.dimensions(f"{encoder}char_conv_{number}.weight", 3)
        filters.append([width, out])
    options = {
        "lstm": {**lstm_sizes(weights, f"{body}_elmo_lstm."), **RELEASED, "use_skip_connections": True},
        "char_cnn": {
            "embedding": {"dim": weights.dimensions(prefix + CHARACTERS, 2)[1]},
            "filters": filters,
            "n_highway": count(weights, lambda n: f"{encoder}_highways._layers.{n}.weight"),
            "activation": "relu",
        },
    }
    note = (
        "Clips of 3 and relu are those of the released models: the archive holds no options.json. If your model has "
        "other ones, give its options: `convert options.json model.tar.gz OUT`."
    )
    return options, [note]


def _entries(config, body: str) -> list[Entry]:
    encoder, ours = f"{body}_token_embedder.", "token_encoder."
    dim, size = config.character_embedding_dim, config.token_filters
    entries = [Entry(f"{encoder}_char_embedding_weights", (262, dim), (f"{ours}embedding.weight",), ZERO_ROW_INCLUDED)]
    for i, (width, number) in enumerate(config.character_cnn_filters):
        entries.append(
            Entry(f"{encoder}char_conv_{i}.weight", (number, dim, width), (f"{ours}convolutions.{i}.weight",))
        )
        entries.append(Entry(f"{encoder}char_conv_{i}.bias", (number,), (f"{ours}convolutions.{i}.bias",)))
    for k in range(config.num_highway_layers):
        for part, shape in (("weight", (2 * size, size)), ("bias", (2 * size,))):
            parameters = tuple(f"{ours}highways.{k}.{gate}.{part}" for gate in ("transform", "carry"))
            entries.append(Entry(f"{encoder}_highways._layers.{k}.{part}", shape, parameters, HIGHWAY))
    if size != config.projection_size:
        shapes = {"weight": (config.projection_size, size), "bias": (config.projection_size,)}
        for part, shape in shapes.items():
            entries.append(Entry(f"{encoder}_projection.{part}", shape, (f"{ours}projection.{part}",)))
    return entries + lstm_entries(config, f"{body}_elmo_lstm.")


def _mix(
    weights: TorchWeights, prefix: str, layers: int, chosen: int
) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
    """The values of the chosen mix, their names in the file, and a line on each mix for the user."""
    number = count(weights, lambda n: f"{prefix}scalar_mix_{n}.gamma")
    if not number:
        return {}, [], []
    if chosen >= number:
        raise SourceError(f"Invalid `mix`: {chosen}. Expected 0 to {number - 1}: {weights.where} has {number}.")
    lines, values, used = [], {}, []
    for mix in range(number):
        names = [f"{prefix}scalar_mix_{mix}.scalar_parameters.{layer}" for layer in range(layers)]
        shapes = [weights.dimensions(name, 1) for name in (*names, f"{prefix}scalar_mix_{mix}.gamma")]
        if set(shapes) != {(1,)}:
            raise SourceError(f"{weights.where}: the numbers of scalar_mix_{mix} have the shapes {shapes}.")
        raw = np.array([weights.read(name)[0] for name in names], np.float32)
        gamma = weights.read(f"{prefix}scalar_mix_{mix}.gamma").astype(np.float32)
        shares = np.exp(raw - raw.max()) / np.exp(raw - raw.max()).sum()
        lines.append(f"{' '.join(f'{share:.3f}' for share in shares)} x {gamma[0]:.3f}")
        if mix == chosen:
            values = {"scalar_mix.weight": raw, "scalar_mix.gamma": gamma}
            used = [*names, f"{prefix}scalar_mix_{mix}.gamma"]
    return values, used, lines


def _find_value(task: object, key: str) -> object:
    """The value of a key at any depth of a description."""
    pending = [task]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if key in value:
                return value[key]
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return None


FORMAT = Format(
    name="allennlp",
    title="an ELMo in a model of AllenNLP",
    have="AllenNLP's model.tar.gz of a model with an ELMo, or its folder (weights.th or best.th)",
    type="convert model.tar.gz OUT, or convert options.json model.tar.gz OUT",
    recognises=recognises,
    open=open_source,
)
