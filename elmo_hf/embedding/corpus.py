"""embed_corpus: any number of sentences into a store on disk; what was interrupted goes on where it was."""

import errno
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from elmo_hf.atomic_files import remove_leftovers
from elmo_hf.text.inputs import Sentence

from .embedder import BATCH_TOKENS, ElmoEmbedder
from .making import (
    MOST_PROCESSES,
    Made,
    MakerSpec,
    PartMaker,
    fingerprint,
    load_embedder,
    processors,
    remove_states,
)
from .outcome import Outcome
from .parts import BrokenPart, part_name
from .store import FORMATS, SETTINGS, begin_store, check_notes, finished_parts, read_settings, write_settings
from .wanted import Wanted
from .windows import RISING_PARTS, WINDOW_CHARACTERS, WINDOW_SENTENCES, Window, windows

FORMAT_VERSION = 1
# One file of HDF5, written from finished parts.
LAYOUTS = ("bilm-hdf5", "allennlp-hdf5")
NUMPY_DTYPES = ("float32", "float16")


def embed_corpus(
    model: str | os.PathLike | ElmoEmbedder,
    sentences: Iterable[Sentence],
    output: str | os.PathLike,
    format: str = "safetensors",
    layers: str | int | Sequence[int] = "mix",
    pooling: str | None = None,
    dtype: str = "float32",
    boundaries: bool = False,
    splitting: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
    stateful: bool = False,
    part_sentences: int = WINDOW_SENTENCES,
    part_characters: int = WINDOW_CHARACTERS,
    threads: int | None = None,
    processes: int | None = 1,
    shard: tuple[int, int] | None = None,
    ray: bool | str = False,
    device: str | None = None,
    progress: Callable[[Outcome], Any] | None = None,
    **arguments: Any,
) -> Outcome:
    """Writes the vectors of sentences into a store, or goes on with it.

    The store is a folder of parts. Which sentences make a part follows from the sentences alone, and a part is
    there whole or not at all: whatever ends a run, and whoever goes on with it, the store will be the same.

    Args:
        model: a folder, a repository of the Hub, or an ElmoEmbedder.
        sentences: strings or lists of words.
        output: the folder of the store; for a layout of HDF5 the file.
        format: `"safetensors"` or `"parquet"`; or `"bilm-hdf5"` or `"allennlp-hdf5"`, one file as those programs
            write it, made at the end from parts in a folder beside it.
        layers, pooling, dtype, boundaries, batch_tokens, batch_size, stateful: as ElmoEmbedder.encode takes them.
        splitting: how strings become words; not given, as saved with the model.
        part_sentences, part_characters: how much one part holds at most; of characters the first a quarter, the second
            two and the third three, so that several processes share a short text too.
        threads: of each process; results may depend on it in their last bits. Not given: 1, or the store's.
        processes: how many make parts side by side; None for one for each processor, up to four.
        shard: (k, n): make only each n-th part, from the k-th on. When the last of all shards ends, the store is
            finished.
        ray: make the parts as tasks on Ray; `True` for this machine, or a cluster's address.
        device: as `"cuda"`; not given, a GPU if there is one.
        progress: called after each part.
        arguments: what any `from_pretrained` takes, as `revision`.

    Example:

    ```python
    >>> import tempfile
    >>> from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoModel, ElmoTokenizer, embed_corpus, open_store
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 8]], projection_size=8, cell_size=16))
    >>> folder = tempfile.mkdtemp() + "/vectors"
    >>> _ = embed_corpus(ElmoEmbedder(model, ElmoTokenizer()), ["It rains.", "Yes"], folder, pooling="mean")
    >>> open_store(folder)[0].shape
    (16,)

    ```
    """
    layout = None if format in FORMATS else format
    _check(format, dtype, stateful, batch_tokens, batch_size, part_sentences, part_characters, processes, shard, ray)
    embedder = model if isinstance(model, ElmoEmbedder) else None
    if embedder is None:
        embedder = load_embedder(os.fspath(model), splitting, "cpu" if ray else device, arguments)
    elif ray or processes != 1 or splitting is not None:
        raise ValueError("With an ElmoEmbedder, parts are made in this process: give the model's name for more.")
    config = embedder.model.config
    wanted = Wanted.of(config, layers, pooling, boundaries, dtype)
    together = (batch_size or 1) if stateful else 1
    output = Path(output)
    folder = output if layout is None else output.with_name(f"{output.name}.parts")
    settings = {
        "elmo_hf_store": FORMAT_VERSION,
        "format": format if layout is None else "safetensors",
        "layout": layout,
        "model": None if isinstance(model, ElmoEmbedder) else os.fspath(model),
        "revision": getattr(config, "_commit_hash", None),
        "weights": fingerprint(embedder),
        "splitting": embedder.tokenizer.splitting,
        "layers": wanted.layers if isinstance(wanted.layers, str) else list(wanted.layers),
        "several": wanted.several,
        "pooling": pooling,
        "boundaries": boundaries,
        "dtype": wanted.dtype,
        "size": config.hidden_size,
        "stateful": stateful,
        "batch_tokens": None if stateful or batch_size else batch_tokens,
        "batch_size": together if stateful else batch_size,
        "part_sentences": part_sentences,
        "part_characters": part_characters,
        "threads": threads or threads_of(folder) or 1,
        "sentences": None,
        "words": None,
        "parts": None,
    }

    def cut() -> Iterator[Window]:
        return windows(sentences, part_sentences, part_characters, together, RISING_PARTS)

    if layout is not None and output.exists():
        from .hdf5_layouts import check_file

        return check_file(output, settings, cut())
    settings = begin_store(folder, settings)
    # Whoever else makes parts may stand in another folder.
    name = os.path.abspath(settings["model"]) if os.path.exists(settings["model"] or "") else settings["model"]
    spec = MakerSpec(str(name), device, arguments, os.path.abspath(folder), settings)
    outcome = Outcome()
    if progress is not None:
        if isinstance(sentences, (list, tuple)) or getattr(sentences, "repeats", False):
            outcome.expected = _expected(cut(), folder, settings, shard)
        progress(outcome)
    if processes is None:
        processes = 1 if stateful or embedder.model.device.type != "cpu" else min(processors(), MOST_PROCESSES)
    todo = _missing(cut(), folder, settings, shard, outcome)
    for made in _makers(embedder, spec, todo, processes, ray, model is embedder):
        outcome.made += 1
        outcome.sentences += made.sentences
        outcome.words += made.words
        if progress is not None:
            progress(outcome)
    outcome.finished = _finish(folder, settings, outcome)
    if outcome.finished and layout is not None:
        from .hdf5_layouts import write_file

        write_file(folder, output)
    return outcome


def _check(
    format: str,
    dtype: Any,
    stateful: bool,
    batch_tokens: int,
    batch_size: int | None,
    part_sentences: int,
    part_characters: int,
    processes: int | None,
    shard: tuple[int, int] | None,
    ray: bool | str,
):
    """Refuses what cannot be, before anything is loaded."""
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ValueError(f"`shard` is {shard[0]}/{shard[1]}; accepted are 1/N to N/N.")
    if stateful and (shard is not None or ray or (processes or 1) > 1):
        raise ValueError(
            "With stateful=True every batch goes on from the one before: there is nothing that several processes, "
            "shards or machines could do at the same time. Leave them out, or stateful."
        )
    if format not in (*FORMATS, *LAYOUTS):
        raise ValueError(f"`format` is {format!r}; accepted are {', '.join(map(repr, (*FORMATS, *LAYOUTS)))}.")
    dtype, held = str(dtype).removeprefix("torch."), FORMATS[format].dtypes if format in FORMATS else NUMPY_DTYPES
    if dtype not in held:
        raise ValueError(f"`dtype` is {dtype!r}; accepted for {format} are {', '.join(held)}.")
    for name, value in (
        ("part_sentences", part_sentences),
        ("part_characters", part_characters),
        ("processes", processes),
        ("batch_tokens", batch_tokens),
        ("batch_size", batch_size),
    ):
        if value is not None and value < 1:
            raise ValueError(f"`{name}` is {value}; accepted is a whole number of at least 1.")


def _expected(found: Iterator[Window], folder: Path, settings: dict[str, Any], shard: tuple[int, int] | None) -> int:
    here = finished_parts(folder, FORMATS[settings["format"]])
    return sum(len(one.sentences) for one in found if one.number not in here and _is_of(shard, one.number))


def _is_of(shard: tuple[int, int] | None, number: int) -> bool:
    return shard is None or number % shard[1] == shard[0] - 1


def _makers(
    embedder: ElmoEmbedder, spec: MakerSpec, todo: Iterator[Window], processes: int, ray: bool | str, given: bool
) -> Iterator[Made]:
    """Parts, made here or elsewhere."""
    if ray:
        from .on_ray import make_on_ray

        yield from make_on_ray(spec, todo, None if ray is True else ray, spec.settings["threads"])
        return
    # Other processes are not for what this one can do by itself.
    first = list(itertools.islice(todo, 2)) if processes > 1 else []
    todo = itertools.chain(first, todo)
    if len(first) == 2:
        from .processes import make_in_processes

        yield from make_in_processes(spec, todo, processes, embedder)
        return
    with _remembering_nothing(embedder) if given else nullcontext():
        maker = PartMaker(embedder, spec)
        for window in todo:
            yield maker.make(window)


@contextmanager
def _remembering_nothing(embedder: ElmoEmbedder) -> Iterator[None]:
    """What one part remembered would change the last bits of the next."""
    encoder = embedder.model.token_encoder
    bytes_ = getattr(encoder, "bytes_of_words", 0)
    try:
        if bytes_:
            embedder.model.cache_words(0)
        yield
    finally:
        if bytes_:
            embedder.model.cache_words(megabytes=bytes_ / 2**20)


def _missing(
    found: Iterator[Window],
    folder: Path,
    settings: dict[str, Any],
    shard: tuple[int, int] | None,
    outcome: Outcome,
) -> Iterator[Window]:
    """The windows whose parts this run has to make; those that are there are looked at."""
    format = FORMATS[settings["format"]]
    here = finished_parts(folder, format)
    for window in found:
        outcome._sizes.append(len(window.sentences))
        outcome.parts += 1
        if not _is_of(shard, window.number):
            continue
        if window.number not in here:
            yield window
            continue
        path = folder / part_name(window.number, format.ending)
        notes = format.read(path).notes
        check_notes(notes, path, window.number, settings)
        if notes["digest"] != window.digest():
            raise BrokenPart(
                f"{path} was made from other sentences than those that now stand at {window.first:,} to "
                f"{window.first + len(window.sentences) - 1:,}. Choose another output, or go on with the same input."
            )
        remove_leftovers(path)
        outcome.here += 1
    beyond = [number for number in here if number >= outcome.parts]
    if beyond:
        raise BrokenPart(
            f"{folder} has a part {max(beyond)}, but the input ends with part {outcome.parts - 1}: it is another "
            "input, or not all of it. Choose another output, or go on with the same input."
        )


def _finish(folder: Path, settings: dict[str, Any], outcome: Outcome) -> bool:
    """Writes the totals into store.json if no part is missing any more."""
    format = FORMATS[settings["format"]]
    if len(finished_parts(folder, format)) != outcome.parts:
        return False
    words = 0
    for number in range(outcome.parts):
        path = folder / part_name(number, format.ending)
        notes = format.read(path).notes
        check_notes(notes, path, number, settings)
        words += notes["words"]
        remove_leftovers(path)
    totals = {"sentences": sum(outcome._sizes), "words": words, "parts": outcome._sizes}
    if {**settings, **totals} != settings:
        write_settings(folder, {**settings, **totals})
    if settings["stateful"]:
        remove_states(folder)
    return True


def threads_of(folder: Path) -> int | None:
    """The number of threads that a store was begun with."""
    return read_settings(folder)["threads"] if (folder / SETTINGS).exists() else None


def explain(error: OSError, folder: Path) -> OSError:
    """A full disk is no end: what to do about it."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return error
    return OSError(f"{error}. The parts that are in {folder} are whole; with more room the same command goes on.")
