"""TensorFlow Hub's elmo/2 and elmo/3: a SavedModel, whose variables are a checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ..options import config_from_options, read_options
from ..sources import Bundle, SourceError, find_options
from ..tf_bundle import Checkpoint, data_names
from .source import Extras, Format, Part, Source, megabytes
from .tensorflow import BOOKKEEPING, entries_of, is_bidirectional, sizes, standard_names

INDEX = "variables/variables.index"
WEIGHTS, SCALING = "aggregation/weights", "aggregation/scaling"
# The settings of the graphs of elmo/2 and elmo/3, which the variables do not contain.
RELEASED = {"lstm": {"cell_clip": 3.0, "proj_clip": 3.0, "use_skip_connections": True}, "activation": "relu"}


def recognises(bundle: Bundle) -> bool:
    """Whether a folder is a SavedModel."""
    return INDEX in bundle.names and any(name in bundle.names for name in ("saved_model.pb", "tfhub_module.pb"))


@contextmanager
def open_source(bundle: Bundle, extras: Extras) -> Iterator[Source]:
    """Opens the variables of the module."""
    if INDEX not in bundle.names:
        raise SourceError(f"{bundle.where} does not hold {INDEX}. Expected the folder of a SavedModel.")
    data = [f"variables/{name}" for name in data_names("variables.index", _inside(bundle))]
    index, *files = bundle.paths(INDEX, *data)
    checkpoint = Checkpoint(index, bundle.show(index))
    names = standard_names(checkpoint)
    if "char_embed" not in names:
        raise SourceError(f"{checkpoint.where} has no variable char_embed. Expected an ELMo of TensorFlow Hub.")
    notes = []
    options, options_name = sizes(checkpoint, names), find_options(bundle)
    if options_name is None:
        options["lstm"] |= RELEASED["lstm"]
        options["char_cnn"]["activation"] = RELEASED["activation"]
        notes.append(
            "Clips of 3, skip connections, relu and 50 characters a word are those of the released modules: "
            "the variables of a SavedModel do not say. An options.json in the folder is read."
        )
    else:
        options = read_options(bundle.path(options_name))
    config = config_from_options(options, is_bidirectional(names), bundle.where)
    values, mix = _mix(checkpoint, config.num_hidden_layers + 1)
    ignored = tuple(name for name in checkpoint.names() if BOOKKEEPING.fullmatch(name) or name in mix)
    yield Source(
        config,
        [Part(checkpoint, entries_of(config, names), ignored)],
        f"{INDEX} ({len(checkpoint.names())} variables, {megabytes(sum(path.stat().st_size for path in files))})"
        + (f"; its mix of layers {_shown(values)}" if values else "; no mix of layers"),
        values=values,
        notes=notes,
        used=tuple(mix),
    )


def _inside(bundle: Bundle) -> list[str]:
    return [name.removeprefix("variables/") for name in bundle.names if name.startswith("variables/")]


def _mix(checkpoint: Checkpoint, layers: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """The values of the learned mix, if there is one, and their names in the file."""
    mix_names: dict[str, str] = {}
    for suffix in (WEIGHTS, SCALING):
        names = [name for name in checkpoint.names() if f"/{name}".endswith(f"/{suffix}")]
        mix_names |= dict.fromkeys([suffix], names[0]) if names else {}
    if not mix_names:
        return {}, []
    values = {
        "scalar_mix.weight": checkpoint.read(mix_names[WEIGHTS]).ravel() if WEIGHTS in mix_names else np.zeros(layers),
        "scalar_mix.gamma": checkpoint.read(mix_names[SCALING]).ravel() if SCALING in mix_names else np.ones(1),
    }
    shapes = [value.shape for value in values.values()]
    if shapes != [(layers,), (1,)]:
        raise SourceError(
            f"{checkpoint.where}: the mix ({', '.join(mix_names.values())}) has the shapes {shapes[0]} and "
            f"{shapes[1]}; expected ({layers},) and (1,)."
        )
    return values, list(mix_names.values())


def _shown(values: dict[str, np.ndarray]) -> str:
    weights = np.exp(values["scalar_mix.weight"] - values["scalar_mix.weight"].max())
    shares = ", ".join(f"{share:.3f}" for share in weights / weights.sum())
    return f"{shares}, scaled by {float(values['scalar_mix.gamma'][0]):.3f}"


FORMAT = Format(
    name="tf-hub",
    title="a TensorFlow Hub module",
    have="the SavedModel of tfhub.dev's elmo/2 or elmo/3, a folder or its .tar.gz",
    type="convert elmo_3.tar.gz OUT",
    recognises=recognises,
    open=open_source,
)
