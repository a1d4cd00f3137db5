"""Checkpoints of bilm-tf and simple_elmo_training: `checkpoint`, NAME.index, NAME.data-..., options.json."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..options import config_from_options, read_options
from ..sources import Bundle, SourceError, find_options, find_vocabulary, only
from ..tf_bundle import Checkpoint, data_names
from .bilm_hdf5 import softmax_map
from .entries import Entry
from .source import Extras, Format, Part, Source, megabytes, softmax_rows, with_vocabulary
from .tensorflow import BOOKKEEPING, OPTIMIZER, entries_of, is_bidirectional, standard_names


def recognises(bundle: Bundle) -> bool:
    """Whether a folder holds options and an index."""
    if bundle.pair:
        return bundle.pair[1].name.endswith(".index")
    return find_options(bundle) is not None and any(name.endswith(".index") for name in bundle.top)


@contextmanager
def open_source(bundle: Bundle, extras: Extras) -> Iterator[Source]:
    """Opens the checkpoint, its options and its vocabulary."""
    options, index, files = _files(bundle)
    vocabulary = extras.vocabulary
    if vocabulary is None and not bundle.pair and (vocabularies := find_vocabulary(bundle)):
        vocabulary = bundle.path(vocabularies[0])
    checkpoint = Checkpoint(index, bundle.show(index))
    names = standard_names(checkpoint)
    content = read_options(options)
    config = config_from_options(content, is_bidirectional(names), bundle.show(options))
    with_vocabulary(config, vocabulary, bundle.show(options))
    slots = [name for name in checkpoint.names() if OPTIMIZER.fullmatch(name)]
    ignored = tuple(slots + [name for name in checkpoint.names() if BOOKKEEPING.fullmatch(name)])
    entries = [*entries_of(config, names), *_softmax(checkpoint, names, config, content, vocabulary)]
    notes = []
    if slots:
        notes.append(
            f"The state of the optimizer ({len(slots)} variables, e.g., {slots[0]}) is left out: `elmo-hf "
            "pretrain --from` continues with these weights and a fresh optimizer."
        )
    size = sum(path.stat().st_size for path in files)
    yield Source(
        config,
        [Part(checkpoint, entries, ignored)],
        f"{options.name}, {index.name} and {len(files)} data file{'s'[: len(files) != 1]} "
        f"({len(checkpoint.names())} variables, {megabytes(size)})",
        vocabulary=vocabulary,
        notes=notes,
        reported=tuple(slots),
    )


def _files(bundle: Bundle) -> tuple[Path, Path, list[Path]]:
    """The options, the index and the data files."""
    if bundle.pair:
        options, index = bundle.pair
        names = [path.name for path in index.parent.iterdir()]
        return options, index, [index.parent / name for name in data_names(index.name, names)]
    options_name = find_options(bundle)
    if options_name is None:
        raise SourceError(f"{bundle.where} does not hold the options file of the checkpoint, options.json.")
    indices = [name for name in bundle.top if name.endswith(".index")]
    latest = _latest(bundle)
    if latest in indices:
        indices = [latest]
    index_name = only(indices, "the checkpoint (NAME.index)", bundle.top, bundle.where)
    options, index, *data = bundle.paths(options_name, index_name, *data_names(index_name, bundle.top))
    return options, index, data


def _latest(bundle: Bundle) -> str | None:
    """The name of the index that the file `checkpoint` names."""
    if "checkpoint" not in bundle.top:
        return None
    with bundle.path("checkpoint").open(encoding="utf-8", errors="replace") as file:
        match = re.search(r'^model_checkpoint_path:\s*"([^"]+)"', file.read(1 << 16), re.MULTILINE)
    return re.split(r"[/\\]", match[1])[-1] + ".index" if match else None


def _softmax(checkpoint: Checkpoint, names: dict, config, options: dict, vocabulary: Path | None) -> list[Entry]:
    """The entries of the softmax. Sets the fields of the config that depend on it."""
    if "softmax/b" not in names:
        return []
    is_shared = "softmax/W" not in names
    if is_shared and not (config.word_input and options.get("share_embedding_softmax")):
        raise SourceError(f"{checkpoint.where} holds {names['softmax/b']}, but no softmax/W beside it.")
    if not is_shared:
        config.vocab_size = softmax_rows(checkpoint, names["softmax/W"], config, vocabulary)
    config.share_embedding_softmax = is_shared
    table = softmax_map(config)[1 if is_shared else 0 :]
    return [replace(entry, dataset=names[entry.dataset]) for entry in table]


FORMAT = Format(
    name="tf-checkpoint",
    title="a TensorFlow checkpoint of bilm-tf",
    have="checkpoint, *.index, *.data-* and options.json (bilm-tf, simple_elmo_training), in one folder",
    type="convert FOLDER OUT --vocabulary vocab.txt",
    recognises=recognises,
    open=open_source,
)
