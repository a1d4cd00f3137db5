"""ELMoForManyLangs: config.json, configs/*.json, encoder.pkl, token_embedder.pkl, char.dic and word.dic."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.tokenization_elmo import ElmoDictionary

from ..options import MAX_SIZE, config_from_options, read_json
from ..sources import MAX_TEXT, Bundle, SourceError
from .entries import WITH_ZERO_ROW, Entry
from .source import Extras, Format, Part, Source, megabytes
from .torch_state import HIGHWAY, TorchWeights, lstm_entries

ENCODER, EMBEDDER = "encoder.pkl", "token_embedder.pkl"
# The file that most models name in config.json, and that was in the program, not beside the models.
SAMPLES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
SAMPLE = {
    "encoder": {"name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
    "dropout": 0.1,
}
IDEOGRAPHIC_SPACE = "\u3000"


def recognises(bundle: Bundle) -> bool:
    """Whether a folder holds the two files of weights."""
    return ENCODER in bundle.top and EMBEDDER in bundle.top


@contextmanager
def open_source(bundle: Bundle, extras: Extras) -> Iterator[Source]:
    """Opens the weights, and reads the sizes and dictionaries."""
    missing = [name for name in (ENCODER, EMBEDDER, "config.json") if name not in bundle.top]
    if missing:
        raise SourceError(f"{bundle.where} does not hold {' and not '.join(missing)}, which every such model has.")
    description, where, notes = _description(bundle)
    encoder_path, embedder_path = bundle.paths(ENCODER, EMBEDDER)
    dictionary = _dictionary(bundle, description, where)
    config = _config(description, where, dictionary)
    encoder, embedder = (TorchWeights(path, bundle.show(path)) for path in (encoder_path, embedder_path))
    lists = {"characters": dictionary.characters, "words": dictionary.words}
    size = megabytes(encoder_path.stat().st_size + embedder_path.stat().st_size)
    yield Source(
        config,
        [Part(encoder, lstm_entries(config, "")), Part(embedder, _embedder_entries(config))],
        f"{ENCODER} and {EMBEDDER} ({len(encoder.names()) + len(embedder.names())} weights, {size}), "
        + " and ".join(f"{len(ids):,} {kind}" for kind, ids in lists.items() if ids),
        tokenizer={"dictionary": dictionary},
        notes=notes,
        splitting="whitespace",
    )


def _description(bundle: Bundle) -> tuple[dict, str, list[str]]:
    """The sizes, the name of their file, and notes on what was assumed."""
    task = read_json(bundle.path("config.json"), "ELMoForManyLangs' config.json")
    named = task.get("config_path") if isinstance(task, dict) else None
    if not isinstance(named, str):
        raise SourceError(f"config.json of {bundle.where} names no `config_path`. Expected the file with the sizes.")
    last = re.split(r"[/\\]", named)[-1]
    matches = [name for name in bundle.names if name.split("/")[-1] == last and name != "config.json"]
    if matches:
        path = bundle.path(matches[0])
        description = read_json(path, "the sizes of an ELMoForManyLangs model")
        if not isinstance(description, dict):
            raise SourceError(
                f"{path} holds a {type(description).__name__}. Expected an object with the key `encoder`."
            )
        return description, bundle.show(path), []
    if last in SAMPLES:
        note = f"The sizes are those of the program's own {last}: config.json names {named}, which is missing."
        return SAMPLE, last, [note]
    raise SourceError(
        f"{bundle.where} has no file {last}, which its config.json names, with the sizes of the model. Expected "
        "this file matches it, or in configs/."
    )


def _dictionary(bundle: Bundle, description: dict, where: str) -> ElmoDictionary:
    ids: dict[str, dict[str, int] | None] = {}
    for name, size in (("char", "char_dim"), ("word", "word_dim")):
        ids[name] = None
        if _number(description, "token_embedder", size, where):
            if f"{name}.dic" not in bundle.top:
                raise SourceError(f"{bundle.where} has no {name}.dic. Expected one: `{size}` is not 0 in {where}.")
            ids[name] = read_ids(bundle.path(f"{name}.dic"))
    width = _number(description, "token_embedder", "max_characters_per_token", where)
    try:
        return ElmoDictionary(ids["char"], ids["word"], width)
    except ValueError as error:
        raise SourceError(f"{bundle.where}: {error}") from None


def read_ids(path: Path) -> dict[str, int]:
    """{text: id} of a .dic file, which has a text, a tab and a number on each line."""
    if path.stat().st_size > MAX_TEXT:
        raise SourceError(f"{path} has {path.stat().st_size:,} bytes. Expected at most {MAX_TEXT:,}.")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 ({error}).") from None
    ids = {}
    for number, line in enumerate(lines, 1):
        fields = line.strip().split("\t")
        if len(fields) == 1:  # the text was white space
            fields.insert(0, IDEOGRAPHIC_SPACE)
        if len(fields) != 2 or not re.fullmatch("[0-9]{1,9}", fields[1]):
            raise SourceError(f"{path}: line {number} is {line[:60]!r}. Expected a text, a tab and a number.")
        ids[fields[0]] = int(fields[1])
    if not ids:
        raise SourceError(f"{path} is empty. Expected lines of a text, a tab and a number.")
    return ids


def _config(description: dict, where: str, dictionary: ElmoDictionary) -> ElmoConfig:
    for part, expected in (("encoder", "elmo"), ("token_embedder", "cnn")):
        name = description.get(part, {}).get("name") if isinstance(description.get(part), dict) else None
        if not isinstance(name, str) or name.lower() != expected:
            raise SourceError(
                f"{where}: the {part} is {name!r:.80}. Expected {expected!r}: "
                + (
                    "the others are plain LSTMs without projection, clips and skip connections."
                    if part == "encoder"
                    else "the others read the characters of a word with an LSTM."
                )
            )
    encoder, embedder = description["encoder"], description["token_embedder"]
    with_characters = bool(dictionary.characters)
    options = {
        "lstm": {
            **{name: encoder[name] for name in LSTM_NAMES if name in encoder},
            "use_skip_connections": True,
        },
        "char_cnn": {
            "embedding": {"dim": embedder.get("char_dim") if with_characters else 1},
            "filters": embedder.get("filters") if with_characters else [[1, 1]],
            "activation": embedder.get("activation"),
            "n_highway": embedder.get("n_highway", 0) if with_characters else 0,
            "max_characters_per_token": embedder.get("max_characters_per_token"),
        },
        "dropout": description.get("dropout", 0.1),
    }
    highest = [max(ids.values(), default=-1) + 1 for ids in (dictionary.characters, dictionary.words)]
    if max(highest) > MAX_SIZE:
        raise SourceError(
            f"{where}: an id of the dictionary is {max(highest) - 1:,}, which is more than {MAX_SIZE:,} rows."
        )
    sizes = {
        "characters": highest[0],
        "words": highest[1],
        "word_dim": embedder["word_dim"] if highest[1] else 0,
    }
    config = config_from_options(
        options,
        True,
        where,
        dictionary=sizes,
        boundary_ids=dictionary.boundary_ids(),
        character_vocab_size=sizes["characters"] + 1 if with_characters else 262,
    )
    if config.cell_size == config.projection_size:
        raise SourceError(f"{where}: `dim` and `projection_dim` are equal. Expected a larger `dim`.")
    return config


LSTM_NAMES = ("projection_dim", "cell_clip", "proj_clip", "dim", "n_layers")


def _number(description: dict, part: str, key: str, where: str) -> int:
    section = description.get(part)
    number = section.get(key) if isinstance(section, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_SIZE:
        raise SourceError(
            f"{where}: Invalid `{part}.{key}`: {number!r:.80}. Expected an integer from 0 to {MAX_SIZE:,}."
        )
    return number


def _embedder_entries(config: ElmoConfig) -> list[Entry]:
    sizes, ours, size = config.dictionary or {}, "token_encoder.", 0
    entries: list[Entry] = []
    shape: tuple[int, ...]

    def embedding(layer: str, name: str, shape: tuple[int, int]):
        entries.append(Entry(f"{layer}.embedding.weight", shape, (f"{ours}{name}.weight",), WITH_ZERO_ROW))

    if sizes["words"]:
        size += sizes["word_dim"]
        embedding("word_emb_layer", "word_embedding", (sizes["words"], sizes["word_dim"]))
    if sizes["characters"]:
        dim, filters = config.character_embedding_dim, config.token_filters
        size += filters
        embedding("char_emb_layer", "embedding", (sizes["characters"], dim))
        for i, (width, number) in enumerate(config.character_cnn_filters):
            for part, shape in (("weight", (number, dim, width)), ("bias", (number,))):
                entries.append(Entry(f"convolutions.{i}.{part}", shape, (f"{ours}convolutions.{i}.{part}",)))
        for k in range(config.num_highway_layers):
            for part, shape in (("weight", (2 * filters, filters)), ("bias", (2 * filters,))):
                parameters = tuple(f"{ours}highways.{k}.{gate}.{part}" for gate in ("transform", "carry"))
                entries.append(Entry(f"highways._layers.{k}.{part}", shape, parameters, HIGHWAY))
    for part, shape in (("weight", (config.projection_size, size)), ("bias", (config.projection_size,))):
        entries.append(Entry(f"projection.{part}", shape, (f"{ours}projection.{part}",)))
    return entries


FORMAT = Format(
    name="many-langs",
    title="a model of ELMoForManyLangs",
    have="config.json, encoder.pkl, token_embedder.pkl, char.dic, word.dic (ELMoForManyLangs, NLPL), a folder or zip",
    type="convert 175.zip OUT",
    recognises=recognises,
    open=open_source,
)
